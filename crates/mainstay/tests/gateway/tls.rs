//! TLS of the listener: versions, client certificates, plain requests, replaced certificates, and the treatment
//! of clients that are slow, silent or gone.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use http::StatusCode;
use mainstay::daemon::{CommandListener, Daemon, DaemonOptions, Listeners, Pauses, bind};
use mainstay_core::config::{Config, ListenerTls, Secret};
use mainstay_doors::tls::ServerTls;
use mainstay_platform::listener_tls::TlsTexts;
use mainstay_testkit::certificates::{Authority, Identity};
use mainstay_tokens::Tokens;
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    version::{TLS12, TLS13},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    backend::Backend,
    client::LATEST,
    gateway::{config, parse, soon},
    rest_client::TOKEN,
};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// A Mainstay that speaks HTTPS.
struct World {
    daemon: Daemon,
    door: JoinHandle<()>,
    port: u16,
    commands: u16,
    tokens: Tokens,
    authority: Authority,
    folder: tempfile::TempDir,
}

/// Time limits that a test waits for.
fn impatient() -> Pauses {
    Pauses {
        look: Duration::from_millis(300),
        certificate: Duration::from_millis(20),
        ..Pauses::default()
    }
}

impl World {
    fn new() -> Self {
        Self::start(&parse(r#"{"mcpServers": {}}"#), false, Pauses::default())
    }

    fn start(config: &Config, demands_certificates: bool, pauses: Pauses) -> Self {
        let authority = Authority::new("corp");
        let folder = tempfile::tempdir().expect("a folder");
        let [certificate, key] = authority.issue(&["localhost"]).write(folder.path());
        let client_ca: PathBuf = folder.path().join("ca.pem");
        std::fs::write(&client_ca, authority.pem()).expect("written");
        let files = ListenerTls {
            certificate,
            key: Some(key),
            client_ca: demands_certificates.then_some(client_ca),
        };
        let texts = TlsTexts::read(&files);
        let usable = texts.usable(SystemTime::now()).expect("usable");
        let tls = ServerTls::new(files, usable, texts.digest());
        let options = DaemonOptions {
            pauses,
            ..DaemonOptions::default()
        };
        let daemon = Daemon::start(config, options);
        let listener = bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let commands = CommandListener::bind().expect("a free port");
        let tokens = Tokens::from(Secret::new(TOKEN));
        let command_port = commands.address.port();
        let listeners = Listeners::from(listener);
        let door = daemon.serve_https(listeners, address, tokens.clone(), tls, commands);
        Self {
            daemon,
            door,
            port: address.port(),
            commands: command_port,
            tokens,
            authority,
            folder,
        }
    }

    /// The configuration of a client that trusts the authority.
    fn trusting(&self, version: &'static SupportedProtocolVersion) -> ClientSettings {
        ClientSettings {
            authority: self.authority.pem(),
            version,
            identity: None,
            protocols: &["http/1.1"],
        }
    }

    async fn connect(&self) -> Client {
        let client = self.trusting(&TLS13).connect(self.port).await;
        client.expect("connected")
    }

    /// Replaces the files of the certificate.
    fn replace(&self, identity: &Identity) {
        identity.write(self.folder.path());
    }

    async fn stop(self) {
        soon("the daemon to stop", self.daemon.stop(Some(self.door))).await;
    }
}

struct ClientSettings {
    /// The trusted authority, in PEM.
    authority: String,
    version: &'static SupportedProtocolVersion,
    identity: Option<Identity>,
    protocols: &'static [&'static str],
}

impl ClientSettings {
    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority.as_bytes());
        roots.add(authority.expect("PEM")).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[self.version])
            .expect("a version")
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = CertificateDer::from_pem_slice(identity.certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
                builder
                    .with_client_auth_cert(vec![chain.expect("PEM")], key.expect("PEM"))
                    .expect("a fitting key")
            }
        };
        config.alpn_protocols = self
            .protocols
            .iter()
            .map(|protocol| protocol.as_bytes().to_vec())
            .collect();
        config
    }

    async fn connect(&self, port: u16) -> std::io::Result<Client> {
        let connector = TlsConnector::from(Arc::new(self.config()));
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let name = "localhost".try_into().expect("a name");
        let stream = soon("a handshake", connector.connect(name, stream)).await?;
        Ok(Client {
            stream,
            port,
            unread: String::new(),
        })
    }

    /// The status of an answer, or `None` if the connection is refused. With TLS 1.3 a client learns of a
    /// refused certificate after its own handshake.
    async fn status(&self, port: u16) -> Option<StatusCode> {
        let mut client = self.connect(port).await.ok()?;
        let (status, _) = client.exchange("GET /healthz", "", "").await.ok()?;
        Some(status)
    }
}

