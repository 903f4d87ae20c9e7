//! Words of other MCP clients in a server's entry. The reader of our own file and `client-files` both use
//! them.

/// Keys of other clients that change nothing here, whatever they hold.
pub const UNUSED_KEYS: [&str; 31] = [
    "alwaysAllow",
    "alwaysLoad",
    "autoApprove",
    "autoconnect",
    "chatMenu",
    "description",
    "extensionName",
    "faviconUrl",
    "gallery",
    "icon",
    "iconPath",
    "id",
    "isInternal",
    "metadata",
    "name",
    "note",
    "notes",
    "schema",
    "serverInstructions",
    "serverName",
    "sourceFile",
    "sseReadTimeout",
    "stderr",
    "supports_parallel_tool_calls",
    "tags",
    "title",
    "trust",
    "uses",
    "version",
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
    /// Reads any spelling that clients use; hyphens, underscores, blanks and case do not count.
    pub fn parse(word: &str, key: &str) -> Option<Self> {
        let word = word.replace(['-', '_', ' '], "").to_lowercase();
        Some(match word.as_str() {
            "stdio" | "local" => Self::Stdio,
            "sse" => Self::Sse,
            "http" | "streamablehttp" | "remotestreamable" => Self::StreamableHttp,
            // As a `serverType` it means SSE; elsewhere it only means that the server is no process.
            "remote" if key == "serverType" => Self::Sse,
            "remote" => Self::Remote,
            _ => return None,
        })
    }
}
