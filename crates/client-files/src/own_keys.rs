//! Settings of Mainstay that no client has.

use serde_json::{Map, Value};

/// Settings of ours that no client has: what an entry has beside them is read as clients write it.
const OURS: [&str; 30] = [
    "autoReconnect",
    "autoStart",
    "auto_reconnect",
    "callRetry",
    "connectTimeoutMs",
    "forgiveAfterMs",
    "hangAfterMs",
    "health",
    "healthCheckIntervalMs",
    "healthCheckUrl",
    "inheritEnv",
    "initialDelayMs",
    "inputParams",
    "isolation",
    "listChanged",
    "maxDelayMs",
    "maxMessageBytes",
    "maxRetries",
    "maxSessions",
    "maxTimeoutMs",
    "preset",
    "protocol",
    "reconnect",
    "restart",
    "result",
    "roots",
    "serverRequests",
    "startTimeoutMs",
    "strictToolNames",
    "timeout_s",
];

pub(crate) fn is_ours(key: &str) -> bool {
    OURS.contains(&key)
}

/// Whether an entry of these servers has a setting of ours that no client has.
pub(crate) fn has_own_keys(servers: &Value) -> bool {
    let members = servers.as_object().into_iter().flat_map(Map::values);
    let elements = servers.as_array().into_iter().flatten();
    let mut entries = members.chain(elements).filter_map(Value::as_object);
    entries.any(|entry| entry.keys().any(|key| is_ours(key)))
}
