//! Servers whose progress values do not increase.

use serde_json::json;

use crate::{
    backend::{Backend, BackendKind},
    client::failure,
    gateway::Gateway,
};

over_every_transport! {
    /// The client receives this progress, but it does not extend the time limit of the call.
    async fn progress_that_does_not_rise_extends_nothing(kind) {
        let backend = Backend::start(kind, &["--bend", "flat-progress"]).await;
        let backend = backend.option("timeout_s", 1).option("maxTimeoutMs", 60_000);
        let gateway = Gateway::with_servers(&[("x", &backend)]).await;
        for (path, tool) in [("/mcp", "x__progress"), ("/servers/x/mcp", "progress")] {
            let client = gateway.client_at(path).await;
            let params = json!({
                "name": tool,
                "arguments": {"steps": 1000, "intervalMs": 150},
                "_meta": {"progressToken": 1},
            });
            let messages = client.exchange("tools/call", &params.to_string()).await;
            assert!((2..30).contains(&messages.len()), "{messages:?}");
            let result = crate::client::value(messages.last().expect("an answer"));
            assert_eq!(failure(&result["result"])["kind"], "call_timeout", "{result}");
        }
    }
}
