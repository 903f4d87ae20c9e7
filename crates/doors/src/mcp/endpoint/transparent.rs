//! Serves one server unchanged: everything is forwarded, nothing is renamed.

use std::{borrow::Cow, sync::Arc};

use mainstay_core::{
    catalog::{ListKind, without_output_schema},
    era::{Era, LogLevel, code, listen::Filter, modern},
    failure::{Failure, FailureKind},
    message::{self, Address, InvalidParams, Kind, Method, Reference},
};
use mainstay_gateway::{
    View,
    calls::{Answer, CallSink, Receipt, Request, Upstream},
    supervisor::{IsolatedSession, Server, SessionSettings},
};
use mainstay_transport::Frame;
use tokio::sync::oneshot;

use super::{
    request::{unknown, unknown_resource},
    tasks,
};
use crate::mcp::{
    builtin::{objects, reach::Reach},
    reply::Reply,
    sessions::{session::ClientSession, subscriptions::Resource},
    shared::Shared,
};
use mainstay_doorway::json_views::lists::unknown_tool;

/// One request on its way to one server.
pub struct Forwarded<'a> {
    pub shared: &'a Shared,
    /// What the client sees of the server.
    pub view: View,
    pub frame: &'a Frame,
    /// The client's id, JSON text.
    pub id: &'a str,
    pub address: &'a Address<'a>,
    pub cancelled: oneshot::Receiver<String>,
    pub sink: CallSink,
    pub receipt: &'a Receipt,
}

/// Forwards a request as it is, under our id.
pub async fn answer(upstream: Upstream, asked: Forwarded<'_>) -> Reply {
    let Forwarded {
        shared,
        view,
        frame,
        id,
        address,
        cancelled,
        sink,
        receipt,
    } = asked;
    let client = Arc::clone(&sink.client);
    let Some(bound) = &client.bound else {
        return Reply::error(id, code::INTERNAL_ERROR, "the client is bound to no server");
    };
    let invalid = |error: InvalidParams| Reply::error(id, code::INVALID_PARAMS, &error.to_string());
    let renamed = match bound.request(frame) {
        Ok(renamed) => renamed,
        Err(error) => return invalid(error),
    };
    let readdressed;
    let (frame, address) = match &renamed {
        None => (frame, address),
        Some(frame) => {
            readdressed = match message::address(frame.text(), frame.envelope()) {
                Ok(address) => address,
                Err(error) => return invalid(error),
            };
            (frame, &readdressed)
        }
    };
    let Some(mut request) = Request::new(frame.clone(), address.progress_token) else {
        return Reply::error(id, code::INVALID_REQUEST, "a request is expected");
    };
    if let Some(method) = frame.method().filter(|method| tasks::is_about_one(*method)) {
        // A name without an owner must not hide what is wrong with the request itself.
        if client.caller.era() == Era::Modern {
            if modern::is_removed(method) {
                return Reply::unknown_method(id, &frame.method_name());
            }
            if !client.caller.capabilities.tasks {
                return Reply::tasks_undeclared(id);
            }
        }
        request = match tasks::named(frame) {
            Err(reason) => return Reply::error(id, code::INVALID_PARAMS, reason),
            Ok(name) => match bound.task(&name.value) {
                Some(own) => request.renamed(&name, &own.into()),
                None => return Reply::error(id, code::INVALID_PARAMS, tasks::UNKNOWN),
            },
        };
    }
    let (server, era) = (Arc::clone(upstream.server()), sink.client.caller.era());
    let cuts_results = server.config().max_inline_bytes.is_some();
    if let Some(failure) = hidden_item(&view, &server, frame, address) {
        return Reply::failure(id, &failure);
    }
    if let Some(uri) = address.uri.as_ref()
        && cuts_results
        && frame.method() == Some(Method::ResourcesRead)
        && objects::is_one(&uri.value)
    {
        let reach = Reach::new(&sink.client, view);
        return objects::read(shared, Some(reach), id, &uri.value, era, cancelled).await;
    }
    let list = frame.method().and_then(ListKind::of);
    let edited_list =
        list.filter(|kind| view.may_hide(*kind) || (*kind == ListKind::Tools && cuts_results));
    let wish = match &upstream {
        Upstream::IsolatedSession(isolated_session) => Wish::of(isolated_session, frame, address),
        Upstream::Shared(_) => None,
    };
    let calling = shared
        .gateway
        .calls
        .call(receipt, upstream, request, sink, cancelled);
    let answer = calling.await;
    if let Some(wish) = wish {
        wish.answered(&answer);
    }
    let answer = answer.map(|answer| bound.answer(frame, &client.caller, answer));
    match answer {
        Ok(answer) => {
            let reply = Reply::answer(id, &answer);
            let is_hidden = |kind, original: &str| view.hides_item(kind, &server.name, original);
            let text = edited_list
                .and_then(|kind| edited(&answer.frame, id, kind, is_hidden, cuts_results));
            match text {
                Some(text) => reply.edited(text),
                None => reply,
            }
        }
        Err(failure) if frame.method() == Some(Method::ToolsCall) => {
            Reply::tool_failure(id, &failure, era)
        }
        Err(failure) => Reply::failure(id, &failure),
    }
}

