//! A message to a server of 2026-07-28 as a POST: its text, and the headers that repeat parts of it.

use mainstay_core::{
    era::{
        Revision,
        headers::{self, InvalidHeader},
    },
    message::{self, Method},
};

use crate::{
    Frame, Interruption, InterruptionKind, UnreadableMessage, http::http_client::POST_HEADERS,
    modern::tool_headers::ToolHeaders,
};

/// The reason that a message cannot be posted.
#[derive(Debug, thiserror::Error)]
pub enum Unpostable {
    #[error(transparent)]
    Tool(#[from] InvalidHeader),
    #[error("it is no message: {0}")]
    Message(#[from] UnreadableMessage),
}

/// A message and the headers that repeat parts of it (specification 2026-07-28, "Standard Request
/// Headers").
pub struct ModernPost {
    pub method: Method,
    frame: Frame,
    headers: Vec<(String, String)>,
}

impl ModernPost {
    /// `text` is a request or notification that Mainstay sends.
    pub fn new(text: String, tools: &ToolHeaders) -> Result<Self, Unpostable> {
        let frame = Frame::read(text.into())?;
        let mut post = Self {
            method: frame.method().unwrap_or(Method::Other),
            frame,
            headers: Vec::new(),
        };
        post.refresh(tools)?;
        Ok(post)
    }

    /// Writes the headers again, with the current annotations of the tools.
    pub fn refresh(&mut self, tools: &ToolHeaders) -> Result<(), InvalidHeader> {
        let frame = &self.frame;
        let named = |member| message::text_param(frame.text(), frame.envelope(), member);
        let standard = headers::standard(&frame.method_name(), named, Revision::LATEST.as_str());
        let mut headers: Vec<_> = standard
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        if let Some(tool) = self.tool() {
            let arguments = || frame.param("arguments").unwrap_or("{}");
            headers.extend(tools.values(&tool, arguments)?);
        }
        self.headers = headers;
        Ok(())
    }

    /// The name of the tool in a `tools/call`.
    pub fn tool(&self) -> Option<String> {
        (self.method == Method::ToolsCall).then(|| self.frame.text_param("name"))?
    }

    pub fn headers(&self) -> Vec<(&str, &str)> {
        let repeated = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        POST_HEADERS.into_iter().chain(repeated).collect()
    }

    pub fn body(&self) -> &str {
        self.frame.text()
    }
}

/// A message that cannot be posted was not sent.
impl From<Unpostable> for Interruption {
    fn from(error: Unpostable) -> Self {
        Self::not_sent(InterruptionKind::InvalidTool(error.to_string()))
    }
}
