//! Forwards messages that belong to no call from an isolated session to its client.

use std::sync::Arc;

use mainstay_core::{
    config::{ListChanged, ServerRequests},
    era::{Caller, questions},
    ids::ServerName,
    message::{self, Method},
    principal::Principal,
};
use mainstay_gateway::{
    calls::{self, BoundNames, ClientQuestions},
    supervisor::{Asks, Cause, ServerHandle, SessionSettings},
};
use mainstay_transport::{Listener, Notice, ServerQuestion};

use super::outbox::Outbox;

/// The queues of a client for messages that belong to no call. Clones share them.
#[derive(Clone, Debug)]
pub struct ClientSinks {
    pub outbox: Arc<Outbox>,
    pub questions: Arc<ClientQuestions>,
    /// See `CallClient::bound`.
    pub bound: Option<BoundNames>,
}

impl Default for ClientSinks {
    fn default() -> Self {
        let outbox = Arc::<Outbox>::default();
        let notices = Arc::clone(&outbox);
        Self {
            outbox,
            questions: Arc::new(ClientQuestions::with_notices(notices)),
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
    /// Queues a message of a server. Sealed names replace the server's ids.
    fn push(&self, message: String) {
        let message = match &self.bound {
            Some(bound) => bound.message(message),
            None => message,
        };
        self.outbox.push(message);
    }

    /// A handler for questions in the shared sessions of all servers, for the client on stdio.
    pub fn sole_client(&self, caller: &Caller) -> Arc<dyn Asks> {
        Arc::new(SoleClient {
            client_sinks: self.clone(),
            caller: caller.clone(),
        })
    }

    /// Sends a question to the client. Returns the question if the client does not accept it.
    fn ask(
        &self,
        caller: &Caller,
        server: &ServerName,
        question: ServerQuestion,
    ) -> Result<(), ServerQuestion> {
        let params = question.frame().params().unwrap_or("{}");
        if !caller.accepts(question.method(), params) {
            return Err(question);
        }
        let request = self.questions.enter(server, question)?;
        self.push(request);
        Ok(())
    }

    /// A listener for an isolated session on a transparent endpoint. It forwards messages
    /// unchanged.
    pub fn server_listener(
        &self,
        server: &Arc<ServerHandle>,
        caller: &Caller,
        principal: &Principal,
    ) -> Arc<dyn Listener> {
        self.isolated(server, caller, principal, None)
    }

    /// A listener for an isolated session on a profile. It replaces each resource URI by the one
    /// that the client used.
    pub fn profile_listener(
        &self,
        server: &Arc<ServerHandle>,
        caller: &Caller,
        principal: &Principal,
        settings: Arc<SessionSettings>,
    ) -> Arc<dyn Listener> {
        self.isolated(server, caller, principal, Some(settings))
    }

    fn isolated(
        &self,
        server: &Arc<ServerHandle>,
        caller: &Caller,
        principal: &Principal,
        settings: Option<Arc<SessionSettings>>,
    ) -> Arc<dyn Listener> {
        Arc::new(Isolated {
            client_sinks: self.clone(),
            server: Arc::clone(server),
            caller: caller.clone(),
            principal: principal.clone(),
            settings,
        })
    }
}

/// The client on stdio of `mainstay mcp`. It gets questions that belong to no call.
#[derive(Debug)]
struct SoleClient {
    client_sinks: ClientSinks,
    caller: Caller,
}

impl Asks for SoleClient {
    fn ask(&self, server: &ServerName, question: ServerQuestion) -> Result<(), ServerQuestion> {
        self.client_sinks.ask(&self.caller, server, question)
    }
}

#[derive(Debug)]
struct Isolated {
    client_sinks: ClientSinks,
    server: Arc<ServerHandle>,
    caller: Caller,
    principal: Principal,
    /// The client's settings for this session; `None` on a transparent endpoint.
    settings: Option<Arc<SessionSettings>>,
}

impl Isolated {
    /// Translates a notification for a client of a profile; `None` if the client should not get it.
    fn profile_message(&self, settings: &SessionSettings, notice: &Notice) -> Option<String> {
        let frame = &notice.frame;
        match notice.method {
            Method::ResourceUpdated => {
                let client_uri = settings.client_uri(&frame.text_param("uri")?)?;
                Some(frame.with_param("uri", &message::quote(&client_uri)))
            }
            Method::LogMessage => {
                let is_requested = settings.accepts_level(calls::log_level(frame));
                is_requested.then(|| frame.one_line())
            }
            changed if is_list_change(changed) => {
                let is_ignored = self.server.config().list_changed == ListChanged::Ignore;
                (!is_ignored).then(|| message::request(None, changed.name(), None))
            }
            _ => Some(frame.one_line()),
        }
    }
}

impl Listener for Isolated {
    fn take_notice(&self, notice: Notice) {
        let text = match &self.settings {
            Some(settings) => self.profile_message(settings, &notice),
            None => Some(notice.frame.one_line()),
        };
        if let Some(text) = text {
            self.client_sinks.push(text);
        }
    }

    /// Sends the question to the only client of this session.
    fn ask(&self, mut question: ServerQuestion) {
        let config = self.server.config();
        if config.server_requests == Some(ServerRequests::Reject) {
            return;
        }
        let info = self.caller.client_info.as_deref().unwrap_or("{}");
        let name = message::text_member(info, "name");
        self.server
            .show_question(name.as_deref(), &self.principal, &mut question);
        let ask_result = self
            .client_sinks
            .ask(&self.caller, &self.server.name, question);
        let Err(mut question) = ask_result else {
            return;
        };
        question.set_note(None);
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

/// True for a notification that a list has changed.
fn is_list_change(method: Method) -> bool {
    matches!(
        method,
        Method::ToolsChanged | Method::PromptsChanged | Method::ResourcesChanged
    )
}
