//! One JSON-RPC message as it was received: its text and its envelope.

use std::pin::Pin;

use bytes::Bytes;
use bytestring::ByteString;
use mainstay_core::{
    era::code,
    message::{
        self, Envelope, Malformed, MessageKind, Method, Span,
        lenient::{bare, mended_response, whole_number},
    },
};
use mainstay_platform::blocking::{LONG, off_the_runtime, off_the_runtime_if_long};

/// An owned message. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct Frame {
    text: ByteString,
    envelope: Envelope,
}

#[derive(Debug, thiserror::Error)]
pub enum UnreadableMessage {
    #[error("not UTF-8")]
    Utf8,
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// A long message of a server while a blocking thread parses it.
pub struct Reading {
    pub bytes: Bytes,
    read: Pin<Box<dyn Future<Output = Result<Frame, UnreadableMessage>> + Send>>,
}

impl Reading {
    /// True if the message is so long that a blocking thread should parse it.
    pub fn is_long(bytes: &Bytes) -> bool {
        bytes.len() > LONG
    }

    /// Starts `read` on a blocking thread.
    pub fn start(
        bytes: Bytes,
        read: impl FnOnce(Bytes) -> Result<Frame, UnreadableMessage> + Send + 'static,
    ) -> Self {
        let copy = bytes.clone();
        Self {
            bytes,
            read: Box::pin(off_the_runtime(move || read(copy))),
        }
    }

    /// Like [`Self::start`], but returns `None` if the message is not long.
    pub fn start_if_long(
        bytes: &Bytes,
        read: impl FnOnce(Bytes) -> Result<Frame, UnreadableMessage> + Send + 'static,
    ) -> Option<Self> {
        Self::is_long(bytes).then(|| Self::start(bytes.clone(), read))
    }

    /// Returns the message. Must not be called again after it has returned. Cancel-safe.
    pub async fn done(&mut self) -> Result<Frame, UnreadableMessage> {
        self.read.as_mut().await
    }
}

impl Frame {
    pub fn read(bytes: Bytes) -> Result<Self, UnreadableMessage> {
        let text = ByteString::try_from(bytes).map_err(|_| UnreadableMessage::Utf8)?;
        let envelope = message::peek(&text)?;
        Ok(Self { text, envelope })
    }

    /// Reads a server's message. Mistakes are tolerated if the message has only one possible meaning. An
    /// answer that is dangerous to pass on becomes an error response, so that its call ends.
    pub fn of_server(bytes: Bytes) -> Result<Self, UnreadableMessage> {
        let bytes = without_margins(bytes);
        // Replace invalid UTF-8. It can only occur inside strings: elsewhere the text would not be JSON.
        let text = ByteString::try_from(bytes.clone())
            .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        match message::peek(&text) {
            Ok(envelope) => Ok(Self { text, envelope }),
            Err(Malformed::Dangerous {
                danger,
                id: Some(id),
                is_response: true,
                ..
            }) => {
                let reason = format!("the server's answer is {danger}");
                let error = message::error_response(Some(&id), code::INTERNAL_ERROR, &reason, None);
                Self::read(error.into())
            }
            Err(malformed @ Malformed::Envelope { .. }) => match mended_response(&text) {
                Some(mended) => Self::read(mended.into()),
                None => Err(malformed.into()),
            },
            Err(malformed) => Err(malformed.into()),
        }
    }

