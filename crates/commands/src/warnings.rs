//! Prints warnings of the daemon above a command's output.

use mainstay_api::Client;
use mainstay_command_line::stderr::complain;

/// Prints the daemon's warnings on stderr. Prints nothing if the daemon cannot be reached.
pub async fn print(client: &Client) {
    let Ok(about) = client.about().await else {
        return;
    };
    for warning in &about.warnings {
        complain(&format!("warning: {warning}"));
    }
}
