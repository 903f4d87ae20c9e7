//! Credentials that change and expire, over Streamable HTTP of both eras and over HTTP+SSE.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use mainstay_core::{
    config::{HttpLaunch, HttpTransport, Launch, Secret},
    era::{ClientCapabilities, Revision},
    ids::ServerName,
    lifecycle::Loss,
    message::Method,
};
use mainstay_platform::lineage::Lineage;
use mainstay_transport::{
    self as transport, Approach, AttemptLimiter, CredentialSource, HeaderLines, HealthUrl,
    Interruption, InterruptionKind, Listener, NoCredentials, Notice, Opening, RefusedCredentials,
    RenewedLines, RunningConnection, ServerQuestion, Stop, Unopened, UpstreamSession,
    logs::ServerLogs,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct Nobody;

impl Listener for Nobody {
    fn take_notice(&self, _: Notice) {}
    fn ask(&self, _: ServerQuestion) {}
}

/// The token that the server accepts, and its refused and accepted requests.
#[derive(Debug, Default)]
struct Gate {
    /// `None` if the server accepts no token.
    token: Option<u32>,
    refused: usize,
    /// `token method` of every request that passed.
    passed: Vec<String>,
    /// True if no token has the scope that a request needs.
    lacks_scope: bool,
}

/// A source that gets the server's current token when it is refreshed.
#[derive(Debug)]
struct RotatingToken {
    held: Mutex<u32>,
    gate: Arc<Mutex<Gate>>,
    challenges: Mutex<HashSet<String>>,
    /// The reason that the source has no token. `None` if it has one.
    trouble: Mutex<Option<NoCredentials>>,
}

impl RotatingToken {
    fn held_lines(&self) -> Result<HeaderLines, NoCredentials> {
        if let Some(trouble) = self.trouble.lock().expect("no panic").clone() {
            return Err(trouble);
        }
        let token = format!("Bearer t{}", self.held.lock().expect("no panic"));
        Ok(HeaderLines::new([("authorization", token.as_str())]))
    }
}

impl CredentialSource for RotatingToken {
    fn lines(&self) -> RenewedLines<'_> {
        Box::pin(async {
            tokio::task::yield_now().await;
            self.held_lines()
        })
    }

    fn refresh(&self, refused: RefusedCredentials) -> RenewedLines<'_> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if refused.status == 403 {
                return Err(NoCredentials::NoLongerValid(
                    "a scope is missing".to_owned(),
                ));
            }
            self.challenges
                .lock()
                .expect("no panic")
                .extend(refused.challenges);
            if refused.lines == self.held_lines()? {
                let token = self.gate.lock().expect("no panic").token;
                let token =
                    token.ok_or_else(|| NoCredentials::NoLongerValid("signed out".to_owned()))?;
                *self.held.lock().expect("no panic") = token;
            }
            self.held_lines()
        })
    }
}

/// The answer to a request, which may be of either era.
fn answer(request: &serde_json::Value) -> Option<String> {
    let id = request.get("id")?;
    let result = match request["method"].as_str()? {
        "initialize" => {
            r#"{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"x","version":"1"}}"#
        }
        "server/discover" => {
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"},"ttlMs":0,"cacheScope":"private"}"#
        }
        _ => r#"{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}"#,
    };
    Some(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
    ))
}

type EventStreams = Arc<Mutex<Vec<mpsc::UnboundedSender<String>>>>;

