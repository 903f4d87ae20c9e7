//! A client of a daemon's REST API over plain HTTP. Each request opens its own connection.

use std::{
    error::Error,
    io,
    path::PathBuf,
    pin::{Pin, pin},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::Fuse};
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mainstay_core::config::Secret;
use mainstay_platform::dial;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::{
    ABOUT, ACCESS, APPROVE, About, AccessExplanation, AccessOverview, AddToken, AddedToken, Answer,
    Approval, BeginLogin, BegunLogin, CALL, CALL_RECORD, CALL_RECORDS, CONFIG_HISTORY,
    CONFIG_VERSION, Call, CallRecords, Cleared, ClientTokens, ConfigHistory, ConfigUndone,
    ConfigVersionText, EXPLAIN_ACCESS, FIGURES, Figures, GET_PROMPT, GetPrompt, HAND_OVER, HEALTH,
    HISTORY, HandOver, HandedOver, HealthReport, History, Keeping, LOGIN, LOGIN_ANSWER, LOGINS,
    LOGS, LoggedOut, Login, LoginAnswer, Logins, Logs, OBJECT, OPERATE, Operated, PROMPTS, Prompts,
    READ_WHOLE, RELOAD, REPLY, RESOURCES, ROTATE, Raw, Read, Reload, Reloaded, Removed,
    RemovedToken, Replied, Reply, Resources, RotatedToken, SERVER, SERVER_HISTORY, SERVER_REQUESTS,
    SERVERS, SESSION_LINKS, SESSIONS, STATISTICS, SWITCH, SWITCHES, ServerDetails, ServerRequests,
    Servers, Sessions, SetSwitch, SignInLink, Statistics, Switched, Switches, TEMPLATES, TOKEN,
    TOKENS, TOOLS, Templates, Tools, UNDO_CONFIG, USER_AGENT, UndoConfig, WholeCallRecord,
    WholeRead,
};

pub(super) type Sender = http1::SendRequest<Full<Bytes>>;

/// An HTTP connection. It makes progress only while it is polled.
pub(super) type Connection = Pin<Box<Fuse<http1::Connection<TokioIo<TcpStream>, Full<Bytes>>>>>;

/// Time limit for opening a connection to the daemon. Answers have no limit here, because the
/// daemon limits the time of a call.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The REST client of one daemon, with the token for its API.
#[derive(Clone, Debug)]
pub struct Client {
    url: String,
    authority: String,
    /// Absent for a daemon that needs no token.
    token: Option<Secret>,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{url:?} is not a daemon's URL: {reason}")]
    BadUrl { url: String, reason: &'static str },
    #[error("no daemon is running (state directory {})", dir.display())]
    NotRunning { dir: PathBuf },
    #[error("cannot reach the daemon at {url}")]
    Unreachable {
        url: String,
        source: Box<dyn Error + Send + Sync>,
    },
    /// A request that changes something was sent, and its answer was lost.
    #[error(
        "the connection to the daemon at {url} was lost before the answer; it may or may not have run"
    )]
    Lost {
        url: String,
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("the daemon at {url} {}", if *had_token { "refuses the token" } else { "needs a token" })]
    Unauthorized { url: String, had_token: bool },
    /// The daemon refused the request. `body` is its answer.
    #[error("{}", refusal_message(body))]
    Refused {
        status: StatusCode,
        body: Map<String, Value>,
    },
    #[error("what answers at {url} is not this version of Mainstay (status {status})")]
    Foreign { url: String, status: StatusCode },
}

/// Names a login to a server: Mainstay's own, or that of a client.
#[derive(Clone, Copy, Debug)]
pub struct LoginName<'n> {
    pub server: &'n str,
    pub client: Option<&'n str>,
}

impl LoginName<'_> {
    fn path(self, route: &str) -> String {
        let path = route.replace("{name}", &escaped(self.server));
        match self.client {
            Some(client) => format!("{path}?client={}", escaped(client)),
            None => path,
        }
    }
}

