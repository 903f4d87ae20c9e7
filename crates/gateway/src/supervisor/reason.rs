//! The reason why a server is not connected, and the next step for a person, in words.

use std::time::Duration;

use mainstay_core::{
    config::{ConfigError, Launch},
    failure::{Failure, FailureKind, limit_words},
    lifecycle::SessionState,
    message,
    principal::Principal,
    trouble::{self, EntryPlace, NextStep},
};
use tokio::time::Instant;

use super::{kept_down::KeptDown, server::ServerHandle, server_view::ServerView};

/// Maximum number of bytes of a starting server's stderr line in a description.
const MAX_SHOWN_LINE: usize = 200;

impl ServerHandle {
    /// Describes the current start of a process, with the last line of its stderr. Without stderr,
    /// uses the last line of stray output. `None` if no process is starting.
    pub fn start_words(&self) -> Option<String> {
        if !matches!(self.config().launch, Launch::Stdio(_)) {
            return None;
        }
        let status = self.view.borrow().status.clone();
        let words = status.start_words(Instant::now().into_std())?;
        let stderr = if status.begun_at.is_some() {
            self.log.tail.texts()
        } else {
            Vec::new()
        };
        Some(match stderr.iter().rfind(|line| !line.trim().is_empty()) {
            Some(line) => {
                let line = message::shortened(line.trim().to_owned(), MAX_SHOWN_LINE);
                format!("{words}: {line}")
            }
            None => match self
                .log
                .last_stray_line()
                .filter(|_| status.begun_at.is_some())
            {
                Some(line) => format!("{words}: {}", trouble::misplaced(&line)),
                None => words,
            },
        })
    }

    /// The failure of a call to a server that is not connected.
    pub fn not_connected(&self) -> Failure {
        let (view, name) = (self.view(), &self.name);
        // These states need other words to fit into the sentence below.
        let words = match view.state() {
            SessionState::Error => "not connected",
            SessionState::Failed => "down after repeated failures",
            other => other.as_str(),
        };
        let message = format!("Server '{name}' is {}", self.explain_state(&view, words));
        let failure = Failure {
            secrets: self.log.secrets(),
            ..Failure::new(FailureKind::ServerNotConnected, message)
        };
        let failure = view.describe(failure, name);
        match (self.kept_down(), view.is_desired_up) {
            (Some(kept_down), _) => failure.with("status", kept_down.as_str()),
            // The operator has stopped the server, so its stderr explains nothing.
            (None, false) => failure,
            (None, true) => self.with_stderr(failure),
        }
    }

    /// The failure of a call whose deadline passed before the server was connected.
    pub fn not_in_time(&self, limit: Duration) -> Failure {
        let failure = self.not_connected();
        Failure {
            kind: FailureKind::CallTimeout,
            message: format!("timeout after {}: {}", limit_words(limit), failure.message),
            ..failure
        }
    }

    /// Describes a server that is not connected: its state in these `words`, the reason, and the next
    /// step for a person.
    pub fn explain_state(&self, view: &ServerView, words: &str) -> String {
        let step = self.step_words(view);
        match self.kept_down() {
            Some(KeptDown::Unapproved) => return format!("waiting for approval{step}"),
            Some(KeptDown::Disabled) => return format!("disabled{step}"),
            None if !view.is_desired_up => return format!("{words}: it is stopped{step}"),
            None => {}
        }
        let mut described = words.to_owned();
        if let Some(reason) = &view.status.reason {
            let (stderr, stdout) = self.last_words(view);
            let explanation = trouble::explained(reason, &stderr, stdout.as_deref());
            let explanation = self.with_foreign_ids(explanation, view);
            described = format!("{described}: {explanation}{step}");
        }
        if let Some(words) = self.start_words() {
            described = format!("{described}; starting: {words}");
        }
        described
    }

    /// The last lines of stderr and the last line of stray output, of the process to which the
    /// status's reason applies. While a new process starts, that is the previous process.
    pub fn last_words(&self, view: &ServerView) -> (Vec<String>, Option<String>) {
        if view.status.begun_at.is_some() && view.status.reason.is_some() {
            return (self.log.last_words_before().into_iter().collect(), None);
        }
        (self.log.tail.texts(), self.log.last_stray_line())
    }

    /// Adds the unknown ids of recent responses to the reason. The server may have answered the
    /// handshake with a wrong id.
    pub fn with_foreign_ids(&self, reason: String, view: &ServerView) -> String {
        let is_down = view.state() != SessionState::Connected;
        match self.log.recent_foreign_ids().filter(|_| is_down) {
            Some(ids) if !reason.contains(&ids) => format!("{reason}; {ids}"),
            _ => reason,
        }
    }

    /// The next step for a person, if the server is not connected.
    pub fn next_step(&self, view: &ServerView) -> Option<NextStep> {
        match self.kept_down() {
            Some(KeptDown::Unapproved) => return Some(NextStep::Approve),
            Some(KeptDown::Disabled) => return Some(NextStep::Enable),
            None => {}
        }
        if let Launch::Broken(_) = self.config().launch {
            return Some(NextStep::CorrectEntry(self.entry_place.clone()));
        }
        if !view.is_desired_up {
            return Some(NextStep::Start);
        }
        let has_log = !self.log.tail.texts().is_empty() || self.log.last_stray_line().is_some();
        let step = NextStep::for_state(view.state(), view.status.unauthorized, has_log);
        match (&step, &self.credential_sources) {
            (Some(NextStep::SetCredentials), Some(sources))
                if sources.needs_login(&self.config(), &Principal::Anonymous) =>
            {
                Some(NextStep::LogIn)
            }
            _ => step,
        }
    }

    /// The next step in words, with a leading separator. Empty if there is none.
    pub fn step_words(&self, view: &ServerView) -> String {
        let step = self.next_step(view);
        let words = step.and_then(|step| step.words(self.name.as_str()));
        words.map(|words| format!("; {words}")).unwrap_or_default()
    }

    /// The problems of the server's entry, one line each, with their positions if the file is known.
    pub fn problems(&self) -> Vec<String> {
        let config = self.config();
        let text = |problem: &ConfigError| match &self.entry_place {
            EntryPlace::File(file) => problem.at(file).to_string(),
            EntryPlace::Configuration => problem.to_string(),
            EntryPlace::CommandLine => {
                let place = format!("--mcp-client {}", self.name);
                problem.at(place).to_string()
            }
        };
        config.problems().map(text).collect()
    }

    /// The reason why the server must not be started, if there is one.
    pub fn kept_down(&self) -> Option<KeptDown> {
        KeptDown::for_config(&self.config())
    }

    /// Adds the server's last lines of stderr, which often explain the failure.
    pub(super) fn with_stderr(&self, failure: Failure) -> Failure {
        let (stderr, _) = self.last_words(&self.view());
        if stderr.is_empty() {
            failure
        } else {
            failure.with("stderr", stderr)
        }
    }
}