/// Serves the requests of one connection. On `/sse`, answers go to the event stream.
async fn serve(stream: TcpStream, gate: Arc<Mutex<Gate>>, streams: EventStreams) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut first, mut token, mut length) = (String::new(), String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if first.is_empty() {
                line.clone_into(&mut first);
            }
            if let Some(value) = line.strip_prefix("authorization: Bearer t") {
                assert!(token.is_empty(), "one token for each request");
                value.clone_into(&mut token);
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a body");
        let is_get = first.starts_with("GET");
        let request = serde_json::from_slice(&body).unwrap_or(serde_json::Value::Null);
        let response = {
            let mut gate = gate.lock().expect("no panic");
            if gate.lacks_scope {
                Some("HTTP/1.1 403 Forbidden\r\nwww-authenticate: Bearer error=\"insufficient_scope\"\r\ncontent-length: 0\r\n\r\n".to_owned())
            } else if gate.token.map(|token| token.to_string()) == Some(token.clone()) {
                let method = request["method"].as_str().unwrap_or("GET");
                gate.passed.push(format!("{token} {method}"));
                None
            } else {
                gate.refused += 1;
                Some("HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer realm=\"x\"\r\ncontent-length: 0\r\n\r\n".to_owned())
            }
        };
        let is_sse = first.contains("/sse");
        if response.is_none() && is_get {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let (sender, mut events) = mpsc::unbounded_channel();
            streams.lock().expect("no panic").push(sender);
            let endpoint = "event: endpoint\ndata: /sse\n\n";
            let begin = format!("{head}{}", if is_sse { endpoint } else { ": open\n\n" });
            stream.write_all(begin.as_bytes()).await.expect("open");
            while let Some(event) = events.recv().await {
                let event = format!("data: {event}\n\n");
                if stream.write_all(event.as_bytes()).await.is_err() {
                    return;
                }
            }
            return;
        }
        let response = response.unwrap_or_else(|| match answer(&request) {
            Some(answer) if is_sse => {
                let streams = streams.lock().expect("no panic");
                streams.last().expect("a stream").send(answer).ok();
                "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned()
            }
            Some(answer) => format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
                answer.len()
            ),
            None => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
        });
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

struct Served {
    gate: Arc<Mutex<Gate>>,
    source: Arc<RotatingToken>,
    url: String,
}

/// Starts a server that accepts token 1. The source holds token 0.
async fn served(path: &str) -> Served {
    let gate = Arc::new(Mutex::new(Gate {
        token: Some(1),
        ..Gate::default()
    }));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let streams = EventStreams::default();
    let accepting = Arc::clone(&gate);
    // The task ends with the runtime of the test.
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&accepting), Arc::clone(&streams)));
        }
    });
    let source = Arc::new(RotatingToken {
        held: Mutex::new(0),
        gate: Arc::clone(&gate),
        challenges: Mutex::default(),
        trouble: Mutex::default(),
    });
    Served {
        gate,
        source,
        url: format!("http://{address}{path}"),
    }
}

impl Served {
    async fn open(
        &self,
        transport: HttpTransport,
        approach: Approach,
    ) -> Result<(UpstreamSession, RunningConnection), Unopened> {
        let server = ServerName::new("x").expect("a legal name");
        let opening = Opening {
            lineage: Lineage::default(),
            tag: "x:1".to_owned(),
            launch: Launch::Http(HttpLaunch {
                url: self.url.clone(),
                transport,
                ..HttpLaunch::default()
            }),
            credentials: Some(Arc::clone(&self.source) as Arc<dyn CredentialSource>),
            approach,
            steps_down: true,
            initialize: transport::own_initialize(
                Revision::LATEST_LEGACY,
                &ClientCapabilities::none(),
            ),
            max_message_bytes: 1024 * 1024,
            hang_after: Duration::from_secs(120),
            listener: Arc::new(Nobody),
            log: ServerLogs::default().server(&server),
            signs: Arc::default(),
            attempt_limiter: Arc::new(AttemptLimiter::new(50)),
            server,
            stop: Stop::default(),
        };
        let opened = timeout(LIMIT, transport::open(opening)).await;
        opened.expect("in time")
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.gate.lock().expect("no panic")
    }
}

const TRANSPORTS: [(&str, HttpTransport, Approach); 3] = [
    ("/mcp", HttpTransport::StreamableHttp, Approach::Legacy),
    ("/mcp", HttpTransport::StreamableHttp, Approach::Modern),
    ("/sse", HttpTransport::Sse, Approach::Legacy),
];

