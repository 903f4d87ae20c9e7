//! `/metrics`: the values after known calls, and the format.

#![expect(clippy::float_cmp, reason = "counts are whole")]

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use http::{Method, StatusCode, header};
use mainstay_core::config;
use mainstay_gateway::GatewayOptions;
use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, found, soon},
};

/// The parsed result of one scrape.
pub struct Scrape {
    /// The values by sample: the metric's name with its labels, as in the text.
    samples: BTreeMap<String, f64>,
    /// The type of each family, by its name.
    families: BTreeMap<String, String>,
}

/// The formats in which `/metrics` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    const fn accept(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            Self::Text => "*/*",
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The suffixes that samples of this type add to the name of their family.
    fn suffixes(self, kind: &str) -> &'static [&'static str] {
        match (self, kind) {
            (_, "histogram") => &["_bucket", "_count", "_sum"],
            (_, "gauge") | (Self::Text, "counter") => &[""],
            (Self::OpenMetrics, "counter") => &["_total"],
            (Self::OpenMetrics, "info") => &["_info"],
            (_, other) => panic!("{self:?} knows no {other}"),
        }
    }
}

impl Scrape {
    pub async fn fetch(gateway: &Gateway) -> Self {
        Self::fetch_as(gateway, Format::OpenMetrics).await
    }

    async fn fetch_as(gateway: &Gateway, format: Format) -> Self {
        let door = gateway.stranger("/metrics");
        let headers = door.headers(format.accept());
        let answer = door.send(Method::GET, headers, "").await;
        let answer = answer.whole().await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        assert_eq!(answer.headers[header::CONTENT_TYPE], format.content_type());
        Self::read(&answer.text, format)
    }

