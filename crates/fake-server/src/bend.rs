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
    /// the numbers of progress do not rise
    FlatProgress,
    /// cursors are numbers, and are taken as numbers only
    NumericCursors,
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
            Self::FlatProgress | Self::NumericCursors => &[
                BendTransport::Stdio,
                BendTransport::Http,
                BendTransport::Sse,
            ],
        }
    }
}
