//! The HTTP/1.1 client, with a pool of connections to one origin. It is on the path of every call.
//!
//! The calling task itself writes the request and reads the answer, on a pooled connection. Connections have
//! no tasks of their own: passing data between tasks costs more than parsing it. `httparse` parses heads, and
//! [`body`] parses bodies.

mod body;
mod connect_error;
mod connection;
mod cookies;
mod error;
mod head;
mod route;
mod tls;
mod upgraded;

use std::{
    io,
    sync::Arc,
    sync::atomic::Ordering,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::Uri;
use mainstay_core::{config::NetworkSettings, proxy::ProxyVariables};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use self::{
    body::{BodyDecoder, Decoded},
    connection::{Connection, HttpOrigin},
    cookies::CookieJar,
    route::ForwardedParts,
};
pub use self::{
    error::{CollectError, Error, UnusableUrl},
    head::{Head, SPEAKS_TLS},
    upgraded::{Switched, Upgraded},
};
use crate::Budget;

/// The time after which an idle connection is dropped. Servers drop idle connections later (Node and uvicorn
/// after 5 s), so few requests are written into a closing connection.
const IDLE_LIMIT: Duration = Duration::from_secs(4);

/// The maximum number of idle connections in the pool.
const MAX_IDLE: usize = 256;

/// The maximum number of responses in [`HttpClient::linger`].
const MAX_LINGERING: usize = 64;

/// A pool of connections to one origin.
#[derive(Debug)]
pub struct HttpClient {
    origin: HttpOrigin,
    pub cookies: CookieJar,
    idle: Mutex<Vec<(Connection, Instant)>>,
    /// Responses whose end has not been read yet; see [`Self::linger`].
    lingering: Mutex<Vec<Response>>,
    /// The span that names the server in events about new connections.
    span: Span,
    /// The time to wait for a reset after the end of a connection.
    reset_wait: Duration,
}

impl HttpClient {
    /// Creates a client that uses no proxy. Events about new connections are in the current span.
    pub fn new(uri: &Uri) -> Result<Arc<Self>, UnusableUrl> {
        Ok(Self::build(uri, direct(uri)?, Duration::ZERO, None))
    }

    /// Creates a client with the `Cookie` header of a configuration. That header and the server's cookies are
    /// sent in one line. `variables` holds the proxies of the environment.
    pub fn with_settings(
        uri: &Uri,
        cookie: Option<String>,
        network: &NetworkSettings,
        variables: &ProxyVariables,
    ) -> Result<Arc<Self>, UnusableUrl> {
        let origin = HttpOrigin::new(uri, network, variables)?;
        Ok(Self::build(uri, origin, Duration::ZERO, cookie))
    }

    /// Creates a client whose errors tell if the server has read a request, when the connection ends without
    /// an answer. [`io::ErrorKind::UnexpectedEof`] means that the server has read it, and
    /// [`io::ErrorKind::ConnectionReset`] that it has not: the operating system resets a connection with
    /// unread data. The reset may arrive a moment after the end.
    pub fn waiting_for_reset(uri: &Uri, reset_wait: Duration) -> Result<Arc<Self>, UnusableUrl> {
        Ok(Self::build(uri, direct(uri)?, reset_wait, None))
    }

    pub fn proxy_words(&self) -> Option<String> {
        self.origin.forwarding_proxy()
    }

    pub fn refuse_private_addresses(&self) {
        self.origin.is_only_public.store(true, Ordering::Relaxed);
    }

    fn build(
        uri: &Uri,
        origin: HttpOrigin,
        reset_wait: Duration,
        cookie: Option<String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            reset_wait,
            origin,
            cookies: CookieJar::new(uri, cookie),
            idle: Mutex::default(),
            lingering: Mutex::default(),
            span: Span::current(),
        })
    }

    /// The value of `Host`.
    pub fn authority(&self) -> &str {
        &self.origin.authority
    }

    /// The parts to add to each request if a proxy forwards the requests.
    pub fn forwarded(&self) -> &ForwardedParts {
        &self.origin.forwarded
    }

    /// Sends a request. `request` holds the bytes of its head and body.
    pub fn send(self: &Arc<Self>, request: Vec<u8>) -> Responding {
        match self.take() {
            Some(connection) => Responding {
                client: Arc::clone(self),
                request,
                phase: Phase::Writing {
                    connection,
                    written: 0,
                },
                may_switch: false,
                keeps_request: false,
            },
            None => self.send_afresh(request),
        }
    }

    /// Sends a request on a new connection.
    pub fn send_afresh(self: &Arc<Self>, request: Vec<u8>) -> Responding {
        let (client, span) = (Arc::clone(self), self.span.clone());
        Responding {
            client: Arc::clone(self),
            request,
            phase: Phase::Connecting(Box::pin(
                async move { client.origin.connect().await }.instrument(span),
            )),
            may_switch: false,
            keeps_request: false,
        }
    }

    /// Sends a request to switch to another protocol (`Connection: upgrade`), on a new connection. If the
    /// server agrees, the caller gets the connection.
    pub async fn upgrade(self: &Arc<Self>, request: Vec<u8>) -> Result<Switched, Error> {
        let mut responding = self.send_afresh(request);
        responding.may_switch = true;
        Ok(Switched::new(responding.await?))
    }

    /// Drops the idle connections, because they may be dead.
    pub fn forget(&self) {
        self.idle.lock().clear();
    }

    fn take(&self) -> Option<Connection> {
        self.collect_lingering();
        let mut idle = self.idle.lock();
        while let Some((connection, since)) = idle.pop() {
            if since.elapsed() >= IDLE_LIMIT {
                // The newest connection is on top, so all others are older.
                idle.clear();
                return None;
            }
            if connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    /// Stores a response until its last piece has arrived. Then its connection is reused.
    pub fn linger(&self, response: Response) {
        let mut lingering = self.lingering.lock();
        if lingering.len() < MAX_LINGERING {
            lingering.push(response);
        }
    }

    /// Returns the connections of completed lingering responses to the pool. Drops connections on which more
    /// data arrives.
    fn collect_lingering(&self) {
        let lingering = std::mem::take(&mut *self.lingering.lock());
        let mut context = Context::from_waker(std::task::Waker::noop());
        for mut response in lingering {
            // No waker is needed: this method runs again before the next connection is opened.
            if response.poll_data(&mut context).is_pending() {
                self.linger(response);
            }
        }
    }

    fn give_back(&self, mut connection: Connection) {
        if self.origin.is_forwarded() {
            return;
        }
        connection.is_fresh = false;
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push((connection, Instant::now()));
        }
    }
}