/// Percent-encodes a name for a URL. Letters, digits, `-`, `_` and `.` stay.
fn escaped(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// A path with a query. Values are percent-encoded.
fn path_with_query(path: &str, query: &[(&str, String)]) -> String {
    let parameters: Vec<String> = query
        .iter()
        .map(|(name, value)| format!("{name}={}", escaped(value)))
        .collect();
    format!("{path}?{}", parameters.join("&"))
}

fn refusal_message(body: &Map<String, Value>) -> String {
    let message = body
        .get("message")
        .or_else(|| body.get("error"))
        .and_then(Value::as_str);
    message.unwrap_or("the daemon refused").to_owned()
}

impl ClientError {
    /// The error code for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::BadUrl { .. } => "invalid_arguments",
            Self::NotRunning { .. } | Self::Unreachable { .. } => "unreachable",
            Self::Lost { .. } => "outcome_unknown",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Refused { body, .. } => body
                .get("error")
                .and_then(Value::as_str)
                .unwrap_or("refused"),
            Self::Foreign { .. } => "unexpected_answer",
        }
    }

    /// The body of a refusal by the daemon.
    pub fn body(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Refused { body, .. } => Some(body),
            _ => None,
        }
    }
}

impl Client {
    pub fn new(url: &str, token: Option<Secret>) -> Result<Self, ClientError> {
        let bad = |reason| ClientError::BadUrl {
            url: url.to_owned(),
            reason,
        };
        let uri: Uri = url.parse().map_err(|_| bad("it cannot be parsed"))?;
        if uri.scheme_str() == Some("https") {
            let reason =
                "commands reach a daemon with TLS from its own machine alone, without a URL";
            return Err(bad(reason));
        }
        if uri.scheme_str() != Some("http") {
            return Err(bad("it begins with http://"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(bad("it ends with the port"));
        }
        let authority = uri
            .authority()
            .ok_or_else(|| bad("the host is missing"))?
            .as_str();
        if authority.contains('@') {
            return Err(bad("the token goes into MAINSTAY_TOKEN"));
        }
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            authority: authority.to_owned(),
            token,
        })
    }

    pub async fn servers(&self) -> Result<Servers, ClientError> {
        self.get(SERVERS).await
    }

    pub async fn about(&self) -> Result<About, ClientError> {
        self.get(ABOUT).await
    }

    /// Calls of each server in the last minute, and the memory of its processes.
    pub async fn figures(&self) -> Result<Figures, ClientError> {
        self.get(FIGURES).await
    }

    /// Probes one server, or all servers.
    pub async fn health(&self, server: Option<&str>) -> Result<HealthReport, ClientError> {
        let query = server.map(|server| format!("?server={}", escaped(server)));
        self.get(&format!("{HEALTH}{}", query.unwrap_or_default()))
            .await
    }

    /// `start`, `stop`, `restart` or `reconnect`.
    pub async fn operate(&self, server: &str, operation: &str) -> Result<Operated, ClientError> {
        let path = OPERATE
            .replace("{name}", &escaped(server))
            .replace("{operation}", operation);
        self.post(&path, &Map::new()).await
    }

    /// Adds a server. `body` has its name, its entry and the members of
    /// [`Keeping`](super::Keeping).
    pub async fn add(&self, body: &Map<String, Value>) -> Result<Operated, ClientError> {
        self.post(SERVERS, body).await
    }

    pub async fn server(&self, name: &str) -> Result<ServerDetails, ClientError> {
        self.get(&SERVER.replace("{name}", &escaped(name))).await
    }

    pub async fn remove(&self, name: &str, persist: bool) -> Result<Removed, ClientError> {
        let path = SERVER.replace("{name}", &escaped(name));
        let path = format!("{path}?persist={persist}");
        self.ask(Method::DELETE, &path, Bytes::new()).await
    }

