//! The context of a call to an own tool: the servers, items and records that its client may see.

use std::{borrow::Cow, sync::Arc};

use mainstay_api::Raw;
use mainstay_core::{
    catalog::{Catalog, ItemTarget, ListKind},
    era::Caller,
    event::ServerEvent,
    failure::Failure,
    ids::ServerName,
    message::{self, Address, Method, Text, quote},
    names::Unresolved,
    principal::Principal,
    record::{CallOrigin, Record, Status},
};
use mainstay_gateway::{
    Gateway, View,
    calls::{CallClient, CallSink, Receipt},
    registry::ProfileSnapshot,
    resource_not_found,
    supervisor::ServerHandle,
};
use mainstay_transport::Frame;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{reach::Reach, refusal::ToolRefusal};
use crate::mcp::{endpoint::request::RequestContext, shared::SharedState};
use mainstay_doorway::json_views::{
    lists::{NotFound, named_server, not_found},
    servers::Disclosure,
};

pub struct Context<'a> {
    pub shared: &'a SharedState,
    view: View,
    frame: &'a Frame,
    client: Arc<CallClient>,
    receipt: &'a Receipt,
}

impl<'a> Context<'a> {
    pub fn new(request: &RequestContext<'a>) -> Self {
        Self {
            shared: request.shared,
            view: request.view.clone(),
            frame: request.frame,
            client: Arc::clone(&request.sink.client),
            receipt: request.receipt,
        }
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.shared.gateway
    }

    /// Parses the arguments of the call. Absent arguments and `null` are an empty object.
    pub fn arguments<T: Deserialize<'a>>(&self) -> Result<T, ToolRefusal> {
        let arguments = self
            .frame
            .param("arguments")
            .filter(|arguments| *arguments != "null");
        serde_json::from_str(arguments.unwrap_or("{}"))
            .map_err(|error| ToolRefusal::Arguments(error.to_string()))
    }

    /// Waits once for each server of the profile that is starting.
    async fn settled(&self) {
        let registry = &self.gateway().registry;
        registry.profile_settled(&self.view.profile).await;
    }

    /// The catalog of the profile's servers, with unlisted items. Waits for starting servers.
    pub async fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.profile_snapshot().await.catalog)
    }

    /// The profile's snapshot (catalog and search index). Waits for starting servers.
    pub async fn profile_snapshot(&self) -> Arc<ProfileSnapshot> {
        self.settled().await;
        self.view.snapshot()
    }

    /// The items of a list that the client can see, of one server or all servers: each target with
    /// its JSON text.
    pub fn items<'c>(
        &self,
        catalog: &'c Catalog,
        kind: ListKind,
        server_filter: Option<&ServerHandle>,
    ) -> impl Iterator<Item = (&'c ItemTarget, &'c str)> {
        let items = catalog.targets(kind).iter().zip(catalog.items(kind));
        let items = items.filter(move |(target, _)| {
            belongs_to(target, server_filter) && !self.view.hides(kind, target)
        });
        items.map(|(target, item)| (target, &**item))
    }

    /// A filter for the tools that the client can see, of one server or all servers.
    pub fn sieve(&self, server_filter: Option<Arc<ServerHandle>>) -> Sieve {
        Sieve {
            view: self.view.clone(),
            only: server_filter,
        }
    }

    /// The servers that the client can see, in the order of the configuration.
    pub fn servers(&self) -> Vec<Arc<ServerHandle>> {
        self.gateway().servers_of(&self.view)
    }

    /// True if the client can see every server.
    pub fn has_all_servers(&self) -> bool {
        self.servers().len() == self.gateway().registry.servers().len()
    }

    /// The server with this name. A server that the client cannot see is an unknown one.
    pub fn server(&self, name: &str) -> Result<Arc<ServerHandle>, Failure> {
        self.gateway().server(&self.view, name)
    }

    /// Resolves the name of a tool or prompt in any spelling, among all servers or in one. Waits
    /// for starting servers if the name is unknown.
    pub async fn target(
        &self,
        kind: ListKind,
        server: Option<&str>,
        name: &str,
    ) -> Result<ItemTarget, NotFound> {
        let is_on_server = |target: &ItemTarget, server| target.server.as_str() == server;
        let find = || match (self.view.find(kind, name), server) {
            (Ok(target), Some(server)) if is_on_server(&target, server) => Ok(target),
            (_, Some(server)) => {
                let item_target = self.view.find(kind, &format!("{server}/{name}"))?;
                is_on_server(&item_target, server)
                    .then_some(item_target)
                    .ok_or(Unresolved::Unknown)
            }
            (item_target, None) => item_target,
        };
        if let Ok(target) = find() {
            return Ok(target);
        }
        self.settled().await;
        let server_name = self.view.named_by(name);
        let server_name = server_name.as_ref().map(ServerName::as_str);
        if let Some(Ok(server)) = server
            .or(named_server(name, server_name))
            .map(|server| self.server(server))
        {
            let list_result = self.gateway().registry.listed_for_call(&server).await;
            if find().is_err() {
                list_result?;
            }
        }
        find().map_err(|unresolved_name| {
            let name = server.map_or(name.into(), |server| Cow::Owned(format!("{server}/{name}")));
            not_found(
                |server| self.server(server),
                kind,
                server_name,
                &name,
                unresolved_name,
            )
        })
    }

    /// True if the client can see the server.
    pub fn has_server(&self, name: &ServerName) -> bool {
        self.view.has_server(name)
    }

    /// The part of an event that the client may see.
    pub fn visible_event(&self, event: &ServerEvent) -> Option<ServerEvent> {
        self.view.visible_event(event)
    }

    /// The records and objects that the client may read.
    pub fn reach(&self) -> Reach {
        Reach::new(&self.client, self.view.clone())
    }

    /// True for a refused call of this client, by its token or its session. Its names may be hidden
    /// from the client, but the client itself sent them.
    pub fn made_refused(&self, record: &Record) -> bool {
        let is_own = match &self.client.principal {
            client @ Principal::Client(_) => record.origin.principal == Some(client.to_string()),
            Principal::Anonymous | Principal::Operator => {
                let session = &self.client.origin.session;
                session.is_some() && *session == record.origin.session
            }
        };
        is_own && record.status == Status::Refused
    }

    /// True if the client may answer a question that a call of `principal` caused. The operator may
    /// answer all questions, and a client with a token its own. A client without a token may answer
    /// questions that no client token caused.
    pub fn is_own(&self, principal: Option<&Principal>) -> bool {
        match (&self.client.principal, principal) {
            (Principal::Operator, _) => true,
            (Principal::Anonymous, principal) => !matches!(principal, Some(Principal::Client(_))),
            (client @ Principal::Client(_), principal) => principal == Some(client),
        }
    }

    /// The client for requests that Mainstay makes itself. It does not get questions.
    pub fn client(&self) -> Arc<CallClient> {
        let origin = CallOrigin::clone(&self.client.origin);
        let principal = self.client.principal.clone();
        Arc::new(CallClient::without_questions(
            Caller::default(),
            principal,
            origin,
        ))
    }

    /// The origin of the call, for records.
    pub fn origin(&self) -> Arc<CallOrigin> {
        Arc::clone(&self.client.origin)
    }

    /// True if the client has the control token.
    pub fn is_operator(&self) -> bool {
        self.client.principal == Principal::Operator
    }

    /// The part of a pending server's details that the client may see.
    pub fn disclosure(&self) -> Disclosure {
        if self.is_operator() {
            Disclosure::Operator
        } else {
            Disclosure::Client
        }
    }

    /// Sends `resources/read` to a server, and returns the result.
    pub async fn read(
        &self,
        server: &str,
        uri: &str,
        cancel_signal: oneshot::Receiver<String>,
    ) -> Result<Raw, Failure> {
        let server = self.server(server)?;
        // The URI may be one from the merged list, with the name of its server.
        let listed_target = self.view.resource(uri).target();
        let listed_target = listed_target.filter(|target| target.server == server.name);
        let original = listed_target.map_or_else(|| uri.into(), |target| target.original);
        if !self.view.has_resource(&server.name, &original) {
            return Err(resource_not_found(uri));
        }
        let params = format!(r#"{{"uri":{}}}"#, quote(&original));
        self.ask(server, Method::ResourcesRead, &params, cancel_signal)
            .await
    }

    /// Sends a request to a server for the client, and returns the result.
    pub async fn ask(
        &self,
        server: Arc<ServerHandle>,
        method: Method,
        params: &str,
        cancel_signal: oneshot::Receiver<String>,
    ) -> Result<Raw, Failure> {
        let (calls, client) = (&self.gateway().calls, self.client());
        let (sink, _) = CallSink::new(client, None);
        mainstay_gateway::ask(
            calls,
            self.receipt,
            sink,
            server,
            method,
            params,
            cancel_signal,
        )
        .await
    }

    /// Looks up a server if there is a name.
    pub fn only(&self, name: Option<&str>) -> Result<Option<Arc<ServerHandle>>, Failure> {
        name.map(|name| self.server(name)).transpose()
    }
}

