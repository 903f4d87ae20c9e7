//! Keys and words of other MCP clients in a server's entry. The reader of our own file and `client-files`
//! share them.

/// Keys of other clients that have no effect here, but that people want to keep, such as descriptions and the
/// tools that a client may call without confirmation.
pub const KEPT_KEYS: [&str; 15] = [
    "alwaysAllow",
    "autoApprove",
    "description",
    "gallery",
    "icon",
    "iconPath",
    "id",
    "metadata",
    "name",
    "note",
    "notes",
    "tags",
    "title",
    "trust",
    "version",
];

/// Further keys that have no effect here. Each has a meaning for one client only.
pub const UNUSED_KEYS: [&str; 16] = [
    "alwaysLoad",
    "autoconnect",
    "chatMenu",
    "extensionName",
    "faviconUrl",
    "isInternal",
    "schema",
    "serverInstructions",
    "serverName",
    "sourceFile",
    "sseReadTimeout",
    "stderr",
    "supports_parallel_tool_calls",
    "uses",
    "watchPaths",
    "with",
];

/// A word for the transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportWord {
    Stdio,
    StreamableHttp,
    Sse,
    /// Not a process: Streamable HTTP or HTTP+SSE.
    Remote,
}

impl TransportWord {
    /// Parses any spelling of the word that clients use. Ignores hyphens, underscores, blanks and case.
    pub fn parse(word: &str, key: &str) -> Option<Self> {
        let word = word.replace(['-', '_', ' '], "").to_lowercase();
        Some(match word.as_str() {
            "stdio" | "local" => Self::Stdio,
            "sse" => Self::Sse,
            "http" | "streamablehttp" | "remotestreamable" => Self::StreamableHttp,
            // As a `serverType` the word means SSE. In other keys it only means that the server is not a
            // process.
            "remote" if key == "serverType" => Self::Sse,
            "remote" => Self::Remote,
            _ => return None,
        })
    }
}
