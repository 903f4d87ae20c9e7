//! A request on an endpoint. Resolves the request's names in the client's view, and forwards it to
//! a server.

use std::sync::Arc;

use mainstay_core::{
    builtin::OwnToolGroup,
    catalog::{ItemTarget, ListKind, Owner},
    era::{Era, tasks},
    failure::{Failure, FailureKind},
    ids::ServerName,
    message::{Address, Text},
    names::Unresolved,
};
use mainstay_gateway::{
    Unseen, View,
    calls::{CallAnswer, CallClient, CallRequest, CallSink, Receipt, Upstream},
    shared_page,
    supervisor::ServerHandle,
};
use mainstay_transport::Frame;
use tokio::sync::oneshot;

use super::isolation::{self, SessionSource};
use crate::mcp::{
    reply::{RpcReply, UNKNOWN_STATE, id},
    shared::SharedState,
};
use mainstay_doorway::json_views::lists::with_server_status;

/// A request on an endpoint, with the state that answers it.
pub struct RequestContext<'a> {
    pub shared: &'a SharedState,
    pub view: View,
    pub frame: &'a Frame,
    pub address: &'a Address<'a>,
    pub cancelled: oneshot::Receiver<String>,
    pub sink: CallSink,
    pub receipt: &'a Receipt,
    /// The server that issued the request's `requestState`, if it has one.
    pub state_server: Option<&'a str>,
    pub session_source: SessionSource<'a>,
}

