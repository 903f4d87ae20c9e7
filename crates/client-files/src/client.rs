//! The MCP clients that Mainstay knows, and their names.

use std::{fmt, str::FromStr};

/// A program that keeps MCP servers in a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientKind {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    VsCode,
    VsCodeInsiders,
    Codex,
    GeminiCli,
    Windsurf,
    Zed,
    Cline,
    Roo,
    Opencode,
    Goose,
    Continue,
    LibreChat,
    AmazonQ,
    JetBrains,
    LmStudio,
    Warp,
    Kiro,
    CopilotCli,
    Antigravity,
    QwenCode,
    Kilo,
    KiloCli,
    Crush,
    Trae,
    /// The client of a file with `mcpServers` at a path that no known client uses. Its entries are read in
    /// the same way as by `serve --config`. [`Self::ALL`] does not contain this client.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown client {0:?}")]
pub struct UnknownClient(pub String);

impl ClientKind {
    pub const ALL: [Self; 27] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::VsCode,
        Self::VsCodeInsiders,
        Self::Codex,
        Self::GeminiCli,
        Self::Windsurf,
        Self::Zed,
        Self::Cline,
        Self::Roo,
        Self::Opencode,
        Self::Goose,
        Self::Continue,
        Self::LibreChat,
        Self::AmazonQ,
        Self::JetBrains,
        Self::LmStudio,
        Self::Warp,
        Self::Kiro,
        Self::CopilotCli,
        Self::Antigravity,
        Self::QwenCode,
        Self::Kilo,
        Self::KiloCli,
        Self::Crush,
        Self::Trae,
    ];

    /// The name on the command line: `claude-desktop`.
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::VsCodeInsiders => "vscode-insiders",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini-cli",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
            Self::Cline => "cline",
            Self::Roo => "roo",
            Self::Opencode => "opencode",
            Self::Goose => "goose",
            Self::Continue => "continue",
            Self::LibreChat => "librechat",
            Self::AmazonQ => "amazon-q",
            Self::JetBrains => "jetbrains",
            Self::LmStudio => "lm-studio",
            Self::Warp => "warp",
            Self::Kiro => "kiro",
            Self::CopilotCli => "copilot-cli",
            Self::Antigravity => "antigravity",
            Self::QwenCode => "qwen-code",
            Self::Kilo => "kilo",
            Self::KiloCli => "kilo-cli",
            Self::Crush => "crush",
            Self::Trae => "trae",
            Self::Unknown => "unknown",
        }
    }

    /// The name for people: `Claude Desktop`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::VsCodeInsiders => "VS Code Insiders",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
            Self::Windsurf => "Windsurf",
            Self::Zed => "Zed",
            Self::Cline => "Cline",
            Self::Roo => "Roo Code",
            Self::Opencode => "opencode",
            Self::Goose => "goose",
            Self::Continue => "Continue",
            Self::LibreChat => "LibreChat",
            Self::AmazonQ => "Amazon Q",
            Self::JetBrains => "JetBrains",
            Self::LmStudio => "LM Studio",
            Self::Warp => "Warp",
            Self::Kiro => "Kiro",
            Self::CopilotCli => "Copilot CLI",
            Self::Antigravity => "Antigravity",
            Self::QwenCode => "Qwen Code",
            Self::Kilo => "Kilo Code",
            Self::KiloCli => "Kilo CLI",
            Self::Crush => "Crush",
            Self::Trae => "Trae",
            Self::Unknown => "an unknown client",
        }
    }

    /// True if the client looks for programs in the `PATH` of a shell. Other clients start from a desktop,
    /// and need the absolute path of a program.
    pub fn searches_path(self) -> bool {
        matches!(
            self,
            Self::ClaudeCode
                | Self::Codex
                | Self::GeminiCli
                | Self::Opencode
                | Self::Goose
                | Self::AmazonQ
                | Self::Warp
                | Self::CopilotCli
                | Self::QwenCode
                | Self::KiloCli
                | Self::Crush
        )
    }

    /// True if the client supports HTTP+SSE, the predecessor of Streamable HTTP.
    pub(crate) fn speaks_sse(self) -> bool {
        !matches!(self, Self::Codex | Self::Goose | Self::AmazonQ)
    }

    /// True if the client uses HTTP+SSE for a URL without a transport.
    pub(crate) fn assumes_sse(self) -> bool {
        matches!(self, Self::Cline | Self::LibreChat)
    }

    /// True for Gemini CLI and its forks, which have the same files.
    pub(crate) fn is_of_gemini(self) -> bool {
        matches!(self, Self::GeminiCli | Self::QwenCode)
    }

    /// True for opencode and its forks, which have the same files.
    pub(crate) fn is_of_opencode(self) -> bool {
        matches!(self, Self::Opencode | Self::KiloCli)
    }

    /// The time limit of a call in seconds, if the client's file sets none. Most clients have the default
    /// of the official SDK.
    pub(crate) fn usual_call_limit(self) -> f64 {
        match self {
            Self::ClaudeCode => f64::INFINITY,
            Self::GeminiCli | Self::QwenCode => 600.0,
            Self::Goose => 300.0,
            Self::AmazonQ => 120.0,
            _ => 60.0,
        }
    }

    /// True if the client's file can refer to a server by its URL.
    pub fn speaks_http(self) -> bool {
        self != Self::ClaudeDesktop
    }
}

impl fmt::Display for ClientKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Parses an id, a name or an alias. Ignores case, blanks, `-` and `_`.
impl FromStr for ClientKind {
    type Err = UnknownClient;

    fn from_str(text: &str) -> Result<Self, UnknownClient> {
        let simple = |text: &str| text.replace([' ', '-', '_'], "").to_lowercase();
        let simple_text = simple(text);
        let alias = match simple_text.as_str() {
            "claude" => Some(Self::ClaudeDesktop),
            "code" => Some(Self::VsCode),
            "gemini" => Some(Self::GeminiCli),
            "junie" | "aiassistant" => Some(Self::JetBrains),
            "amazonqdeveloper" | "qcli" => Some(Self::AmazonQ),
            "roocline" | "roocode" => Some(Self::Roo),
            "kilocode" => Some(Self::Kilo),
            "copilot" => Some(Self::CopilotCli),
            "qwen" => Some(Self::QwenCode),
            _ => None,
        };
        let mut all = Self::ALL.into_iter();
        alias
            .or_else(|| {
                all.find(|client| {
                    simple(client.id()) == simple_text || simple(client.name()) == simple_text
                })
            })
            .ok_or_else(|| UnknownClient(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_by_its_id_and_its_name() {
        for client in ClientKind::ALL {
            assert_eq!(client.id().parse(), Ok(client));
            assert_eq!(client.name().parse(), Ok(client));
        }
        assert_eq!("Gemini".parse(), Ok(ClientKind::GeminiCli));
        assert_eq!(
            "emacs".parse::<ClientKind>(),
            Err(UnknownClient("emacs".to_owned()))
        );
    }
}
