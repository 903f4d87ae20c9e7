//! Serves several servers as one: names are resolved by the profile's catalog, lists are answered from
//! it. A client needs a session only to subscribe and to set a log level.

use std::{fmt::Write as _, sync::Arc};

use mainstay_core::{
    builtin::Group,
    catalog::{ListKind, Owner, Target},
    era::{Era, LogLevel},
    failure::{Failure, FailureKind},
    ids::ServerName,
    message::{self, Address, Method, Reference, Text},
    names::Unresolved,
};
use mainstay_gateway::{Unseen, View};
use mainstay_gateway::{
    calls::{Answer, CallSink, Client, Receipt, Request, Upstream},
    registry::ProfileSnapshot,
    supervisor::{IsolatedSession, Server},
};
use mainstay_platform::blocking::off_the_runtime_if_long;
use mainstay_transport::Frame;

use futures_util::future::join;
use tokio::sync::oneshot;

use super::{
    builtin::{self, Reach, Within, objects},
    hub::Hub,
    isolated::{self, Place},
    modern::UNKNOWN_STATE,
    reply::Reply,
    session::ClientSession,
    subscriptions::Resource,
    tasks,
};
use crate::json_views::lists::of_absent;

const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;

/// The cache hints of a modern list. It changes whenever any server does, and a server may be missing:
/// a client that wants to keep it listens for changes.
const NOT_TO_BE_KEPT: &str = r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#;

/// Room for what stands around the items of a list.
const ENVELOPE: usize = 256;

/// One request on its way through the aggregate.
pub struct Asked<'a> {
    pub hub: &'a Hub,
    pub view: View,
    pub frame: &'a Frame,
    pub address: &'a Address<'a>,
    pub cancelled: oneshot::Receiver<String>,
    pub sink: CallSink,
    pub receipt: &'a Receipt,
    /// The server that gave the `requestState` that it brings.
    pub state_of: Option<&'a str>,
    pub place: Place<'a>,
}

/// Answers a client with a session.
pub async fn answer_session(session: &ClientSession, asked: Asked<'_>) -> Reply {
    match asked.frame.method() {
        Some(Method::ResourcesSubscribe) => {
            let id = asked.id();
            Box::pin(asked.subscribe(session))
                .await
                .unwrap_or_else(|failure| Reply::failure(id, &failure))
        }
        Some(Method::ResourcesUnsubscribe) => Box::pin(asked.unsubscribe(session)).await,
        Some(Method::SetLevel) => Box::pin(asked.set_level(session)).await,
        _ => answer(asked).await,
    }
}

/// Answers a request, with or without a session.
pub async fn answer(asked: Asked<'_>) -> Reply {
    let (id, frame) = (asked.id(), asked.frame);
    let Some(method) = frame.method() else {
        return Reply::error(id, METHOD_NOT_FOUND, "a request is expected");
    };
    if let Some(kind) = ListKind::of(method) {
        return asked.list(kind).await;
    }
    let outcome = match method {
        Method::ToolsCall => return asked.call_tool().await,
        Method::PromptsGet => Box::pin(asked.get_prompt()).await,
        Method::Complete => Box::pin(asked.complete()).await,
        // The extension has no `tasks/result`.
        _ if asked.era() == Era::Modern
            && method != Method::TasksResult
            && tasks::is_about_one(method) =>
        {
            return Box::pin(asked.task()).await;
        }
        Method::ResourcesRead => {
            let uri = asked.address.uri.as_ref();
            if let Some(uri) = uri.filter(|uri| objects::is_one(&uri.value)) {
                let (hub, reach, era) = (asked.hub, asked.reach(), asked.era());
                let read = objects::read(hub, reach, id, &uri.value, era, asked.cancelled);
                return Box::pin(read).await;
            }
            Box::pin(asked.resource()).await.map(|(_, answer)| answer)
        }
        _ => return Reply::unknown_method(id, &frame.method_name()),
    };
    match outcome {
        Ok(answer) => Reply::answer(id, &answer),
        Err(failure) => Reply::failure(id, &failure),
    }
}

