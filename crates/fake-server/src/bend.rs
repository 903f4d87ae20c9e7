//! How real peers bend the protocol: flag `--bend NAME`, as often as needed. `docs/dev/peers.md` says who
//! does it.

/// A bend of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bend {
    /// http: a session that is not known is refused with 400, −32000 and `id: null`
    LostSession400,
    /// http: … with 400 and a text
    LostSession400Text,
    /// http: … with 410
    LostSession410,
    /// http: … with 500
    LostSession500,
    /// http: … with 200 and a JSON-RPC error of the request's id
    LostSession200,
    /// http: … with 200 and a JSON-RPC error of `id: null`
    LostSession200Null,
    /// says that a list has changed whenever it is listed
    AnnounceAtLists,
    /// has tool `extra` in every other list of its tools, and says each time that they have changed
    AlternatingTools,
    /// does one request after the other, and waits for the answers to its questions meanwhile
    OneAtATime,
    /// modern: needs input for `ask_nothing` again and again, and asks nothing
    EndlessInputRequired,
    /// modern: asks in one set what the client declared and what it did not
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
            Self::LostSession400
            | Self::LostSession400Text
            | Self::LostSession410
            | Self::LostSession500
            | Self::LostSession200
            | Self::LostSession200Null => &[BendTransport::Http],
            Self::AnnounceAtLists | Self::AlternatingTools | Self::OneAtATime => &[
                BendTransport::Stdio,
                BendTransport::Http,
                BendTransport::Sse,
            ],
            Self::EndlessInputRequired | Self::UndeclaredQuestions => {
                &[BendTransport::Stdio, BendTransport::Http]
            }
        }
    }
}
