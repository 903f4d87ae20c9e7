//! One upstream session: the result of its handshake, and its link.

use std::sync::Arc;

use mainstay_core::{
    era::{Era, Eras, Greeting, LogLevel},
    ids::ServerName,
    message::{self, Method},
};
use tokio::time::Instant;

use crate::{
    Asker, Budget, Exchange, Frame, Interruption, Liveness, PossibleSuspect,
    detect::own_request,
    exchanges::link::UpstreamLink,
    http::http_client::MAX_REDIRECTS,
    sessions::listening::{Declined, Listening},
    streamable::get_stream::StreamState,
};

/// An open connection after its handshake, which all callers share. The value outlives the connection; see
/// [`UpstreamSession::is_over`].
#[derive(Debug)]
pub struct UpstreamSession {
    pub greeting: Greeting,
    /// The server's whole answer to `initialize` or `server/discover`.
    pub initialize_answer: Frame,
    /// The eras that the server speaks, as far as the handshake showed them.
    pub eras: Eras,
    /// True if an attempt with `server/discover` failed, and this session was opened without it.
    pub avoids_probe: bool,
    /// True if the server has refused `server/discover` on the connection of this session.
    pub is_probed: bool,
    /// The id of the process, for a stdio server.
    pub pid: Option<u32>,
    pub liveness: Arc<Liveness>,
    pub(crate) server: ServerName,
    pub(crate) link: UpstreamLink,
    /// The subscription of a modern session.
    pub(crate) listening: Option<Arc<Listening>>,
}