/// The failure of a request that names what its client does not see: the same as for what there is not.
fn hidden_item(
    view: &View,
    server: &Server,
    frame: &Frame,
    address: &Address<'_>,
) -> Option<Failure> {
    let is_hidden = |kind, original: &str| view.hides_item(kind, &server.name, original);
    let is_hidden_resource = |uri: &str| is_hidden(ListKind::Resources, uri);
    match frame.method()? {
        Method::ToolsCall => {
            let name = &*address.name.as_ref()?.value;
            is_hidden(ListKind::Tools, name).then(|| unknown_tool(server, name))
        }
        Method::PromptsGet => hidden_prompt(view, server, &address.name.as_ref()?.value),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            let uri = &*address.uri.as_ref()?.value;
            is_hidden_resource(uri).then(|| unknown_resource(uri))
        }
        Method::Complete => match address.reference.as_ref()? {
            Reference::Prompt(name) => hidden_prompt(view, server, &name.value),
            Reference::Resource(uri) => {
                let uri = &*uri.value;
                let is_hidden_reference =
                    is_hidden(ListKind::Templates, uri) || is_hidden_resource(uri);
                is_hidden_reference.then(|| unknown_resource(uri))
            }
        },
        Method::Listen if view.may_hide(ListKind::Resources) => {
            let filter = Filter::read(frame.params()?).ok()?;
            let hidden = filter.uris.iter().find(|uri| is_hidden_resource(uri));
            hidden.map(|uri| unknown_resource(uri))
        }
        _ => None,
    }
}

fn hidden_prompt(view: &View, server: &Server, name: &str) -> Option<Failure> {
    let is_hidden = view.hides_item(ListKind::Prompts, &server.name, name);
    is_hidden.then(|| unknown(FailureKind::PromptNotFound, name, ""))
}

/// A request whose effect lasts as long as the session, and is to be the same in the next session.
struct Wish {
    wanted: Arc<SessionSettings>,
    kind: WishKind,
}

enum WishKind {
    Level(LogLevel),
    /// A resource, and whether the subscription is new.
    Subscribe(String, bool),
    Unsubscribe(String),
}

impl Wish {
    /// A subscription is remembered before it is made: if the session is lost meanwhile, the next one
    /// is asked for it.
    fn of(
        isolated_session: &IsolatedSession,
        frame: &Frame,
        address: &Address<'_>,
    ) -> Option<Self> {
        let wanted = Arc::clone(&isolated_session.settings);
        let uri = || Some(address.uri.as_ref()?.value.to_string());
        let kind = match frame.method()? {
            Method::SetLevel => WishKind::Level(LogLevel::parse(&frame.text_param("level")?)?),
            Method::ResourcesSubscribe => {
                let uri = uri()?;
                let is_new = wanted.subscribe(&uri, &uri);
                WishKind::Subscribe(uri, is_new)
            }
            Method::ResourcesUnsubscribe => WishKind::Unsubscribe(uri()?),
            _ => return None,
        };
        Some(Self { wanted, kind })
    }

