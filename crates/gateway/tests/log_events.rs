//! Each log event of a supervisor or a call names its server, either in a field of the event or in a
//! span around it.

#![cfg(unix)]

use std::{
    fmt::Debug,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use mainstay_config::{ConfigSource, Environment, Syntax, UnreadableFile, UnreadableSecret};
use mainstay_core::{config::Config, failure::FailureKind, ids::ServerName};
use mainstay_gateway::{
    GatewayOptions,
    calls::{CallClient, CallRequest, CallSink, Calls, Receipt, Upstream},
    registry::Registry,
};
use mainstay_transport::Frame;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};

/// Time limit of the test.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that exits at its first call, and answers all other requests.
const FRAGILE: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([^,}]*\).*/\1/p')
    case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fragile","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"break","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) exit 3 ;;
    *'"id"'*) result='{}' ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// A log event.
#[derive(Clone, Debug)]
struct Logged {
    target: &'static str,
    #[expect(dead_code, reason = "it is printed when the test fails")]
    message: String,
    /// The server in a field of the event.
    of_event: Option<String>,
    /// The server in a span around the event.
    of_span: Option<String>,
}

impl Logged {
    fn server(&self) -> Option<&str> {
        self.of_event.as_deref().or(self.of_span.as_deref())
    }
}

/// The server in a span's field.
struct OfServer(String);

#[derive(Default)]
struct Fields {
    message: String,
    server: Option<String>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "server" => self.server = Some(format!("{value:?}")),
            _ => {}
        }
    }
}

/// Collects the log events of supervisors and calls.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Logged>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let (Some(span), Some(server)) = (context.span(id), fields.server) {
            span.extensions_mut().insert(OfServer(server));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let target = event.metadata().target();
        let watched_targets = ["mainstay_gateway::supervisor", "mainstay_gateway::calls"];
        if !watched_targets
            .iter()
            .any(|prefix| target.starts_with(prefix))
        {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let of_span = || {
            let spans = context.event_scope(event)?;
            spans.into_iter().find_map(|span| {
                span.extensions()
                    .get::<OfServer>()
                    .map(|server| server.0.clone())
            })
        };
        let logged = Logged {
            target,
            of_event: fields.server,
            of_span: of_span(),
            message: fields.message,
        };
        self.0.lock().push(logged);
    }
}

/// An environment without variables, files, secrets and a home folder.
struct Nothing;

impl Environment for Nothing {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn read_file(&self, _: &Path) -> Result<String, UnreadableFile> {
        Err(UnreadableFile::Absent)
    }

    fn secret(&self, _: &str) -> Result<mainstay_core::config::Secret, UnreadableSecret> {
        Err(UnreadableSecret::Absent)
    }

    fn home_dir(&self) -> Option<PathBuf> {
        None
    }
}

fn parse(text: &str) -> Config {
    let source = ConfigSource {
        syntax: Syntax::Json,
        path: Path::new("/config.json"),
        is_of_clients: false,
    };
    let parsed = mainstay_config::parse(text, &source, &Nothing).expect("a valid configuration");
    parsed.config
}

#[tokio::test]
async fn each_event_of_a_supervisor_or_a_call_names_its_server() {
    let collector = Collector::default();
    let subscriber = tracing_subscriber::registry().with(collector.clone());
    // Thread-local, which suffices because the runtime of the test has one thread.
    let _guard = tracing::subscriber::set_default(subscriber);
    let test = async {
        let config = json!({"mcpServers": {
            "absent": {"command": "/nonexistent/program"},
            "fragile": {"command": "sh", "args": ["-c", FRAGILE]},
        }});
        let registry = Registry::start(&parse(&config.to_string()), GatewayOptions::default());
        registry.settled().await;
        let calls = Calls::default();
        for (name, expected) in [
            ("absent", FailureKind::ServerNotConnected),
            ("fragile", FailureKind::OutcomeUnknown),
        ] {
            let failure = call(&registry, &calls, name).await;
            assert_eq!(failure, Some(expected), "{name}");
        }
        registry.stop().await;
    };
    tokio::time::timeout(PATIENCE, test).await.expect("in time");
    let events = collector.0.lock().clone();
    for event in &events {
        let is_named = matches!(event.server(), Some("absent" | "fragile"));
        assert!(is_named, "{event:?} of {events:#?}");
    }
    // Spans name the server in modules that do not know it.
    for (target, server) in [
        ("mainstay_gateway::supervisor", "absent"),
        ("mainstay_gateway::supervisor", "fragile"),
        ("mainstay_gateway::calls", "fragile"),
    ] {
        let mut about = events
            .iter()
            .filter(|event| event.target.starts_with(target));
        let has_server = about.any(|event| event.of_span.as_deref() == Some(server));
        assert!(has_server, "{target} of {server}: {events:#?}");
    }
}

/// Calls the tool of a server, and returns the kind of its failure.
async fn call(registry: &Registry, calls: &Calls, server: &str) -> Option<FailureKind> {
    let name = ServerName::new(server).expect("a name");
    let server = registry.named(&name).expect("a configured server");
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"break"}}"#;
    let frame = Frame::read(text.to_owned().into()).expect("a message");
    let request = CallRequest::new(frame, None).expect("a request");
    let (sink, _stream) = CallSink::new(CallClient::nobody(), None);
    let (_cancel, cancelled) = oneshot::channel();
    let receipt = Receipt::new();
    let upstream = Upstream::Shared(server);
    let answer = calls.call(&receipt, upstream, request, sink, cancelled);
    let answer = answer.await;
    receipt
        .no_call(answer)
        .into_inner()
        .err()
        .map(|failure| failure.kind)
}
