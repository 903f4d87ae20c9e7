//! The record of a call, and the content identifiers of its arguments and result.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc, time::Duration, time::SystemTime};

use cid::{CidGeneric, Version, multihash::Multihash};
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::{ids::ServerName, redact::Redactor};

/// The `source` of every record of a call.
pub const SOURCE: &str = "mcp_client";

/// Defines an enum of words. The database stores their numbers, so new words go to the end.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$about])* $variant,)+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The number for the database.
            pub const fn code(self) -> u8 {
                self as u8
            }

            pub fn from_code(code: u8) -> Option<Self> {
                Self::ALL.get(usize::from(code)).copied()
            }

            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// The door of a call: the entrance of the daemon that received it.
    Door {
        McpHttp = "mcp_http",
        McpStdio = "mcp_stdio",
        McpSse = "mcp_sse",
        Rest = "rest",
        Cli = "cli",
        Bridge = "bridge",
        /// An own tool of Mainstay. Only records of earlier versions have this door. Newer records
        /// have the client's door.
        Own = "own",
    }
}

words! {
    /// The call state: how far the call got.
    State {
        /// The server cannot have received the call.
        NotSent = "not_sent",
        /// The call may have run.
        Sent = "sent",
        Answered = "answered",
    }
}

words! {
    /// The outcome of a call.
    Status {
        /// The call has not ended.
        Open = "open",
        Ok = "ok",
        /// The call failed, or its result has `isError` set.
        Error = "error",
        Timeout = "timeout",
        Cancelled = "cancelled",
        /// The call was sent, and it is unknown whether it ran.
        Unknown = "unknown",
        /// Mainstay refused the call. It was sent to no server and did not run.
        Refused = "refused",
    }
}

impl Door {
    /// True for MCP doors, whose answers are read by models.
    pub fn is_mcp(self) -> bool {
        matches!(self, Self::McpHttp | Self::McpStdio | Self::McpSse)
    }
}

/// The client and the door of a call. All calls of a client session have the same origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallOrigin {
    pub door: Door,
    pub profile: Option<String>,
    /// The name and version that the client reported.
    pub client: Option<ClientInfo>,
    /// The name of the client's token.
    pub principal: Option<String>,
    pub session: Option<String>,
}

impl CallOrigin {
    /// The origin of a call whose client is unknown.
    pub const fn from_door(door: Door) -> Self {
        Self {
            door,
            profile: None,
            client: None,
            principal: None,
            session: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientInfo {
    pub name: String,
    pub version: String,
}

impl ClientInfo {
    /// Returns a copy without secrets. `None` if there are no secrets.
    pub fn redacted(&self, redactor: &Redactor) -> Option<Self> {
        let name = redactor.redact(&self.name, None);
        let version = redactor.redact(&self.version, None);
        if let (Cow::Borrowed(_), Cow::Borrowed(_)) = (&name, &version) {
            return None;
        }
        Some(Self {
            name: name.into_owned(),
            version: version.into_owned(),
        })
    }
}

/// The server, method and item that a call names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// `None` if the name is unknown.
    pub server: Option<ServerName>,
    /// `tools/call`, `resources/read`, `prompts/get`, …
    pub method: Cow<'static, str>,
    /// The original name of the tool or prompt, or the URI of the resource. For an unknown name:
    /// the client's name without the server's name.
    pub tool: Arc<str>,
}

impl Target {
    /// `server/tool`.
    pub fn name(&self) -> String {
        match &self.server {
            Some(server) => format!("{server}/{}", self.tool),
            None => self.tool.to_string(),
        }
    }
}

/// The number of a record. Numbers grow with time, and a journal never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(pub i64);

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for RecordId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// One recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: RecordId,
    pub origin: CallOrigin,
    pub target: Target,
    /// Number of attempts. Another attempt follows only if the earlier one was not sent, or if the
    /// call may safely run twice.
    pub attempts: u32,
    /// The attempts before the last one. Empty in records of journals before version 4.
    pub earlier: Vec<CallAttempt>,
    pub arguments: Option<Payload>,
    /// The stored arguments. `None` if they are long and stored as an object; `arguments` has its
    /// CID.
    pub arguments_text: Option<String>,
    pub result: Option<Payload>,
    /// Time at which the call arrived, with a precision of a microsecond.
    pub started_at: SystemTime,
    /// Time from the arrival of the call until it was sent, with a precision of a microsecond.
    pub queue: Duration,
    /// Time that the server took.
    pub upstream: Duration,
    /// Time from the arrival of the call to its end. `None` while it is open.
    pub duration: Option<Duration>,
    pub state: State,
    pub status: Status,
    pub error: Option<RecordError>,
    pub trace: Option<TraceId>,
}

/// Arguments or a result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The CID of the stored object, computed after redaction. `None` if payloads are not stored.
    pub cid: Option<Cid>,
    /// The original size, in bytes.
    pub size: u64,
}

/// A failed attempt that was followed by another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallAttempt {
    /// Time from the arrival of the call to the end of the attempt.
    pub ended: Duration,
    /// The progress of the attempt. `Sent` only if the call may safely run twice.
    pub state: State,
    pub error: RecordError,
}