    /// `enable` or `disable`.
    pub async fn switch(
        &self,
        server: &str,
        switch: &str,
        keeping: Keeping,
    ) -> Result<Operated, ClientError> {
        let path = OPERATE
            .replace("{name}", &escaped(server))
            .replace("{operation}", switch);
        self.post(&path, &keeping).await
    }

    /// Approves a pending server as it was displayed.
    pub async fn approve(
        &self,
        server: &str,
        approval: &Approval,
    ) -> Result<Operated, ClientError> {
        let path = APPROVE.replace("{name}", &escaped(server));
        self.post(&path, approval).await
    }

    pub async fn logins(&self) -> Result<Logins, ClientError> {
        self.get(LOGINS).await
    }

    pub async fn login(&self, login: LoginName<'_>) -> Result<Login, ClientError> {
        self.get(&login.path(LOGIN)).await
    }

    pub async fn begin_login(
        &self,
        login: LoginName<'_>,
        request: &BeginLogin,
    ) -> Result<BegunLogin, ClientError> {
        self.post(&login.path(LOGIN), request).await
    }

    /// Completes a login with the address at which the browser arrived.
    pub async fn answer_login(
        &self,
        login: LoginName<'_>,
        address: &str,
    ) -> Result<Login, ClientError> {
        let answer = LoginAnswer {
            address: Some(address.to_owned()),
        };
        self.post(&login.path(LOGIN_ANSWER), &answer).await
    }

    pub async fn log_out(&self, login: LoginName<'_>) -> Result<LoggedOut, ClientError> {
        let path = login.path(LOGIN);
        self.ask(Method::DELETE, &path, Bytes::new()).await
    }

    /// The last lines of a server's log.
    pub async fn logs(&self, server: &str, tail: usize) -> Result<Logs, ClientError> {
        let path = LOGS.replace("{name}", server);
        self.get(&format!("{path}?tail={tail}")).await
    }

    /// Makes the daemon read its configuration again. A dry run only compares it.
    pub async fn reload(&self, dry_run: bool) -> Result<Reloaded, ClientError> {
        self.post(RELOAD, &Reload { dry_run }).await
    }

    /// The versions of the configuration's file.
    pub async fn config_history(&self) -> Result<ConfigHistory, ClientError> {
        self.get(CONFIG_HISTORY).await
    }

    pub async fn config_version(&self, version: u64) -> Result<ConfigVersionText, ClientError> {
        let path = CONFIG_VERSION.replace("{version}", &version.to_string());
        self.get(&path).await
    }

    pub async fn undo_config(&self, undo: UndoConfig) -> Result<ConfigUndone, ClientError> {
        self.post(UNDO_CONFIG, &undo).await
    }

    /// Asks a `mainstay mcp` to hand over the state directory.
    pub async fn hand_over(&self, config: Option<String>) -> Result<HandedOver, ClientError> {
        self.post(HAND_OVER, &HandOver { config }).await
    }

    /// The records that match the query, which consists of names and values of parameters.
    pub async fn call_records(&self, query: &[(&str, String)]) -> Result<CallRecords, ClientError> {
        self.get(&path_with_query(CALL_RECORDS, query)).await
    }

    pub async fn call_record(&self, id: &str) -> Result<WholeCallRecord, ClientError> {
        self.get(&CALL_RECORD.replace("{id}", &escaped(id))).await
    }

    /// Arguments or a result, by its content identifier.
    pub async fn object(&self, cid: &str) -> Result<Raw, ClientError> {
        self.get(&OBJECT.replace("{cid}", &escaped(cid))).await
    }

    /// The history of one server, or of all servers. The query selects the period.
    pub async fn history(
        &self,
        server: Option<&str>,
        query: &[(&str, String)],
    ) -> Result<History, ClientError> {
        let path = match server {
            Some(server) => SERVER_HISTORY.replace("{name}", &escaped(server)),
            None => HISTORY.to_owned(),
        };
        self.get(&path_with_query(&path, query)).await
    }

