//! What is wrong beside what a command shows.

use mainstay_api::Client;
use mainstay_command_line::stderr::complain;

/// Says it above the answer. A daemon that does not tell keeps nobody from the answer.
pub async fn say(client: &Client) {
    let Ok(about) = client.about().await else {
        return;
    };
    for warning in &about.warnings {
        complain(&format!("warning: {warning}"));
    }
}
