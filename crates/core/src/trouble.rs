//! Why a server is down, in words for people: the reason, the process's last words, and the next step.

mod telling;

use self::telling::shortened;
pub use self::telling::{is_error, telling_line};
use crate::{display::escapes, lifecycle::State};

/// The reason, with what the process said last: on stderr, or else on stdout, where only messages belong.
pub fn explained(reason: &str, stderr: &[impl AsRef<str>], stdout: Option<&str>) -> String {
    match (telling_line(stderr), stdout) {
        (Some(line), _) if !reason.contains(&line) => format!("{reason}: {line}"),
        (None, Some(line)) => format!("{reason}: it {}", misplaced(line)),
        _ => reason.to_owned(),
    }
}

/// What a process does that says this on stdout.
pub fn misplaced(line: &str) -> String {
    let line = escapes::without(line);
    let line = shortened(line.trim());
    format!("writes to stdout what is no MCP message: \"{line}\"")
}

/// Where the entry of a server stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryPlace {
    /// In this file, whose changes take effect at once.
    File(String),
    /// In a configuration that is no watched file.
    Configuration,
    /// In an `--mcp-client` of the command that started Mainstay.
    CommandLine,
}

/// What a person can do about a server that is not connected. The words for terminals and the code of the
/// REST API both come from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Nothing of it is started before a person approves it.
    Approve,
    Enable,
    /// Its entry cannot be used.
    CorrectEntry(EntryPlace),
    /// Its operator has stopped it, or it does not start by itself.
    Start,
    /// It is down, and its process has written no log.
    TryAgain,
    /// It is down, and its process has written a log.
    SeeLogAndStart,
    /// It is tried again by itself, and its process has written a log.
    SeeLog,
    /// It is tried again by itself.
    Wait,
    /// The server accepts no credentials of the entry.
    SetCredentials,
}

impl NextStep {
    /// The step for a server that is to be up; `has_log` where its process has written something.
    pub fn of(state: State, unauthorized: bool, has_log: bool) -> Option<Self> {
        match (state, has_log) {
            (State::Connected | State::Connecting | State::Stopping, _) => None,
            _ if unauthorized => Some(Self::SetCredentials),
            (State::Reconnecting, true) => Some(Self::SeeLog),
            (State::Reconnecting, false) => Some(Self::Wait),
            (State::Disconnected | State::Error | State::Failed | State::Crashed, true) => {
                Some(Self::SeeLogAndStart)
            }
            (State::Disconnected | State::Error | State::Failed | State::Crashed, false) => {
                Some(Self::TryAgain)
            }
        }
    }

    /// In words for the server `name`; nothing where there is nothing to do.
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
            Self::Wait => return None,
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
        let nothing: [&str; 0] = [];
        assert_eq!(
            explained("exited (code 2)", &nothing, Some("usage: x")),
            "exited (code 2): it writes to stdout what is no MCP message: \"usage: x\""
        );
        assert_eq!(
            explained("exited (code 2)", &["no licence"], Some("usage: x")),
            "exited (code 2): no licence"
        );
    }

    #[test]
    fn what_is_down_has_a_next_step() {
        for state in State::ALL {
            let is_down = matches!(
                state,
                State::Disconnected | State::Error | State::Failed | State::Crashed
            );
            let is_retried = state == State::Reconnecting;
            let step = NextStep::of(state, false, false);
            assert_eq!(step.is_some(), is_down || is_retried, "{state}");
            let words = step.and_then(|step| step.words("fs"));
            assert_eq!(words.is_some(), is_down, "{state}");
            let step = NextStep::of(state, false, true);
            let words = step.and_then(|step| step.words("fs")).unwrap_or_default();
            let is_said = is_down || is_retried;
            assert_eq!(words.contains("mainstay logs fs"), is_said, "{state}");
            assert_eq!(words.contains("mainstay start fs"), is_down, "{state}");
            for has_log in [false, true] {
                let step = NextStep::of(state, true, has_log);
                assert_eq!(step == Some(NextStep::SetCredentials), is_said, "{state}");
            }
        }
    }
}
