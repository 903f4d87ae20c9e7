//! Secrets in records, logs and states are redacted: secrets with known names or forms, and secrets of the
//! configuration that a server may repeat.

use std::sync::Arc;

use mainstay_core::{
    config::{self, Redact},
    record::Cid,
};
use mainstay_gateway::GatewayOptions;
use mainstay_journal::{Journal, RecordFilter};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    backend::{Backend, BackendKind},
    client::text,
    gateway::{Gateway, found},
    rogue,
};

/// A token with characters that encodings change: plain, percent-encoded, in base64 after a name, and as a
/// header.
const SECRET: &str = "top/secret+token?1";
const FORMS: [&str; 5] = [
    SECRET,
    "top%2Fsecret%2Btoken%3f1",
    "eDp0b3Avc2VjcmV0K3Rva2VuPzE=",
    "QmVhcmVyIHRvcC9zZWNyZXQrdG9rZW4_MQ",
    "746f702f7365637265742b746f6b656e3f31",
];

struct StoredCalls {
    gateway: Gateway,
    journal: Arc<Journal>,
    folder: TempDir,
}

impl StoredCalls {
    async fn with_server(server: &Value, redact: Redact) -> Self {
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
            gateway: Gateway::with_options(&all, options).await,
            journal,
            folder,
        }
    }

    /// All stored data of calls: the records over REST, and their objects.
    async fn everything(&self) -> String {
        self.journal.flush().await.expect("it writes");
        let page = self.journal.records(RecordFilter::default(), 100).await;
        let mut all = String::new();
        for record in page.expect("it reads").calls {
            let id = record.id;
            let details = self
                .gateway
                .rest()
                .get(&format!("/api/call-records/{id}"))
                .await;
            all.push_str(&details.to_string());
            for payload in [record.arguments, record.result].into_iter().flatten() {
                // A call without arguments stores none.
                let Some(cid) = payload.cid else { continue };
                let object = self.journal.object(cid).await.expect("kept");
                assert_eq!(
                    Cid::for_content(&object),
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

/// Without a setting in the configuration. The server gets the client's text, and the client gets the server's
/// text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_hide_what_is_known_to_be_secret() {
    let text_sent = "password: hunter2, Bearer abcdef, ghp_0123456789abcdefghijkl";
    for (defaults, is_kept) in [(true, false), (false, true)] {
        let backend = Backend::start(BackendKind::Stdio, &[]).await;
        let rules = Redact {
            defaults,
            ..Redact::default()
        };
        let stored = StoredCalls::with_server(&backend.entry, rules).await;
        let client = stored.gateway.client().await;
        let arguments = json!({"text": text_sent, "api_key": "k3y", "deep": [{"Password": 4711}]});
        let result = client.call("x__echo", arguments.clone()).await;
        assert_eq!(text(&result), text_sent);
        let received = &backend.of_method("tools/call")[0]["params"]["arguments"];
        assert_eq!(received, &arguments);
        let all = stored.everything().await;
        for secret in [
            "hunter2",
            "abcdef",
            "ghp_0123456789abcdefghijkl",
            "k3y",
            "4711",
        ] {
            assert_eq!(all.contains(secret), is_kept, "{secret}: {all}");
            // A guess does not find the secret, either.
            let path = format!("/api/call-records?text={secret}");
            let found = stored.gateway.rest().get(&path).await;
            assert_eq!(found["total_count"], u64::from(is_kept), "{secret}");
        }
        assert_eq!(all.contains("[redacted]"), !is_kept);
        stored.gateway.stop().await;
    }
}

/// Other forms: a pair of name and value, the value of an option, and headers of several words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_hide_secrets_in_every_form() {
    let backend = Backend::start(BackendKind::Stdio, &[]).await;
    let stored = StoredCalls::with_server(&backend.entry, Redact::default()).await;
    let client = stored.gateway.client().await;
    let text_sent = "Authorization: ApiKey hush-1\nCookie: a=b; c=hush-2\npassword: \"a hush-3\" <pwd>hush-4</pwd>";
    let arguments = json!({
        "text": text_sent,
        "headers": [{"name": "Authorization", "value": "Basic hush-5"}, ["X-Api-Key", "hush-6"]],
        "argv": ["run", "--password", "hush-7"],
        "tokens": ["hush-8"],
        "max_tokens": 4096,
    });
    client.call("x__echo", arguments).await;
    let all = stored.everything().await;
    assert!(!all.contains("hush"), "{all}");
    assert!(all.contains("4096"), "{all}");
    stored.gateway.stop().await;
}

fn quoting() -> String {
    format!("not for {}", FORMS.join(" or "))
}

fn entry(mut server: Value) -> Value {
    server["headers"] = json!({"Authorization": format!("Bearer {SECRET}")});
    server
}

/// A server repeats the headers of Mainstay's request in its answer. The client gets the server's text, and
/// Mainstay stores no secret.
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
        // Even if all other redaction is off.
        let off = Redact {
            defaults: false,
            ..Redact::default()
        };
        let stored = StoredCalls::with_server(&server, off).await;
        let client = stored.gateway.client().await;
        let messages = client
            .exchange("tools/call", r#"{"name":"x__act"}"#)
            .await
            .concat();
        // The page of an HTTP error is quoted in Mainstay's own text.
        assert_eq!(messages.contains(SECRET), index < 3, "{messages}");
        let all = stored.everything().await;
        assert!(all.contains("[redacted]"), "{index}: {all}");
        hides(&all);
        let rest = stored.gateway.rest();
        hides(&rest.server("x").await.to_string());
        hides(&rest.get("/api/events/recent").await.to_string());
    }
}

/// The secret is not in the server's state, and not in events and logs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_a_server_says_back_is_not_shown() {
    let server = entry(rogue::unwilling(&quoting()).await);
    let stored = StoredCalls::with_server(&server, Redact::default()).await;
    let rest = stored.gateway.rest();
    let server = rest
        .until("x", "refused", |server| {
            server["lastError"].to_string().contains("[redacted]")
        })
        .await;
    hides(&server.to_string());
    hides(&rest.get("/api/servers").await.to_string());
    hides(&rest.get("/api/events/recent").await.to_string());
    hides(&rest.get("/api/health").await.to_string());
    let client = stored.gateway.client().await;
    hides(
        &client
            .exchange("tools/call", r#"{"name":"x__act"}"#)
            .await
            .concat(),
    );
    hides(&stored.everything().await);
    let StoredCalls {
        gateway, folder, ..
    } = stored;
    gateway.stop().await;
    for file in ["mcp-x.log", "mcp-errors.log"] {
        let log = std::fs::read_to_string(folder.path().join("logs").join(file)).expect("a log");
        assert!(log.contains("[redacted]"), "{log}");
        hides(&log);
    }
}

/// The environment that the configuration gives to a process, in the output of the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variable_that_a_process_prints_is_not_logged() {
    let script = "echo \"cannot log in with $FOO, nor $(printf %s \"$FOO\" | base64)\" >&2; exit 3";
    let server = json!({"command": "sh", "args": ["-c", script], "env": {"FOO": "topsecret123"}});
    let stored = StoredCalls::with_server(&server, Redact::default()).await;
    let rest = stored.gateway.rest();
    let server = found("its last words", async || {
        let server = rest.server("x").await.to_string();
        server.contains("cannot log in").then_some(server)
    })
    .await;
    assert!(
        server.contains("cannot log in with [redacted], nor [redacted]"),
        "{server}"
    );
    let StoredCalls {
        gateway, folder, ..
    } = stored;
    gateway.stop().await;
    let log = std::fs::read_to_string(folder.path().join("logs/mcp-x.log")).expect("a log");
    assert!(
        log.contains("cannot log in with [redacted], nor [redacted]"),
        "{log}"
    );
}