impl<'a> Asked<'a> {
    pub(super) fn id(&self) -> &'a str {
        match self.frame.envelope().kind {
            message::Kind::Request { id, .. } => self.frame.get(id),
            _ => "null",
        }
    }

    pub(super) fn era(&self) -> Era {
        self.sink.client.caller.era()
    }

    /// The merged list, in one page or in pages of the configured size.
    async fn list(self, kind: ListKind) -> Reply {
        self.settled().await;
        let start = match self.frame.param("cursor") {
            None => 0,
            // One that is none stands behind all items.
            Some(cursor) => read_cursor(cursor).unwrap_or(usize::MAX),
        };
        let list = List {
            kind,
            shown: self.view.shown(),
            view: self.view.clone(),
            has_objects: kind == ListKind::Templates && self.cuts_results(),
            start,
            page_size: self.hub.page_size.unwrap_or(usize::MAX),
            era: self.era(),
            id: self.id().to_owned(),
        };
        // Thousands of tools take milliseconds to write.
        let bytes = list.shown.catalog.bytes(kind);
        off_the_runtime_if_long(bytes, move || list.answer()).await
    }

    /// Whether a client may be linked to what is kept of a result.
    fn cuts_results(&self) -> bool {
        let mut servers = self.servers().into_iter();
        servers.any(|server| server.config().max_inline_bytes.is_some())
    }

    /// Which kept objects the client may read as resources: none where the profile neither cuts results,
    /// whose links lead to them, nor has a tool that reads them.
    fn reach(&self) -> Option<Reach> {
        let shown = self.view.shown();
        let own = [Group::Records, Group::Meta];
        let reads = own.iter().any(|group| shown.own_tools().contains(group));
        (reads || self.cuts_results()).then(|| Reach {
            principal: self.sink.client.principal.clone(),
            within: Within::View(self.view.clone()),
        })
    }

    /// Waits for the servers of the profile, each once.
    async fn settled(&self) {
        let registry = &self.hub.registry;
        registry.profile_settled(&self.view.profile).await;
    }

    async fn call_tool(self) -> Reply {
        let id = self.id();
        let Some(name) = &self.address.name else {
            return Reply::error(id, INVALID_PARAMS, "\"name\" is missing");
        };
        if let Some(tool) = builtin::find(self.view.shown().own_tools(), &name.value) {
            return Box::pin(builtin::call(tool, self)).await;
        }
        let target = match self
            .named(name, FailureKind::ToolNotFound, View::tool)
            .await
        {
            Ok(target) => target,
            Err(failure) => return Reply::failure(id, &failure),
        };
        self.call_target(&target, name).await
    }

    /// Calls a server's tool, which the request names so.
    pub(super) async fn call_target(self, target: &Target, name: &Text<'_>) -> Reply {
        let (id, era, hub) = (self.id(), self.era(), self.hub);
        let client = Arc::clone(&self.sink.client);
        let takes_tasks = client.caller.capabilities.tasks;
        match self.forward(target, name).await {
            Ok(answer) if takes_tasks && tasks::is_task(&answer.frame) => {
                let server = target.server.as_str();
                let answer = hub.names.renamed(&client.principal, server, answer);
                Reply::answer(id, &answer)
            }
            Ok(answer) => Reply::answer(id, &answer),
            Err(failure) => Reply::tool_failure(id, &failure, era),
        }
    }

    async fn get_prompt(self) -> Result<Answer, Failure> {
        let name = self.address.name.as_ref().ok_or_else(|| missing("name"))?;
        let target = self
            .named(name, FailureKind::PromptNotFound, View::prompt)
            .await?;
        self.forward(&target, name).await
    }

    async fn complete(self) -> Result<Answer, Failure> {
        match &self.address.reference {
            Some(Reference::Prompt(name)) => {
                let target = self
                    .named(name, FailureKind::PromptNotFound, View::prompt)
                    .await?;
                self.forward(&target, name).await
            }
            Some(Reference::Resource(uri)) => {
                self.settled().await;
                let owner = match self.view.template(&uri.value) {
                    Some(target) => Owner::Server(target),
                    None => self.view.resource(&uri.value),
                };
                match owner {
                    Owner::Server(target) => self.forward(&target, uri).await,
                    Owner::Absent(server) => Err(self.absent(&uri.value, server)),
                    Owner::Unlisted => Err(unknown_resource(&uri.value)),
                }
            }
            None => Err(missing("ref")),
        }
    }

    /// Resolves a name. While servers still start, an unknown one may become known.
    async fn named(
        &self,
        name: &Text<'_>,
        kind: FailureKind,
        resolve: impl Fn(&View, &str) -> Result<Target, Unseen>,
    ) -> Result<Target, Failure> {
        if let Ok(target) = resolve(&self.view, &name.value) {
            return Ok(target);
        }
        Box::pin(self.named_later(name, kind, resolve)).await
    }

    /// The same of a name that is not known yet.
    async fn named_later(
        &self,
        name: &Text<'_>,
        kind: FailureKind,
        resolve: impl Fn(&View, &str) -> Result<Target, Unseen>,
    ) -> Result<Target, Failure> {
        self.settled().await;
        let registry = &self.hub.registry;
        let named = self.view.named_by(&name.value);
        let mut in_time = Ok(());
        if let Some(server) = named.and_then(|server| registry.named(&server)) {
            in_time = registry.listed_for_call(&server).await;
        }
        let found = resolve(&self.view, &name.value);
        if found.is_err() {
            in_time?;
        }
        found.map_err(|unseen| match unseen {
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
                    .of_server(&target.server)
            }
        })
    }

    /// The servers that this client may know of.
    fn servers(&self) -> Vec<Arc<Server>> {
        let mut servers = self.hub.registry.servers_of(&self.view.profile);
        servers.retain(|server| self.view.has_server(&server.name));
        servers
    }

    /// The error for an unknown name that names a server: the status of that server says more.
    fn unknown_name(&self, kind: FailureKind, name: &str) -> Failure {
        let failure = unknown(kind, name, self.instead(kind));
        match self.view.named_by(name) {
            Some(server) => of_absent(&self.hub.registry, failure, &server),
            None => failure,
        }
    }

    /// There is no such resource now, and no other server than this one may be asked.
    fn absent(&self, uri: &str, server: Option<ServerName>) -> Failure {
        let failure = unknown_resource(uri);
        match server {
            Some(server) => of_absent(&self.hub.registry, failure, &server),
            None => failure,
        }
    }

    /// How tools are called that the profile does not list.
    fn instead(&self, kind: FailureKind) -> &'static str {
        let shown = self.view.shown();
        let hidden = kind == FailureKind::ToolNotFound && !shown.shows(ListKind::Tools);
        if hidden && shown.own_tools().contains(&Group::Meta) {
            "; servers' tools are found by search_tools, and called by execute_tool"
        } else {
            ""
        }
    }

    /// Calls the target, with the exposed text replaced by its own.
    pub(super) async fn forward(
        self,
        target: &Target,
        exposed: &Text<'_>,
    ) -> Result<Answer, Failure> {
        let server = self.hub.registry.named(&target.server).ok_or_else(|| {
            Failure::new(FailureKind::ServerNotFound, "the server has gone")
                .of_server(&target.server)
        })?;
        self.check_state(&server)?;
        let request = request(self.frame, self.address, exposed, &target.original)?;
        let client = Arc::clone(&self.sink.client);
        let (upstream, _lease) = if server.is_isolated() {
            Box::pin(self.isolated(server)).await
        } else {
            (Upstream::Shared(server), None)
        };
        let answer = (self.hub.calls)
            .call(self.receipt, upstream, request, self.sink, self.cancelled)
            .await?;
        Ok(restated(self.hub, &client, target, self.frame, answer))
    }

    /// A `requestState` means something to the server alone that gave it.
    fn check_state(&self, server: &Server) -> Result<(), Failure> {
        match self.state_of {
            Some(giver) if giver != server.name.as_str() || !server.speaks_modern() => {
                let failure = Failure::new(FailureKind::InvalidRequest, UNKNOWN_STATE);
                Err(failure.of_server(&server.name))
            }
            _ => Ok(()),
        }
    }

    /// A request about a resource, and whose it was.
    async fn resource(mut self) -> Result<(Target, Answer), Failure> {
        let uri = self.address.uri.as_ref().ok_or_else(|| missing("uri"))?;
        self.settled().await;
        let target = match self.hub.owner(&self.view, &uri.value) {
            Owner::Server(target) => target,
            Owner::Absent(server) => return Err(self.absent(&uri.value, server)),
            Owner::Unlisted => self.find_owner(&uri.value).await?,
        };
        let answer = self.forward(&target, uri).await?;
        Ok((target, answer))
    }

    /// Whose a resource is that no list names. The search ends with the call.
    async fn find_owner(&mut self, uri: &str) -> Result<Target, Failure> {
        let (hub, profile) = (self.hub, Arc::clone(&self.view.profile));
        let searching = hub.find_owner(Some(&profile), self.servers(), uri);
        let cancelled = async {
            match (&mut self.cancelled).await {
                Ok(reason) => reason,
                // It cannot be cancelled any more. The call asks again, and a receiver answers once
                // only.
                Err(_) => {
                    self.cancelled = oneshot::channel().1;
                    std::future::pending().await
                }
            }
        };
        tokio::select! {
            found = searching => found.ok_or_else(|| unknown_resource(uri)),
            reason = cancelled => {
                let message = format!("cancelled: {reason}");
                Err(Failure::new(FailureKind::Cancelled, message))
            }
        }
    }

    /// The first to subscribe does so upstream; for the others it is a matter of bookkeeping.
    async fn subscribe(self, session: &ClientSession) -> Result<Reply, Failure> {
        let uri = self.address.uri.as_ref().ok_or_else(|| missing("uri"))?;
        let (hub, id) = (self.hub, self.id());
        if let Err(error) = hub.subscriptions.check(&session.id, &uri.value) {
            return Ok(Reply::error(id, INVALID_PARAMS, &error.to_string()));
        }
        self.settled().await;
        let owner = hub.owner(&self.view, &uri.value).target();
        if let Some(target) = &owner
            && let Some(isolated_session) = self.own_session_of(session, &target.server)
        {
            return self.subscribe_own(target, &isolated_session).await;
        }
        let resource = owner.map(Resource::from);
        // If the owner is not known yet, no session leaves it either.
        let _turn = match &resource {
            Some(resource) => Some(hub.subscriptions.turn(resource).await),
            None => None,
        };
        if let Some(resource) = resource.filter(|resource| hub.subscriptions.has_any(resource)) {
            hub.subscriptions.add(resource, &session.id, &uri.value);
            return Ok(Reply::result(id, "{}"));
        }
        let (target, answer) = self.resource().await?;
        // A refusal subscribes no session.
        if answer.frame.result().is_some() {
            let server = hub.registry.named(&target.server);
            let own = server.and_then(|server| hub.own_session(session, &server));
            match own {
                Some(isolated_session) => {
                    isolated_session
                        .settings
                        .subscribe(&target.original, &uri.value);
                }
                None => hub
                    .subscriptions
                    .add(target.into(), &session.id, &uri.value),
            }
        }
        Ok(Reply::answer(id, &answer))
    }

    /// Subscribes in the client's own session. Changes while the server answers are announced already.
    async fn subscribe_own(
        self,
        target: &Target,
        isolated_session: &IsolatedSession,
    ) -> Result<Reply, Failure> {
        let uri = self.address.uri.as_ref().ok_or_else(|| missing("uri"))?;
        let (id, wanted) = (self.id(), &isolated_session.settings);
        let is_new = wanted.subscribe(&target.original, &uri.value);
        let answer = self.forward(target, uri).await;
        let is_granted = matches!(&answer, Ok(answer) if answer.frame.result().is_some());
        if is_new && !is_granted {
            wanted.unsubscribe(&target.original);
        }
        Ok(Reply::answer(id, &answer?))
    }

    /// The last one to leave unsubscribes upstream; for the others it is a matter of bookkeeping.
    async fn unsubscribe(self, session: &ClientSession) -> Reply {
        let Some(uri) = &self.address.uri else {
            return Reply::failure(self.id(), &missing("uri"));
        };
        let owner = self.hub.owner(&self.view, &uri.value);
        if let Some(target) = owner.target() {
            let own = self.own_session_of(session, &target.server);
            if let Some(isolated_session) =
                own.filter(|own| own.settings.unsubscribe(&target.original))
            {
                isolated::leave(&isolated_session, &target.original).await;
            }
            self.hub.leave(target.into(), &session.id);
        }
        Reply::result(self.id(), "{}")
    }

    async fn set_level(self, session: &ClientSession) -> Reply {
        let level = self
            .frame
            .text_param("level")
            .and_then(|level| LogLevel::parse(&level));
        let Some(level) = level else {
            return Reply::error(
                self.id(),
                INVALID_PARAMS,
                "\"level\" must be one of RFC 5424's severities",
            );
        };
        session.set_log_level(level);
        join(self.hub.set_log_levels(), session.own.set_log_level(level)).await;
        Reply::result(self.id(), "{}")
    }
}

