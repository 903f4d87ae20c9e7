//! If a process exits, the reason is the last line of its stderr, whatever output came before.
#![cfg(unix)]

use mainstay_core::trouble;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    gateway::Gateway,
    rest_client::never_retry,
};

/// The reason in the status of a server whose process has run this script.
async fn reason(script: &str) -> String {
    let mut backend = Backend::start(BackendKind::Stdio, &[])
        .await
        .option("reconnect", never_retry());
    backend.entry["command"] = json!("sh");
    backend.entry["args"] = json!(["-c", script]);
    let gateway = Gateway::with_servers(&[("x", &backend)]).await;
    let rest = gateway.rest();
    let is_down = |server: &Value| server["lastError"].is_string();
    let server = rest.until("x", "a reason", is_down).await;
    let lines = server["stderr"].as_array().cloned().unwrap_or_default();
    let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
    let reason = server["lastError"].as_str().expect("a text");
    trouble::explained(reason, &lines, server["stdout"].as_str())
}

#[tokio::test]
async fn the_error_behind_a_progress_bar_is_the_reason() {
    for script in [
        // A progress bar that uses carriage returns, and then an error.
        r"for i in $(seq 500); do printf 'loading %s\r' $i; done >&2; printf 'Error: no licence\r' >&2; exit 3",
        r"printf 'loading 50%%\rloading 100%%\rError: no licence' >&2; exit 3",
        // A line without a line break.
        r"head -c 300000 /dev/zero | tr '\0' . >&2; printf 'Error: no licence' >&2; exit 3",
        // ANSI colours.
        r"printf '\033[31m\033[1mError:\033[0m no licence\033[0m\n' >&2; exit 3",
    ] {
        let reason = reason(script).await;
        assert!(reason.ends_with("Error: no licence"), "{script}: {reason}");
        assert!(reason.contains("code 3"), "{script}: {reason}");
    }
}

/// Stderr is read at a limited rate, but the last line is never lost.
#[tokio::test]
async fn the_error_behind_a_flood_is_the_reason() {
    let flood = r"head -c 30000000 /dev/zero | tr '\0' 'x' | fold -w 79 >&2; printf 'Error: no licence\n' >&2; exit 3";
    let reason = reason(flood).await;
    assert!(reason.ends_with("Error: no licence"), "{reason}");
}
