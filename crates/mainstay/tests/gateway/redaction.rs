//! What records, logs and states do not say: secrets that are known by their names or forms, and those of
//! the configuration, which a server may say back.

use std::sync::Arc;

use mainstay_core::{
    config::{self, Redact},
    record::Cid,
};
use mainstay_gateway::GatewayOptions;
use mainstay_journal::{Filter, Journal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::{Backend, Kind},
    client::text,
    gateway::{Gateway, found},
    rogue,
};

/// A token with characters that an encoding changes; as it is, in percent-encoding, in base64 behind a
/// name, and as the header that it stands in.
const SECRET: &str = "top/secret+token?1";
const FORMS: [&str; 5] = [
    SECRET,
    "top%2Fsecret%2Btoken%3f1",
    "eDp0b3Avc2VjcmV0K3Rva2VuPzE=",
    "QmVhcmVyIHRvcC9zZWNyZXQrdG9rZW4_MQ",
    "746f702f7365637265742b746f6b656e3f31",
];

struct Kept {
    gateway: Gateway,
    journal: Arc<Journal>,
    folder: TempDir,
}

impl Kept {
    async fn of(server: &Value, redact: Redact) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = config::Journal {
            redact,
            ..config::Journal::default()
        };
        let journal = mainstay_journal_store::open(folder.path(), &settings).expect("a journal");
        let journal = Arc::new(journal);
        let options = GatewayOptions {
            journal: Some(Arc::clone(&journal)),
            state: Some(folder.path().to_owned()),
            ..GatewayOptions::default()
        };
        let all = json!({"mcpServers": {"x": server}});
        Self {
            gateway: Gateway::set(&all, options).await,
            journal,
            folder,
        }
    }

    /// Everything that is kept of calls: the records as REST shows them, and what they lead to.
    async fn everything(&self) -> String {
        self.journal.flush().await.expect("it writes");
        let page = self.journal.records(Filter::default(), 100).await;
        let mut all = String::new();
        for record in page.expect("it reads").calls {
            let id = record.id;
            let shown = self
                .gateway
                .rest()
                .get(&format!("/api/call-records/{id}"))
                .await;
            all.push_str(&shown.to_string());
            for payload in [record.arguments, record.result].into_iter().flatten() {
                // A call without arguments has none to keep.
                let Some(cid) = payload.cid else { continue };
                let object = self.journal.object(cid).await.expect("kept");
                assert_eq!(
                    Cid::of(&object),
                    cid,
                    "the identifier is that of what is kept"
                );
                all.push_str(&String::from_utf8(object).expect("UTF-8"));
            }
        }
        all
    }
}

fn hides(text: &str) {
    for secret in FORMS.iter().chain(&["secret+token", "secret%2"]) {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

/// Without a word in the configuration. The server gets what the client sent, and the client what the
/// server said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_hide_what_is_known_to_be_secret() {
    let said = "password: hunter2, Bearer abcdef, ghp_0123456789abcdefghijkl";
    for (defaults, is_kept) in [(true, false), (false, true)] {
        let backend = Backend::start(Kind::Stdio, &[]).await;
        let rules = Redact {
            defaults,
            ..Redact::default()
        };
        let kept = Kept::of(&backend.entry, rules).await;
        let client = kept.gateway.client().await;
        let arguments = json!({"text": said, "api_key": "k3y", "deep": [{"Password": 4711}]});
        let result = client.call("x__echo", arguments.clone()).await;
        assert_eq!(text(&result), said);
        let received = &backend.of_method("tools/call")[0]["params"]["arguments"];
        assert_eq!(received, &arguments);
        let all = kept.everything().await;
        for secret in [
            "hunter2",
            "abcdef",
            "ghp_0123456789abcdefghijkl",
            "k3y",
            "4711",
        ] {
            assert_eq!(all.contains(secret), is_kept, "{secret}: {all}");
            // Nor is a secret found by guessing it.
            let path = format!("/api/call-records?text={secret}");
            let found = kept.gateway.rest().get(&path).await;
            assert_eq!(found["total_count"], u64::from(is_kept), "{secret}");
        }
        assert_eq!(all.contains("[redacted]"), !is_kept);
        kept.gateway.stop().await;
    }
}

/// The same in other forms: as a pair of name and value, behind an option, and in headers of several words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_hide_secrets_in_every_form() {
    let backend = Backend::start(Kind::Stdio, &[]).await;
    let kept = Kept::of(&backend.entry, Redact::default()).await;
    let client = kept.gateway.client().await;
    let said = "Authorization: ApiKey hush-1\nCookie: a=b; c=hush-2\npassword: \"a hush-3\" <pwd>hush-4</pwd>";
    let arguments = json!({
        "text": said,
        "headers": [{"name": "Authorization", "value": "Basic hush-5"}, ["X-Api-Key", "hush-6"]],
        "argv": ["run", "--password", "hush-7"],
        "tokens": ["hush-8"],
        "max_tokens": 4096,
    });
    client.call("x__echo", arguments).await;
    let all = kept.everything().await;
    assert!(!all.contains("hush"), "{all}");
    assert!(all.contains("4096"), "{all}");
    kept.gateway.stop().await;
}

