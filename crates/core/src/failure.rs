//! The kinds of failed calls, in one table with their error codes, REST statuses and exit codes
//! (requirements K2 and M13).

use std::{error::Error, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use crate::{ids::ServerName, redact::Secrets};

/// The note about a call that was sent but not answered (invariant 6).
pub const MAY_HAVE_RUN: &str = "It may or may not have run; check before you call again";

/// The member for [`MAY_HAVE_RUN`] in a failure whose message does not contain the note.
pub const NOTE: &str = "note";

/// Formats a time limit in seconds (`30s`), or in milliseconds if it is not whole (requirement M3).
pub fn limit_words(limit: Duration) -> String {
    // The time that remains of a limit may be a few milliseconds less than the limit. Round it up.
    let millis = match limit.as_millis() {
        millis @ 0..1000 => millis,
        millis => (millis + 5) / 10 * 10,
    };
    if millis.is_multiple_of(1000) {
        format!("{}s", millis / 1000)
    } else {
        format!("{millis}ms")
    }
}

/// Formats an error with its sources: `cannot read x.json: there is no such file`.
pub fn with_causes(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        sentence = format!("{sentence}: {error}");
        cause = error.source();
    }
    sentence
}

/// The kinds of failure that a caller can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    ServerNotFound,
    ProfileNotFound,
    ServerNotConnected,
    /// The server is connected, but did not answer several calls in a row. Calls are refused until
    /// the server sends a message.
    ServerNotAnswering,
    /// The call was in flight at several crashes of the server. It is refused for a while.
    CallCrashesServer,
    ToolNotFound,
    PromptNotFound,
    ResourceNotFound,
    /// No request of a server with this id waits for an answer.
    RequestNotFound,
    /// The server did not answer within the time limit.
    CallTimeout,
    /// The connection was lost after the request had been sent. The call may have run.
    OutcomeUnknown,
    /// The server could not be reached, or refused the request as a whole.
    CallFailed,
    ConnectFailed,
    /// The client has no own login at the server, so the call was refused.
    LoginRequired,
    /// A message was larger than `maxMessageBytes`.
    MessageTooLarge,
    TooManySessions,
    /// The limit for client connections is reached (`http.maxConnections`,
    /// `http.maxConnectionsPerAddress`).
    TooManyConnections,
    Cancelled,
    ShuttingDown,
    /// Calls are not recorded (`journal.enabled` is false).
    NoJournal,
    /// The journal cannot be read.
    JournalUnreadable,
    RecordNotFound,
    CidNotFound,
    /// The requested version of the configuration is not stored.
    VersionNotFound,
    /// The call requires a record (`journal.durability: strict`), and the record could not be
    /// written.
    NotRecorded,
    InvalidRequest,
    /// Another server has this name.
    DuplicateName,
    /// The server does not wait for approval.
    NotPending,
    /// The server has changed since its details were shown for approval.
    NotAsShown,
    /// A configuration or an entry is invalid.
    InvalidConfig,
    /// The configuration file has changed since the edit was prepared.
    ConfigChanged,
    /// A file cannot be written.
    NotSaved,
    /// There is no configuration and no server.
    NotConfigured,
}

/// The codes of one kind of failure.
struct Row {
    code: &'static str,
    /// REST status.
    status: u16,
    /// Exit code of a command that fails for this reason.
    exit: u8,
    /// JSON-RPC error code, for doors that answer with a protocol error.
    rpc: i64,
}

const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
/// `Resource not found` in all legacy revisions (specification, server/resources, "Error
/// Handling").
const LEGACY_RESOURCE_NOT_FOUND: i64 = -32002;

