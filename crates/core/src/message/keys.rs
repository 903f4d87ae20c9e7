//! The keys of `_meta` that the protocol reserves (2026-07-28, "`_meta`").

pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// In a result: the server that answered.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// In a notification: the id of the `subscriptions/listen` it belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// What a request says in place of a session.
pub const OF_REQUESTS: [&str; 4] = [
    PROTOCOL_VERSION,
    CLIENT_INFO,
    CLIENT_CAPABILITIES,
    LOG_LEVEL,
];