    /// Parses the text. Panics if a family occurs twice or has no help or type, or if a sample
    /// occurs twice.
    fn read(text: &str, format: Format) -> Self {
        let body = match format {
            Format::OpenMetrics => text.strip_suffix("# EOF\n").expect("an end"),
            Format::Text => text,
        };
        assert!(body.ends_with('\n'), "{body}");
        let (mut samples, mut families) = (BTreeMap::new(), BTreeMap::new());
        let (mut documented_names, mut family) = (HashSet::new(), String::new());
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help_text) = rest.split_once(' ').expect("a help");
                assert!(
                    !help_text.is_empty() && documented_names.insert(name),
                    "{line}"
                );
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type");
                assert!(documented_names.contains(name), "{line}");
                name.clone_into(&mut family);
                assert!(families.insert(family.clone(), kind.to_owned()).is_none());
            } else if let Some(rest) = line.strip_prefix("# UNIT ") {
                let (name, unit) = rest.split_once(' ').expect("a unit");
                assert!(name == family && name.ends_with(unit), "{line}");
                assert_eq!(format, Format::OpenMetrics, "{line}");
            } else {
                let (sample, value) = line.rsplit_once(' ').expect("a value");
                let name = sample.split('{').next().expect("a name");
                let suffix = name.strip_prefix(&family).expect(line);
                let suffixes = format.suffixes(&families[&family]);
                assert!(suffixes.contains(&suffix), "{line}");
                let value = value.parse().expect(line);
                let previous_value = samples.insert(sample.to_owned(), value);
                assert!(previous_value.is_none(), "twice: {line}");
            }
        }
        Self { samples, families }
    }

    /// The value of a sample. 0 if there is no such sample.
    fn value(&self, sample: &str) -> f64 {
        self.samples.get(sample).copied().unwrap_or_default()
    }

    /// The value of a metric about a tool. `labels` has additional labels.
    fn of_tool(&self, name: &str, tool: &str, labels: &str) -> f64 {
        let tool = format!(r#"server="x",method="tools/call",tool="{tool}"{labels}"#);
        self.value(&format!("{name}{{{tool}}}"))
    }

    fn calls(&self, tool: &str) -> f64 {
        self.of_tool("mainstay_calls_total", tool, "")
    }

    fn errors(&self, tool: &str, kind: &str) -> f64 {
        let kind = format!(r#",kind="{kind}""#);
        self.of_tool("mainstay_call_errors_total", tool, &kind)
    }

    /// The value of a metric about the server `x`.
    pub fn of_server(&self, name: &str) -> f64 {
        self.value(&format!(r#"{name}{{server="x"}}"#))
    }

    /// All values of the label `tool`.
    fn tools(&self) -> Vec<&str> {
        let calls = self.samples.keys();
        let calls = calls.filter(|sample| sample.starts_with("mainstay_calls_total{"));
        calls
            .filter_map(|sample| sample.split_once("tool=\"")?.1.split('"').next())
            .collect()
    }
}

/// Scrapes until the condition is true. Returns that scrape.
async fn until(
    description: &str,
    gateway: &Gateway,
    condition: impl Fn(&Scrape) -> bool,
) -> Scrape {
    found(description, async || {
        let scrape = Scrape::fetch(gateway).await;
        condition(&scrape).then_some(scrape)
    })
    .await
}

over_every_transport! {
    /// Each call is counted with its outcome.
    async fn calls_are_counted_by_how_they_ended(kind) {
        let backend = Backend::start(kind, &[]).await.option("timeout", 1000);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        client.assert_echo("x__echo").await;
        client.assert_echo("x__echo").await;
        client.call("x__error", json!({})).await;
        client.error("tools/call", json!({"name": "x__rpc_error"})).await;
        client.call("x__sleep", json!({"ms": 60_000})).await;
        client.error("tools/call", json!({"name": "x__nothing"})).await;
        let (status, _) = gateway
            .rest()
            .post("/api/mcp-tools/call", json!({"tool": "nobody/echo"}))
            .await;
        assert_eq!(status, StatusCode::NOT_FOUND);

        let scrape = Scrape::fetch(&gateway).await;
        assert_eq!(scrape.calls("echo"), 2.0);
        assert_eq!(scrape.calls("error"), 1.0);
        assert_eq!(scrape.errors("error", "tool_error"), 1.0);
        assert_eq!(scrape.errors("rpc_error", "call_failed"), 1.0);
        assert_eq!(scrape.errors("sleep", "call_timeout"), 1.0);
        assert_eq!(scrape.errors("echo", "tool_error"), 0.0);
        let refused_calls = |kind| scrape.value(&format!(r#"mainstay_refused_calls_total{{kind="{kind}"}}"#));
        assert_eq!((refused_calls("tool_not_found"), refused_calls("server_not_found")), (1.0, 1.0));

        // Check the buckets of the duration, and its sum.
        let bucket = |le| {
            let sleep_labels = r#"server="x",method="tools/call",tool="sleep""#;
            scrape.value(&format!(r#"mainstay_call_duration_seconds_bucket{{le="{le}",{sleep_labels}}}"#))
        };
        assert_eq!((bucket("0.25"), bucket("5.0"), bucket("+Inf")), (0.0, 1.0, 1.0));
        assert!(scrape.of_tool("mainstay_call_duration_seconds_sum", "sleep", "") >= 1.0);
        let upstream = scrape.of_server("mainstay_call_upstream_seconds_sum");
        assert!((1.0..5.0).contains(&upstream), "{upstream}");
        assert_eq!(scrape.of_server("mainstay_call_queue_seconds_count"), 5.0);
        assert!(scrape.of_tool("mainstay_call_request_bytes_total", "echo", "") > 100.0);
        assert!(scrape.of_tool("mainstay_call_response_bytes_total", "echo", "") > 100.0);

        assert_eq!(scrape.of_server("mainstay_calls_in_flight"), 0.0);
        assert_eq!(scrape.of_server("mainstay_calls_waiting"), 0.0);
        assert_eq!(scrape.of_server("mainstay_server_up"), 1.0);
        let state = |state_name| scrape.value(&format!(r#"mainstay_server_state{{server="x",state="{state_name}"}}"#));
        assert_eq!((state("connected"), state("failed")), (1.0, 0.0));
        assert_eq!(scrape.value("mainstay_sessions"), 1.0);
        gateway.stop().await;
    }

    /// A gauge has the number of calls in flight. After its client has disconnected, a call counts
    /// as cancelled.
    async fn calls_under_way_are_a_depth(kind) {
        let backend = Backend::start(kind, &[]).await;
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        let client = gateway.client().await;
        let call = client.request_text("tools/call", r#"{"name":"x__sleep","arguments":{"ms":60000}}"#);
        let id = serde_json::from_str::<serde_json::Value>(&call).expect("JSON")["id"].clone();
        let pending_call = client.begin(call);
        let cancel_task = async {
            until("a call in flight", &gateway, |scrape| scrape.of_server("mainstay_calls_in_flight") == 1.0).await;
            client.cancel(&id).await;
        };
        tokio::join!(pending_call, cancel_task);
        let has_cancellation = |scrape: &Scrape| scrape.errors("sleep", "cancelled") == 1.0;
        let scrape = until("its end", &gateway, has_cancellation).await;
        assert_eq!(scrape.of_server("mainstay_calls_in_flight"), 0.0);
        gateway.stop().await;
    }
}

/// The number of series stays limited, however many names of clients and tools there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_have_a_bound_and_are_no_clients() {
    let backend = Backend::start(BackendKind::Http, &["--tools", "80"]).await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client_at("/servers/x/mcp").await;
    until("its list", &gateway, |scrape| {
        scrape.of_server("mainstay_server_up") == 1.0
    })
    .await;
    gateway.client().await.tools().await;
    client
        .request("tools/call", json!({"name": "made\"up\n"}))
        .await;
    for number in 1..=80 {
        client.call_text(&format!("tool_{number}"), json!({})).await;
    }
    let scrape = Scrape::fetch(&gateway).await;
    let tools = scrape.tools();
    assert_eq!(tools.len(), 65, "{tools:?}");
    assert_eq!(scrape.calls("tool_1"), 1.0);
    assert_eq!(scrape.calls("other"), 17.0);
    gateway.stop().await;
}

/// A crash is counted. There are metrics about processes.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_and_processes_show() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    let scrape = Scrape::fetch(&gateway).await;
    let memory = scrape.of_server("mainstay_server_memory_bytes");
    assert!(memory > 100_000.0, "{memory}");
    assert_eq!(scrape.of_server("mainstay_server_processes"), 1.0);
    assert!(scrape.value("process_resident_memory_bytes") > 1e6);
    for name in ["reconnects", "restarts", "crashes"] {
        assert_eq!(
            scrape.of_server(&format!("mainstay_server_{name}_total")),
            0.0
        );
    }

    client.call("x__crash", json!({})).await;
    client.assert_echo("x__echo").await;
    let scrape = Scrape::fetch(&gateway).await;
    for name in ["reconnects", "restarts", "crashes"] {
        assert_eq!(
            scrape.of_server(&format!("mainstay_server_{name}_total")),
            1.0,
            "{name}"
        );
    }
    assert_eq!(scrape.errors("crash", "outcome_unknown"), 1.0);
    assert_eq!(scrape.of_server("mainstay_server_processes"), 1.0);
    gateway.stop().await;
}

/// After a server is removed, its series are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_server_vanishes() {
    let (first_backend, other_backend) = (Backend::stdio().await, Backend::http().await);
    let gateway = Gateway::with_servers(&[("x", &first_backend), ("y", &other_backend)]).await;
    let client = gateway.client().await;
    client.assert_echo("x__echo").await;
    client.assert_echo("y__echo").await;
    let server_values = |scrape: &Scrape| {
        let names = scrape.samples.keys();
        names
            .filter(|sample| sample.contains(r#"server="x""#))
            .count()
    };
    assert_ne!(server_values(&Scrape::fetch(&gateway).await), 0);
    let (status, answer) = gateway.rest().delete("/api/servers/x").await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let scrape = Scrape::fetch(&gateway).await;
    assert_eq!(server_values(&scrape), 0);
    assert_eq!(scrape.value(r#"mainstay_server_up{server="y"}"#), 1.0);
    gateway.stop().await;
}

/// There are metrics about the journal's queue and about dropped records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_is_watched() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let journal = mainstay_journal_store::open(folder.path(), &config::Journal::default())
        .expect("a journal");
    let journal = Arc::new(journal);
    let options = GatewayOptions {
        journal: Some(Arc::clone(&journal)),
        ..GatewayOptions::default()
    };
    let backend = Backend::http().await;
    let servers = crate::gateway::config(&[("x", &backend)], json!({}));
    let gateway = Gateway::with_options(&servers, options).await;
    gateway.client().await.assert_echo("x__echo").await;
    soon("the record", journal.flush())
        .await
        .expect("it writes");
    let scrape = Scrape::fetch(&gateway).await;
    assert_eq!(scrape.value("mainstay_journal_records_total"), 1.0);
    assert!(
        scrape
            .samples
            .contains_key("mainstay_journal_dropped_records_total")
    );
    assert!(
        scrape
            .samples
            .contains_key("mainstay_journal_waiting_calls")
    );
    gateway.stop().await;
}

/// If `Accept` does not name OpenMetrics, the older format has the same values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_formats_tell_the_same() {
    let backend = Backend::http().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    gateway.client().await.assert_echo("x__echo").await;
    let open_metrics = Scrape::fetch_as(&gateway, Format::OpenMetrics).await;
    let text = Scrape::fetch_as(&gateway, Format::Text).await;
    assert!(open_metrics.samples.keys().eq(text.samples.keys()));
    assert_eq!((open_metrics.calls("echo"), text.calls("echo")), (1.0, 1.0));
    let renamed: BTreeMap<String, String> = open_metrics
        .families
        .into_iter()
        .map(|(name, kind)| match kind.as_str() {
            "counter" => (format!("{name}_total"), kind),
            "info" => (format!("{name}_info"), "gauge".to_owned()),
            _ => (name, kind),
        })
        .collect();
    assert_eq!(text.families, renamed);
    gateway.stop().await;
}

/// docs/metrics.md must list every family with its type.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_family_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeMap<String, String> = rows
        .filter_map(|row| {
            let (name, rest) = row.split_once("` | ")?;
            let kind = rest.split(" |").next()?;
            Some((name.to_owned(), kind.to_owned()))
        })
        .filter(|(_, kind)| ["counter", "gauge", "histogram", "info"].contains(&kind.as_str()))
        .collect();
    let gateway = Gateway::with_servers(&[]).await;
    let families = Scrape::fetch(&gateway).await.families.into_iter();
    // Compare the names that queries use, such as `..._total`.
    let served: BTreeMap<String, String> = families
        .map(|(name, kind)| match kind.as_str() {
            "counter" => (format!("{name}_total"), kind),
            "info" => (format!("{name}_info"), kind),
            _ => (name, kind),
        })
        .collect();
    assert_eq!(served, documented);
    gateway.stop().await;
}

/// Concurrent scrapes and calls do not delay each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapes_hold_nobody_up() {
    let backend = Backend::stdio().await;
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let client = gateway.client().await;
    let scrapes = futures_util::future::join_all((0..16).map(|_| Scrape::fetch(&gateway)));
    let calls = async {
        for _ in 0..50 {
            client.assert_echo("x__echo").await;
        }
    };
    soon("both", async { tokio::join!(scrapes, calls) }).await;
    let scrape = Scrape::fetch(&gateway).await;
    assert_eq!(scrape.calls("echo"), 50.0);
    gateway.stop().await;
}
