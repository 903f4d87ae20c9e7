//! One request with its client.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::action::ServiceAction;
use crate::catalog;
use crate::message::{self, RpcError};
use crate::modern::result;
use crate::revision::RevisionEra;
use crate::script::Script;
use crate::service::Service;
use crate::session::FakeSession;

#[derive(Clone, Copy)]
pub(crate) struct ReceivedRequest<'a> {
    pub service: &'a Arc<Service>,
    /// The session of the request. In the modern era it is a pipe or one POST.
    pub session: &'a Arc<FakeSession>,
    pub script: &'a Script,
    /// The id as raw JSON, like the params.
    pub id: &'a str,
    pub method: &'a str,
    pub params: &'a str,
    pub client: &'a ClientDescription,
}

/// The client's description of itself.
pub(crate) struct ClientDescription {
    pub era: RevisionEra,
    pub revision: String,
    pub capabilities: Value,
    /// The minimum log severity, as an index into [`catalog::LEVELS`].
    pub level: Option<usize>,
    /// The raw params of `initialize`, or the raw `_meta`.
    pub words: String,
}

impl ClientDescription {
    /// Reads the description in `initialize`.
    pub fn from_session(session: &FakeSession) -> Self {
        let state = session.state();
        let client_meta = state.client.clone().unwrap_or_default();
        // Invalid JSON declares nothing.
        let params: Value = serde_json::from_str(&client_meta).unwrap_or_default();
        Self {
            era: RevisionEra::Legacy,
            revision: state.revision.clone().unwrap_or_default(),
            capabilities: params["capabilities"].clone(),
            level: Some(state.level),
            words: client_meta,
        }
    }
}

impl<'a> ReceivedRequest<'a> {
    pub fn read<T: Deserialize<'a>>(&self) -> Result<T, RpcError> {
        serde_json::from_str(self.params)
            .map_err(|error| RpcError::invalid_params(error.to_string()))
    }

    pub fn is_modern(&self) -> bool {
        self.client.era == RevisionEra::Modern
    }

    /// Returns the definitions of the tools for this client.
    pub fn tools(&self) -> Vec<String> {
        let has_extra_tool = self.service.shared().extra_tool;
        catalog::tools(self.script, has_extra_tool, &self.client.revision)
    }

    /// Returns the response with this result and the members of the era.
    pub fn response(&self, result: &str) -> String {
        match self.client.era {
            RevisionEra::Legacy => message::result(self.id, result),
            RevisionEra::Modern => {
                message::result(self.id, &result::complete(self.script, self.method, result))
            }
        }
    }

    pub fn answer(&self, result: &str) -> ServiceAction {
        ServiceAction::Send(self.response(result))
    }
}

pub(crate) fn string<'a>(params: &'a Value, name: &str) -> Result<&'a str, RpcError> {
    params[name]
        .as_str()
        .ok_or_else(|| RpcError::invalid_params(format!("missing member: {name}")))
}
