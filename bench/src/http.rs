//! A cheap HTTP/1.1 client for the load generator: one keep-alive connection, one request in
//! flight, as few system calls and copies as will do, and an MCP session on top.

use std::io;
use std::io::Write;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::calls::{self, Answer, Wrong};
use crate::{Era, PATIENCE};

const MAX_HEADERS: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("only http://HOST:PORT/PATH is understood, not {0:?}")]
    Url(String),
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("the connection was closed before the answer was complete")]
    Closed,
    #[error("the response is not HTTP/1.1")]
    Head(#[from] httparse::Error),
    #[error("the response has a malformed body")]
    Body,
    #[error("{method} was answered with status {status}: {body}")]
    Status {
        method: &'static str,
        status: u16,
        body: String,
    },
    #[error("no answer came in time")]
    Hung(#[from] tokio::time::error::Elapsed),
    #[error(transparent)]
    Wrong(#[from] Wrong),
}

/// Where the requests go.
#[derive(Debug, Clone)]
pub struct Endpoint {
    authority: String,
    path: String,
}

impl Endpoint {
    /// Another path of the same host, from its `/` on.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self.clone()
        }
    }
}

impl std::str::FromStr for Endpoint {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        let rest = url.strip_prefix("http://");
        let (authority, path) = rest
            .and_then(|rest| rest.split_once('/'))
            .ok_or_else(|| Error::Url(url.to_owned()))?;
        Ok(Self {
            authority: authority.to_owned(),
            path: format!("/{path}"),
        })
    }
}

/// One connection, in a session once it has shaken hands or joined another's.
pub struct Client {
    endpoint: Endpoint,
    stream: TcpStream,
    session: Option<String>,
    /// Everything of a POST's head but the length.
    post_head: String,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    body: Vec<u8>,
}

