//! Redaction in records, logs and the status of servers. Secrets are recognised by their names, by
//! their forms, or because they are configured and a server repeats them.

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

/// A token with characters that encodings change, and its encoded forms.
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
        let config_json = json!({"mcpServers": {"x": server}});
        Self {
            gateway: Gateway::with_options(&config_json, options).await,
            journal,
            folder,
        }
    }

    /// Everything that is stored about calls: the records and their objects.
    async fn stored_text(&self) -> String {
        self.journal.flush().await.expect("it writes");
        let page = self.journal.records(RecordFilter::default(), 100).await;
        let mut text = String::new();
        for record in page.expect("it reads").calls {
            let id = record.id;
            let details = self
                .gateway
                .rest()
                .get(&format!("/api/call-records/{id}"))
                .await;
            text.push_str(&details.to_string());
            for payload in [record.arguments, record.result].into_iter().flatten() {
                // A call without arguments has no object for them.
                let Some(cid) = payload.cid else { continue };
                let object = self.journal.object(cid).await.expect("kept");
                assert_eq!(
                    Cid::for_content(&object),
                    cid,
                    "the identifier is that of what is kept"
                );
                text.push_str(&String::from_utf8(object).expect("UTF-8"));
            }
        }
        text
    }
}

fn assert_hides(text: &str) {
    for secret in FORMS.iter().chain(&["secret+token", "secret%2"]) {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

/// The default rules redact what is stored. The client and the server still exchange the original
/// texts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_hide_what_is_known_to_be_secret() {
    let text_sent = "password: hunter2, Bearer abcdef, ghp_0123456789abcdefghijkl";
    for (use_defaults, is_kept) in [(true, false), (false, true)] {
        let backend = Backend::start(BackendKind::Stdio, &[]).await;
        let rules = Redact {
            defaults: use_defaults,
            ..Redact::default()
        };
        let fixture = StoredCalls::with_server(&backend.entry, rules).await;
        let client = fixture.gateway.client().await;
        let arguments = json!({"text": text_sent, "api_key": "k3y", "deep": [{"Password": 4711}]});
        let result = client.call("x__echo", arguments.clone()).await;
        assert_eq!(text(&result), text_sent);
        let received_result = &backend.of_method("tools/call")[0]["params"]["arguments"];
        assert_eq!(received_result, &arguments);
        let records_text = fixture.stored_text().await;
        for secret in [
            "hunter2",
            "abcdef",
            "ghp_0123456789abcdefghijkl",
            "k3y",
            "4711",
        ] {
            assert_eq!(
                records_text.contains(secret),
                is_kept,
                "{secret}: {records_text}"
            );
            // A search for the secret must not find the record.
            let path = format!("/api/call-records?text={secret}");
            let found_page = fixture.gateway.rest().get(&path).await;
            assert_eq!(found_page["total_count"], u64::from(is_kept), "{secret}");
        }
        assert_eq!(records_text.contains("[redacted]"), !is_kept);
        fixture.gateway.stop().await;
    }
}

/// Redaction recognises pairs of a name and a value, command-line options, and headers with several
/// words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_hide_secrets_in_every_form() {
    let backend = Backend::start(BackendKind::Stdio, &[]).await;
    let fixture = StoredCalls::with_server(&backend.entry, Redact::default()).await;
    let client = fixture.gateway.client().await;
    let text_sent = "Authorization: ApiKey hush-1\nCookie: a=b; c=hush-2\npassword: \"a hush-3\" <pwd>hush-4</pwd>";
    let arguments = json!({
        "text": text_sent,
        "headers": [{"name": "Authorization", "value": "Basic hush-5"}, ["X-Api-Key", "hush-6"]],
        "argv": ["run", "--password", "hush-7"],
        "tokens": ["hush-8"],
        "max_tokens": 4096,
    });
    client.call("x__echo", arguments).await;
    let records_text = fixture.stored_text().await;
    assert!(!records_text.contains("hush"), "{records_text}");
    assert!(records_text.contains("4096"), "{records_text}");
    fixture.gateway.stop().await;
}

fn quoting_server() -> String {
    format!("not for {}", FORMS.join(" or "))
}

