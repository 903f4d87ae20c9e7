//! Deviations of real peers from the protocol (flag `--bend NAME`, repeatable). `docs/dev/peers.md`
//! names the peers.

/// A bend of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bend {
    /// http, sse: refuses an unknown session with 400, −32000 and `id: null`
    LostSession400,
    /// http, sse: … with 400 and a text
    LostSession400Text,
    /// http, sse: … with 410
    LostSession410,
    /// http, sse: … with 500
    LostSession500,
    /// http: … with 200 and a JSON-RPC error of the request's id
    LostSession200,
    /// http: … with 200 and a JSON-RPC error of `id: null`
    LostSession200Null,
    /// Refuses `ping` with −32600
    RefusedPing,
    /// http: 401 to server/discover alone
    Discover401,
    /// Refuses the `initialize` after a server/discover
    SpoiledInitialize,
    /// Answers nothing after server/discover
    SpoiledAnswers,
    /// Returns empty lists in sessions after server/discover
    SpoiledLists,
    /// Refuses `initialize` for another revision than 2025-03-26, with −32602 and `data.supported`
    RevisionSupported,
    /// … with −32602 and no list
    RevisionError,
    /// http: … with 400 and a text
    RevisionText,
    /// stdio: … by ending, with a line on stderr
    RevisionExit,
    /// http, sse: requires the session's cookie
    StickyCookie,
    /// http, sse: redirects messages of a session with 307
    SessionRedirect,
    /// Answers calls with "not initialized"
    Uninitialized,
    /// http: redirects GET with 307
    StreamRedirect,
    /// Answers every list of tools with −32603
    ListError,
    /// http: answers lists in every session, but refuses calls in the first with 400 and `id: null`
    CallsRefused,
    /// sse: answers in the body of the POST
    AnswerInPost,
    /// http: ends every GET stream immediately with `retry: 0`
    StreamEnds,
    /// http: refuses the first GET of a session with 409
    StreamRefused,
    /// http: event streams end without their last blank line
    NoBlankLine,
    /// http: JSON bodies end with the connection, before `content-length`
    EarlyEnd,
    /// Answers contain the request's id as a string
    IdText,
    /// Answers contain the request's id with a fraction, such as `7.0`
    IdFloat,
    /// Answers contain the id `null`
    IdNull,
    /// Error answers contain the id `null`
    ErrorIdNull,
    /// Answers contain an id of the server's own
    IdForeign,
    /// stdio, sse: answers notifications with an error of the id `null`
    AnswersNotifications,
    /// Messages begin with a byte order mark
    ByteOrderMark,
    /// stdio: messages are between escape sequences for colours
    Colours,
    /// stdio: carriage returns are before and after messages, and between tokens
    CarriageReturns,
    /// stdio: a progress bar precedes each message on the same line
    ProgressOnStdout,
    /// stdio: a NUL follows each message
    Nul,
    /// stdio: a notification precedes each message on the same line
    TwoOnALine,
    /// Answers have both `result` and `error`, one of which is `null`
    NullMembers,
    /// Answers have no `jsonrpc`
    NoVersion,
    /// Results with structured content contain NaN, which is invalid JSON
    NotANumber,
    /// Progress values do not increase
    FlatProgress,
    /// Cursors are numbers, and are accepted as numbers only
    NumericCursors,
    /// Announces a list change after every list request
    AnnounceAtLists,
    /// Adds tool `extra` to every other list of tools, and announces each change
    AlternatingTools,
    /// Handles one request at a time, and waits for answers to its questions meanwhile
    OneAtATime,
    /// Modern: `ask_nothing` returns `input_required` without questions, repeatedly
    EndlessInputRequired,
    /// Modern: asks questions for undeclared capabilities, too
    UndeclaredQuestions,
}

/// A transport that has a bend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BendTransport {
    Stdio,
    Http,
    Sse,
}