/// A page of a merged list that is asked for.
struct List {
    kind: ListKind,
    shown: Arc<ProfileSnapshot>,
    view: View,
    /// Whether the template of kept objects is among the items.
    has_objects: bool,
    start: usize,
    page_size: usize,
    era: Era,
    id: String,
}

impl List {
    /// Takes as long as the list is.
    fn answer(&self) -> Reply {
        let (kind, shown) = (self.kind, &self.shown);
        let seen = shown
            .items(kind)
            .filter(|(target, _)| !self.view.hides(kind, target));
        // Own tools stand first.
        let own = match kind {
            ListKind::Tools => shown.own_tools(),
            ListKind::Prompts | ListKind::Resources | ListKind::Templates => &[],
        };
        let objects = self.has_objects.then_some(objects::TEMPLATE);
        let items: Vec<&str> = builtin::descriptors(own)
            .chain(objects)
            .chain(seen.map(|(_, item)| item))
            .collect();
        let (start, id) = (self.start, &self.id);
        if start > 0 && start >= items.len() {
            return Reply::error(id, INVALID_PARAMS, "unknown cursor");
        }
        let end = items.len().min(start.saturating_add(self.page_size));
        let page = &items[start..end];
        // The text is as long as it will be, for growing copies it.
        let length: usize = page.iter().map(|item| item.len() + 1).sum();
        let mut text = String::with_capacity(length + id.len() + ENVELOPE);
        let _ = write!(
            text,
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"{}":["#,
            kind.member()
        );
        for (index, item) in page.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(item);
        }
        text.push(']');
        if end < items.len() {
            let _ = write!(text, r#","nextCursor":"{end}""#);
        }
        if self.era == Era::Modern {
            text.push_str(NOT_TO_BE_KEPT);
        }
        text.push_str("}}");
        Reply::whole(text)
    }
}

fn request(
    frame: &Frame,
    address: &Address<'_>,
    exposed: &Text<'_>,
    original: &Arc<str>,
) -> Result<Request, Failure> {
    Request::new(frame.clone(), address.progress_token)
        .map(|request| request.renamed(exposed, original))
        .ok_or_else(|| Failure::new(FailureKind::InvalidRequest, "a request is expected"))
}

/// An answer that asks the client, with its state under the client's name.
fn restated(hub: &Hub, client: &Client, target: &Target, frame: &Frame, answer: Answer) -> Answer {
    let (principal, server) = (&client.principal, target.server.as_str());
    hub.names
        .restated(principal, server, frame, &client.caller, answer)
}

fn missing(member: &str) -> Failure {
    Failure::new(
        FailureKind::InvalidRequest,
        format!("\"{member}\" is missing"),
    )
}

fn unknown(kind: FailureKind, name: &str, why: &str) -> Failure {
    let what = if kind == FailureKind::PromptNotFound {
        "prompt"
    } else {
        "tool"
    };
    Failure::new(kind, format!("Unknown {what}: {name}{why}")).with(what, name)
}

fn unknown_resource(uri: &str) -> Failure {
    Failure::new(FailureKind::ResourceNotFound, "Resource not found").with("uri", uri)
}

/// Our cursors are the index of the next item.
fn read_cursor(cursor: &str) -> Option<usize> {
    cursor.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}