fn quoting() -> String {
    format!("not for {}", FORMS.join(" or "))
}

fn entry(mut server: Value) -> Value {
    server["headers"] = json!({"Authorization": format!("Bearer {SECRET}")});
    server
}

/// A server that quotes our request's headers in what it answers: the client gets its words, and nothing
/// of ours keeps the secret.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_a_server_says_back_is_not_recorded() {
    let answers: [fn(&Value) -> String; 4] = [
        |id| {
            let error =
                json!({"code": -32000, "message": quoting(), "data": {"headers": [quoting()]}});
            rogue::http(
                "application/json",
                &json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string(),
            )
        },
        |id| {
            let result = json!({"isError": true, "content": [{"type": "text", "text": quoting()}]});
            rogue::http(
                "application/json",
                &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
            )
        },
        |id| {
            let inside = json!({"said": quoting()}).to_string();
            let result = json!({"content": [{"type": "text", "text": inside}]});
            rogue::http(
                "application/json",
                &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
            )
        },
        |_| format!("HTTP/1.1 500 No\r\nconnection: close\r\n\r\n{}", quoting()),
    ];
    for (index, answer) in answers.into_iter().enumerate() {
        let server = entry(rogue::start(answer).await);
        // Whatever else is redacted.
        let off = Redact {
            defaults: false,
            ..Redact::default()
        };
        let kept = Kept::of(&server, off).await;
        let client = kept.gateway.client().await;
        let said = client
            .exchange("tools/call", r#"{"name":"x__act"}"#)
            .await
            .concat();
        // A page of an HTTP error is quoted in our own words.
        assert_eq!(said.contains(SECRET), index < 3, "{said}");
        let all = kept.everything().await;
        assert!(all.contains("[redacted]"), "{index}: {all}");
        hides(&all);
        let rest = kept.gateway.rest();
        hides(&rest.server("x").await.to_string());
        hides(&rest.get("/api/events/recent").await.to_string());
    }
}

/// Neither the state of a server says it, nor events and logs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_a_server_says_back_is_not_shown() {
    let server = entry(rogue::unwilling(&quoting()).await);
    let kept = Kept::of(&server, Redact::default()).await;
    let rest = kept.gateway.rest();
    let shown = rest
        .until("x", "refused", |server| {
            server["lastError"].to_string().contains("[redacted]")
        })
        .await;
    hides(&shown.to_string());
    hides(&rest.get("/api/servers").await.to_string());
    hides(&rest.get("/api/events/recent").await.to_string());
    hides(&rest.get("/api/health").await.to_string());
    let client = kept.gateway.client().await;
    hides(
        &client
            .exchange("tools/call", r#"{"name":"x__act"}"#)
            .await
            .concat(),
    );
    hides(&kept.everything().await);
    let Kept {
        gateway, folder, ..
    } = kept;
    gateway.stop().await;
    for file in ["mcp-x.log", "mcp-errors.log"] {
        let log = std::fs::read_to_string(folder.path().join("logs").join(file)).expect("a log");
        assert!(log.contains("[redacted]"), "{log}");
        hides(&log);
    }
}

/// The environment that the configuration gives a process, in what the process writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variable_that_a_process_prints_is_not_logged() {
    let script = "echo \"cannot log in with $FOO, nor $(printf %s \"$FOO\" | base64)\" >&2; exit 3";
    let server = json!({"command": "sh", "args": ["-c", script], "env": {"FOO": "topsecret123"}});
    let kept = Kept::of(&server, Redact::default()).await;
    let rest = kept.gateway.rest();
    let shown = found("its last words", async || {
        let shown = rest.server("x").await.to_string();
        shown.contains("cannot log in").then_some(shown)
    })
    .await;
    assert!(
        shown.contains("cannot log in with [redacted], nor [redacted]"),
        "{shown}"
    );
    let Kept {
        gateway, folder, ..
    } = kept;
    gateway.stop().await;
    let log = std::fs::read_to_string(folder.path().join("logs/mcp-x.log")).expect("a log");
    assert!(
        log.contains("cannot log in with [redacted], nor [redacted]"),
        "{log}"
    );
}