    /// Statistics for each tool of the calls that match the query.
    pub async fn statistics(&self, query: &[(&str, String)]) -> Result<Statistics, ClientError> {
        self.get(&path_with_query(STATISTICS, query)).await
    }

    /// The sessions of clients, newest first.
    pub async fn sessions(&self) -> Result<Sessions, ClientError> {
        self.get(SESSIONS).await
    }

    /// The rules of access, and what each client may use.
    pub async fn access(&self) -> Result<AccessOverview, ClientError> {
        self.get(ACCESS).await
    }

    /// The decision about a server or one of its items. `query` has the names of the parameters.
    pub async fn explain_access(
        &self,
        query: &[(&str, &str)],
    ) -> Result<AccessExplanation, ClientError> {
        let pairs = query.iter();
        let pairs: Vec<_> = pairs
            .map(|(name, value)| format!("{name}={}", escaped(value)))
            .collect();
        self.get(&format!("{EXPLAIN_ACCESS}?{}", pairs.join("&")))
            .await
    }

    /// The servers and tools that are switched off, by client.
    pub async fn switches(&self) -> Result<Switches, ClientError> {
        self.get(SWITCHES).await
    }

    pub async fn set_switch(&self, client: &str, set: &SetSwitch) -> Result<Switched, ClientError> {
        let path = SWITCH.replace("{client}", &escaped(client));
        self.send(Method::PUT, &path, set).await
    }

    /// Switches every server and tool on, for one client or for all clients.
    pub async fn clear_switches(&self, client: Option<&str>) -> Result<Cleared, ClientError> {
        let path = match client {
            Some(client) => SWITCH.replace("{client}", &escaped(client)),
            None => SWITCHES.to_owned(),
        };
        self.ask(Method::DELETE, &path, Bytes::new()).await
    }

    /// Open requests of servers that no client can answer.
    pub async fn server_requests(&self) -> Result<ServerRequests, ClientError> {
        self.get(SERVER_REQUESTS).await
    }

    pub async fn reply(&self, id: u64, reply: &Reply) -> Result<Replied, ClientError> {
        let path = REPLY.replace("{id}", &id.to_string());
        self.post(&path, reply).await
    }

    pub async fn client_tokens(&self) -> Result<ClientTokens, ClientError> {
        self.get(TOKENS).await
    }

    pub async fn add_token(&self, token: &AddToken) -> Result<AddedToken, ClientError> {
        self.post(TOKENS, token).await
    }

    pub async fn remove_token(&self, name: &str) -> Result<RemovedToken, ClientError> {
        let path = TOKEN.replace("{name}", &escaped(name));
        self.ask(Method::DELETE, &path, Bytes::new()).await
    }

    /// Replaces the control token. The token of this client is invalid afterwards.
    pub async fn rotate_token(&self) -> Result<RotatedToken, ClientError> {
        self.post(ROTATE, &Map::new()).await
    }

    /// Creates a link that signs one browser in, once.
    pub async fn sign_in_link(&self) -> Result<SignInLink, ClientError> {
        self.post(SESSION_LINKS, &Map::new()).await
    }

    pub async fn tools(&self) -> Result<Tools, ClientError> {
        self.get(TOOLS).await
    }

    pub async fn call(&self, call: &Call) -> Result<Answer, ClientError> {
        self.post(CALL, call).await
    }

    pub async fn resources(&self) -> Result<Resources, ClientError> {
        self.get(RESOURCES).await
    }

    pub async fn templates(&self) -> Result<Templates, ClientError> {
        self.get(TEMPLATES).await
    }

    pub async fn read(&self, read: &Read) -> Result<WholeRead, ClientError> {
        self.post(READ_WHOLE, read).await
    }

    pub async fn prompts(&self) -> Result<Prompts, ClientError> {
        self.get(PROMPTS).await
    }