/// A client within TLS.
struct Client {
    stream: TlsStream<TcpStream>,
    port: u16,
    /// Text behind the words of [`Client::read_until`].
    unread: String,
}

impl Client {
    async fn send(&mut self, request: &str, headers: &str, body: &str) -> std::io::Result<()> {
        let request = format!(
            "{request} HTTP/1.1\r\nhost: localhost:{}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: {LATEST}\r\n\
             content-length: {}\r\n{headers}\r\n{body}",
            self.port,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.stream.flush().await
    }

    async fn head(&mut self) -> std::io::Result<(StatusCode, String)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(soon("the head of an answer", self.stream.read_u8()).await?);
        }
        let head = String::from_utf8(head).expect("ASCII").to_ascii_lowercase();
        let status = head.split(' ').nth(1).expect("a status");
        let status: StatusCode = status.parse().expect("a status");
        Ok((status, head))
    }

    /// Sends a request and reads its answer, which has a length.
    async fn exchange(
        &mut self,
        request: &str,
        headers: &str,
        body: &str,
    ) -> std::io::Result<(StatusCode, String)> {
        self.send(request, headers, body).await?;
        let (status, head) = self.head().await?;
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.split('\r').next());
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
        soon("a body", self.stream.read_exact(&mut body)).await?;
        Ok((status, format!("{head}{}", String::from_utf8_lossy(&body))))
    }

    /// Sends a message to `/mcp`, with the session of `initialize`.
    async fn mcp(&mut self, session: &str, message: &Value) -> (StatusCode, String) {
        let headers = format!("mcp-session-id: {session}\r\n");
        let message = message.to_string();
        let answer = self.exchange("POST /mcp", &headers, &message).await;
        answer.expect("an answer")
    }

    async fn initialize(&mut self) -> String {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": LATEST, "capabilities": {}, "clientInfo": {"name": "tls", "version": "1"}}});
        let (status, answer) = self
            .exchange("POST /mcp", "", &message.to_string())
            .await
            .expect("an answer");
        assert_eq!(status, StatusCode::OK, "{answer}");
        let session = answer.split("mcp-session-id: ").nth(1).expect("a session");
        let session = session.split('\r').next().expect("a line").to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.mcp(&session, &initialized).await;
        session
    }

    /// Reads until `words` have come, and leaves what is behind them.
    async fn read_until(&mut self, words: &str) {
        let reading = async {
            loop {
                if let Some(start) = self.unread.find(words) {
                    self.unread.drain(..start + words.len());
                    return;
                }
                let mut piece = [0; 4096];
                let count = self.stream.read(&mut piece).await.expect("readable");
                assert_ne!(count, 0, "the stream has ended: {}", self.unread);
                let piece = String::from_utf8_lossy(&piece[..count]);
                self.unread.push_str(&piece);
            }
        };
        soon(words, reading).await;
    }

    /// The certificate that the server has shown.
    fn certificate(&self) -> Vec<u8> {
        let (_, session) = self.stream.get_ref();
        let chain = session.peer_certificates().expect("a certificate");
        chain[0].to_vec()
    }
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}})
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