impl FailureKind {
    /// All kinds in the order of their discriminants, which index counters.
    pub const ALL: [Self; 33] = [
        Self::ServerNotFound,
        Self::ProfileNotFound,
        Self::ServerNotConnected,
        Self::ServerNotAnswering,
        Self::CallCrashesServer,
        Self::ToolNotFound,
        Self::PromptNotFound,
        Self::ResourceNotFound,
        Self::RequestNotFound,
        Self::CallTimeout,
        Self::OutcomeUnknown,
        Self::CallFailed,
        Self::ConnectFailed,
        Self::LoginRequired,
        Self::MessageTooLarge,
        Self::TooManySessions,
        Self::TooManyConnections,
        Self::Cancelled,
        Self::ShuttingDown,
        Self::NoJournal,
        Self::JournalUnreadable,
        Self::RecordNotFound,
        Self::CidNotFound,
        Self::VersionNotFound,
        Self::NotRecorded,
        Self::InvalidRequest,
        Self::DuplicateName,
        Self::NotPending,
        Self::NotAsShown,
        Self::InvalidConfig,
        Self::ConfigChanged,
        Self::NotSaved,
        Self::NotConfigured,
    ];

    const fn row(self) -> Row {
        let (code, status, exit, rpc) = match self {
            Self::ServerNotFound => ("server_not_found", 404, 4, INVALID_PARAMS),
            Self::ProfileNotFound => ("profile_not_found", 404, 4, INVALID_PARAMS),
            Self::ServerNotConnected => ("server_not_connected", 503, 1, INTERNAL_ERROR),
            Self::ServerNotAnswering => ("server_not_answering", 503, 1, INTERNAL_ERROR),
            Self::CallCrashesServer => ("call_crashes_server", 503, 1, INTERNAL_ERROR),
            Self::ToolNotFound => ("tool_not_found", 404, 4, INVALID_PARAMS),
            Self::PromptNotFound => ("prompt_not_found", 404, 4, INVALID_PARAMS),
            Self::ResourceNotFound => ("resource_not_found", 404, 4, LEGACY_RESOURCE_NOT_FOUND),
            Self::RequestNotFound => ("request_not_found", 404, 4, INVALID_PARAMS),
            Self::CallTimeout => ("call_timeout", 504, 5, INTERNAL_ERROR),
            Self::OutcomeUnknown => ("outcome_unknown", 502, 1, INTERNAL_ERROR),
            Self::CallFailed => ("call_failed", 502, 1, INTERNAL_ERROR),
            Self::ConnectFailed => ("connect_failed", 502, 1, INTERNAL_ERROR),
            Self::LoginRequired => ("login_required", 502, 1, INTERNAL_ERROR),
            Self::MessageTooLarge => ("message_too_large", 502, 1, INTERNAL_ERROR),
            Self::TooManySessions => ("too_many_sessions", 503, 1, INTERNAL_ERROR),
            Self::TooManyConnections => ("too_many_connections", 503, 1, INTERNAL_ERROR),
            Self::Cancelled => ("cancelled", 499, 1, INTERNAL_ERROR),
            Self::ShuttingDown => ("shutting_down", 503, 1, INTERNAL_ERROR),
            Self::NoJournal => ("journal_disabled", 503, 1, INTERNAL_ERROR),
            Self::JournalUnreadable => ("journal_unreadable", 500, 1, INTERNAL_ERROR),
            Self::RecordNotFound => ("record_not_found", 404, 4, INVALID_PARAMS),
            Self::CidNotFound => ("cid_not_found", 404, 4, INVALID_PARAMS),
            Self::VersionNotFound => ("version_not_found", 404, 4, INVALID_PARAMS),
            Self::NotRecorded => ("not_recorded", 500, 1, INTERNAL_ERROR),
            Self::InvalidRequest => ("invalid_request", 400, 2, INVALID_PARAMS),
            Self::DuplicateName => ("duplicate_name", 409, 1, INVALID_PARAMS),
            Self::NotPending => ("not_pending", 409, 1, INVALID_PARAMS),
            Self::NotAsShown => ("not_as_shown", 409, 1, INVALID_PARAMS),
            Self::InvalidConfig => ("invalid_config", 400, 2, INVALID_PARAMS),
            Self::ConfigChanged => ("config_changed", 409, 1, INVALID_PARAMS),
            Self::NotSaved => ("not_saved", 500, 1, INTERNAL_ERROR),
            Self::NotConfigured => ("mcp_client_not_configured", 503, 1, INTERNAL_ERROR),
        };
        Row {
            code,
            status,
            exit,
            rpc,
        }
    }