impl Bend {
    /// The transports to which this bend applies.
    pub fn transports(self) -> &'static [BendTransport] {
        match self {
            Self::LostSession200
            | Self::LostSession200Null
            | Self::Discover401
            | Self::RevisionText
            | Self::StreamEnds
            | Self::StreamRefused
            | Self::StreamRedirect
            | Self::CallsRefused
            | Self::NoBlankLine
            | Self::EarlyEnd => &[BendTransport::Http],
            Self::SpoiledAnswers | Self::RevisionExit => &[BendTransport::Stdio],
            Self::SpoiledInitialize | Self::SpoiledLists => {
                &[BendTransport::Stdio, BendTransport::Http]
            }
            Self::LostSession400
            | Self::LostSession400Text
            | Self::LostSession410
            | Self::LostSession500
            | Self::StickyCookie
            | Self::SessionRedirect => &[BendTransport::Http, BendTransport::Sse],
            Self::AnswerInPost => &[BendTransport::Sse],
            Self::ListError
            | Self::Uninitialized
            | Self::RefusedPing
            | Self::RevisionSupported
            | Self::RevisionError
            | Self::IdText
            | Self::IdFloat
            | Self::IdNull
            | Self::ErrorIdNull
            | Self::IdForeign
            | Self::ByteOrderMark
            | Self::NullMembers
            | Self::NoVersion
            | Self::NotANumber
            | Self::FlatProgress
            | Self::NumericCursors
            | Self::AnnounceAtLists
            | Self::AlternatingTools
            | Self::OneAtATime => &[
                BendTransport::Stdio,
                BendTransport::Http,
                BendTransport::Sse,
            ],
            Self::EndlessInputRequired | Self::UndeclaredQuestions => {
                &[BendTransport::Stdio, BendTransport::Http]
            }
            Self::AnswersNotifications => &[BendTransport::Stdio, BendTransport::Sse],
            Self::Colours
            | Self::CarriageReturns
            | Self::ProgressOnStdout
            | Self::Nul
            | Self::TwoOnALine => &[BendTransport::Stdio],
        }
    }

    /// Applies the bend to an outgoing message.
    pub(crate) fn message(self, text: String) -> String {
        let is_error = text.contains(r#","error":{"#);
        match self {
            Self::IdText => with_id(text, |id| format!("\"{id}\"")),
            Self::IdFloat => with_id(text, |id| format!("{id}.0")),
            Self::IdNull => with_id(text, |_| "null".to_owned()),
            Self::ErrorIdNull if is_error => with_id(text, |_| "null".to_owned()),
            Self::IdForeign => with_id(text, |id| format!("\"of-the-server-{id}\"")),
            Self::ByteOrderMark => format!("\u{feff}{text}"),
            Self::Colours => format!("\u{1b}[0m{text}\u{1b}[0m"),
            Self::CarriageReturns => {
                format!(
                    "\r{}\r\r",
                    text.replacen(r#"{"jsonrpc""#, "{\r\"jsonrpc\"", 1)
                )
            }
            Self::ProgressOnStdout => format!("loading 50%\rloading 100%\r{text}"),
            Self::Nul => format!("{text}\0"),
            Self::TwoOnALine => {
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/vendor"}}{text}"#)
            }
            Self::NullMembers => match answered(&text) {
                Some((_, rest)) if is_error => {
                    text.replacen(rest, &format!(r#","result":null{rest}"#), 1)
                }
                Some(_) => format!(r#"{},"error":null}}"#, &text[..text.len() - 1]),
                None => text,
            },
            Self::NoVersion if answered(&text).is_some() => {
                text.replacen(r#""jsonrpc":"2.0","#, "", 1)
            }
            Self::NotANumber => text.replacen(
                r#""structuredContent":"#,
                r#""score":NaN,"structuredContent":"#,
                1,
            ),
            // Other bends do not change messages.
            _ => text,
        }
    }
}

/// Splits an answer into its numeric id and the text after the id. `None` for other messages.
fn answered(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix(r#"{"jsonrpc":"2.0","id":"#)?;
    let (id, rest) = text.split_at(text.find(',')?);
    let is_answer = rest.starts_with(r#","result":"#) || rest.starts_with(r#","error":"#);
    (is_answer && id.bytes().all(|byte| byte.is_ascii_digit())).then_some((id, rest))
}

fn with_id(text: String, other_id: impl Fn(&str) -> String) -> String {
    match answered(&text) {
        Some((id, rest)) => format!(r#"{{"jsonrpc":"2.0","id":{}{rest}"#, other_id(id)),
        None => text,
    }
}
