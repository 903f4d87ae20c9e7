//! `mainstay ui`: opens the web page in a browser, with a link that signs in once.

use std::{
    env,
    ffi::OsString,
    io,
    process::{Command, Stdio},
};

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

/// The reason that the link is printed instead of opened.
enum PrintReason {
    NoOpen,
    /// This session has no display.
    NoDisplay,
    /// The program that opens links could not be started.
    NotOpened(io::Error),
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
        let client = Client::new(&found.url, found.token)?;
        let link = client.sign_in_link().await.map_err(refused)?;
        let address = found.url.trim_end_matches('/');
        let url = format!("{address}{}", link.path);
        let print_reason = self.open(&url).err();
        if self.json {
            output::json(&json!({
                "url": url,
                "opened": print_reason.is_none(),
                "expiresInSeconds": link.expires_in_seconds,
            }))?;
            return Ok(Exit::DONE);
        }
        let Some(reason) = print_reason else {
            // Leave out the code, because this line may stay on the screen and in logs.
            complain(&format!(
                "opened {address} in your browser; if no page appears: mainstay ui --no-open"
            ));
            return Ok(Exit::DONE);
        };
        match reason {
            PrintReason::NoOpen => {}
            PrintReason::NoDisplay => {
                complain("there is no display here, so open the link yourself");
            }
            PrintReason::NotOpened(error) => {
                complain(&format!(
                    "{OPENER} cannot be started ({error}), so open the link yourself"
                ));
            }
        }
        complain(&terms(&link));
        output::line(&url)?;
        Ok(Exit::DONE)
    }
}

impl Ui {
    /// Opens the page with the desktop's program, without waiting for it.
    fn open(&self, url: &str) -> Result<(), PrintReason> {
        if self.no_open {
            return Err(PrintReason::NoOpen);
        }
        if !has_display(|name| env::var_os(name)) {
            return Err(PrintReason::NoDisplay);
        }
        let mut command = Command::new(OPENER);
        command
            .args(OPENER_ARGUMENTS)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A new process group, because Ctrl-C in this terminal is not for the browser.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn().map(drop).map_err(PrintReason::NotOpened)
    }
}

/// The line above the link: its use and its lifetime.
fn terms(link: &SignInLink) -> String {
    format!(
        "the link signs one browser in, within {} minutes:",
        link.expires_in_seconds / 60
    )
}

/// Turns the error of a daemon without a page, which has no such route, into a hint.
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

#[cfg(windows)]
const OPENER: &str = "rundll32";
#[cfg(windows)]
const OPENER_ARGUMENTS: &[&str] = &["url.dll,FileProtocolHandler"];

#[cfg(target_os = "macos")]
const OPENER: &str = "open";
#[cfg(not(any(windows, target_os = "macos")))]
const OPENER: &str = "xdg-open";
#[cfg(not(windows))]
const OPENER_ARGUMENTS: &[&str] = &[];

/// True if the person can see a browser that this process starts.
fn has_display(var: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name| var(name).is_some_and(|value| !value.is_empty());
    if cfg!(any(windows, target_os = "macos")) {
        !is_set("SSH_CONNECTION")
    } else {
        is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
    }
}