    fn answered(self, answer: &Result<Answer, Failure>) {
        let is_granted = matches!(answer, Ok(answer) if answer.frame.result().is_some());
        match self.kind {
            WishKind::Level(level) if is_granted => self.wanted.set_log_level(level),
            WishKind::Subscribe(uri, true) if !is_granted => {
                self.wanted.unsubscribe(&uri);
            }
            WishKind::Unsubscribe(uri) if is_granted => {
                self.wanted.unsubscribe(&uri);
            }
            WishKind::Level(_) | WishKind::Subscribe(..) | WishKind::Unsubscribe(_) => {}
        }
    }
}

/// A server's list as its client may see it: what is hidden is neither listed nor callable, here as on
/// `/mcp`, and results that may be cut are not promised. `None` where it is no list.
fn edited(
    answer: &Frame,
    id: &str,
    kind: ListKind,
    is_hidden: impl Fn(ListKind, &str) -> bool,
    cuts_results: bool,
) -> Option<String> {
    let Kind::Response { id: span, body, .. } = answer.envelope().kind else {
        return None;
    };
    let list = message::locate(answer.text(), body, &[kind.member()])?;
    let kept: Vec<Cow<'_, str>> = message::items(answer.get(list))?
        .into_iter()
        .filter(|item| {
            let original = message::text_member(item, kind.key());
            !original.is_some_and(|original| is_hidden(kind, &original))
        })
        .map(|item| {
            if cuts_results && kind == ListKind::Tools {
                without_output_schema(item)
            } else {
                Cow::Borrowed(item)
            }
        })
        .collect();
    let kept = message::array(&kept);
    Some(message::splice(
        answer.text(),
        &mut [(span, id), (list, &message::one_line(&kept))],
    ))
}

/// Answers a legacy client of a server whose session is shared, or that opens none: what a session keeps
/// for its client is kept here.
pub async fn share(
    session: &Arc<ClientSession>,
    server: &Arc<Server>,
    asked: Forwarded<'_>,
) -> Reply {
    let Forwarded {
        shared,
        frame,
        id,
        address,
        ..
    } = asked;
    let resource = |uri: &str| Resource {
        server: server.name.clone(),
        uri: uri.into(),
    };
    match (frame.method(), address.uri.as_ref()) {
        (Some(Method::SetLevel), _) => {
            let level = frame.text_param("level");
            let Some(level) = level.and_then(|level| LogLevel::parse(&level)) else {
                let reason = "\"level\" must be one of RFC 5424's severities";
                return Reply::error(id, code::INVALID_PARAMS, reason);
            };
            session.set_log_level(level);
            Box::pin(shared.set_log_levels()).await;
            return Reply::result(id, "{}");
        }
        (Some(Method::ResourcesSubscribe), Some(uri)) => {
            // Only the first subscription is asked for upstream.
            if let Some(failure) = hidden_item(&asked.view, server, frame, address) {
                return Reply::failure(id, &failure);
            }
            let resource = resource(&uri.value);
            if let Err(error) = shared.subscriptions.check(&session.id, &uri.value) {
                return Reply::error(id, code::INVALID_PARAMS, &error.to_string());
            }
            let mut reply = Reply::result(id, "{}");
            let ask = async || {
                let upstream = Upstream::Shared(Arc::clone(server));
                reply = answer(upstream, asked).await;
                reply.error.is_none()
            };
            let joining = (shared.subscriptions).join(resource, &session.id, &uri.value, ask);
            Box::pin(joining).await;
            return reply;
        }
        (Some(Method::ResourcesUnsubscribe), Some(uri)) => {
            shared.leave(resource(&uri.value), &session.id);
            return Reply::result(id, "{}");
        }
        _ => {}
    }
    let upstream = Upstream::Shared(Arc::clone(server));
    answer(upstream, asked).await
}

/// Forwards a notification, if the upstream session is open: a new one would know nothing of what it
/// is about.
pub async fn notify(isolated_session: &IsolatedSession, frame: Frame) {
    if let Some(session) = isolated_session.live_session() {
        session.notify(frame.one_line()).await;
    }
}