/// Creates an origin that is reached without a proxy.
fn direct(uri: &Uri) -> Result<HttpOrigin, UnusableUrl> {
    HttpOrigin::new(uri, &NetworkSettings::default(), &ProxyVariables::default())
}

type Ending = std::pin::Pin<Box<dyn Future<Output = io::ErrorKind> + Send + Sync>>;

type Connecting = std::pin::Pin<Box<dyn Future<Output = io::Result<Connection>> + Send + Sync>>;

/// A request in flight. Resolves to the response. No data is lost while the future is not polled.
pub struct Responding {
    client: Arc<HttpClient>,
    request: Vec<u8>,
    phase: Phase,
    /// True if the request asks the server to switch protocols.
    may_switch: bool,
    /// True if the request stays in memory after it is written.
    keeps_request: bool,
}

enum Phase {
    Connecting(Connecting),
    Writing {
        connection: Connection,
        written: usize,
    },
    Reading {
        connection: Connection,
    },
    /// The connection has ended without an answer.
    Ending(Ending),
    Over,
}

impl Responding {
    /// Keeps the request in memory after it is written, so that it can be sent again.
    #[must_use]
    pub fn keep_request(mut self) -> Self {
        self.keeps_request = true;
        self
    }

    /// The bytes of the request, if they were kept, and its client.
    pub fn into_request(self) -> (Arc<HttpClient>, Vec<u8>) {
        (self.client, self.request)
    }

    /// True once the whole request has been handed to the operating system.
    pub fn is_written(&self) -> bool {
        match self.phase {
            Phase::Connecting(_) | Phase::Writing { .. } => false,
            Phase::Reading { .. } | Phase::Ending(_) | Phase::Over => true,
        }
    }

    /// The error of a request of which no byte could be written. Reads the connection first, because a server
    /// that refuses the client's certificate sends an alert before it closes the connection.
    fn unwritten(
        &self,
        connection: &mut Connection,
        error: io::Error,
        context: &mut Context<'_>,
    ) -> Error {
        let refused = match connection.poll_read(context) {
            Poll::Ready(Err(read_error)) => self
                .client
                .origin
                .refused_certificate(connection, &read_error),
            Poll::Ready(Ok(_)) | Poll::Pending => None,
        };
        refused.map_or(Error::NotWritten(error), Error::Connect)
    }
}

