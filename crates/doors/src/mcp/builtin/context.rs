//! What an own tool may know and reach: what its client's profile shows.

use std::{borrow::Cow, sync::Arc};

use mainstay_api::Raw;
use mainstay_core::{
    catalog::{Catalog, ListKind, Target},
    era::Caller,
    event::Event,
    failure::Failure,
    ids::ServerName,
    message::{self, Address, Method, Text, quote},
    names::Unresolved,
    principal::Principal,
    record::{Origin, Record, Status},
};
use mainstay_gateway::{
    Gateway, View,
    calls::{CallSink, Client, Receipt},
    registry::ProfileSnapshot,
    resource_not_found,
    supervisor::Server,
};
use mainstay_transport::Frame;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{reach::Reach, refusal::Refusal};
use crate::mcp::{endpoint::request::RequestContext, shared::Shared};
use mainstay_doorway::json_views::{
    lists::{NotFound, named_server, not_found},
    servers::Disclosure,
};

pub struct Context<'a> {
    pub shared: &'a Shared,
    view: View,
    frame: &'a Frame,
    client: Arc<Client>,
    receipt: &'a Receipt,
}

impl<'a> Context<'a> {
    pub fn of(asked: &RequestContext<'a>) -> Self {
        Self {
            shared: asked.shared,
            view: asked.view.clone(),
            frame: asked.frame,
            client: Arc::clone(&asked.sink.client),
            receipt: asked.receipt,
        }
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.shared.gateway
    }

    /// What the tool is called with.
    pub fn arguments<T: Deserialize<'a>>(&self) -> Result<T, Refusal> {
        let given = self.frame.param("arguments").filter(|it| *it != "null");
        serde_json::from_str(given.unwrap_or("{}"))
            .map_err(|error| Refusal::Arguments(error.to_string()))
    }

    /// Waits for the servers of the profile that are starting, each once.
    async fn settled(&self) {
        let registry = &self.gateway().registry;
        registry.profile_settled(&self.view.profile).await;
    }

    /// What the servers of the profile offer, listed or not, once those that are starting had their time.
    pub async fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.shown().await.catalog)
    }

    /// The same with what it is searched by.
    pub async fn shown(&self) -> Arc<ProfileSnapshot> {
        self.settled().await;
        self.view.shown()
    }

    /// One list of a catalog, of all servers or of one: where each item leads, and what it says of itself.
    pub fn items<'c>(
        &self,
        catalog: &'c Catalog,
        kind: ListKind,
        only: Option<&Server>,
    ) -> impl Iterator<Item = (&'c Target, &'c str)> {
        let items = catalog.targets(kind).iter().zip(catalog.items(kind));
        let items =
            items.filter(move |(target, _)| is_of(target, only) && !self.view.hides(kind, target));
        items.map(|(target, item)| (target, &**item))
    }

    /// Which tools of the profile's catalog are this client's, and of this server where only one's are wanted.
    pub fn sieve(&self, only: Option<Arc<Server>>) -> Sieve {
        Sieve {
            view: self.view.clone(),
            only,
        }
    }

    /// In configuration order.
    pub fn servers(&self) -> Vec<Arc<Server>> {
        self.gateway().servers_of(&self.view)
    }

    /// Whether no server is hidden from the client.
    pub fn has_all_servers(&self) -> bool {
        self.servers().len() == self.gateway().registry.servers().len()
    }

    /// One that the profile does not have is like one that is not there.
    pub fn server(&self, name: &str) -> Result<Arc<Server>, Failure> {
        self.gateway().server(&self.view, name)
    }

    /// The tool or prompt of this name, in whatever spelling, of any server or of this one. A known one
    /// is found without waiting.
    pub async fn target(
        &self,
        kind: ListKind,
        server: Option<&str>,
        name: &str,
    ) -> Result<Target, NotFound> {
        let is_of = |target: &Target, server| target.server.as_str() == server;
        let find = || match (self.view.find(kind, name), server) {
            (Ok(target), Some(server)) if is_of(&target, server) => Ok(target),
            (_, Some(server)) => {
                let found = self.view.find(kind, &format!("{server}/{name}"))?;
                is_of(&found, server)
                    .then_some(found)
                    .ok_or(Unresolved::Unknown)
            }
            (found, None) => found,
        };
        if let Ok(target) = find() {
            return Ok(target);
        }
        self.settled().await;
        let named = self.view.named_by(name);
        let named = named.as_ref().map(ServerName::as_str);
        if let Some(Ok(server)) = server
            .or(named_server(name, named))
            .map(|server| self.server(server))
        {
            let in_time = self.gateway().registry.listed_for_call(&server).await;
            if find().is_err() {
                in_time?;
            }
        }
        find().map_err(|why| {
            let name = server.map_or(name.into(), |server| Cow::Owned(format!("{server}/{name}")));
            not_found(|server| self.server(server), kind, named, &name, why)
        })
    }

    /// Whether a server is part of the profile.
    pub fn has_server(&self, name: &ServerName) -> bool {
        self.view.has_server(name)
    }

    /// The part of an event that the client sees.
    pub fn visible_event(&self, event: &Event) -> Option<Event> {
        self.view.visible_event(event)
    }

    /// Which records and objects the client may see.
    pub fn reach(&self) -> Reach {
        Reach::new(&self.client, self.view.clone())
    }

    /// Whether this is a refused call that the client surely made: with its token, or in its session. Its name
    /// may be that of what the client does not see, but the client used it.
    pub fn made_refused(&self, record: &Record) -> bool {
        let is_own = match &self.client.principal {
            own @ Principal::Client(_) => record.origin.principal == Some(own.to_string()),
            Principal::Anonymous | Principal::Operator => {
                let session = &self.client.origin.session;
                session.is_some() && *session == record.origin.session
            }
        };
        is_own && record.status == Status::Refused
    }

    /// Whether a question to this principal is the client's to see and answer. The operator sees all
    /// questions. A client with a token sees only its own. A client without a token sees those that belong
    /// to no client's token: all of them, where there are no tokens.
    pub fn is_own(&self, principal: Option<&Principal>) -> bool {
        match (&self.client.principal, principal) {
            (Principal::Operator, _) => true,
            (Principal::Anonymous, asked) => !matches!(asked, Some(Principal::Client(_))),
            (own @ Principal::Client(_), asked) => asked == Some(own),
        }
    }

    /// The client in whose name Mainstay asks a server, other than by the client's own request.
    pub fn client(&self) -> Arc<Client> {
        let origin = Origin::clone(&self.client.origin);
        let principal = self.client.principal.clone();
        Arc::new(Client::unasked(Caller::default(), principal, origin))
    }

    /// The client in its records.
    pub fn origin(&self) -> Arc<Origin> {
        Arc::clone(&self.client.origin)
    }

    /// Whether the client bears the control token.
    pub fn is_operator(&self) -> bool {
        self.client.principal == Principal::Operator
    }

    /// How much it is told of what waits for approval.
    pub fn disclosure(&self) -> Disclosure {
        if self.is_operator() {
            Disclosure::Operator
        } else {
            Disclosure::Client
        }
    }

    /// What a server answers to `resources/read`.
    pub async fn read(
        &self,
        server: &str,
        uri: &str,
        cancelled: oneshot::Receiver<String>,
    ) -> Result<Raw, Failure> {
        let server = self.server(server)?;
        // A URI that says its server, as the list may have it.
        let listed = self.view.resource(uri).target();
        let listed = listed.filter(|target| target.server == server.name);
        let own = listed.map_or_else(|| uri.into(), |target| target.original);
        if !self.view.has_resource(&server.name, &own) {
            return Err(resource_not_found(uri));
        }
        let params = format!(r#"{{"uri":{}}}"#, quote(&own));
        self.ask(server, Method::ResourcesRead, &params, cancelled)
            .await
    }

    /// What a server answers to a request in the client's name.
    pub async fn ask(
        &self,
        server: Arc<Server>,
        method: Method,
        params: &str,
        cancelled: oneshot::Receiver<String>,
    ) -> Result<Raw, Failure> {
        let (calls, client) = (&self.gateway().calls, self.client());
        let (sink, _) = CallSink::new(client, None);
        mainstay_gateway::ask(calls, self.receipt, sink, server, method, params, cancelled).await
    }

    /// The server of this name, where one is given.
    pub fn only(&self, name: Option<&str>) -> Result<Option<Arc<Server>>, Failure> {
        name.map(|name| self.server(name)).transpose()
    }
}

