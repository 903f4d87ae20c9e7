//! What a client's own upstream session says outside of calls, on its way to that client.

use std::sync::Arc;

use mainstay_core::{
    config::ServerRequests,
    era::{Caller, questions},
    message::Method,
    principal::Principal,
};

use super::outbox::Outbox;
use crate::{
    calls::{Bound, Questions},
    supervisor::Server,
    transport::{Listener, Notice, Question},
};

/// Where a client hears what belongs to no call; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Ears {
    pub outbox: Arc<Outbox>,
    pub questions: Arc<Questions>,
    /// See `Client::bound`.
    pub bound: Option<Bound>,
}

impl Ears {
    /// What the server says, as the client is to see it.
    fn push(&self, message: String) {
        let message = match &self.bound {
            Some(bound) => bound.message(message),
            None => message,
        };
        self.outbox.push(message);
    }

    /// For an isolated session of this server.
    pub fn of(
        &self,
        server: &Arc<Server>,
        caller: &Caller,
        principal: &Principal,
    ) -> Arc<dyn Listener> {
        Arc::new(Isolated {
            ears: self.clone(),
            server: Arc::clone(server),
            caller: caller.clone(),
            principal: principal.clone(),
        })
    }
}

#[derive(Debug)]
struct Isolated {
    ears: Ears,
    server: Arc<Server>,
    caller: Caller,
    principal: Principal,
}

impl Listener for Isolated {
    /// Notices go to the client as they are.
    fn hear(&self, notice: Notice) {
        let text = match notice.method {
            Method::Cancelled => self.ears.questions.withdraw(&notice.frame),
            _ => Some(notice.frame.one_line()),
        };
        if let Some(text) = text {
            self.ears.push(text);
        }
    }

    /// There is only one client whom the server can mean.
    fn ask(&self, question: Question) {
        let config = self.server.config();
        if config.server_requests == Some(ServerRequests::Reject) {
            return;
        }
        let params = question.frame().params().unwrap_or("{}");
        if self.caller.takes(question.method(), params) {
            // One too many is refused: it is dropped.
            if let Ok(request) = self.ears.questions.enter(question) {
                self.ears.push(request);
            }
        } else if question.method() == Method::RootsList && !config.roots.is_empty() {
            question.result(&questions::roots(&config.roots));
        } else if config.server_requests == Some(ServerRequests::Queue) {
            self.server.queue(&self.principal, question);
        }
    }
}
