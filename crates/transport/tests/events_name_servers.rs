//! Every event about a server names the server.

#![cfg(unix)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mainstay_core::{
    config::{HttpLaunch, HttpTransport, Launch, StdioLaunch},
    era::{ClientCapabilities, Revision},
    ids::ServerName,
};
use mainstay_platform::lineage::Lineage;
use mainstay_transport::{
    self as transport, Approach, AttemptLimiter, Listener, Notice, Opening, ServerQuestion, Stop,
    logs::ServerLogs,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};

#[derive(Debug)]
struct Nobody;

impl Listener for Nobody {
    fn take_notice(&self, _: Notice) {}
    fn ask(&self, _: ServerQuestion) {}
}

/// The text of an event, and the server that the event or a span around it names.
type Named = (String, Option<String>);

/// Collects the events of this crate.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<Named>>>);

/// The fields of an event or a span that the test reads.
#[derive(Clone, Default)]
struct Fields {
    text: String,
    server: Option<String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => self.text = format!("{value:?}"),
            "server" => self.server = Some(format!("{value:?}")),
            _ => {}
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Events {
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let span = context.span(id).expect("a new span");
        span.extensions_mut().insert(fields);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !event.metadata().target().starts_with("mainstay_transport") {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut spans = context.event_scope(event).into_iter().flatten();
        let around = |span: tracing_subscriber::registry::SpanRef<'_, S>| {
            span.extensions().get::<Fields>()?.server.clone()
        };
        let server = fields.server.or_else(|| spans.find_map(around));
        let mut events = self.0.lock().expect("no panic");
        events.push((fields.text, server));
    }
}

fn opening(name: &str, launch: Launch) -> Opening {
    let server = ServerName::new(name).expect("a legal name");
    Opening {
        lineage: Lineage::default(),
        tag: format!("{name}:1"),
        launch,
        credentials: None,
        approach: Approach::Legacy,
        steps_down: true,
        initialize: transport::own_initialize(Revision::LATEST_LEGACY, &ClientCapabilities::none()),
        max_message_bytes: 1024 * 1024,
        hang_after: Duration::from_secs(120),
        listener: Arc::new(Nobody),
        log: ServerLogs::default().server(&server),
        signs: Arc::default(),
        attempt_limiter: Arc::new(AttemptLimiter::new(50)),
        server,
        stop: Stop::default(),
    }
}

fn process(command: &str, args: &[&str]) -> Launch {
    Launch::Stdio(StdioLaunch {
        command: command.to_owned(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        ..StdioLaunch::default()
    })
}

/// Starts a server, and returns the events of its start.
async fn start(events: &Events, name: &str, launch: Launch) -> Vec<Named> {
    let opened = transport::open(opening(name, launch));
    let opened = tokio::time::timeout(Duration::from_secs(60), opened).await;
    // A session may be open for a moment, before its end is noticed.
    drop(opened.expect("it ends in time"));
    std::mem::take(&mut *events.0.lock().expect("no panic"))
}

/// Runs a server that answers `initialize` and then closes the connection, so that
/// `notifications/initialized` is lost.
async fn serve_one_greeting(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut request = [0; 4096];
    let read = stream.read(&mut request).await.expect("a request");
    assert!(read > 0, "a request");
    let body = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#;
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.expect("written");
    drop(listener);
}

/// Starts that fail in several ways, at different depths and on different threads: each event names the
/// server.
#[tokio::test]
async fn every_event_of_a_failing_start_names_the_server() {
    let events = Events::default();
    let subscriber = tracing_subscriber::registry().with(events.clone());
    tracing::subscriber::set_global_default(subscriber).expect("it is the only one");

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = tokio::spawn(serve_one_greeting(listener));
    let http = Launch::Http(HttpLaunch {
        url: format!("http://{address}/mcp"),
        transport: HttpTransport::StreamableHttp,
        ..HttpLaunch::default()
    });
    for (name, launch, expected) in [
        (
            "missing",
            process("no-such-program-anywhere", &[]),
            "could not resolve",
        ),
        (
            "stray",
            process("sh", &["-c", "echo hello; exit 3"]),
            "failed to parse JSON-RPC message from stdout",
        ),
        ("lost", http, "a notification was lost"),
    ] {
        let events = start(&events, name, launch).await;
        assert!(
            events.iter().any(|(text, _)| text.starts_with(expected)),
            "{expected}: {events:?}"
        );
        for (text, server) in &events {
            assert_eq!(server.as_deref(), Some(name), "{text}");
        }
    }
    serving.await.expect("it has served");
}
