//! Shows the progress of a call on stderr: one line that is replaced, with log messages above it.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use mainstay_api::{CallNews, Progress};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    output,
    progress::{self, PATIENCE},
    screen,
};

/// The line of one call. Dropping it removes the line.
#[derive(Clone, Debug)]
pub struct ProgressLine(Arc<Mutex<CallProgress>>);

#[derive(Debug)]
struct CallProgress {
    subject: String,
    started_at: Instant,
    progress: Option<Progress>,
}

impl ProgressLine {
    pub fn new(subject: &str) -> Self {
        Self(Arc::new(Mutex::new(CallProgress {
            subject: subject.to_owned(),
            started_at: Instant::now(),
            progress: None,
        })))
    }

    pub fn handle(&self, news: CallNews) {
        // The lock is held while a line is written.
        let mut state = self.0.lock();
        match news {
            CallNews::Progress(progress) => state.progress = Some(progress),
            CallNews::Log(log) => screen::complain(&log_line(&log)),
        }
        if state.started_at.elapsed() >= PATIENCE {
            state.show();
        }
    }

    /// Updates the elapsed time.
    pub fn tick(&self) {
        self.0.lock().show();
    }
}

/// Runs work that reports no progress.
pub async fn during<T>(subject: &str, work: impl Future<Output = T>) -> T {
    let show = |elapsed| progress::show(&format!("{subject} ({})", output::span(elapsed)));
    progress::ticking(work, show).await
}

impl CallProgress {
    fn show(&self) {
        let line = line(
            &self.subject,
            self.started_at.elapsed(),
            self.progress.as_ref(),
        );
        progress::show(&line);
    }
}

impl Drop for CallProgress {
    fn drop(&mut self) {
        progress::clear();
    }
}

/// `files/index: 2 of 5, reading src (1.2 s; Ctrl-C cancels it)`
fn line(subject: &str, elapsed: Duration, progress: Option<&Progress>) -> String {
    let mut line = subject.to_owned();
    if let Some(Progress {
        progress,
        total,
        message,
    }) = progress
    {
        // Writing to a String cannot fail.
        let _ = write!(line, ": {progress}");
        if let Some(total) = total {
            let _ = write!(line, " of {total}");
        }
        if let Some(message) = message {
            let _ = write!(line, ", {}", output::headline(message));
        }
    }
    let _ = write!(line, " ({}; Ctrl-C cancels it)", output::span(elapsed));
    line
}

/// The line for the `params` of a log message: `info: text`.
fn log_line(params: &Value) -> String {
    let level = params["level"].as_str().unwrap_or("log");
    match &params["data"] {
        Value::String(text) => format!("{level}: {text}"),
        data => format!("{level}: {data}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_how_far_a_call_has_come() {
        let elapsed = Duration::from_millis(1200);
        assert_eq!(line("a/b", elapsed, None), "a/b (1.2 s; Ctrl-C cancels it)");
        let progress = Progress {
            progress: 2.0,
            total: Some(5.0),
            message: Some("at\u{1b}[2J it\nfor long".to_owned()),
        };
        assert_eq!(
            line("a/b", elapsed, Some(&progress)),
            "a/b: 2 of 5, at\\u{1b}[2J it (1.2 s; Ctrl-C cancels it)"
        );
        let log = json!({"level": "warning", "data": {"a": 1}});
        assert_eq!(log_line(&log), r#"warning: {"a":1}"#);
        assert_eq!(log_line(&json!({"data": "text"})), "log: text");
    }
}