/// Tells which tools are shown. It can go to another thread.
pub struct Sieve {
    view: View,
    only: Option<Arc<Server>>,
}

impl Sieve {
    pub fn shows_tool(&self, target: &Target) -> bool {
        is_of(target, self.only.as_deref()) && !self.view.hides(ListKind::Tools, target)
    }
}

/// Whether an item is wanted where only one server's are.
fn is_of(target: &Target, only: Option<&Server>) -> bool {
    only.is_none_or(|server| server.name == target.server)
}

/// The arguments for a server's tool as JSON text; absent and `null` are none.
pub fn object(arguments: Option<&RawValue>) -> Result<&str, Refusal> {
    let given = arguments.map_or("null", RawValue::get);
    match given.as_bytes() {
        [b'{', ..] => Ok(given),
        b"null" => Ok("{}"),
        _ => Err(Refusal::Arguments(
            "\"arguments\" must be an object".to_owned(),
        )),
    }
}

/// The client's request as the call that it asks for: a server's tool and its arguments in the place of
/// ours. All else stays: the id, the progress token, answers to what a server has asked.
pub fn unwrapped(frame: &Frame, tool: &str, arguments: &str) -> Result<Frame, Refusal> {
    let unreadable = |reason: &str| Refusal::Arguments(reason.to_owned());
    let (Some(name), Some(outer)) = (
        frame.param_span(&["name"]),
        frame.param_span(&["arguments"]),
    ) else {
        return Err(unreadable("\"arguments\" is missing"));
    };
    let tool = quote(tool);
    let text = message::splice(frame.text(), &mut [(name, &tool), (outer, arguments)]);
    Frame::read(text.into()).map_err(|error| unreadable(&error.to_string()))
}

/// The address of an unwrapped request.
pub fn address(frame: &Frame) -> Result<(Address<'_>, Text<'_>), Refusal> {
    let address = message::address(frame.text(), frame.envelope())
        .map_err(|error| Refusal::Arguments(error.to_string()))?;
    let name = address.name.clone();
    let name = name.ok_or_else(|| Refusal::Arguments("\"name\" is missing".to_owned()))?;
    Ok((address, name))
}