impl std::fmt::Debug for Responding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responding").finish_non_exhaustive()
    }
}

impl Future for Responding {
    type Output = Result<Response, Error>;

    fn poll(self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            // The phase is `Over` until an arm sets it again, and stays so after an error.
            match std::mem::replace(&mut this.phase, Phase::Over) {
                Phase::Connecting(mut connecting) => match connecting.as_mut().poll(context) {
                    Poll::Ready(Ok(connection)) => {
                        this.phase = Phase::Writing {
                            connection,
                            written: 0,
                        }
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Error::Connect(error))),
                    Poll::Pending => {
                        this.phase = Phase::Connecting(connecting);
                        return Poll::Pending;
                    }
                },
                Phase::Writing {
                    mut connection,
                    written,
                } if written < this.request.len() => {
                    let polled = connection.poll_write(context, &this.request[written..]);
                    let written = match polled {
                        Poll::Ready(Ok(length)) if length > 0 => written + length,
                        Poll::Ready(Err(error)) if written == 0 => {
                            let error = this.unwritten(&mut connection, error, context);
                            return Poll::Ready(Err(error));
                        }
                        // The server may have answered before it closed the connection. An example is 413 to
                        // a large body.
                        Poll::Ready(_) => this.request.len(),
                        Poll::Pending => {
                            this.phase = Phase::Writing {
                                connection,
                                written,
                            };
                            return Poll::Pending;
                        }
                    };
                    this.phase = Phase::Writing {
                        connection,
                        written,
                    };
                }
                Phase::Writing {
                    mut connection,
                    written,
                } => {
                    if connection.poll_flush(context).is_pending() {
                        this.phase = Phase::Writing {
                            connection,
                            written,
                        };
                        return Poll::Pending;
                    }
                    if !this.keeps_request {
                        this.request = Vec::new();
                    }
                    this.phase = Phase::Reading { connection };
                }
                Phase::Reading { mut connection } => {
                    match head::take(&mut connection.buffer, this.may_switch) {
                        Ok(Some(head)) => {
                            if head.status == 407
                                && let Some(error) = this.client.origin.refused_by_proxy(&head)
                            {
                                return Poll::Ready(Err(Error::Connect(error)));
                            }
                            if head.sets_cookies {
                                this.client.cookies.store(&head);
                            }
                            return Poll::Ready(Response::new(&this.client, connection, head));
                        }
                        Ok(None) => {}
                        Err(reason) => return Poll::Ready(Err(Error::Malformed(reason))),
                    }
                    let polled = connection.poll_read(context);
                    match polled {
                        Poll::Ready(Ok(0)) => {
                            let ending = Box::pin(connection.end(this.client.reset_wait));
                            this.phase = Phase::Ending(ending);
                        }
                        Poll::Ready(Err(error)) => {
                            let refused =
                                this.client.origin.refused_certificate(&connection, &error);
                            let error = refused.map_or(Error::Broken(error), Error::Connect);
                            return Poll::Ready(Err(error));
                        }
                        Poll::Ready(Ok(_)) => this.phase = Phase::Reading { connection },
                        Poll::Pending => {
                            this.phase = Phase::Reading { connection };
                            return Poll::Pending;
                        }
                    }
                }
                Phase::Ending(mut ending) => match ending.as_mut().poll(context) {
                    Poll::Ready(kind) => return Poll::Ready(Err(Error::Broken(kind.into()))),
                    Poll::Pending => {
                        this.phase = Phase::Ending(ending);
                        return Poll::Pending;
                    }
                },
                Phase::Over => return Poll::Pending,
            }
        }
    }
}

/// A response whose head has been read. After the last byte of the body, its connection returns to the pool.
#[derive(Debug)]
pub struct Response {
    pub head: Head,
    client: Arc<HttpClient>,
    connection: Option<Connection>,
    body: BodyDecoder,
    /// The budget of the body, if there is one.
    budget: Option<Budget>,
}

impl Response {
    fn new(client: &Arc<HttpClient>, connection: Connection, head: Head) -> Result<Self, Error> {
        let body = BodyDecoder::new(&head).map_err(Error::Malformed)?;
        Ok(Self {
            head,
            client: Arc::clone(client),
            connection: Some(connection),
            body,
            budget: None,
        })
    }