    /// Like [`Self::of_server`], but reads a long message on a blocking thread. Not cancel-safe.
    pub async fn of_server_aside(bytes: Bytes) -> Result<Self, UnreadableMessage> {
        off_the_runtime_if_long(bytes.len(), move || Self::of_server(bytes)).await
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    pub fn get(&self, span: Span) -> &str {
        span.get(&self.text)
    }

    /// Returns `part`, which must be a slice of this text, without a copy.
    pub fn share(&self, part: &str) -> ByteString {
        self.text.slice_ref(part)
    }

    /// The id of a request or response, as JSON text.
    pub fn id(&self) -> Option<&str> {
        Some(self.get(self.id_span()?))
    }

    fn id_span(&self) -> Option<Span> {
        match self.envelope.kind {
            MessageKind::Request { id, .. } | MessageKind::Response { id, .. } => Some(id),
            MessageKind::Notification { .. } => None,
        }
    }

    /// The id of a response, as JSON text.
    fn answered_id(&self) -> Option<&str> {
        self.id().filter(|_| self.method().is_none())
    }

    /// The method of a request or notification.
    pub fn method(&self) -> Option<Method> {
        match self.envelope.kind {
            MessageKind::Request { method, .. } | MessageKind::Notification { method } => {
                Some(method)
            }
            MessageKind::Response { .. } => None,
        }
    }

    /// The method's name on the wire.
    pub fn method_name(&self) -> String {
        match self.method() {
            Some(method) if method != Method::Other => method.name().to_owned(),
            _ => message::text_member(&self.text, "method")
                .unwrap_or_default()
                .into_owned(),
        }
    }

    /// The value of `result`, if this is a successful response.
    pub fn result(&self) -> Option<&str> {
        match self.envelope.kind {
            MessageKind::Response {
                body,
                is_error: false,
                ..
            } => Some(self.get(body)),
            _ => None,
        }
    }

    /// The value of `error`, if this is an error response.
    pub fn error(&self) -> Option<&str> {
        match self.envelope.kind {
            MessageKind::Response {
                body,
                is_error: true,
                ..
            } => Some(self.get(body)),
            _ => None,
        }
    }

    /// The code of an error response.
    pub fn error_code(&self) -> Option<i64> {
        message::member(self.error()?, "code")?.parse().ok()
    }

    /// True if this is the response to the request `id` of a POST that carried only this request. A response
    /// with `id: null` also counts, because it can only belong to that request.
    pub fn answers(&self, id: u64) -> bool {
        self.answered_id()
            .is_some_and(|named| is_spelling_of(named, id) || named == "null")
    }

    /// True if this is a response with this id.
    pub fn names(&self, id: u64) -> bool {
        self.answered_id()
            .is_some_and(|named| is_spelling_of(named, id))
    }

    /// True if this is a response with any id.
    pub fn is_response(&self) -> bool {
        matches!(self.envelope.kind, MessageKind::Response { .. })
    }

    /// True if this is an error with `id: null`, which refuses a request as a whole.
    pub fn names_nothing(&self) -> bool {
        self.error().is_some() && self.answered_id() == Some("null")
    }

    /// True if this error says that `initialize` is missing. The cause may be a wrapper that has restarted
    /// the server behind its pipe.
    pub fn says_uninitialized(&self) -> bool {
        let words = self
            .error()
            .and_then(|error| message::text_member(error, "message"));
        words.is_some_and(|words| {
            let words = words.to_ascii_lowercase();
            ["not initialized", "not initialised", "before initializ"]
                .iter()
                .any(|missing| words.contains(missing))
        })
    }

    /// Returns this message with another id (JSON text), on one line. A notification has no id and is
    /// unchanged.
    pub fn with_id(&self, id: &str) -> String {
        match self.id_span() {
            Some(span) => message::splice(&self.text, &mut [(span, id)]),
            None => self.one_line(),
        }
    }

    /// Returns this response with `body` (JSON text) in place of its result or error.
    #[must_use]
    pub fn with_body(&self, body: &str) -> Self {
        if let Some((text, envelope)) = message::with_body(&self.text, &self.envelope, body) {
            let text = text.into();
            return Self { text, envelope };
        }
        let MessageKind::Response { body: span, .. } = self.envelope.kind else {
            return self.clone();
        };
        let text = message::splice(&self.text, &mut [(span, body)]);
        Self::read(text.into()).unwrap_or_else(|_| self.clone())
    }

    pub fn one_line(&self) -> String {
        message::one_line(&self.text).into_owned()
    }

    /// Returns this message with another value (JSON text) of the parameter `name`, on one line. Unchanged if
    /// there is no such parameter.
    pub fn with_param(&self, name: &str, value: &str) -> String {
        match self.param_span(&[name]) {
            Some(span) => message::splice(&self.text, &mut [(span, value)]),
            None => self.one_line(),
        }
    }

    /// Returns this message with other `params` (JSON text), on one line. Unchanged if it has no `params`.
    pub fn with_params(&self, params: &str) -> String {
        match message::locate(&self.text, Span::whole(&self.text), &["params"]) {
            Some(span) => message::splice(&self.text, &mut [(span, params)]),
            None => self.one_line(),
        }
    }

    /// The value of `params`, as JSON text.
    pub fn params(&self) -> Option<&str> {
        message::member(&self.text, "params")
    }

    /// The position of `params.<path>` in the text.
    pub fn param_span(&self, path: &[&str]) -> Option<Span> {
        let params = message::locate(&self.text, Span::whole(&self.text), &["params"])?;
        message::locate(&self.text, params, path)
    }

    /// A text parameter: `params.<name>`.
    pub fn text_param(&self, name: &str) -> Option<String> {
        message::text_param(&self.text, &self.envelope, name).map(std::borrow::Cow::into_owned)
    }

    /// A parameter as JSON text.
    pub fn param(&self, name: &str) -> Option<&str> {
        message::member(self.params()?, name)
    }
}

/// Strips white space, byte order marks and escape sequences from both ends of a message.
fn without_margins(bytes: Bytes) -> Bytes {
    // Nearly all messages take this path.
    if bytes.first() == Some(&b'{') && bytes.last() == Some(&b'}') {
        return bytes;
    }
    let message = bare(&bytes);
    bytes.slice(message)
}

/// True if `named`, the id (JSON text) of a server's message, means `id`. It may be spelled `7`, `"7"` or
/// `7.0`.
fn is_spelling_of(named: &str, id: u64) -> bool {
    named.parse() == Ok(id) || whole_number(named) == Some(id)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_long_message_is_read_though_nobody_waits_for_a_while() {
        let text = |bytes| {
            let text = "x".repeat(bytes);
            Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{text}"}}"#))
        };
        assert!(Reading::start_if_long(&text(100), Frame::of_server).is_none());
        let long = text(8 * LONG);
        let (runtime, release) = mainstay_testkit::runtime_that_waits();
        runtime.block_on(async {
            let mut reading =
                Reading::start_if_long(&long, Frame::of_server).expect("a long message");
            assert!(reading.done().now_or_never().is_none(), "it is read here");
            drop(release);
            let frame = reading.done().await.expect("a message");
            assert_eq!(frame.text().as_bytes(), long);
        });
    }
}