#[tokio::test]
async fn a_refused_request_is_sent_once_more_with_new_credentials() {
    for (path, transport, approach) in TRANSPORTS {
        let served = served(path).await;
        let (session, running) = served.open(transport, approach).await.expect("opened");
        let running = tokio::spawn(running);
        let refused_at_first = served.gate().refused;
        assert!(refused_at_first > 0, "{path}: token 0 is refused");

        served.gate().token = Some(2);
        let list = timeout(LIMIT, session.ask(Method::ToolsList, None)).await;
        let list = list.expect("in time").expect("an answer");
        assert!(list.result().is_some(), "{}", list.text());
        let lists = |gate: &Gate| {
            let lists = gate.passed.iter().filter(|row| row.contains("tools/list"));
            lists.cloned().collect::<Vec<_>>()
        };
        assert_eq!(lists(&served.gate()), ["2 tools/list"], "{path}");
        let challenges = served.source.challenges.lock().expect("no panic").clone();
        assert_eq!(
            challenges,
            HashSet::from([r#"Bearer realm="x""#.to_owned()])
        );
        if approach == Approach::Legacy {
            assert!(served.gate().passed.contains(&"1 GET".to_owned()), "{path}");
        }

        // A notification is also sent with the current credentials.
        served.gate().token = Some(3);
        let text = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
        timeout(LIMIT, session.notify(text.to_owned()))
            .await
            .expect("in time");
        let passed = served.gate().passed.clone();
        assert!(passed.contains(&"3 notifications/x".to_owned()), "{path}");
        running.abort();
    }
}

#[tokio::test]
async fn a_call_with_credentials_that_are_no_longer_valid_is_unauthorized() {
    for (path, transport, approach) in TRANSPORTS {
        let served = served(path).await;
        let (session, running) = served.open(transport, approach).await.expect("opened");
        let running = tokio::spawn(running);
        // The server accepts no token any more. Later the source has no token, either.
        served.gate().token = None;
        let refused_before = served.gate().refused;
        for (trouble, reason) in [(None, "signed out"), (Some(revoked()), "sign in again")] {
            *served.source.trouble.lock().expect("no panic") = trouble;
            let list = timeout(LIMIT, session.ask(Method::ToolsList, None)).await;
            let interruption = list.expect("in time").expect_err("no credentials");
            assert_eq!(
                interruption,
                Interruption::not_sent(refusal(reason)),
                "{path}"
            );
        }
        assert!(served.gate().refused > refused_before, "{path}");
        running.abort();
    }
}

#[tokio::test]
async fn a_server_is_not_opened_without_valid_credentials() {
    for (path, transport, approach) in TRANSPORTS {
        let served = served(path).await;
        for (trouble, reason) in [(None, "signed out"), (Some(revoked()), "sign in again")] {
            served.gate().token = None;
            *served.source.trouble.lock().expect("no panic") = trouble;
            let unopened = served.open(transport, approach).await;
            let loss = unopened.err().expect("no credentials").loss;
            assert_eq!(loss, Loss::Unauthorized(reason.to_owned()), "{path}");
        }
    }
}

#[tokio::test]
async fn a_source_that_is_down_costs_no_login() {
    for (path, transport, approach) in TRANSPORTS {
        let served = served(path).await;
        let down = NoCredentials::Unavailable("the issuer does not answer".to_owned());
        *served.source.trouble.lock().expect("no panic") = Some(down.clone());
        let unopened = served.open(transport, approach).await;
        let loss = unopened.err().expect("no credentials").loss;
        assert_eq!(loss, Loss::ConnectFailed(down.to_string()), "{path}");

        *served.source.trouble.lock().expect("no panic") = None;
        let (session, running) = served.open(transport, approach).await.expect("opened");
        let running = tokio::spawn(running);
        *served.source.trouble.lock().expect("no panic") = Some(down.clone());
        let list = timeout(LIMIT, session.ask(Method::ToolsList, None)).await;
        let interruption = list.expect("in time").expect_err("no credentials");
        let expected = InterruptionKind::Unreachable(down.to_string());
        assert_eq!(interruption, Interruption::not_sent(expected), "{path}");
        running.abort();
    }
}

#[tokio::test]
async fn a_missing_scope_fails_one_call_with_the_words_of_the_source() {
    for (path, transport, approach) in TRANSPORTS {
        let served = served(path).await;
        let (session, running) = served.open(transport, approach).await.expect("opened");
        let running = tokio::spawn(running);
        served.gate().lacks_scope = true;
        let list = timeout(LIMIT, session.ask(Method::ToolsList, None)).await;
        let interruption = list.expect("in time").expect_err("no credentials");
        let expected = refusal("a scope is missing");
        assert_eq!(interruption, Interruption::not_sent(expected), "{path}");

        served.gate().lacks_scope = false;
        let list = timeout(LIMIT, session.ask(Method::ToolsList, None)).await;
        assert!(
            list.expect("in time").is_ok(),
            "{path}: the session lives on"
        );
        running.abort();
    }
}

fn revoked() -> NoCredentials {
    NoCredentials::NoLongerValid("sign in again".to_owned())
}

fn refusal(reason: &str) -> InterruptionKind {
    InterruptionKind::NoCredentials(reason.to_owned())
}

/// A health URL with the server's origin gets the credentials. A health URL with another origin
/// does not.
#[tokio::test]
async fn a_health_url_of_another_origin_gets_no_credentials() {
    let (server, other) = (served("/mcp").await, served("/mcp").await);
    for place in [&server, &other] {
        *place.source.held.lock().expect("no panic") = 1;
    }
    let launch = HttpLaunch {
        url: server.url.clone(),
        transport: HttpTransport::StreamableHttp,
        ..HttpLaunch::default()
    };
    for place in [&server, &other] {
        let source = Arc::clone(&server.source) as Arc<dyn CredentialSource>;
        let url = Secret::new(place.url.clone());
        let health = HealthUrl::new(&url, Some(&launch), Some(source)).expect("a usable URL");
        let date = timeout(LIMIT, health.date()).await.expect("in time");
        assert!(date.is_ok(), "{date:?}");
    }
    assert_eq!(server.gate().passed, ["1 GET"]);
    assert!(other.gate().passed.is_empty());
    assert_eq!(other.gate().refused, 1);
}