fn entry(mut server: Value) -> Value {
    server["headers"] = json!({"Authorization": format!("Bearer {SECRET}")});
    server
}

/// A server repeats request headers in its answer. The client gets the answer unchanged, but no
/// secret is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_a_server_says_back_is_not_recorded() {
    let answers: [fn(&Value) -> String; 4] = [
        |id| {
            let error = json!({"code": -32000, "message": quoting_server(), "data": {"headers": [quoting_server()]}});
            rogue::http(
                "application/json",
                &json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string(),
            )
        },
        |id| {
            let result =
                json!({"isError": true, "content": [{"type": "text", "text": quoting_server()}]});
            rogue::http(
                "application/json",
                &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
            )
        },
        |id| {
            let inner_text = json!({"said": quoting_server()}).to_string();
            let result = json!({"content": [{"type": "text", "text": inner_text}]});
            rogue::http(
                "application/json",
                &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
            )
        },
        |_| {
            format!(
                "HTTP/1.1 500 No\r\nconnection: close\r\n\r\n{}",
                quoting_server()
            )
        },
    ];
    for (index, answer) in answers.into_iter().enumerate() {
        let server = entry(rogue::start(answer).await);
        // Configured secrets are redacted even without the default rules.
        let no_defaults = Redact {
            defaults: false,
            ..Redact::default()
        };
        let fixture = StoredCalls::with_server(&server, no_defaults).await;
        let client = fixture.gateway.client().await;
        let messages = client
            .exchange("tools/call", r#"{"name":"x__act"}"#)
            .await
            .concat();
        // The last answer is an error page. Mainstay quotes it in its own error text, and redacts
        // the secret there.
        assert_eq!(messages.contains(SECRET), index < 3, "{messages}");
        let records_text = fixture.stored_text().await;
        assert!(
            records_text.contains("[redacted]"),
            "{index}: {records_text}"
        );
        assert_hides(&records_text);
        let rest = fixture.gateway.rest();
        assert_hides(&rest.server("x").await.to_string());
        assert_hides(&rest.get("/api/events/recent").await.to_string());
    }
}

/// The secret does not appear in the server's status, in events or in logs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_a_server_says_back_is_not_shown() {
    let server = entry(rogue::start_unwilling(&quoting_server()).await);
    let fixture = StoredCalls::with_server(&server, Redact::default()).await;
    let rest = fixture.gateway.rest();
    let server = rest
        .until("x", "refused", |server| {
            server["lastError"].to_string().contains("[redacted]")
        })
        .await;
    assert_hides(&server.to_string());
    assert_hides(&rest.get("/api/servers").await.to_string());
    assert_hides(&rest.get("/api/events/recent").await.to_string());
    assert_hides(&rest.get("/api/health").await.to_string());
    let client = fixture.gateway.client().await;
    assert_hides(
        &client
            .exchange("tools/call", r#"{"name":"x__act"}"#)
            .await
            .concat(),
    );
    assert_hides(&fixture.stored_text().await);
    let StoredCalls {
        gateway, folder, ..
    } = fixture;
    gateway.stop().await;
    for file in ["mcp-x.log", "mcp-errors.log"] {
        let log = std::fs::read_to_string(folder.path().join("logs").join(file)).expect("a log");
        assert!(log.contains("[redacted]"), "{log}");
        assert_hides(&log);
    }
}

/// A process prints a variable that its entry sets. Its log must not have the value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variable_that_a_process_prints_is_not_logged() {
    let script = "echo \"cannot log in with $FOO, nor $(printf %s \"$FOO\" | base64)\" >&2; exit 3";
    let server = json!({"command": "sh", "args": ["-c", script], "env": {"FOO": "topsecret123"}});
    let fixture = StoredCalls::with_server(&server, Redact::default()).await;
    let rest = fixture.gateway.rest();
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
    } = fixture;
    gateway.stop().await;
    let log = std::fs::read_to_string(folder.path().join("logs/mcp-x.log")).expect("a log");
    assert!(
        log.contains("cannot log in with [redacted], nor [redacted]"),
        "{log}"
    );
}