impl Client {
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, Error> {
        let stream = TcpStream::connect(&endpoint.authority).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            endpoint: endpoint.clone(),
            stream,
            session: None,
            post_head: head("POST", endpoint, ""),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Opens a session of its own and returns its id; a server may do without.
    pub async fn open_session(&mut self) -> Result<Option<String>, Error> {
        let request = calls::initialize();
        let opened = self.send(request.as_bytes());
        let session = tokio::time::timeout(PATIENCE, opened).await??.session;
        self.answer()?.check_handshake()?;
        self.join_session(session.as_deref());
        let accepted = self.send(calls::INITIALIZED.as_bytes());
        tokio::time::timeout(PATIENCE, accepted).await??;
        Ok(session)
    }

    /// Speaks in a session that another connection opened.
    pub fn join_session(&mut self, session: Option<&str>) {
        self.session = session.map(str::to_owned);
        self.post_head = head("POST", &self.endpoint, &self.session_headers());
    }

    /// Calls this tool without any session, as modern clients do.
    pub fn speak_modern(&mut self, tool: &str) {
        let version = Era::Modern.version();
        let headers = format!(
            "MCP-Protocol-Version: {version}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        );
        self.post_head = head("POST", &self.endpoint, &headers);
    }

    /// Ends the session, as a client that leaves should. Servers may decline (405).
    pub async fn end_session(&mut self) -> Result<(), Error> {
        if self.session.is_none() {
            return Ok(());
        }
        let head = head("DELETE", &self.endpoint, &self.session_headers());
        self.outgoing.clear();
        self.outgoing.extend(head.as_bytes());
        self.outgoing.extend(b"0\r\n\r\n");
        match tokio::time::timeout(PATIENCE, self.exchange()).await?? {
            Head {
                status: 200..=299 | 405,
                ..
            } => Ok(()),
            head => Err(self.unexpected("DELETE", &head)),
        }
    }

    /// Opens a GET stream of the session over a connection of its own; it lasts as long as that.
    pub async fn listen(&self) -> Result<TcpStream, Error> {
        let mut stream = TcpStream::connect(&self.endpoint.authority).await?;
        let head = head("GET", &self.endpoint, &self.session_headers());
        stream
            .write_all(format!("{head}0\r\n\r\n").as_bytes())
            .await?;
        let mut answer = Vec::new();
        while memchr::memmem::find(&answer, b"\r\n\r\n").is_none() {
            if stream.read_buf(&mut answer).await? == 0 {
                return Err(Error::Closed);
            }
        }
        Ok(stream)
    }

    /// Posts one message and waits for the whole response.
    pub async fn post(&mut self, message: &[u8]) -> Result<(), Error> {
        self.send(message).await.map(drop)
    }

    /// The JSON-RPC answer in the last response.
    pub fn answer(&self) -> Result<Answer<'_>, Wrong> {
        Answer::parse(&self.body)
    }

    fn session_headers(&self) -> String {
        let session = self.session.as_ref();
        let session = session.map_or_else(String::new, |id| format!("Mcp-Session-Id: {id}\r\n"));
        let version = Era::Legacy.version();
        format!("MCP-Protocol-Version: {version}\r\n{session}")
    }

    async fn send(&mut self, message: &[u8]) -> Result<Head, Error> {
        self.outgoing.clear();
        self.outgoing.extend(self.post_head.as_bytes());
        write!(self.outgoing, "{}\r\n\r\n", message.len())?;
        self.outgoing.extend(message);
        let head = self.exchange().await?;
        match head.status {
            200..=299 => Ok(head),
            _ => Err(self.unexpected("POST", &head)),
        }
    }

    /// Writes what is outgoing, and reads one response; its body is `self.body`.
    async fn exchange(&mut self) -> Result<Head, Error> {
        self.stream.write_all(&self.outgoing).await?;
        self.incoming.clear();
        self.body.clear();
        let head = loop {
            self.read().await?;
            if let Some(head) = Head::parse(&self.incoming)? {
                break head;
            }
        };
        match head.framing {
            Framing::Length(length) => {
                while self.incoming.len() < head.size + length {
                    self.read().await?;
                }
                self.body.extend(&self.incoming[head.size..]);
                self.body.truncate(length);
            }
            Framing::Chunked => {
                while !dechunk(&self.incoming[head.size..], &mut self.body)? {
                    self.read().await?;
                }
            }
        }
        if head.is_event_stream {
            self.body = last_message(&self.body);
        }
        Ok(head)
    }

    async fn read(&mut self) -> Result<(), Error> {
        self.incoming.reserve(16 * 1024);
        match self.stream.read_buf(&mut self.incoming).await? {
            0 => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    fn unexpected(&self, method: &'static str, head: &Head) -> Error {
        Error::Status {
            method,
            status: head.status,
            body: String::from_utf8_lossy(&self.body).into_owned(),
        }
    }
}

/// A request's head up to the value of `Content-Length`.
fn head(method: &str, endpoint: &Endpoint, more: &str) -> String {
    let Endpoint { authority, path } = endpoint;
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {authority}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n{more}Content-Length: "
    )
}

/// What matters of a response's head.
#[derive(Debug)]
struct Head {
    size: usize,
    status: u16,
    framing: Framing,
    is_event_stream: bool,
    session: Option<String>,
}

#[derive(Debug)]
enum Framing {
    Length(usize),
    Chunked,
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Option<Self>, Error> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(size) = response.parse(bytes)? else {
            return Ok(None);
        };
        let status = response.code.unwrap_or_default();
        let mut head = Self {
            size,
            status,
            framing: Framing::Length(0),
            is_event_stream: false,
            session: None,
        };
        let mut is_framed = status == 204;
        for header in response.headers {
            let value = str::from_utf8(header.value).map_err(|_| Error::Body)?;
            if header.name.eq_ignore_ascii_case("content-length") {
                head.framing = Framing::Length(value.parse().map_err(|_| Error::Body)?);
                is_framed = true;
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                head.framing = Framing::Chunked;
                is_framed = true;
            } else if header.name.eq_ignore_ascii_case("content-type") {
                head.is_event_stream = value.starts_with("text/event-stream");
            } else if header.name.eq_ignore_ascii_case("mcp-session-id") {
                head.session = Some(value.to_owned());
            }
        }
        is_framed.then_some(Some(head)).ok_or(Error::Body)
    }
}

/// Decodes a chunked body from its beginning; true when it is complete.
fn dechunk(mut encoded: &[u8], body: &mut Vec<u8>) -> Result<bool, Error> {
    body.clear();
    loop {
        let size = httparse::parse_chunk_size(encoded).map_err(|_| Error::Body)?;
        let httparse::Status::Complete((start, length)) = size else {
            return Ok(false);
        };
        let end = start + length as usize;
        if encoded.len() < end + 2 {
            return Ok(false);
        }
        if !encoded[end..].starts_with(b"\r\n") {
            return Err(Error::Body);
        }
        if length == 0 {
            return Ok(true);
        }
        body.extend(&encoded[start..end]);
        encoded = &encoded[end + 2..];
    }
}

/// The data of an event stream's last message: the answer, for it ends its stream.
fn last_message(stream: &[u8]) -> Vec<u8> {
    let mut last = Vec::new();
    let mut current = Vec::new();
    for line in stream.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(data) = line.strip_prefix(b"data:") {
            current.extend(data);
        } else if line.is_empty() && !current.trim_ascii().is_empty() {
            last = std::mem::take(&mut current);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_complete() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nMCP-Session-Id: s1\r\nTransfer-Encoding: chunked\r\n\r\nrest";
        let split = bytes.len() - 5;
        assert!(matches!(Head::parse(&bytes[..split]), Ok(None)));
        let head = Head::parse(bytes).expect("valid").expect("complete");
        assert_eq!((head.status, head.size), (200, bytes.len() - 4));
        assert!(head.is_event_stream && matches!(head.framing, Framing::Chunked));
        assert_eq!(head.session.as_deref(), Some("s1"));
    }

    #[test]
    fn a_response_without_a_length_is_refused() {
        assert!(matches!(
            Head::parse(b"HTTP/1.1 200 OK\r\n\r\n"),
            Err(Error::Body)
        ));
        assert!(matches!(
            Head::parse(b"HTTP/1.1 204 No Content\r\n\r\n"),
            Ok(Some(_))
        ));
    }

    #[test]
    fn chunks_are_joined_at_every_cut() {
        let encoded = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n";
        let mut body = Vec::new();
        for cut in 0..encoded.len() {
            assert!(matches!(dechunk(&encoded[..cut], &mut body), Ok(false)));
        }
        assert!(matches!(dechunk(encoded, &mut body), Ok(true)));
        assert_eq!(body, b"hello world");
        assert!(dechunk(b"2\r\nabc\r\n", &mut body).is_err());
    }

    #[test]
    fn the_last_message_of_a_stream_is_the_answer() {
        let stream = b"id: 1\ndata:\n\n: alive\n\ndata: {\"a\":1}\r\n\r\nevent: message\ndata: {\"b\":\ndata: 2}\n\n";
        assert_eq!(last_message(stream), b" {\"b\": 2}");
    }
}
