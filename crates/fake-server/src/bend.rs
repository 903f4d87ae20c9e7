//! How real peers bend the protocol: flag `--bend NAME`, as often as needed. `docs/dev/peers.md` says who
//! does it.

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
    /// http: ends every stream of GET at once, with `retry: 0`
    StreamEnds,
    /// http: refuses the first GET of a session with 409
    StreamRefused,
    /// http: event streams end without their last blank line
    NoBlankLine,
    /// http: JSON bodies end without their end: the connection closes behind the message
    EarlyEnd,
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
            Self::RefusedPing | Self::RevisionSupported | Self::RevisionError => &[
                BendTransport::Stdio,
                BendTransport::Http,
                BendTransport::Sse,
            ],
        }
    }
}
