//! The last lines a server wrote to stderr: the first thing to show when it fails.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tokio::io::AsyncRead;

use super::{Line, LineReader};

/// Lines that are kept.
const KEPT_LINES: usize = 20;

/// Longest line that is kept; a longer one is cut.
const MAX_LINE: usize = 2048;

#[derive(Debug, Default)]
pub struct StderrTail {
    lines: Mutex<VecDeque<String>>,
}

impl StderrTail {
    /// Reads `stderr` to its end, so that the server never waits for us.
    pub async fn drain(&self, stderr: impl AsyncRead + Unpin) {
        let mut reader = LineReader::new(stderr, MAX_LINE);
        while let Ok(Some(line)) = reader.next().await {
            let (Line::Whole(bytes) | Line::TooLong { head: bytes }) = line;
            self.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }

    fn push(&self, line: String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Forgets what an earlier process wrote.
    pub fn clear(&self) {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }
}
