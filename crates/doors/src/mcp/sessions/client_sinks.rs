//! Carries what an isolated session says outside of calls to its client.

use std::sync::Arc;

use mainstay_core::{
    config::{ListChanged, ServerRequests},
    era::{Caller, questions},
    ids::ServerName,
    message::{self, Method},
    principal::Principal,
};
use mainstay_gateway::{
    calls::{self, BoundNames, Questions},
    supervisor::{Asks, Cause, Server, SessionSettings},
};
use mainstay_transport::{Listener, Notice, Question};

use super::outbox::Outbox;

/// Sends a client what belongs to no call; clones share it.
#[derive(Clone, Debug)]
pub struct ClientSinks {
    pub outbox: Arc<Outbox>,
    pub questions: Arc<Questions>,
    /// See `Client::bound`.
    pub bound: Option<BoundNames>,
}

impl Default for ClientSinks {
    fn default() -> Self {
        let outbox = Arc::<Outbox>::default();
        let notices = Arc::clone(&outbox);
        Self {
            outbox,
            questions: Arc::new(Questions::with_notices(notices)),
            bound: None,
        }
    }
}

impl calls::Notices for Outbox {
    fn push(&self, text: String) {
        self.push(text);
    }
}

impl ClientSinks {
    /// What the server says, as the client is to see it.
    fn push(&self, message: String) {
        let message = match &self.bound {
            Some(bound) => bound.message(message),
            None => message,
        };
        self.outbox.push(message);
    }

    /// A listener for the shared sessions of all servers, if this client is the only one.
    pub fn alone(&self, caller: &Caller) -> Arc<dyn Asks> {
        Arc::new(Alone {
            client_sinks: self.clone(),
            caller: caller.clone(),
        })
    }

    /// Asks the client; a question that it cannot be asked is given back.
    fn ask(
        &self,
        caller: &Caller,
        server: &ServerName,
        question: Question,
    ) -> Result<(), Question> {
        let params = question.frame().params().unwrap_or("{}");
        if !caller.takes(question.method(), params) {
            return Err(question);
        }
        let request = self.questions.enter(server, question)?;
        self.push(request);
        Ok(())
    }

    /// A listener for an isolated session of this server, whose messages the client hears unchanged.
    pub fn of(
        &self,
        server: &Arc<Server>,
        caller: &Caller,
        principal: &Principal,
    ) -> Arc<dyn Listener> {
        self.isolated(server, caller, principal, None)
    }

    /// A listener for an isolated session of a profile: resources have the URIs that the client used.
    pub fn of_profile(
        &self,
        server: &Arc<Server>,
        caller: &Caller,
        principal: &Principal,
        wanted: Arc<SessionSettings>,
    ) -> Arc<dyn Listener> {
        self.isolated(server, caller, principal, Some(wanted))
    }

    fn isolated(
        &self,
        server: &Arc<Server>,
        caller: &Caller,
        principal: &Principal,
        wanted: Option<Arc<SessionSettings>>,
    ) -> Arc<dyn Listener> {
        Arc::new(Isolated {
            client_sinks: self.clone(),
            server: Arc::clone(server),
            caller: caller.clone(),
            principal: principal.clone(),
            wanted,
        })
    }
}

/// The one client, asked outside of calls.
#[derive(Debug)]
struct Alone {
    client_sinks: ClientSinks,
    caller: Caller,
}

impl Asks for Alone {
    fn ask(&self, server: &ServerName, question: Question) -> Result<(), Question> {
        self.client_sinks.ask(&self.caller, server, question)
    }
}

#[derive(Debug)]
struct Isolated {
    client_sinks: ClientSinks,
    server: Arc<Server>,
    caller: Caller,
    principal: Principal,
    /// What the client wants of this session, on a profile.
    wanted: Option<Arc<SessionSettings>>,
}

impl Isolated {
    /// A notification as the client of a profile hears it, if it does.
    fn of_profile(&self, wanted: &SessionSettings, notice: &Notice) -> Option<String> {
        let frame = &notice.frame;
        match notice.method {
            Method::ResourceUpdated => {
                let used = wanted.used(&frame.text_param("uri")?)?;
                Some(frame.with_param("uri", &message::quote(&used)))
            }
            Method::LogMessage => {
                let is_wanted = wanted.hears(calls::log_level(frame));
                is_wanted.then(|| frame.one_line())
            }
            changed if is_list_change(changed) => {
                let ignored = self.server.config().list_changed == ListChanged::Ignore;
                (!ignored).then(|| message::request(None, changed.name(), None))
            }
            _ => Some(frame.one_line()),
        }
    }
}

impl Listener for Isolated {
    fn hear(&self, notice: Notice) {
        let text = match &self.wanted {
            Some(wanted) => self.of_profile(wanted, &notice),
            None => Some(notice.frame.one_line()),
        };
        if let Some(text) = text {
            self.client_sinks.push(text);
        }
    }

    /// The server can mean only one client.
    fn ask(&self, mut question: Question) {
        let config = self.server.config();
        if config.server_requests == Some(ServerRequests::Reject) {
            return;
        }
        let info = self.caller.client_info.as_deref().unwrap_or("{}");
        let name = message::text_member(info, "name");
        self.server
            .show_question(name.as_deref(), &self.principal, &mut question);
        let asked = self
            .client_sinks
            .ask(&self.caller, &self.server.name, question);
        let Err(mut question) = asked else {
            return;
        };
        question.noted(None);
        if question.method() == Method::RootsList && !config.roots.is_empty() {
            question.result(&questions::roots(&config.roots));
        } else if config.server_requests == Some(ServerRequests::Queue) {
            let cause = Cause {
                principal: self.principal.clone(),
                client: name.map(Into::into),
                name: None,
            };
            self.server.queue(cause, question);
        }
    }
}

/// Whether a notification is one of lists that have changed.
fn is_list_change(method: Method) -> bool {
    matches!(
        method,
        Method::ToolsChanged | Method::PromptsChanged | Method::ResourcesChanged
    )
}
