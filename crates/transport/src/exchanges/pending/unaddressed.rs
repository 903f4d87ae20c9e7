//! Answers on a shared connection whose id is `null`. Such an answer does not identify its request.
//!
//! Some servers answer every message, even notifications. Others refuse a request that they cannot read, or
//! lose its id. Ids increase, so a comparison of ids tells which message was sent first.

/// Sent messages that need no answer. The server may still answer them.
#[derive(Debug, Default)]
pub struct Answerless {
    count: usize,
    /// The last request that was sent before the latest of these messages.
    before: u64,
}

impl Answerless {
    /// Counts a message that needs no answer, sent after the request `last_id`.
    pub fn add(&mut self, last_id: u64) {
        if last_id != self.before {
            // The server has answered the earlier messages by now, or never will.
            self.count = 0;
        }
        self.count += 1;
        self.before = last_id;
    }

    /// True if an answer that comes now may belong to a message that needs no answer. `last_id` is the latest
    /// request, and `waiting` are the requests without an answer. Servers read in order: once a request that
    /// was sent after the message has its answer, the message will not get one.
    pub fn may_be_answered(&mut self, last_id: u64, waiting: &[u64]) -> bool {
        let later = waiting.iter().filter(|id| **id > self.before).count();
        let all_later_wait = u64::try_from(later) == Ok(last_id.saturating_sub(self.before));
        if self.count == 0 || !all_later_wait {
            self.count = 0;
            return false;
        }
        self.count -= 1;
        true
    }
}

/// Answers that may belong to any of several requests.
#[derive(Debug, Default)]
pub struct Unaddressed {
    count: usize,
    /// The last request that was sent before the latest of these answers.
    last_id: u64,
}

impl Unaddressed {
    /// Counts an answer that belongs to one of the requests up to `last_id`.
    pub fn add(&mut self, last_id: u64) {
        self.count += 1;
        self.last_id = last_id;
    }

    pub fn is_any(&self) -> bool {
        self.count > 0
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn last_id(&self) -> u64 {
        self.last_id
    }

    pub fn clear(&mut self) {
        self.count = 0;
    }
}