    /// Counts the bytes of the body in `budget` from now on.
    pub fn set_budget(&mut self, budget: Option<Budget>) {
        self.budget = budget;
    }

    /// The next piece of the body, or `None` at its end. Cancel-safe.
    pub fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            let Some(connection) = &mut self.connection else {
                return Poll::Ready(None);
            };
            match self.body.decode(&mut connection.buffer) {
                Ok(Decoded::Data(data)) => {
                    if let Some(budget) = &self.budget
                        && !budget.take(data.len())
                    {
                        self.connection = None;
                        return Poll::Ready(Some(Err(Error::OverBudget(budget.limit()))));
                    }
                    return Poll::Ready(Some(Ok(data)));
                }
                Ok(Decoded::End) => {
                    if let Some(connection) = self.connection.take()
                        && self.head.keeps_alive
                        && connection.buffer.is_empty()
                    {
                        self.client.give_back(connection);
                    }
                    return Poll::Ready(None);
                }
                Ok(Decoded::NeedsMore) => match ready!(connection.poll_read(context)) {
                    Ok(0) => {
                        self.connection = None;
                        let whole = self.body.ends_with_connection();
                        let cut_off = || Err(Error::Broken(io::ErrorKind::UnexpectedEof.into()));
                        return Poll::Ready((!whole).then(cut_off));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        self.connection = None;
                        return Poll::Ready(Some(Err(Error::Broken(error))));
                    }
                },
                Err(reason) => {
                    self.connection = None;
                    return Poll::Ready(Some(Err(Error::Malformed(reason))));
                }
            }
        }
    }

    pub async fn data(&mut self) -> Option<Result<Bytes, Error>> {
        std::future::poll_fn(|context| self.poll_data(context)).await
    }

    /// Reads the body to its end into `read`, at most `limit` bytes. Cancel-safe.
    pub async fn collect(
        &mut self,
        read: &mut BytesMut,
        limit: usize,
    ) -> Result<Bytes, CollectError> {
        while let Some(data) = self.data().await {
            let data = data?;
            if read.len() + data.len() > limit {
                return Err(CollectError::TooLarge);
            }
            // Most bodies arrive in one piece and are not copied.
            if read.is_empty() && self.is_complete() {
                self.data().await;
                return Ok(data);
            }
            read.extend_from_slice(&data);
        }
        Ok(std::mem::take(read).freeze())
    }

    /// Leaves the rest of the response to the pool, which reads it later.
    pub fn linger(self) {
        let client = Arc::clone(&self.client);
        client.linger(self);
    }

    fn is_complete(&self) -> bool {
        self.connection
            .as_ref()
            .is_none_or(|connection| self.body.is_complete(&connection.buffer))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Starts a server that answers each request with the next item of `answers`, on one connection after the
    /// other. For an item that is `None`, it closes the connection instead.
    async fn server(
        answers: Vec<Option<&'static str>>,
    ) -> (Arc<HttpClient>, tokio::task::JoinHandle<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let uri = format!("http://{}", listener.local_addr().expect("an address"));
        let serving = tokio::spawn(async move {
            let mut connections = 0;
            let mut next_answers = answers.into_iter();
            'accept: loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                connections += 1;
                loop {
                    let mut request = [0; 1024];
                    if stream.read(&mut request).await.unwrap_or(0) == 0 {
                        continue 'accept;
                    }
                    let answer = next_answers.next().expect("an answer");
                    if let Some(answer) = answer {
                        stream.write_all(answer.as_bytes()).await.expect("written");
                    }
                    if next_answers.len() == 0 {
                        return connections;
                    }
                    if answer.is_none() {
                        continue 'accept;
                    }
                }
            }
        });
        (
            HttpClient::new(&uri.parse().expect("a URI")).expect("usable"),
            serving,
        )
    }

    async fn ask(client: &Arc<HttpClient>) -> Result<(u16, Bytes), Error> {
        let mut response = client
            .send(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n".to_vec())
            .await?;
        let body =
            response
                .collect(&mut BytesMut::new(), 1024)
                .await
                .map_err(|error| match error {
                    CollectError::Broken(error) => error,
                    CollectError::TooLarge => Error::Malformed("too large"),
                })?;
        Ok((response.head.status, body))
    }

    #[tokio::test]
    async fn answers_of_every_framing_are_read_and_the_connection_is_used_again() {
        let (client, serving) = server(vec![
            Some("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"),
            Some("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\ntrailer: x\r\n\r\n"),
            Some("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"),
            Some("HTTP/1.1 204 No Content\r\n\r\n"),
        ])
        .await;
        assert_eq!(
            ask(&client).await.expect("answered"),
            (200, Bytes::from("hi"))
        );
        assert_eq!(
            ask(&client).await.expect("answered"),
            (200, Bytes::from("hello"))
        );
        assert_eq!(ask(&client).await.expect("answered"), (202, Bytes::new()));
        assert_eq!(ask(&client).await.expect("answered"), (204, Bytes::new()));
        assert_eq!(serving.await.expect("served"), 1);
    }

    #[tokio::test]
    async fn a_connection_that_closes_without_an_answer_is_a_broken_call() {
        let (client, _serving) = server(vec![
            None,
            Some("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"),
            None,
        ])
        .await;
        assert!(matches!(ask(&client).await, Err(Error::Broken(_))));
        assert_eq!(
            ask(&client).await.expect("answered on a new connection").0,
            200
        );
    }

    /// A client with a request that was written on a new connection, and the server's end of that connection.
    async fn written(reset_wait: Duration) -> (Responding, tokio::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let uri = format!("http://{}", listener.local_addr().expect("an address"));
        let client = HttpClient::waiting_for_reset(&uri.parse().expect("a URI"), reset_wait);
        let request = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi".to_vec();
        let mut responding = client.expect("usable").send(request);
        let writing = std::future::poll_fn(|context| {
            let polled = std::pin::Pin::new(&mut responding).poll(context);
            assert!(polled.is_pending(), "{polled:?}");
            if responding.is_written() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        let ((), accepted) = tokio::join!(writing, listener.accept());
        (responding, accepted.expect("a connection").0)
    }

    /// Polls a request until the client has read the end of its connection.
    async fn end_read(responding: &mut Responding) {
        std::future::poll_fn(|context| {
            let polled = std::pin::Pin::new(&mut *responding).poll(context);
            assert!(polled.is_pending(), "{polled:?}");
            if matches!(responding.phase, Phase::Ending(_)) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    fn broken(answer: Result<Response, Error>) -> io::ErrorKind {
        match answer {
            Err(Error::Broken(error)) => error.kind(),
            other => panic!("{other:?}"),
        }
    }

    const PATIENT: Duration = Duration::from_mins(1);

    /// The server shuts down its writing side while the request arrives, and closes the connection a moment
    /// later.
    #[tokio::test]
    async fn a_request_that_was_not_read_is_known_by_the_reset_after_the_end() {
        for read in [0, 1, 20] {
            let (mut responding, mut server) = written(PATIENT).await;
            server.readable().await.expect("the request");
            let mut piece = vec![0; read];
            server.read_exact(&mut piece).await.expect("a piece");
            server.shutdown().await.expect("ended");
            end_read(&mut responding).await;
            drop(server);
            assert_eq!(broken(responding.await), io::ErrorKind::ConnectionReset);
        }
    }

    #[tokio::test]
    async fn a_request_that_was_not_read_is_known_by_the_reset_alone() {
        let (responding, server) = written(PATIENT).await;
        server.readable().await.expect("the request");
        drop(server);
        assert_eq!(broken(responding.await), io::ErrorKind::ConnectionReset);
    }

    /// No reset follows, however long the client waits.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_read_is_not_taken_for_one_that_was_not() {
        for ends_first in [true, false] {
            let (mut responding, mut server) = written(PATIENT).await;
            let mut request = Vec::new();
            while !request.ends_with(b"hi") {
                server.read_buf(&mut request).await.expect("read");
            }
            if ends_first {
                server.shutdown().await.expect("ended");
                end_read(&mut responding).await;
            }
            drop(server);
            let since = Instant::now();
            assert_eq!(broken(responding.await), io::ErrorKind::UnexpectedEof);
            assert!(since.elapsed() >= PATIENT);
        }
    }

    #[tokio::test]
    async fn nobody_listening_is_a_failed_connect() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let uri = format!("http://{}", listener.local_addr().expect("an address"));
        drop(listener);
        let client = HttpClient::new(&uri.parse().expect("a URI")).expect("usable");
        assert!(matches!(ask(&client).await, Err(Error::Connect(_))));
    }
}