#[tokio::test]
async fn both_versions_are_spoken_and_http_1_1_is_chosen() {
    let world = World::new();
    for version in VERSIONS {
        let mut settings = world.trusting(version);
        settings.protocols = &["h2", "http/1.1"];
        let mut client = settings.connect(world.port).await.expect("connected");
        let session = client.stream.get_ref().1;
        assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(session.protocol_version(), Some(version.version));
        let (status, _) = client
            .exchange("POST /mcp", "", PING)
            .await
            .expect("answered");
        assert_eq!(status, StatusCode::BAD_REQUEST);
        // A client need not choose, but it must not want another protocol.
        settings.protocols = &[];
        assert_eq!(settings.status(world.port).await, Some(StatusCode::OK));
        settings.protocols = &["h2"];
        assert_eq!(settings.status(world.port).await, None);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_client_needs_a_certificate_of_the_authority() {
    let config = parse(r#"{"mcpServers": {}}"#);
    let world = World::start(&config, true, Pauses::default());
    for version in VERSIONS {
        let mut settings = world.trusting(version);
        assert_eq!(settings.status(world.port).await, None, "{version:?}");
        settings.identity = Some(Authority::new("elsewhere").issue(&["me"]));
        assert_eq!(settings.status(world.port).await, None, "{version:?}");
        let yesterday = SystemTime::now() - Duration::from_hours(24);
        settings.identity = Some(world.authority.issue_until(&["me"], yesterday));
        assert_eq!(settings.status(world.port).await, None, "{version:?}");
        settings.identity = Some(world.authority.issue(&["me"]));
        assert_eq!(settings.status(world.port).await, Some(StatusCode::OK));
    }
    world.stop().await;
}

#[tokio::test]
async fn a_plain_request_is_told_to_use_https() {
    let world = World::new();
    for request in [
        "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50000\r\n\r\n{:50000}",
            ""
        ),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", world.port))
            .await
            .expect("connected");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = String::new();
        soon("an answer", stream.read_to_string(&mut answer))
            .await
            .expect("readable");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(
            answer.contains("this port speaks HTTPS: use https://"),
            "{answer}"
        );
    }
    // Bytes that are neither TLS nor HTTP get no answer.
    let mut stream = TcpStream::connect(("127.0.0.1", world.port))
        .await
        .expect("connected");
    stream.write_all(b"\x00\x01garbage").await.expect("written");
    let mut answer = Vec::new();
    soon("the end", stream.read_to_end(&mut answer)).await.ok();
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_new_certificate_is_taken_while_streams_go_on() {
    let world = World::start(&parse(r#"{"mcpServers": {}}"#), false, impatient());
    let mut stream = world.connect().await;
    let old = stream.certificate();
    stream
        .send("GET /api/events", &bearer(TOKEN), "")
        .await
        .expect("sent");
    stream.read_until("snapshot").await;
    let soon_ending = SystemTime::now() + Duration::from_hours(2 * 24);
    world.replace(&world.authority.issue_until(&["localhost"], soon_ending));
    stream.read_until("certificate_replaced").await;
    stream.read_until("certificate_expiring").await;
    stream.read_until(r#""daysLeft":1"#).await;
    assert_ne!(world.connect().await.certificate(), old);
    world.stop().await;
}

#[tokio::test]
async fn unusable_files_leave_the_old_certificate_in_use() {
    let world = World::start(&parse(r#"{"mcpServers": {}}"#), false, impatient());
    let mut stream = world.connect().await;
    let old = stream.certificate();
    stream
        .send("GET /api/events", &bearer(TOKEN), "")
        .await
        .expect("sent");
    stream.read_until("snapshot").await;
    let authority = &world.authority;
    let yesterday = SystemTime::now() - Duration::from_hours(24);
    let mismatched = Identity {
        certificate: authority.issue(&["localhost"]).certificate,
        key: authority.issue(&["localhost"]).key,
    };
    let empty = Identity {
        certificate: String::new(),
        key: String::new(),
    };
    for (identity, reason) in [
        (
            authority.issue_until(&["localhost"], yesterday),
            "has expired",
        ),
        (mismatched, "does not fit the certificate"),
        (empty, "the file is empty"),
    ] {
        world.replace(&identity);
        stream.read_until("certificate_rejected").await;
        stream.read_until(reason).await;
        assert_eq!(world.connect().await.certificate(), old, "{reason}");
    }
    let certificate = world.folder.path().join("cert.pem");
    std::fs::remove_file(certificate).expect("removed");
    stream.read_until("there is no such file").await;
    world.replace(&authority.issue(&["localhost"]));
    stream.read_until("certificate_replaced").await;
    assert_ne!(world.connect().await.certificate(), old);
    world.stop().await;
}

#[tokio::test]
async fn a_silent_client_is_left() {
    let world = World::start(&parse(r#"{"mcpServers": {}}"#), false, impatient());
    // A client that says nothing, one that begins a handshake, and one that makes no request.
    for beginning in [&b""[..], b"\x16\x03\x01"] {
        let mut stream = TcpStream::connect(("127.0.0.1", world.port))
            .await
            .expect("connected");
        stream.write_all(beginning).await.expect("written");
        let mut rest = Vec::new();
        soon("the end", stream.read_to_end(&mut rest)).await.ok();
        assert!(rest.is_empty(), "{rest:?}");
    }
    let mut client = world.connect().await;
    let mut rest = Vec::new();
    soon("the end", client.stream.read_to_end(&mut rest))
        .await
        .ok();
    assert!(rest.is_empty(), "{rest:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_arrive_whole_and_unread_ones_are_given_up() {
    let backend = Backend::http().await;
    let config = parse(&config(&[("x", &backend)], json!({})).to_string());
    let world = World::start(&config, false, impatient());
    let mut client = world.connect().await;
    let session = client.initialize().await;
    let bytes = 8 * 1024 * 1024;
    let (status, answer) = client
        .mcp(&session, &call("x__big", &json!({"bytes": bytes})))
        .await;
    assert_eq!(status, StatusCode::OK);
    assert!(answer.len() > bytes && answer.trim_end().ends_with('}'));
    let headers = format!("mcp-session-id: {session}\r\n");
    let big = call("x__big", &json!({"bytes": 4 * bytes})).to_string();
    client
        .send("POST /mcp", &headers, &big)
        .await
        .expect("sent");
    // The client reads nothing until Mainstay has reset the connection.
    let reset = async {
        let (socket, _) = client.stream.get_ref();
        loop {
            if let Some(error) = socket.take_error().expect("a socket") {
                return error;
            }
            tokio::task::yield_now().await;
        }
    };
    let error = soon("a reset", reset).await;
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_closed_client_gets_its_answer() {
    let backend = Backend::http().await;
    let config = parse(&config(&[("x", &backend)], json!({})).to_string());
    let world = World::start(&config, false, Pauses::default());
    for version in VERSIONS {
        let mut client = world
            .trusting(version)
            .connect(world.port)
            .await
            .expect("connected");
        let session = client.initialize().await;
        let headers = format!("mcp-session-id: {session}\r\n");
        let slow = call("x__sleep", &json!({"ms": 200, "text": "late"})).to_string();
        client
            .send("POST /mcp", &headers, &slow)
            .await
            .expect("sent");
        client.stream.shutdown().await.expect("half closed");
        let mut answer = String::new();
        soon("the answer", client.stream.read_to_string(&mut answer))
            .await
            .expect("readable");
        let interim = "HTTP/1.1 100 Continue\r\n\r\n";
        assert!(answer.starts_with(interim), "{answer}");
        assert!(
            answer[interim.len()..].starts_with("HTTP/1.1 200 OK"),
            "{answer}"
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn a_removed_token_ends_its_streams() {
    let world = World::new();
    let (token, _) = world.tokens.add("laptop", None).expect("added");
    let token = bearer(token.expose());
    let mut client = world.connect().await;
    let (status, _) = client
        .exchange("POST /mcp", "", PING)
        .await
        .expect("answered");
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": LATEST, "capabilities": {}, "clientInfo": {"name": "tls", "version": "1"}}});
    let (_, answer) = client
        .exchange("POST /mcp", &token, &message.to_string())
        .await
        .expect("answered");
    let session = answer.split("mcp-session-id: ").nth(1).expect("a session");
    let session = session.split('\r').next().expect("a line");
    let headers = format!("{token}mcp-session-id: {session}\r\n");
    client.send("GET /mcp", &headers, "").await.expect("sent");
    let (status, _) = client.head().await.expect("a stream");
    assert_eq!(status, StatusCode::OK);
    world.tokens.remove("laptop").expect("removed");
    let mut rest = Vec::new();
    soon(
        "the end of the stream",
        client.stream.read_to_end(&mut rest),
    )
    .await
    .ok();
    world.stop().await;
}

/// Sends a request to the listener for commands, and returns the status.
async fn command_status(world: &World, request: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", world.commands))
        .await
        .expect("connected");
    let request = format!(
        "{request} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n{headers}\r\n{PING}",
        world.commands,
        PING.len()
    );
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer))
        .await
        .expect("readable");
    answer.split(' ').nth(1).expect("a status").to_owned()
}

#[tokio::test]
async fn the_listener_for_commands_always_demands_a_token() {
    let config = parse(r#"{"mcpServers": {}, "http": {"requireToken": false}}"#);
    let world = World::start(&config, true, Pauses::default());
    for path in ["POST /mcp", "GET /api/servers", "GET /metrics"] {
        assert_eq!(command_status(&world, path, "").await, "401", "{path}");
        let status = command_status(&world, path, &bearer(TOKEN)).await;
        assert_ne!(status, "401", "{path}");
    }
    assert_eq!(command_status(&world, "GET /healthz", "").await, "200");
    world.stop().await;
}

/// A page over HTTPS has a cookie that is never sent in the clear.
#[tokio::test]
async fn the_cookie_of_the_page_is_secure() {
    let world = World::new();
    let mut client = world.connect().await;
    let body = json!({"token": TOKEN}).to_string();
    let (status, answer) = client
        .exchange("POST /api/session", "", &body)
        .await
        .expect("answered");
    assert_eq!(status, StatusCode::OK, "{answer}");
    let cookie = answer.split("set-cookie: ").nth(1).expect("a cookie");
    assert!(
        cookie
            .split('\r')
            .next()
            .expect("a line")
            .ends_with("; secure"),
        "{cookie}"
    );
    world.stop().await;
}

#[tokio::test]
async fn refused_certificates_are_logged_in_words() {
    // The refusals themselves are counted in `a_client_needs_a_certificate_of_the_authority`.
    let lines: Arc<Mutex<Vec<u8>>> = Arc::default();
    let writer = Arc::clone(&lines);
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || Lines(Arc::clone(&writer)))
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let config = parse(r#"{"mcpServers": {}}"#);
    let world = World::start(&config, true, Pauses::default());
    let mut settings = world.trusting(&TLS13);
    settings.status(world.port).await;
    settings.identity = Some(Authority::new("elsewhere").issue(&["me"]));
    settings.status(world.port).await;
    world.stop().await;
    let text = String::from_utf8(lines.lock().expect("no panic").clone()).expect("UTF-8");
    assert!(
        text.contains("a client was refused: it has shown no certificate"),
        "{text}"
    );
    assert!(
        text.contains("not issued by an authority of `clientCa`"),
        "{text}"
    );
}

/// Collects the lines of a log.
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