impl<'a> RequestContext<'a> {
    pub fn id(&self) -> &'a str {
        id(self.frame)
    }

    pub fn era(&self) -> Era {
        self.sink.client.caller.era()
    }

    /// Waits once for each server of the profile that is starting.
    pub async fn settled(&self) {
        let registry = &self.shared.gateway.registry;
        registry.profile_settled(&self.view.profile).await;
    }

    /// Calls a tool. `name` is the tool's name in the request, with its place.
    pub async fn call_target(self, target: &ItemTarget, name: &Text<'_>) -> RpcReply {
        let (id, era, shared_state) = (self.id(), self.era(), self.shared);
        let client = Arc::clone(&self.sink.client);
        let takes_tasks = client.caller.capabilities.tasks;
        match self.forward(target, name).await {
            Ok(answer) if takes_tasks && answer.frame.result().is_some_and(tasks::is_task) => {
                let server = target.server.as_str();
                let answer = shared_state
                    .names
                    .renamed(&client.principal, server, answer);
                RpcReply::answer(id, &answer)
            }
            Ok(answer) => RpcReply::answer(id, &answer),
            Err(failure) => RpcReply::tool_failure(id, &failure, era),
        }
    }

    /// Resolves a name. Waits for starting servers if the name is unknown.
    pub async fn named(
        &self,
        name: &Text<'_>,
        kind: FailureKind,
        resolve: impl Fn(&View, &str) -> Result<ItemTarget, Unseen>,
    ) -> Result<ItemTarget, Failure> {
        if let Ok(target) = resolve(&self.view, &name.value) {
            return Ok(target);
        }
        Box::pin(self.named_later(name, kind, resolve)).await
    }

    /// Like [`named`](Self::named), for a name that no server has listed yet.
    pub async fn named_later(
        &self,
        name: &Text<'_>,
        kind: FailureKind,
        resolve: impl Fn(&View, &str) -> Result<ItemTarget, Unseen>,
    ) -> Result<ItemTarget, Failure> {
        self.settled().await;
        let registry = &self.shared.gateway.registry;
        let server_name = self.view.named_by(&name.value);
        let mut list_result = Ok(());
        if let Some(server) = server_name.and_then(|server| registry.named(&server)) {
            list_result = registry.listed_for_call(&server).await;
        }
        let resolution = resolve(&self.view, &name.value);
        if resolution.is_err() {
            list_result?;
        }
        resolution.map_err(|unseen_name| match unseen_name {
            Unseen::Unresolved(Unresolved::Unknown) => self.unknown_name(kind, &name.value),
            Unseen::Unresolved(Unresolved::Ambiguous(candidates)) => {
                let message = format!(
                    "{} is ambiguous: it may be {}",
                    name.value,
                    candidates.join(" or ")
                );
                Failure::new(kind, message).with("candidates", candidates)
            }
            Unseen::SwitchedOff(target) => {
                unknown(kind, &name.value, " (switched off for this client)")
                    .with_server(&target.server)
            }
        })
    }

    /// The servers that the client may see.
    pub fn servers(&self) -> Vec<Arc<ServerHandle>> {
        self.shared.gateway.servers_of(&self.view)
    }

    /// The error for an unknown name. If the name contains a server's name, the error has the
    /// status of that server.
    pub fn unknown_name(&self, kind: FailureKind, name: &str) -> Failure {
        let failure = unknown(kind, name, self.instead(kind));
        match self.view.named_by(name) {
            Some(server) => with_server_status(&self.shared.gateway.registry, failure, &server),
            None => failure,
        }
    }

    /// The error for a resource that does not exist now. If only `server` can have it, the error
    /// has the status of that server.
    pub fn absent(&self, uri: &str, server: Option<ServerName>) -> Failure {
        let failure = unknown_resource(uri);
        match server {
            Some(server) => with_server_status(&self.shared.gateway.registry, failure, &server),
            None => failure,
        }
    }

    /// A hint for a tool that the profile does not list: the own tools that find and call it.
    pub fn instead(&self, kind: FailureKind) -> &'static str {
        let snapshot = self.view.snapshot();
        let is_hidden_tool =
            kind == FailureKind::ToolNotFound && !snapshot.lists_kind(ListKind::Tools);
        if is_hidden_tool && snapshot.own_tools().contains(&OwnToolGroup::Meta) {
            "; servers' tools are found by search_tools, and called by execute_tool"
        } else {
            ""
        }
    }

    /// Sends the request to the target's server, with the original name.
    pub async fn forward(
        self,
        target: &ItemTarget,
        exposed_name: &Text<'_>,
    ) -> Result<CallAnswer, Failure> {
        let server = self
            .shared
            .gateway
            .registry
            .named(&target.server)
            .ok_or_else(|| {
                Failure::new(FailureKind::ServerNotFound, "the server has gone")
                    .with_server(&target.server)
            })?;
        self.check_state(&server)?;
        let request = request(self.frame, self.address, exposed_name, &target.original)?;
        let client = Arc::clone(&self.sink.client);
        let (upstream, _lease) = if self
            .session_source
            .has_isolated_session(&server, &client.principal)
        {
            Box::pin(isolation::upstream(
                self.shared,
                self.session_source,
                &client,
                server,
            ))
            .await
        } else {
            (Upstream::Shared(server), None)
        };
        let answer = (self.shared.gateway.calls)
            .call(self.receipt, upstream, request, self.sink, self.cancelled)
            .await?;
        Ok(restated(self.shared, &client, target, self.frame, answer))
    }

    /// Checks that this server issued the request's `requestState`, if it has one.
    pub fn check_state(&self, server: &ServerHandle) -> Result<(), Failure> {
        match self.state_server {
            Some(issuer) if issuer != server.name.as_str() || !server.speaks_modern() => {
                let failure = Failure::new(FailureKind::InvalidRequest, UNKNOWN_STATE);
                Err(failure.with_server(&server.name))
            }
            _ => Ok(()),
        }
    }

    /// Forwards a request about a resource. Returns the target and the answer.
    pub async fn resource(mut self) -> Result<(ItemTarget, CallAnswer), Failure> {
        let uri = self.address.uri.as_ref().ok_or_else(|| missing("uri"))?;
        self.settled().await;
        let target = match self.shared.gateway.owner(&self.view, &uri.value) {
            Owner::Server(target) => target,
            Owner::Absent(server) => return Err(self.absent(&uri.value, server)),
            Owner::Shared(servers) => return Err(shared_page(&uri.value, &servers)),
            Owner::Unlisted => self.find_owner(&uri.value).await?,
        };
        let answer = self.forward(&target, uri).await?;
        Ok((target, answer))
    }

    /// Finds the server of an unlisted resource. A cancellation of the call ends the search.
    pub async fn find_owner(&mut self, uri: &str) -> Result<ItemTarget, Failure> {
        let (shared_state, view) = (self.shared, self.view.clone());
        let search = shared_state.gateway.find_owner(&view, uri);
        let cancellation = async {
            match (&mut self.cancelled).await {
                Ok(reason) => reason,
                // Without a sender, the call cannot be cancelled. Replace the receiver, because a
                // finished one must not be polled again.
                Err(_) => {
                    self.cancelled = oneshot::channel().1;
                    std::future::pending().await
                }
            }
        };
        tokio::select! {
            found = search => match found {
                Owner::Server(target) => Ok(target),
                Owner::Shared(servers) => Err(shared_page(uri, &servers)),
                Owner::Absent(_) | Owner::Unlisted => Err(unknown_resource(uri)),
            },
            reason = cancellation => {
                let message = format!("cancelled: {reason}");
                Err(Failure::new(FailureKind::Cancelled, message))
            }
        }
    }
}

fn request(
    frame: &Frame,
    address: &Address<'_>,
    exposed_name: &Text<'_>,
    original: &Arc<str>,
) -> Result<CallRequest, Failure> {
    CallRequest::new(frame.clone(), address.progress_token)
        .map(|request| request.renamed(exposed_name, original))
        .ok_or_else(|| Failure::new(FailureKind::InvalidRequest, "a request is expected"))
}

/// Seals the `requestState` in an `input_required` result.
fn restated(
    shared_state: &SharedState,
    client: &CallClient,
    target: &ItemTarget,
    frame: &Frame,
    answer: CallAnswer,
) -> CallAnswer {
    let (principal, server) = (&client.principal, target.server.as_str());
    shared_state
        .names
        .restated(principal, server, frame, &client.caller, answer)
}

pub fn missing(member: &str) -> Failure {
    Failure::new(
        FailureKind::InvalidRequest,
        format!("\"{member}\" is missing"),
    )
}

pub fn unknown(kind: FailureKind, name: &str, suffix: &str) -> Failure {
    let noun = if kind == FailureKind::PromptNotFound {
        "prompt"
    } else {
        "tool"
    };
    Failure::new(kind, format!("Unknown {noun}: {name}{suffix}")).with(noun, name)
}

pub fn unknown_resource(uri: &str) -> Failure {
    Failure::new(FailureKind::ResourceNotFound, "Resource not found").with("uri", uri)
}