    pub async fn get_prompt(&self, get: &GetPrompt) -> Result<Answer, ClientError> {
        self.post(GET_PROMPT, get).await
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.send(Method::POST, path, body).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.unreachable(error))?;
        self.ask(method, path, body.into()).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let request = self.request(method.clone(), path, body)?;
        let (mut sender, mut connection) = self.handshake().await?;
        let exchange = async move {
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
        };
        let (status, body) = drive(&mut connection, exchange)
            .await
            .map_err(|error| self.broken(&method, error.into()))?;
        match status {
            StatusCode::OK => serde_json::from_slice(&body).map_err(|_| self.foreign(status)),
            _ => Err(self.refusal(status, &body)),
        }
    }

    /// The error for an answer whose status is not 200.
    pub(super) fn refusal(&self, status: StatusCode, body: &[u8]) -> ClientError {
        if status == StatusCode::UNAUTHORIZED {
            return ClientError::Unauthorized {
                url: self.url.clone(),
                had_token: self.token.is_some(),
            };
        }
        match serde_json::from_slice::<Map<String, Value>>(body) {
            // Only refusals by Mainstay have a code in `error`.
            Ok(body) if body.get("error").is_some_and(Value::is_string) => {
                ClientError::Refused { status, body }
            }
            _ => self.foreign(status),
        }
    }

    pub(super) fn foreign(&self, status: StatusCode) -> ClientError {
        ClientError::Foreign {
            url: self.url.clone(),
            status,
        }
    }

    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, USER_AGENT);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        request
            .body(Full::new(body))
            .map_err(|error| self.unreachable(error))
    }

    pub(super) async fn handshake(&self) -> Result<(Sender, Connection), ClientError> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.connect().await?))
            .await
            .map_err(|error| self.unreachable(error))?;
        Ok((sender, Box::pin(connection.fuse())))
    }

    async fn connect(&self) -> Result<TcpStream, ClientError> {
        let address = if self.has_port() {
            self.authority.clone()
        } else {
            format!("{}:80", self.authority)
        };
        let connecting = async {
            let addresses: Vec<_> = lookup_host(address).await?.collect();
            let (stream, _) = dial::connect(&addresses, None).await?;
            Ok::<_, io::Error>(stream)
        };
        timeout(CONNECT_LIMIT, connecting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| self.unreachable(error))
    }

    fn has_port(&self) -> bool {
        self.authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    }

    /// The error after the connection broke before the whole answer arrived. Only a GET certainly
    /// changed nothing.
    pub(super) fn broken(
        &self,
        method: &Method,
        source: Box<dyn Error + Send + Sync>,
    ) -> ClientError {
        if *method == Method::GET {
            return self.unreachable(source);
        }
        ClientError::Lost {
            url: self.url.clone(),
            source,
        }
    }

    pub(super) fn unreachable(
        &self,
        error: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> ClientError {
        ClientError::Unreachable {
            url: self.url.clone(),
            source: error.into(),
        }
    }
}

/// Polls the connection until `work` is done. Cancel-safe if `work` is.
pub(super) async fn drive<T>(connection: &mut Connection, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        output = &mut work => return output,
        // The connection has ended. `work` has received everything that it transferred.
        _ = connection => {}
    }
    work.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_daemons_own_url_will_do() {
        let client = |url| Client::new(url, None);
        for url in [
            "http://127.0.0.1:7420",
            "http://localhost:1/",
            "http://[::1]:80",
        ] {
            client(url).expect(url);
        }
        for url in [
            "",
            "127.0.0.1:7420",
            "https://127.0.0.1:7420",
            "http://h:1/mcp",
            "http://t@h:1",
            "http://h:1/?a=b",
        ] {
            assert!(
                matches!(client(url), Err(ClientError::BadUrl { .. })),
                "{url}"
            );
        }
    }
}
