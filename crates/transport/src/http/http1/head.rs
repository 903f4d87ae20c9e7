//! Response heads.

use bytes::{Buf, Bytes, BytesMut};

/// The maximum length of a head, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// The maximum number of header fields.
const MAX_FIELDS: usize = 64;

/// The error text for a server that answers in TLS.
pub const SPEAKS_TLS: &str = "it is TLS";

/// The first bytes of TLS records: an alert or a handshake, and the version.
const TLS_RECORDS: [[u8; 2]; 2] = [[0x15, 3], [0x16, 3]];

/// The head of a response: the values for framing the body, and the fields.
#[derive(Clone)]
pub struct Head {
    pub status: u16,
    pub keeps_alive: bool,
    /// True if the body is a stream of server-sent events.
    pub is_event_stream: bool,
    /// True if the head has a `Set-Cookie` field.
    pub sets_cookies: bool,
    pub(super) length: Option<u64>,
    pub(super) chunked: bool,
    raw: Bytes,
}

/// Hides the fields, which may contain cookies.
impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Reads a whole head and removes it from the buffer. Returns `None` if the head is incomplete. Interim
/// responses (1xx) are skipped, except for `101` if the request `may_switch` protocols.
pub fn take(buffer: &mut BytesMut, may_switch: bool) -> Result<Option<Head>, &'static str> {
    loop {
        if buffer.is_empty() {
            return Ok(None);
        }
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(buffer) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if buffer.len() > MAX_HEAD => {
                return Err("its head is too long");
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) if TLS_RECORDS.iter().any(|start| buffer.starts_with(start)) => {
                return Err(SPEAKS_TLS);
            }
            Err(_) => return Err("its head cannot be parsed"),
        };
        let status = response.code.unwrap_or_default();
        let switches = status == 101;
        if switches && !may_switch {
            return Err("it switches to a protocol that nobody asked for");
        }
        if (100..200).contains(&status) && !switches {
            buffer.advance(length);
            continue;
        }
        let mut head = Head {
            status,
            keeps_alive: response.version == Some(1),
            is_event_stream: false,
            sets_cookies: false,
            length: None,
            chunked: false,
            raw: Bytes::new(),
        };
        for field in response.headers.iter() {
            head.note(field)?;
        }
        // A chunked body has precedence over a length (RFC 9112, 6.3). These statuses have no body.
        if matches!(status, 101 | 204 | 304) {
            (head.chunked, head.length) = (false, Some(0));
        }
        head.raw = buffer.split_to(length).freeze();
        return Ok(Some(head));
    }
}

impl Head {
    fn note(&mut self, field: &httparse::Header<'_>) -> Result<(), &'static str> {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let text = std::str::from_utf8(field.value).unwrap_or_default();
            let length = text
                .trim()
                .parse()
                .map_err(|_| "its Content-Length is no number")?;
            if self.length.is_some_and(|before| before != length) {
                return Err("it has two lengths");
            }
            self.length = Some(length);
        } else if is("transfer-encoding") {
            if !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err("its Transfer-Encoding is not chunked");
            }
            self.chunked = true;
        } else if is("content-type") {
            let media_type = field
                .value
                .split(|byte| *byte == b';')
                .next()
                .unwrap_or_default();
            self.is_event_stream = media_type
                .trim_ascii()
                .eq_ignore_ascii_case(b"text/event-stream");
        } else if is("connection") {
            let has = |token: &[u8]| {
                field
                    .value
                    .split(|byte| *byte == b',')
                    .any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
            };
            self.keeps_alive = has(b"keep-alive") || self.keeps_alive && !has(b"close");
        } else if is("set-cookie") {
            self.sets_cookies = true;
        }
        Ok(())
    }

    /// The first field of this name, if it is text.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        response.parse(&self.raw).ok()?;
        let field = response
            .headers
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(field.value).ok()
    }

    /// All fields of this name that are text.
    pub fn all(&self, name: &str) -> Vec<String> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        if response.parse(&self.raw).is_err() {
            return Vec::new();
        }
        response
            .headers
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case(name))
            .filter_map(|field| String::from_utf8(field.value.to_vec()).ok())
            .collect()
    }

    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}
