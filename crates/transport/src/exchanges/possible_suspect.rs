//! A copy of a call in flight. If the server crashes meanwhile, the call is a suspect.

use std::{borrow::Cow, sync::Arc};

use mainstay_core::{message::Method, suspects::CallSignature};

use crate::Frame;

/// A call of a tool, a prompt or a resource, which may crash its server. Clones share the message.
#[derive(Clone, Debug)]
pub struct PossibleSuspect {
    frame: Frame,
    /// The original name of the tool, prompt or resource, if the message has another one.
    original: Option<Arc<str>>,
}

impl PossibleSuspect {
    /// Returns `None` if the request is not a call of a tool, prompt or resource.
    pub fn from_request(frame: &Frame, original: Option<&Arc<str>>) -> Option<Self> {
        member_of_name(frame.method()?)?;
        Some(Self {
            frame: frame.clone(),
            original: original.cloned(),
        })
    }

    /// The original name of the tool, prompt or resource.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        if let Some(original) = &self.original {
            return Some(Cow::Borrowed(original));
        }
        let member = member_of_name(self.frame.method()?)?;
        self.frame.text_param(member).map(Cow::Owned)
    }

    /// The call's method, name and arguments, which identify it.
    pub fn signature<'a>(&'a self, name: &'a str) -> Option<CallSignature<'a>> {
        let arguments = self.frame.envelope().arguments();
        Some(CallSignature {
            method: self.frame.method()?,
            name,
            arguments: arguments.map_or("", |span| self.frame.get(span)),
        })
    }
}

fn member_of_name(method: Method) -> Option<&'static str> {
    match method {
        Method::ToolsCall | Method::PromptsGet => Some("name"),
        Method::ResourcesRead => Some("uri"),
        _ => None,
    }
}
