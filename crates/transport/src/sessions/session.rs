//! One upstream session: the result of its handshake, and a way to send.

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
    exchanges::link::Link,
    http::http_client::MAX_REDIRECTS,
    sessions::listening::{Declined, Listening},
    streamable::get_stream::StreamState,
};

/// A live connection after its handshake. All callers share it. It outlives its connection, and then
/// says so ([`Session::is_over`]).
#[derive(Debug)]
pub struct Session {
    pub greeting: Greeting,
    /// The server's whole answer to `initialize` or `server/discover`.
    pub initialize_answer: Frame,
    /// What its opening told of the eras that the server speaks.
    pub eras: Eras,
    /// An attempt with `server/discover` failed, and the next one without it opened this session.
    pub avoids_probe: bool,
    /// The server has refused `server/discover` on the connection of this session.
    pub is_probed: bool,
    /// The process, for a stdio server.
    pub pid: Option<u32>,
    pub liveness: Arc<Liveness>,
    pub(crate) server: ServerName,
    pub(crate) link: Link,
    /// What a modern server is asked to tell of.
    pub(crate) listening: Option<Arc<Listening>>,
}

/// The params that name a resource.
fn of(uri: &str) -> String {
    format!(r#"{{"uri":{}}}"#, message::quote(uri))
}

impl Session {
    /// The transport in use: `stdio`, `http` or `sse`.
    pub fn transport(&self) -> &'static str {
        self.link.transport()
    }

    /// Sends the call that `render` writes for the id (JSON text) given to it. The server may be at
    /// work on it until `deadline`, and may ask its client. `work` is what a crash may come of.
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

    /// Sends a client's `subscriptions/listen`, like a call; as long as it lasts, it shows nothing of
    /// the server's being at work.
    pub async fn listen(
        &self,
        asker: Asker,
        render: impl FnOnce(&str) -> String,
    ) -> Result<Exchange, Interruption> {
        self.link.start(asker, || None, render).await
    }

    /// A request of our own.
    pub async fn ask(&self, method: Method, params: Option<&str>) -> Result<Frame, Interruption> {
        self.answer(method, params, None).await
    }

    /// Asks, and reads no more of the answer than the budget allows.
    pub async fn ask_within(
        &self,
        method: Method,
        params: Option<&str>,
        budget: &Budget,
    ) -> Result<Frame, Interruption> {
        self.answer(method, params, Some(budget)).await
    }

    /// The answer to a request of our own, which is sent again where the server redirects it.
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
                Err(why) if why.is_redirect() && redirects < MAX_REDIRECTS => redirects += 1,
                answer => return answer,
            }
        }
    }

    /// Sends a request of our own.
    pub async fn start(
        &self,
        method: Method,
        params: Option<&str>,
    ) -> Result<Exchange, Interruption> {
        let render = |id: &str| own_request(self.era(), id, method, params);
        self.link.ask(method, render).await
    }

    /// The question that every server of this era must answer.
    pub fn probe(&self) -> Method {
        match self.era() {
            Era::Legacy => Method::Ping,
            Era::Modern => Method::Discover,
        }
    }

    /// Asks over a connection of its own, if the transport has more than one: a server may live behind
    /// a connection that does not. After an answer, the others are not used again.
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

    /// Has the server tell when this resource changes: by a request of its own, or in the kept
    /// `subscriptions/listen`.
    pub async fn subscribe(&self, uri: &str) -> Result<(), Declined> {
        match &self.listening {
            None => self.settle(Method::ResourcesSubscribe, &of(uri)).await,
            Some(listening) => listening.add(uri).await,
        }
    }

    pub async fn unsubscribe(&self, uri: &str) -> Result<(), Declined> {
        match &self.listening {
            None => self.settle(Method::ResourcesUnsubscribe, &of(uri)).await,
            Some(listening) => {
                listening.remove(uri);
                Ok(())
            }
        }
    }

    /// Asks a legacy server for log messages from this level on.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), Declined> {
        let params = format!(r#"{{"level":"{}"}}"#, level.as_str());
        self.settle(Method::SetLevel, &params).await
    }

    /// A request of our own whose result says nothing.
    async fn settle(&self, method: Method, params: &str) -> Result<(), Declined> {
        let answer = self.ask(method, Some(params)).await?;
        match answer.error() {
            Some(error) => Err(Declined::Refused(error.to_owned())),
            None => Ok(()),
        }
    }

    pub fn era(&self) -> Era {
        self.greeting.revision.era()
    }

    /// Whether the stream is open on which the server tells of changes. `None` where every connection has one, or
    /// the server has nothing to tell.
    pub fn stream_state(&self) -> Option<StreamState> {
        match &self.listening {
            Some(listening) => listening.state(),
            None => self.link.stream_state(),
        }
    }

    /// Whether a session of the other era can stand beside it: it is none that the server knows of.
    pub fn is_stateless(&self) -> bool {
        self.link.is_stateless()
    }

    /// Whether it takes a log level for all that follows; modern servers hear it with each request.
    pub fn takes_log_level(&self) -> bool {
        self.era() == Era::Legacy && self.greeting.capabilities.logging
    }

    /// Sends a client's notification, as JSON text on one line. What belongs to a session means nothing
    /// to a modern server.
    pub async fn notify(&self, text: String) {
        let name = message::text_member(&text, "method").map(|name| Method::of(&name));
        let of_sessions = matches!(
            name,
            Some(Method::Initialized | Method::RootsChanged | Method::Cancelled)
        );
        if !(of_sessions && self.era() == Era::Modern) {
            self.link.send(&self.server, text).await;
        }
    }

    /// Gives a request up: the server is told, and a late answer is dropped.
    pub async fn cancel(&self, exchange: Exchange, reason: &str) {
        self.link.cancel(&self.server, exchange, reason).await;
    }

    /// Says that the handshake is complete.
    pub(crate) async fn initialized(&self) {
        let text = message::request(None, Method::Initialized.name(), None);
        self.link.send(&self.server, text).await;
    }

    /// The calls in flight when the server's process ended, the latest first: those of which a byte was
    /// written. Given out once. Over HTTP a crash cannot be told from a lost connection.
    pub fn take_lost(&self) -> Vec<PossibleSuspect> {
        self.link.take_lost()
    }

    pub fn is_over(&self) -> bool {
        self.link.is_over()
    }
}
