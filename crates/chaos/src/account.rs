//! Compares the caller's, the journal's and the server's view of each call.

use std::collections::HashMap;

use serde::Serialize;

use crate::{
    caller::{Door, TimedCall},
    daemon::Record,
    peer::CallError,
};

/// The comparison of all calls.
#[derive(Debug, Default, Serialize)]
pub struct Account {
    pub records: usize,
    /// Calls that ran more than once.
    pub ran_twice: usize,
    /// Calls that are missing in the journal, or are there twice.
    pub not_once: usize,
    /// Calls on which caller, journal and server disagree.
    pub disagreements: usize,
    #[serde(skip)]
    pub failures: Vec<String>,
}

impl Account {
    /// Compares the calls of one server. `runs` has the key of a call for each time that the server ran it.
    pub fn from_views(
        calls: &[TimedCall],
        records: &[Record],
        runs: &[u64],
        name: impl Fn(usize) -> String,
    ) -> Self {
        let mut account = Self {
            records: records.len(),
            ..Self::default()
        };
        let mut run_counts: HashMap<u64, usize> = HashMap::new();
        for key in runs {
            *run_counts.entry(*key).or_default() += 1;
        }
        let mut recorded: HashMap<u64, Vec<&Record>> = HashMap::new();
        for record in records {
            match key(record) {
                Some(key) => recorded.entry(key).or_default().push(record),
                None => account.not_once(format!("record {} is of no call", record.id)),
            }
        }
        for call in calls {
            let count = run_counts.get(&call.key).copied().unwrap_or_default();
            account.runs(call, count);
            if call.door == Door::Direct {
                continue;
            }
            let expected = usize::from(call.was_sent());
            match recorded.remove(&call.key).unwrap_or_default()[..] {
                [record] if expected == 1 => {
                    account.compare(call, record, count, &name(call.server))
                }
                ref found if found.len() != expected => account.not_once(format!(
                    "call {} of s{} by {:?} is {} times in the journal; it {}",
                    call.key,
                    call.server,
                    call.door,
                    found.len(),
                    outcome_words(call)
                )),
                _ => {}
            }
        }
        for key in recorded.keys() {
            account.not_once(format!("call {key} is in the journal, and nobody made it"));
        }
        account
    }

    fn runs(&mut self, call: &TimedCall, count: usize) {
        let TimedCall { key, server, .. } = call;
        if count > 1 {
            self.ran_twice += 1;
            self.failures
                .push(format!("call {key} of s{server} ran {count} times"));
        }
        if count == 0 && call.outcome.is_ok() {
            self.disagree(format!("call {key} was answered and never ran"));
        }
    }

    fn compare(&mut self, call: &TimedCall, record: &Record, count: usize, server: &str) {
        let (state, status) = (record.state.as_str(), record.status.as_str());
        let is_ok = (state, status) == ("answered", "ok");
        let agrees_with_caller = match &call.outcome {
            Ok(()) => is_ok,
            // The server may have answered after the caller stopped waiting.
            Err(CallError::Late) => true,
            Err(_) => !is_ok,
        };
        let agrees_with_server = match (state, status) {
            ("not_sent", _) | (_, "refused") => count == 0,
            (_, "ok") => count == 1,
            _ => true,
        };
        let is_its_own =
            record.server.as_deref() == Some(server) && record.door == call.door.recorded();
        if agrees_with_caller && agrees_with_server && is_its_own && status != "open" {
            return;
        }
        self.disagree(format!(
            "call {} of {server} by {:?} {}, and ran {count} times; the journal: {record:?}",
            call.key,
            call.door,
            outcome_words(call)
        ));
    }

    fn not_once(&mut self, failure: String) {
        self.not_once += 1;
        self.failures.push(failure);
    }

    fn disagree(&mut self, failure: String) {
        self.disagreements += 1;
        self.failures.push(failure);
    }
}

fn key(record: &Record) -> Option<u64> {
    record.arguments["key"]
        .as_str()?
        .strip_prefix('k')?
        .parse()
        .ok()
}

/// The result of a call for its caller, in words.
fn outcome_words(call: &TimedCall) -> String {
    match &call.outcome {
        Ok(()) => "was answered".to_owned(),
        Err(trouble) => format!("failed ({trouble})"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    fn call(key: u64, outcome: Result<(), CallError>) -> TimedCall {
        TimedCall {
            server: 0,
            door: Door::Http,
            started_at: Instant::now(),
            duration: Duration::ZERO,
            key,
            outcome,
        }
    }

    fn record(key: u64, state: &str, status: &str) -> Record {
        Record {
            id: key.to_string(),
            door: "mcp_http".to_owned(),
            server: Some("s0".to_owned()),
            state: state.to_owned(),
            status: status.to_owned(),
            arguments: json!({"key": format!("k{key}")}),
        }
    }

    /// Checks one call, its records and the number of its runs. Returns the counts of: ran twice, not once,
    /// disagreements.
    fn check(outcome: Result<(), CallError>, records: &[Record], count: usize) -> [usize; 3] {
        let account =
            Account::from_views(&[call(7, outcome)], records, &vec![7; count], |server| {
                format!("s{server}")
            });
        assert_eq!(account.failures.is_empty(), account.figures() == [0; 3]);
        account.figures()
    }

    impl Account {
        fn figures(&self) -> [usize; 3] {
            [self.ran_twice, self.not_once, self.disagreements]
        }
    }

    fn refused() -> Result<(), CallError> {
        Err(CallError::Refused(String::new()))
    }

    #[test]
    fn what_agrees_is_no_failure() {
        let record = |state, status| [record(7, state, status)];
        assert_eq!(check(Ok(()), &record("answered", "ok"), 1), [0; 3]);
        assert_eq!(check(refused(), &record("not_sent", "error"), 0), [0; 3]);
        for count in [0, 1] {
            assert_eq!(check(refused(), &record("sent", "unknown"), count), [0; 3]);
        }
        let late = || Err(CallError::Late);
        assert_eq!(check(late(), &record("answered", "ok"), 1), [0; 3]);
        let never_sent = Err(CallError::NoSession(String::new()));
        assert_eq!(check(never_sent, &[], 0), [0; 3]);
    }

    #[test]
    fn every_disagreement_is_seen() {
        let single_record = |state, status| [record(7, state, status)];
        assert_eq!(
            check(Ok(()), &single_record("answered", "ok"), 2),
            [1, 0, 1]
        );
        assert_eq!(
            check(Ok(()), &single_record("answered", "ok"), 0),
            [0, 0, 2]
        );
        assert_eq!(
            check(Ok(()), &single_record("sent", "unknown"), 1),
            [0, 0, 1]
        );
        assert_eq!(
            check(refused(), &single_record("answered", "ok"), 1),
            [0, 0, 1]
        );
        assert_eq!(
            check(refused(), &single_record("not_sent", "error"), 1),
            [0, 0, 1]
        );
        assert_eq!(
            check(refused(), &single_record("sent", "open"), 1),
            [0, 0, 1]
        );
    }

    #[test]
    fn each_call_is_in_the_journal_once() {
        let one = || record(7, "answered", "ok");
        assert_eq!(check(Ok(()), &[], 1), [0, 1, 0]);
        assert_eq!(check(Ok(()), &[one(), one()], 1), [0, 1, 0]);
        let stranger = record(8, "answered", "ok");
        assert_eq!(check(Ok(()), &[one(), stranger], 1), [0, 1, 0]);
    }
}
