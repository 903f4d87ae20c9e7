//! Explains why a server failed: the reason, the last output of its process, and the next step for
//! a person.

mod telling_line;

use self::telling_line::shortened;
pub use self::telling_line::{is_error, telling_line};
use crate::{display::escapes, lifecycle::SessionState};

/// Adds the output of the process to a reason: the line of stderr that best explains the exit, or
/// else the last line of stdout that is not a message.
pub fn explained(reason: &str, stderr: &[impl AsRef<str>], stdout: Option<&str>) -> String {
    match (telling_line(stderr), stdout) {
        (Some(line), _) if !reason.contains(&line) => format!("{reason}: {line}"),
        (None, Some(line)) => format!("{reason}: it {}", misplaced(line)),
        _ => reason.to_owned(),
    }
}

/// Describes a line on stdout that is not a message, as a predicate.
pub fn misplaced(line: &str) -> String {
    let line = escapes::without(line);
    let line = shortened(line.trim());
    format!("writes to stdout what is no MCP message: \"{line}\"")
}

/// The place of a server's entry in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryPlace {
    /// In this file. Mainstay reads a changed file at once.
    File(String),
    /// In a configuration that Mainstay does not watch.
    Configuration,
    /// In an `--mcp-client` option of the command line.
    CommandLine,
}

/// The next step for a person if a server is not connected. Terminals show words for it, and the
/// REST API shows a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// The server waits for a person's approval.
    Approve,
    Enable,
    /// The server's entry is invalid.
    CorrectEntry(EntryPlace),
    /// The operator stopped the server, or it does not start by itself.
    Start,
    /// The server is down. Its process has written nothing to its log.
    TryAgain,
    /// The server is down. The log of its process may explain why.
    SeeLogAndStart,
    /// Mainstay retries the server. The log of its process may explain the failure.
    SeeLog,
    /// Mainstay retries the server.
    Wait,
    /// The server refused Mainstay's credentials.
    SetCredentials,
    /// The server requires a login. The status's reason names the command.
    LogIn,
}

impl NextStep {
    /// The step for a server that should be connected. `has_log` is true if its process has written
    /// a log.
    pub fn for_state(state: SessionState, unauthorized: bool, has_log: bool) -> Option<Self> {
        match (state, has_log) {
            (SessionState::Connected | SessionState::Connecting | SessionState::Stopping, _) => {
                None
            }
            _ if unauthorized => Some(Self::SetCredentials),
            (SessionState::Reconnecting, true) => Some(Self::SeeLog),
            (SessionState::Reconnecting, false) => Some(Self::Wait),
            (
                SessionState::Disconnected
                | SessionState::Error
                | SessionState::Failed
                | SessionState::Crashed,
                true,
            ) => Some(Self::SeeLogAndStart),
            (
                SessionState::Disconnected
                | SessionState::Error
                | SessionState::Failed
                | SessionState::Crashed,
                false,
            ) => Some(Self::TryAgain),
        }
    }

    /// Describes the step for the server `name`. `None` if there is nothing to do.
    pub fn words(&self, name: &str) -> Option<String> {
        let start = format!("\"mainstay start {name}\"");
        let log = format!("\"mainstay logs {name}\"");
        Some(match self {
            Self::Approve => format!("approve it by \"mainstay approve {name}\""),
            Self::Enable => format!("enable it by \"mainstay enable {name}\""),
            Self::CorrectEntry(EntryPlace::File(file)) => {
                format!("correct its entry in {file}; the file is read again at once")
            }
            Self::CorrectEntry(EntryPlace::Configuration) => {
                "correct its entry in the configuration".to_owned()
            }
            Self::CorrectEntry(EntryPlace::CommandLine) => {
                format!("start Mainstay again with an --mcp-client for {name} that can be used")
            }
            Self::Start => format!("start it by {start}"),
            Self::TryAgain => format!("try again by {start}"),
            Self::SeeLogAndStart => format!("see {log}, then {start}"),
            Self::SeeLog => format!("see {log}"),
            Self::SetCredentials => format!("set its credentials, then {start}"),
            Self::Wait | Self::LogIn => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_explained_once() {
        let explain = |reason, stderr: &[&str]| explained(reason, stderr, None);
        assert_eq!(explain("exited (code 7)", &[]), "exited (code 7)");
        assert_eq!(
            explain("exited (code 7)", &["no licence"]),
            "exited (code 7): no licence"
        );
        assert_eq!(
            explain("refused: no licence", &["no licence"]),
            "refused: no licence"
        );
        let no_lines: [&str; 0] = [];
        assert_eq!(
            explained("exited (code 2)", &no_lines, Some("usage: x")),
            "exited (code 2): it writes to stdout what is no MCP message: \"usage: x\""
        );
        assert_eq!(
            explained("exited (code 2)", &["no licence"], Some("usage: x")),
            "exited (code 2): no licence"
        );
    }

    #[test]
    fn every_down_state_has_a_next_step() {
        for state in SessionState::ALL {
            let is_down = matches!(
                state,
                SessionState::Disconnected
                    | SessionState::Error
                    | SessionState::Failed
                    | SessionState::Crashed
            );
            let is_retried = state == SessionState::Reconnecting;
            let step = NextStep::for_state(state, false, false);
            assert_eq!(step.is_some(), is_down || is_retried, "{state}");
            let text = step.and_then(|step| step.words("fs"));
            assert_eq!(text.is_some(), is_down, "{state}");
            let step = NextStep::for_state(state, false, true);
            let text = step.and_then(|step| step.words("fs")).unwrap_or_default();
            let is_said = is_down || is_retried;
            assert_eq!(text.contains("mainstay logs fs"), is_said, "{state}");
            assert_eq!(text.contains("mainstay start fs"), is_down, "{state}");
            for has_log in [false, true] {
                let step = NextStep::for_state(state, true, has_log);
                assert_eq!(step == Some(NextStep::SetCredentials), is_said, "{state}");
            }
        }
    }
}
