//! Answers on a shared connection that do not say whose they are: their id is `null`.
//!
//! Some servers answer every message, notifications, too. Others refuse a request that they cannot read, or
//! lose its id. Ids increase, so an id stands for a time here.

/// Messages to the server that need no answer, and have none yet.
#[derive(Debug, Default)]
pub struct Answerless {
    count: usize,
    /// The last request that was sent before the latest of these messages.
    before: u64,
}

impl Answerless {
    /// A message was sent that needs no answer, after the request `last_id`.
    pub fn sent(&mut self, last_id: u64) {
        if last_id != self.before {
            // The earlier ones are answered before it, or not at all.
            self.count = 0;
        }
        self.count += 1;
        self.before = last_id;
    }

    /// Whether an answer that comes now may answer such a message. `last_id` is the latest request, and
    /// `waiting` are those without an answer. Servers read in order: once a request was answered that was
    /// sent after the message, the message will not be.
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

/// Answers that any of several requests may have got.
#[derive(Debug, Default)]
pub struct Unaddressed {
    count: usize,
    /// The last request that was sent before the latest of these answers.
    last_id: u64,
}

impl Unaddressed {
    /// An answer came that one of several requests up to `last_id` has got.
    pub fn came(&mut self, last_id: u64) {
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
