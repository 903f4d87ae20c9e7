//! Translates the request and the answer of a call between a client and a server of different
//! revisions, by the rules of `core::era`.

use std::borrow::Cow;

use mainstay_core::{
    era::{
        Caller, Era, Revision,
        questions::{self, BadInputRequired, InputRequired},
        result, tasks,
    },
    message::{self, MessageKind, Method},
};
use mainstay_transport::Frame;

use super::{call::Round, request::CallRequest};

#[derive(Debug)]
pub struct EraTranslation<'a> {
    caller: Caller,
    server: Revision,
    method: Method,
    request: &'a CallRequest,
    /// The client with the tasks extension declared. `None` until the server has required it.
    with_tasks: Option<Caller>,
}

impl<'a> EraTranslation<'a> {
    /// A translation between two different revisions.
    pub fn new(caller: Caller, server: Revision, request: &'a CallRequest) -> Self {
        Self {
            caller,
            server,
            method: request.frame.method().unwrap_or(Method::Other),
            request,
            with_tasks: None,
        }
    }

    /// The revision of the client.
    pub fn client(&self) -> Revision {
        self.caller.revision
    }

    /// The request for the server, with this id (JSON text) and the client's answers to the last
    /// round.
    pub fn request(&self, id: &str, round: Option<&Round>) -> String {
        let text = match (self.caller.era(), self.server.era()) {
            (Era::Legacy, Era::Modern) => {
                let caller = self.with_tasks.as_ref().unwrap_or(&self.caller);
                self.request.render_modern(id, caller)
            }
            (Era::Modern, Era::Legacy) => self.request.render_legacy(id),
            (Era::Legacy, Era::Legacy) | (Era::Modern, Era::Modern) => self.request.render(id),
        };
        match round {
            Some(round) => questions::answer(&text, &round.responses, round.state.as_deref()),
            None => text,
        }
    }

    /// Declares the tasks extension for the client if the server's answer requires it. Returns true if
    /// the request must be sent again.
    pub fn declare_tasks_if_required(&mut self, answer: &Frame) -> bool {
        let is_first = self.caller.era() == Era::Legacy && self.with_tasks.is_none();
        let again = is_first && answer.error().is_some_and(tasks::is_undeclared);
        if again {
            self.with_tasks = Some(self.caller.with_tasks());
        }
        again
    }

    /// The client with the tasks extension declared, if the answer is a task. The client itself knows
    /// no tasks, so Mainstay must wait for the task.
    pub fn hidden_task_caller(&self, answer: &Frame) -> Option<Caller> {
        let caller = self.with_tasks.as_ref()?;
        let is_task = answer.result().is_some_and(tasks::is_task);
        is_task.then(|| caller.clone())
    }

    /// The questions that a modern server asks a legacy client before it completes the call. `None` if
    /// the answer has no questions.
    pub fn input_required(
        &self,
        answer: &Frame,
    ) -> Result<Option<InputRequired>, BadInputRequired> {
        match (self.caller.era(), self.server.era(), answer.result()) {
            (Era::Legacy, Era::Modern, Some(result)) if questions::may_ask(self.method) => {
                InputRequired::read(result)
            }
            _ => Ok(None),
        }
    }

    /// The server's response, translated for the client.
    pub fn answer(&self, answer: Frame) -> Frame {
        let MessageKind::Response { id, body, is_error } = answer.envelope().kind else {
            return answer;
        };
        let body = answer.get(body);
        let uri = || self.request.subject();
        let changed = match (self.caller.era(), self.server.era(), is_error) {
            (Era::Legacy, _, false) => result::to_legacy(self.method, body, self.caller.revision),
            (Era::Legacy, Era::Modern, true) => {
                result::error_to_legacy(self.method, uri().as_deref(), body)
            }
            (Era::Modern, Era::Legacy, false) => result::to_modern(self.method, body),
            (Era::Modern, Era::Legacy, true) => {
                // A legacy error that requires a visit to a URL becomes a question for a modern
                // client, which answers it with another request.
                if questions::may_ask(self.method)
                    && self.caller.capabilities.elicitation_url
                    && let Some(required) = InputRequired::from_error(body)
                {
                    let text = message::response(answer.get(id), &required.result());
                    return Frame::read(text.into()).unwrap_or(answer);
                }
                result::error_to_modern(self.method, uri().as_deref(), body)
            }
            (Era::Legacy, Era::Legacy, true) | (Era::Modern, Era::Modern, _) => return answer,
        };
        match changed {
            Cow::Borrowed(_) => answer,
            Cow::Owned(changed) => answer.with_body(&changed),
        }
    }
}
