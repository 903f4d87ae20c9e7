//! Handles the questions of a shared session that belong to no call.

use std::sync::atomic::Ordering;

use mainstay_core::{
    config::ServerRequests,
    era::{
        code,
        questions::{self, needs_person},
    },
    message::Method,
    principal::Principal,
};
use mainstay_transport::ServerQuestion;

use super::Task;
use crate::supervisor::{declared::is_forwarded, open_questions::Answerer};

impl Task {
    /// Handles a question of the shared session that belongs to no call: puts it to the only client,
    /// answers it from the configuration, holds it, queues it, or refuses it.
    pub(super) fn handle_question(&self, mut question: ServerQuestion) {
        let is_rejected = self.config.server_requests == Some(ServerRequests::Reject);
        let client = self.fleet.sole_asker().filter(|_| !is_rejected);
        let is_asked = client.is_some();
        let mut question = match client {
            None => question,
            Some(client) => {
                self.handles.has_asked.store(true, Ordering::Relaxed);
                if needs_person(question.method()) {
                    question.keep_waiting(None);
                }
                let answerer = Answerer::Client {
                    name: None,
                    principal: Principal::Anonymous,
                };
                let open = self.fleet.queue.open_questions();
                open.show(&self.config.name, answerer, &mut question);
                match client.ask(&self.config.name, question) {
                    Ok(()) => return,
                    Err(mut question) => {
                        question.set_note(None);
                        question.resume_waiting_calls();
                        question
                    }
                }
            }
        };
        if !is_rejected
            && question.method() == Method::RootsList
            && self.config.roots.is_empty()
            && self.fleet.sole_gives_roots_in_calls()
        {
            self.handles.held_requests.keep(question);
            return;
        }
        let name = question.frame().method_name();
        if question.method() == Method::RootsList && !self.config.roots.is_empty() {
            question.result(&questions::roots(&self.config.roots));
        } else if self.config.server_requests == Some(ServerRequests::Queue) {
            question.keep_waiting(None);
            self.fleet.queue.enter(&self.config.name, None, question);
        } else if is_forwarded(&self.config) {
            tracing::warn!(server = %self.config.name, method = name, "no single client can have caused this request");
            let obstacle = question.obstacle();
            let obstacle = obstacle.unwrap_or("no call is in flight that can have caused it");
            let reason = format!(
                "no single client can be asked {name}: {obstacle}; at /servers/{}/mcp each client has a session of its own",
                self.config.name
            );
            question.refuse(code::INTERNAL_ERROR, &reason);
        } else if !is_asked {
            // No client has declared that it can be asked.
            question.unsupported();
        }
    }
}