/// The params that name a resource, as JSON text.
fn resource_params(uri: &str) -> String {
    format!(r#"{{"uri":{}}}"#, message::quote(uri))
}

impl UpstreamSession {
    /// The transport in use: `stdio`, `http` or `sse`.
    pub fn transport(&self) -> &'static str {
        self.link.transport()
    }

    /// Sends a call. `render` gets the id (JSON text) of the call and returns its text. The server may work
    /// on the call until `deadline`, and may ask its client questions. `work` describes the call in case the
    /// call crashes the server.
    pub async fn call(
        &self,
        asker: Asker,
        deadline: Instant,
        work: impl FnOnce() -> Option<PossibleSuspect>,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        let in_flight = self.liveness.call(deadline);
        let mut exchange = self.link.start(asker, work, render).await?;
        exchange.in_flight = Some(in_flight);
        Ok(exchange)
    }

    /// Sends a client's `subscriptions/listen`. Unlike a call, it does not count as work that keeps the
    /// server busy.
    pub async fn listen(
        &self,
        asker: Asker,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        self.link.start(asker, || None, render).await
    }

    /// Sends a request of Mainstay's own, and returns the answer.
    pub async fn ask(&self, method: Method, params: Option<&str>) -> Result<Frame, Interruption> {
        self.answer(method, params, None).await
    }

    /// Like [`Self::ask`], but reads no more of the answer than `budget` allows.
    pub async fn ask_within(
        &self,
        method: Method,
        params: Option<&str>,
        budget: &Budget,
    ) -> Result<Frame, Interruption> {
        self.answer(method, params, Some(budget)).await
    }

    /// Sends a request of Mainstay's own, and sends it again after each redirect. Returns the answer.
    async fn answer(
        &self,
        method: Method,
        params: Option<&str>,
        budget: Option<&Budget>,
    ) -> Result<Frame, Interruption> {
        let mut redirects = 0;
        loop {
            let mut exchange = self.start(method, params).await?;
            let answer = match budget {
                Some(budget) => exchange.answer_within(budget).await,
                None => exchange.response().await,
            };
            match answer {
                Err(interruption) if interruption.is_redirect() && redirects < MAX_REDIRECTS => {
                    redirects += 1
                }
                answer => return answer,
            }
        }
    }

    /// Sends a request of Mainstay's own.
    pub async fn start(
        &self,
        method: Method,
        params: Option<&str>,
    ) -> Result<Exchange, Interruption> {
        let render = |id: &str| own_request(self.era(), id, method, params);
        self.link.ask(method, render).await
    }

    /// The method that every server of this era must answer.
    pub fn probe(&self) -> Method {
        match self.era() {
            Era::Legacy => Method::Ping,
            Era::Modern => Method::Discover,
        }
    }

    /// Sends a request on a new connection, because the server may be alive although the present connection
    /// is not. After an answer, the older connections are not used again. `None` if the transport has only
    /// one connection.
    pub async fn ask_afresh(&self, method: Method) -> Option<Result<Frame, Interruption>> {
        let render = |id: &str| own_request(self.era(), id, method, None);
        let answer = match self.link.start_afresh(render)? {
            Ok(exchange) => exchange.response().await,
            Err(interruption) => Err(interruption),
        };
        if answer.is_ok() {
            self.link.forget_connections();
        }
        Some(answer)
    }

    /// Subscribes to a resource: by `resources/subscribe`, or in the `subscriptions/listen` of a modern
    /// session.
    pub async fn subscribe(&self, uri: &str) -> Result<(), Declined> {
        match &self.listening {
            None => {
                self.ask_without_result(Method::ResourcesSubscribe, &resource_params(uri))
                    .await
            }
            Some(listening) => listening.add(uri).await,
        }
    }

    pub async fn unsubscribe(&self, uri: &str) -> Result<(), Declined> {
        match &self.listening {
            None => {
                self.ask_without_result(Method::ResourcesUnsubscribe, &resource_params(uri))
                    .await
            }
            Some(listening) => {
                listening.remove(uri);
                Ok(())
            }
        }
    }

    /// Asks a legacy server for log messages from this level on.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), Declined> {
        let params = format!(r#"{{"level":"{}"}}"#, level.as_str());
        self.ask_without_result(Method::SetLevel, &params).await
    }

    /// Sends a request of Mainstay's own whose result has no content.
    async fn ask_without_result(&self, method: Method, params: &str) -> Result<(), Declined> {
        let answer = self.ask(method, Some(params)).await?;
        match answer.error() {
            Some(error) => Err(Declined::Refused(error.to_owned())),
            None => Ok(()),
        }
    }

    pub fn era(&self) -> Era {
        self.greeting.revision.era()
    }

    /// The state of the stream on which the server announces changes. `None` if the transport needs no such
    /// stream, or if the server announces no changes.
    pub fn stream_state(&self) -> Option<StreamState> {
        match &self.listening {
            Some(listening) => listening.state(),
            None => self.link.stream_state(),
        }
    }

    /// True if the server has no sessions (2026-07-28). A legacy session with it can then be open at the same
    /// time.
    pub fn is_stateless(&self) -> bool {
        self.link.is_stateless()
    }

    /// True if the log level is set for the whole session. Modern servers get the level with each request.
    pub fn takes_log_level(&self) -> bool {
        self.era() == Era::Legacy && self.greeting.capabilities.logging
    }

    /// Sends a client's notification (JSON text on one line). Notifications about sessions are not sent to
    /// modern servers.
    pub async fn notify(&self, text: String) {
        let name = message::text_member(&text, "method").map(|name| Method::from_name(&name));
        let is_about_session = matches!(
            name,
            Some(Method::Initialized | Method::RootsChanged | Method::Cancelled)
        );
        if !(is_about_session && self.era() == Era::Modern) {
            self.link.send(&self.server, text).await;
        }
    }

    /// Abandons a request. The server gets a cancellation, and a late answer is dropped.
    pub async fn cancel(&self, exchange: Exchange, reason: &str) {
        self.link.cancel(&self.server, exchange, reason).await;
    }

    /// Sends `notifications/initialized`.
    pub(crate) async fn send_initialized(&self) {
        let text = message::request(None, Method::Initialized.name(), None);
        self.link.send(&self.server, text).await;
    }

    /// The calls that were in flight when the server's process ended, the latest first. Calls of which no
    /// byte was written are left out. Only the first call of this method returns them. Empty over HTTP, where
    /// a crash looks like a lost connection.
    pub fn take_lost(&self) -> Vec<PossibleSuspect> {
        self.link.take_lost()
    }

    pub fn is_over(&self) -> bool {
        self.link.is_over()
    }
}
