//! Answers or passes on the questions that a shared session asks outside of calls.

use std::sync::atomic::Ordering;

use mainstay_core::{
    config::ServerRequests,
    era::{code, questions},
    message::Method,
};
use mainstay_transport::Question;

use super::Task;
use crate::supervisor::declared::is_forwarded;

impl Task {
    /// A question of the shared session that belongs to no call.
    pub(super) fn question(&self, mut question: Question) {
        let is_rejected = self.config.server_requests == Some(ServerRequests::Reject);
        let mut question = match self.fleet.sole_asks().filter(|_| !is_rejected) {
            None => question,
            Some(client) => {
                self.has_asked.store(true, Ordering::Relaxed);
                question.keep_waiting(None);
                match client.ask(&self.config.name, question) {
                    Ok(()) => return,
                    Err(mut question) => {
                        question.keep_waiting_no_more();
                        question
                    }
                }
            }
        };
        let name = question.frame().method_name();
        if question.method() == Method::RootsList && !self.config.roots.is_empty() {
            question.result(&questions::roots(&self.config.roots));
        } else if self.config.server_requests == Some(ServerRequests::Queue) {
            question.keep_waiting(None);
            self.fleet.queue.enter(&self.config.name, None, question);
        } else if is_forwarded(&self.config) {
            tracing::warn!(server = %self.config.name, method = name, "no single client can have caused this request");
            let reason = format!(
                "no single client's call can have caused {name}; at /servers/{}/mcp each client has a session of its own",
                self.config.name
            );
            question.refuse(code::INTERNAL_ERROR, &reason);
        }
    }
}
