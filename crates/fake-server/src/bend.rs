//! Deviations of real peers from the protocol: flag `--bend NAME`, as often as needed. `docs/dev/peers.md`
//! names the peers.

/// A bend of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bend {
    /// http, sse: a session that is not known is refused with 400, −32000 and `id: null`
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
    /// Answers nothing any more after a server/discover, which it answers
    SpoiledAnswers,
    /// Lists nothing in a session that begins after a server/discover
    SpoiledLists,
    /// Refuses `initialize` for another revision than 2025-03-26, with −32602 and `data.supported`
    RevisionSupported,
    /// … with −32602 and no list
    RevisionError,
    /// http: … with 400 and a text
    RevisionText,
    /// stdio: … by ending, with a line on stderr
    RevisionExit,
    /// http, sse: knows a session only together with the cookie that came with it
    StickyCookie,
    /// http, sse: redirects every message of a session, with 307, to another path
    SessionRedirect,
    /// Answers calls as if it had not been initialized, as behind a wrapper that restarts it
    Uninitialized,
    /// http: redirects GET alone, with 307, to another path
    StreamRedirect,
    /// Answers every list of tools with −32603
    ListError,
    /// http: answers lists in every session, and refuses calls with 400 and `id: null` in the first
    CallsRefused,
    /// sse: answers in the body of the POST, and not on the stream
    AnswerInPost,
    /// http: ends every stream of GET at once, with `retry: 0`
    StreamEnds,
    /// http: refuses the first GET of a session with 409
    StreamRefused,
    /// http: event streams end without their last blank line
    NoBlankLine,
    /// http: JSON bodies end without their end: the connection closes behind the message
    EarlyEnd,
    /// Answers carry the request's id as a string
    IdText,
    /// Answers carry the request's id as a number with a fraction, such as `7.0`
    IdFloat,
    /// Answers carry the id `null`
    IdNull,
    /// Answers that are errors carry the id `null`
    ErrorIdNull,
    /// Answers carry an id of the server's own
    IdForeign,
    /// stdio, sse: notifications are answered by an error of the id `null`
    AnswersNotifications,
    /// Messages begin with a byte order mark
    ByteOrderMark,
    /// stdio: messages stand between escape sequences that set and reset a colour
    Colours,
    /// stdio: carriage returns stand before and behind messages, and between their tokens
    CarriageReturns,
    /// stdio: a progress bar stands before each message, on the same line
    ProgressOnStdout,
    /// stdio: a NUL stands behind each message
    Nul,
    /// stdio: a notification stands before each message, on the same line
    TwoOnALine,
    /// Answers have both `result` and `error`, one of which is `null`
    NullMembers,
    /// Answers have no `jsonrpc`
    NoVersion,
    /// Results with structured content have a member that is NaN, which is no JSON
    NotANumber,
    /// The numbers of progress do not rise
    FlatProgress,
    /// Cursors are numbers, and are taken as numbers only
    NumericCursors,
    /// Says that a list has changed whenever it is listed
    AnnounceAtLists,
    /// Has tool `extra` in every other list of its tools, and says each time that they have changed
    AlternatingTools,
    /// Does one request after the other, and waits for the answers to its questions meanwhile
    OneAtATime,
    /// Modern: needs input for `ask_nothing` again and again, and asks nothing
    EndlessInputRequired,
    /// Modern: asks in one set what the client declared and what it did not
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
    /// The transports that have it.
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

    /// A message as it is sent with this bend.
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
            // The others are about something else.
            _ => text,
        }
    }
}

/// The numeric id of an answer that the fake has written, and what stands behind it.
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
