//! `mainstay ui`: opens the web page in a browser, with a link that signs in once.

use clap::Args;
use mainstay_api::{Client, ClientError, SignInLink};
use mainstay_command_line::{
    CommandError, Exit, connect,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    stderr::complain,
};
use serde_json::json;

use crate::browser;

const EXAMPLES: &str = "\
Examples:
  mainstay ui               the page of the running daemon, signed in
  mainstay ui --no-open     the link, for a browser of your choice

The link signs one browser in, once, within 15 minutes.
The browser stays signed in for 30 days.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ui {
    /// Print the link instead of opening it
    #[arg(long, visible_alias = "print")]
    no_open: bool,
    /// Ask the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]. Its
    /// token is taken from $MAINSTAY_TOKEN
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print raw JSON on stdout, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
}

impl RunCommand for Ui {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::printing(self.json)
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let found = match connect::locate(self.url.clone()) {
            Err(CommandError::Client(error @ ClientError::NotRunning { .. })) => {
                return Err(CommandError::NoDaemon(error));
            }
            found => found?,
        };
        let address = found.page_url().to_owned();
        let client = Client::new(&found.url, found.token)?;
        let link = client.sign_in_link().await.map_err(refused)?;
        let url = format!("{address}{}", link.path);
        let opened = (!self.no_open).then(|| browser::open(&url));
        if self.json {
            output::json(&json!({
                "url": url,
                "opened": matches!(opened, Some(Ok(()))),
                "expiresInSeconds": link.expires_in_seconds,
            }))?;
            return Ok(Exit::DONE);
        }
        match opened {
            Some(Ok(())) => {
                // Do not print the one-time code, because this line may stay on the screen and in
                // logs.
                complain(&format!(
                    "opened {address} in your browser; if no page appears: mainstay ui --no-open"
                ));
                return Ok(Exit::DONE);
            }
            Some(Err(reason)) => complain(&reason.sentence()),
            None => {}
        }
        complain(&terms(&link));
        output::line(&url)?;
        Ok(Exit::DONE)
    }
}

/// The line above the link: its purpose and its lifetime.
fn terms(link: &SignInLink) -> String {
    format!(
        "the link signs one browser in, within {} minutes:",
        link.expires_in_seconds / 60
    )
}

/// Converts the error of a daemon without the route for the page into a hint.
fn refused(error: ClientError) -> CommandError {
    if error.code() == "not_found" {
        return CommandError::Cannot {
            code: "no_page",
            message: "this daemon serves no web page".to_owned(),
            hint: Some(
                "`http.page` is false in its configuration, or it is of an older version"
                    .to_owned(),
            ),
        };
    }
    error.into()
}
