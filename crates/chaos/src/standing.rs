//! Servers without a fault of their own: each must keep its session, and stay healthy.
//!
//! This also detects late reports: a probe that ends after its session must not affect the next session
//! (invariant 3).

use std::{collections::HashMap, time::Instant};

use serde_json::Value;

pub struct Standing {
    /// The sessions that must stay, by server.
    sessions: HashMap<String, Session>,
    /// Time of the last check of all servers.
    pub looked_at: Instant,
}

#[derive(PartialEq)]
struct Session {
    /// Start of the session (RFC 3339, in milliseconds). `None` after a loss.
    since: Option<String>,
    is_well: bool,
}

impl Standing {
    pub fn new() -> Self {
        Self {
            sessions: HashMap::new(),
            looked_at: Instant::now(),
        }
    }

    /// Checks a server without a fault, from its state in REST. Returns each problem once.
    pub fn look(&mut self, server: &str, state: &Value) -> Option<String> {
        let now = Session {
            since: state["connectedAt"].as_str().map(str::to_owned),
            is_well: state["healthStatus"] == "healthy",
        };
        let before = self.sessions.get(server);
        let lost =
            before.is_some_and(|session| session.since.is_some() && session.since != now.since);
        let was_well = before.is_none_or(|session| session.is_well);
        let problem = if lost {
            Some("lost its session")
        } else if was_well && !now.is_well {
            Some("is said to be unwell")
        } else {
            None
        };
        self.sessions.insert(server.to_owned(), now);
        let (status, error) = (&state["status"], &state["lastError"]);
        problem.map(|problem| {
            format!("{server} {problem} without a fault of its own; status {status}, error {error}")
        })
    }

    /// Allows the session to end, because the server has a fault.
    pub fn forget(&mut self, server: &str) {
        self.sessions.remove(server);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_session_that_goes_is_told_once_and_not_where_there_is_a_fault() {
        let up = |at: &str| json!({"connectedAt": at, "healthStatus": "healthy"});
        let unwell = json!({"connectedAt": "2", "healthStatus": "degraded"});
        let down = json!({"status": "reconnecting"});
        let mut standing = Standing::new();
        let mut look = |state: &Value| standing.look("s", state).is_some();
        assert_eq!(
            [up("1"), up("1"), down].map(|state| look(&state)),
            [false, false, true]
        );
        assert_eq!(
            [up("2"), unwell.clone(), unwell].map(|state| look(&state)),
            [false, true, false]
        );
        assert!(look(&up("3")));
        standing.forget("s");
        assert_eq!(standing.look("s", &up("4")), None);
    }
}