/// The error of a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// [`crate::failure::FailureKind::code`], or `tool_error` for a result with `isError`.
    pub kind: Cow<'static, str>,
    pub text: String,
}

/// The id of the trace of a call (W3C Trace Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

impl TraceId {
    /// Reads `_meta.traceparent`: `00-TRACE-SPAN-FLAGS`. Later versions may append fields.
    pub fn from_traceparent(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let version = fields.next().filter(|version| version.len() == 2)?;
        let trace = fields.next()?;
        (version != "ff").then(|| Self::parse(trace))?
    }

    /// Parses 32 hexadecimal digits, at least one of which is not 0.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let trace = u128::from_str_radix(text, 16).ok()?;
        (trace != 0).then(|| Self(trace.to_be_bytes()))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The prefix of the resource URIs of stored objects.
pub const OBJECTS: &str = "mainstay://objects/";

/// Multicodec codes of the content (raw bytes) and of its hash (SHA2-256).
const RAW: u64 = 0x55;
const SHA2_256: u64 = 0x12;

/// A content identifier (`CIDv1`, raw, sha2-256), written in base32. Only the digest is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cid([u8; 32]);

impl Cid {
    pub fn for_content(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }

    pub const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    pub const fn digest(&self) -> &[u8; 32] {
        &self.0
    }

    /// The resource URI of the object.
    pub fn uri(&self) -> String {
        format!("{OBJECTS}{self}")
    }
}

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = Multihash::<32>::wrap(SHA2_256, &self.0).map_err(|_| fmt::Error)?;
        CidGeneric::new_v1(RAW, hash).fmt(f)
    }
}

impl Serialize for Cid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The text is not the CID of an object of Mainstay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCid {
    #[error("not a CID")]
    Malformed,
    #[error("a CID of another kind; ours are version 1, raw, sha2-256")]
    Foreign,
}

impl FromStr for Cid {
    type Err = InvalidCid;

    /// Parses a CID in any multibase encoding.
    fn from_str(text: &str) -> Result<Self, InvalidCid> {
        let cid = CidGeneric::<64>::try_from(text).map_err(|_| InvalidCid::Malformed)?;
        let is_ours = cid.version() == Version::V1 && cid.codec() == RAW;
        let hash = cid.hash();
        if !is_ours || hash.code() != SHA2_256 {
            return Err(InvalidCid::Foreign);
        }
        let digest = hash.digest().try_into().map_err(|_| InvalidCid::Foreign)?;
        Ok(Self(digest))
    }
}

#[cfg(test)]
mod tests {
    use cid::multibase::Base;

    use super::*;

    /// IPFS computes the same CIDs for the same bytes (`ipfs add --cid-version 1 --raw-leaves`).
    #[test]
    fn cids_equal_those_of_other_tools() {
        for (content, expected) in [
            (
                "",
                "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",
            ),
            (
                "hello",
                "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq",
            ),
        ] {
            let cid = Cid::for_content(content.as_bytes());
            assert_eq!(cid.to_string(), expected);
            assert_eq!(expected.parse(), Ok(cid));
        }
    }

    #[test]
    fn other_cids_differ_from_invalid_texts() {
        let dag = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi";
        assert_eq!(dag.parse::<Cid>(), Err(InvalidCid::Foreign));
        assert_eq!("hello".parse::<Cid>(), Err(InvalidCid::Malformed));
        assert_eq!("".parse::<Cid>(), Err(InvalidCid::Malformed));
        let same_cid =
            CidGeneric::<64>::try_from(Cid::for_content(b"x").to_string()).expect("a CID");
        let base58 = same_cid.to_string_of_base(Base::Base58Btc).expect("base58");
        assert_eq!(base58.parse(), Ok(Cid::for_content(b"x")));
    }

    #[test]
    fn words_and_numbers_are_read_back() {
        for status in Status::ALL {
            assert_eq!(Status::from_code(status.code()), Some(*status));
            assert_eq!(Status::parse(status.as_str()), Some(*status));
        }
        assert_eq!(Status::from_code(200), None);
        assert_eq!(Door::parse("window"), None);
        // The numbers are stored in databases and must never change.
        assert_eq!((Status::Open.code(), Status::Unknown.code()), (0, 5));
        assert_eq!((State::NotSent.code(), State::Answered.code()), (0, 2));
        assert_eq!((Door::McpHttp.code(), Door::Own.code()), (0, 6));
    }

    #[test]
    fn traces_are_read_from_their_header() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let parse = |text: String| TraceId::from_traceparent(&text).map(|trace| trace.to_string());
        let expected = Some(trace.to_owned());
        assert_eq!(parse(format!("00-{trace}-b7ad6b7169203331-01")), expected);
        assert_eq!(parse(format!("01-{trace}-b7ad6b7169203331-01-x")), expected);
        assert_eq!(parse(format!("ff-{trace}-b7ad6b7169203331-01")), None);
        assert_eq!(
            parse(format!("00-{}-b7ad6b7169203331-01", "0".repeat(32))),
            None
        );
        assert_eq!(
            parse(format!("00-+{}-b7ad6b7169203331-01", &trace[1..])),
            None
        );
        assert_eq!(parse("00-abc-1-01".to_owned()), None);
    }
}