/// Selects the tools that a client can see. Unlike [`Context`], it can move to another thread.
pub struct Sieve {
    view: View,
    only: Option<Arc<ServerHandle>>,
}

impl Sieve {
    pub fn shows_tool(&self, target: &ItemTarget) -> bool {
        belongs_to(target, self.only.as_deref()) && !self.view.hides(ListKind::Tools, target)
    }
}

/// True if the target belongs to the server, or there is no server to filter by.
fn belongs_to(target: &ItemTarget, server_filter: Option<&ServerHandle>) -> bool {
    server_filter.is_none_or(|server| server.name == target.server)
}

/// The JSON text of a server tool's arguments. Absent arguments and `null` become `{}`.
pub fn object(arguments: Option<&RawValue>) -> Result<&str, ToolRefusal> {
    let text = arguments.map_or("null", RawValue::get);
    match text.as_bytes() {
        [b'{', ..] => Ok(text),
        b"null" => Ok("{}"),
        _ => Err(ToolRefusal::Arguments(
            "\"arguments\" must be an object".to_owned(),
        )),
    }
}

/// Replaces the own tool's name and arguments in a request by those of the server's tool that it
/// calls. The id, the progress token and answers to questions stay.
pub fn unwrapped(frame: &Frame, tool: &str, arguments: &str) -> Result<Frame, ToolRefusal> {
    let unreadable_arguments = |reason: &str| ToolRefusal::Arguments(reason.to_owned());
    let (Some(name), Some(outer_span)) = (
        frame.param_span(&["name"]),
        frame.param_span(&["arguments"]),
    ) else {
        return Err(unreadable_arguments("\"arguments\" is missing"));
    };
    let tool = quote(tool);
    let text = message::splice(frame.text(), &mut [(name, &tool), (outer_span, arguments)]);
    Frame::read(text.into()).map_err(|error| unreadable_arguments(&error.to_string()))
}

/// Parses the address of an unwrapped request. Returns it with the tool's name.
pub fn address(frame: &Frame) -> Result<(Address<'_>, Text<'_>), ToolRefusal> {
    let address = message::address(frame.text(), frame.envelope())
        .map_err(|error| ToolRefusal::Arguments(error.to_string()))?;
    let name = address.name.clone();
    let name = name.ok_or_else(|| ToolRefusal::Arguments("\"name\" is missing".to_owned()))?;
    Ok((address, name))
}