    /// The code for programs, such as `call_timeout`.
    pub const fn code(self) -> &'static str {
        self.row().code
    }

    /// The member `error` of a REST error. For a timeout it is `call_failed`, and the member `code`
    /// is `call_timeout`.
    pub const fn rest_code(self) -> &'static str {
        match self {
            Self::CallTimeout => Self::CallFailed.code(),
            _ => self.code(),
        }
    }

    pub const fn rest_status(self) -> u16 {
        self.row().status
    }

    pub const fn exit_code(self) -> u8 {
        self.row().exit
    }

    pub const fn rpc_code(self) -> i64 {
        self.row().rpc
    }
}

/// A failed call: the kind, a message, and data for the reader.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    /// More members for the reader: `server`, `tool`, `uri`, `status`, …
    pub details: Map<String, Value>,
    /// The secrets of the failed server, to redact the record.
    pub secrets: Option<Arc<Secrets>>,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: Map::new(),
            secrets: None,
        }
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    #[must_use]
    pub fn with_server(self, server: &ServerName) -> Self {
        self.with("server", server.as_str())
    }

    /// `error.data` of a JSON-RPC error: `{"kind": …, …}`.
    pub fn data(&self) -> Value {
        let mut data = self.details.clone();
        data.insert("kind".to_owned(), self.kind.code().into());
        Value::Object(data)
    }

    /// The `tools/call` result for this failure: `isError`, the failure as JSON text, and its data
    /// in `_meta`.
    pub fn tool_result(&self) -> String {
        let mut text = Map::new();
        text.insert("error".to_owned(), self.message.clone().into());
        text.insert("kind".to_owned(), self.kind.code().into());
        text.extend(self.details.clone());
        json!({
            "content": [{"type": "text", "text": Value::Object(text).to_string()}],
            "isError": true,
            "_meta": {"mainstay/error": self.data()},
        })
        .to_string()
    }

    /// The body of a REST error: `{"error": CODE, …}`.
    pub fn rest_body(&self) -> Value {
        let (error, code) = (self.kind.rest_code(), self.kind.code());
        let mut body = Map::new();
        body.insert("error".to_owned(), error.into());
        if error != code {
            body.insert("code".to_owned(), code.into());
        }
        body.insert("message".to_owned(), self.message.clone().into());
        body.extend(self.details.clone());
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_time_limit_is_rounded() {
        let limit_text = |seconds| limit_words(Duration::from_secs_f64(seconds));
        assert_eq!([0.0, 0.3, 0.9994].map(limit_text), ["0s", "300ms", "999ms"]);
        assert_eq!(
            [30.0, 29.999_975_264, 1.5].map(limit_text),
            ["30s", "30s", "1500ms"]
        );
    }

    #[test]
    fn every_kind_has_its_number_and_a_unique_code() {
        for (number, kind) in FailureKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number, "{kind:?}");
        }
        // `NotConfigured` is the last kind. This fails if a new kind is missing in `ALL`.
        assert_eq!(
            FailureKind::NotConfigured as usize + 1,
            FailureKind::ALL.len()
        );
        let codes: HashSet<_> = FailureKind::ALL.map(FailureKind::code).into();
        assert_eq!(codes.len(), FailureKind::ALL.len());
    }

    /// In REST, a timeout has the error `call_failed` and the code `call_timeout`.
    #[test]
    fn a_time_limit_reads_both_ways() {
        let failure = Failure::new(FailureKind::CallTimeout, "timeout after 30s");
        assert_eq!(
            failure.rest_body(),
            json!({"error": "call_failed", "code": "call_timeout", "message": "timeout after 30s"})
        );
        assert_eq!(failure.kind.rest_status(), 504);
    }

    #[test]
    fn a_failed_tool_returns_an_error_result() {
        let name = ServerName::new("fs").expect("a legal name");
        let failure = Failure::new(FailureKind::OutcomeUnknown, "lost").with_server(&name);
        let result: Value = serde_json::from_str(&failure.tool_result()).expect("JSON");
        assert_eq!(result["isError"], true);
        assert_eq!(result["_meta"]["mainstay/error"]["kind"], "outcome_unknown");
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().expect("text"))
                .expect("JSON");
        assert_eq!(
            text,
            json!({"error": "lost", "kind": "outcome_unknown", "server": "fs"})
        );
    }
}
