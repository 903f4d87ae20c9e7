//! The transparent endpoint: serves one server unchanged.

use std::{borrow::Cow, sync::Arc};

use mainstay_core::{
    access::ToolEffect,
    catalog::{ListKind, without_output_schema},
    era::{Era, LogLevel, code, listen::ListenFilter, modern},
    failure::{Failure, FailureKind},
    message::{self, Address, InvalidParams, MessageKind, Method, Reference},
};
use mainstay_gateway::{
    View,
    calls::{CallAnswer, CallRequest, Upstream},
    supervisor::{IsolatedSession, ServerHandle, SessionSettings},
};
use mainstay_transport::Frame;

use super::{
    request::{RequestContext, unknown, unknown_resource},
    tasks,
};
use crate::mcp::{
    builtin::{objects, reach::Reach},
    reply::RpcReply,
    sessions::{session::ClientSession, subscriptions::SubscribedResource},
};
use mainstay_doorway::json_views::lists::unknown_tool;

/// Forwards a request. Only ids, the progress token and sealed names are replaced.
pub async fn answer(upstream: Upstream, context: RequestContext<'_>) -> RpcReply {
    let id = context.id();
    let RequestContext {
        shared: shared_state,
        view,
        frame,
        address,
        cancelled: cancel_signal,
        sink,
        receipt,
        ..
    } = context;
    let client = Arc::clone(&sink.client);
    let Some(bound) = &client.bound else {
        return RpcReply::error(id, code::INTERNAL_ERROR, "the client is bound to no server");
    };
    let invalid_params =
        |error: InvalidParams| RpcReply::error(id, code::INVALID_PARAMS, &error.to_string());
    let renamed_request = match bound.request(frame) {
        Ok(renamed_request) => renamed_request,
        Err(error) => return invalid_params(error),
    };
    let addressed_frame;
    let (frame, address) = match &renamed_request {
        None => (frame, address),
        Some(frame) => {
            addressed_frame = match message::address(frame.text(), frame.envelope()) {
                Ok(address) => address,
                Err(error) => return invalid_params(error),
            };
            (frame, &addressed_frame)
        }
    };
    let Some(mut request) = CallRequest::new(frame.clone(), address.progress_token) else {
        return RpcReply::error(id, code::INVALID_REQUEST, "a request is expected");
    };
    if let Some(method) = frame.method().filter(|method| tasks::is_about_one(*method)) {
        // Check the request before its task, so that an unknown task does not hide other errors.
        if client.caller.era() == Era::Modern {
            if modern::is_removed(method) {
                return RpcReply::unknown_method(id, &frame.method_name());
            }
            if !client.caller.capabilities.tasks {
                return RpcReply::tasks_undeclared(id);
            }
        }
        request = match tasks::named(frame) {
            Err(reason) => return RpcReply::error(id, code::INVALID_PARAMS, reason),
            Ok(name) => match bound.task(&name.value) {
                Some(original_id) => request.renamed(&name, &original_id.into()),
                None => return RpcReply::error(id, code::INVALID_PARAMS, tasks::UNKNOWN),
            },
        };
    }
    let (server, era) = (Arc::clone(upstream.server()), sink.client.caller.era());
    if view.is_restricted() {
        // The access rules know no names in such a request.
        if frame.method() == Some(Method::Other) {
            return RpcReply::unknown_method(id, &frame.method_name());
        }
        // The rules go by the lists of the server.
        shared_state.gateway.registry.listed(&server).await;
    }
    let cuts_results = server.config().max_inline_bytes.is_some();
    if let Some(failure) = hidden_item(&view, &server, frame, address) {
        return RpcReply::failure(id, &failure);
    }
    if let Some(uri) = address.uri.as_ref()
        && cuts_results
        && frame.method() == Some(Method::ResourcesRead)
        && objects::is_one(&uri.value)
    {
        let reach = Reach::new(&sink.client, view);
        return objects::read(
            shared_state,
            Some(reach),
            id,
            &uri.value,
            era,
            cancel_signal,
        )
        .await;
    }
    let list = frame.method().and_then(ListKind::for_method);
    let edited_kind =
        list.filter(|kind| view.may_hide(*kind) || (*kind == ListKind::Tools && cuts_results));
    let setting_request = match &upstream {
        Upstream::IsolatedSession(isolated_session) => {
            SettingRequest::from_frame(isolated_session, frame, address)
        }
        Upstream::Shared(_) => None,
    };
    let answer = shared_state
        .gateway
        .calls
        .call(receipt, upstream, request, sink, cancel_signal)
        .await;
    if let Some(setting_request) = setting_request {
        setting_request.apply_answer(&answer);
    }
    let answer = answer.map(|answer| bound.answer(frame, &client.caller, answer));
    match answer {
        Ok(answer) => {
            let reply = RpcReply::answer(id, &answer);
            let is_hidden = |kind, original: Option<&str>, item: &str| {
                let effect = ToolEffect::from_tool(item);
                original.map_or(view.is_restricted(), |original| {
                    view.hides_listed(kind, &server.name, original, effect)
                })
            };
            let text = edited_kind
                .and_then(|kind| edited(&answer.frame, id, kind, is_hidden, cuts_results));
            match text {
                Some(text) => reply.edited(text),
                None if edited_kind.is_some()
                    && view.is_restricted()
                    && answer.frame.result().is_some() =>
                {
                    let reason = "the list of the server cannot be read";
                    RpcReply::error(id, code::INTERNAL_ERROR, reason)
                }
                None => reply,
            }
        }
        Err(failure) if frame.method() == Some(Method::ToolsCall) => {
            RpcReply::tool_failure(id, &failure, era)
        }
        Err(failure) => RpcReply::failure(id, &failure),
    }
}

/// The failure for a name that is hidden from the client. It equals the failure for an unknown
/// name.
fn hidden_item(
    view: &View,
    server: &ServerHandle,
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
            let filter = ListenFilter::read(frame.params()?).ok()?;
            let hidden_uri = filter.uris.iter().find(|uri| is_hidden_resource(uri));
            hidden_uri.map(|uri| unknown_resource(uri))
        }
        _ => None,
    }
}

fn hidden_prompt(view: &View, server: &ServerHandle, name: &str) -> Option<Failure> {
    let is_hidden = view.hides_item(ListKind::Prompts, &server.name, name);
    is_hidden.then(|| unknown(FailureKind::PromptNotFound, name, ""))
}

/// A request that changes session settings. They are restored in the next upstream session.
struct SettingRequest {
    settings: Arc<SessionSettings>,
    kind: SettingRequestKind,
}

enum SettingRequestKind {
    Level(LogLevel),
    /// A resource URI, and true if the subscription is new.
    Subscribe(String, bool),
    Unsubscribe(String),
}

impl SettingRequest {
    /// Parses a request that changes settings; `None` for any other. A subscription is stored
    /// before the request is sent, so that a new upstream session restores it.
    fn from_frame(
        isolated_session: &IsolatedSession,
        frame: &Frame,
        address: &Address<'_>,
    ) -> Option<Self> {
        let settings = Arc::clone(&isolated_session.settings);
        let uri = || Some(address.uri.as_ref()?.value.to_string());
        let kind = match frame.method()? {
            Method::SetLevel => {
                SettingRequestKind::Level(LogLevel::parse(&frame.text_param("level")?)?)
            }
            Method::ResourcesSubscribe => {
                let uri = uri()?;
                let is_new = settings.subscribe(&uri, &uri);
                SettingRequestKind::Subscribe(uri, is_new)
            }
            Method::ResourcesUnsubscribe => SettingRequestKind::Unsubscribe(uri()?),
            _ => return None,
        };
        Some(Self { settings, kind })
    }

    fn apply_answer(self, answer: &Result<CallAnswer, Failure>) {
        let is_granted = matches!(answer, Ok(answer) if answer.frame.result().is_some());
        match self.kind {
            SettingRequestKind::Level(level) if is_granted => self.settings.set_log_level(level),
            SettingRequestKind::Subscribe(uri, true) if !is_granted => {
                self.settings.unsubscribe(&uri);
            }
            SettingRequestKind::Unsubscribe(uri) if is_granted => {
                self.settings.unsubscribe(&uri);
            }
            SettingRequestKind::Level(_)
            | SettingRequestKind::Subscribe(..)
            | SettingRequestKind::Unsubscribe(_) => {}
        }
    }
}

/// Removes hidden items from a server's list. Removes output schemas if results may be cut. `None`
/// if the answer is not a list.
fn edited(
    answer: &Frame,
    id: &str,
    kind: ListKind,
    is_hidden: impl Fn(ListKind, Option<&str>, &str) -> bool,
    cuts_results: bool,
) -> Option<String> {
    let MessageKind::Response { id: span, body, .. } = answer.envelope().kind else {
        return None;
    };
    let list = message::locate(answer.text(), body, &[kind.member()])?;
    let visible_items: Vec<Cow<'_, str>> = message::items(answer.get(list))?
        .into_iter()
        .filter(|item| {
            let original = message::text_member(item, kind.key());
            !is_hidden(kind, original.as_deref(), item)
        })
        .map(|item| {
            if cuts_results && kind == ListKind::Tools {
                without_output_schema(item)
            } else {
                Cow::Borrowed(item)
            }
        })
        .collect();
    let visible_items = message::array(&visible_items);
    Some(message::splice(
        answer.text(),
        &mut [(span, id), (list, &message::one_line(&visible_items))],
    ))
}

/// Answers a legacy client of a server that has a single session or none. The client session stores
/// the client's settings.
pub async fn share(
    session: &Arc<ClientSession>,
    server: &Arc<ServerHandle>,
    context: RequestContext<'_>,
) -> RpcReply {
    let id = context.id();
    let RequestContext {
        shared: shared_state,
        frame,
        address,
        ..
    } = context;
    let resource = |uri: &str| SubscribedResource {
        server: server.name.clone(),
        uri: uri.into(),
    };
    match (frame.method(), address.uri.as_ref()) {
        (Some(Method::SetLevel), _) => {
            let level = frame.text_param("level");
            let Some(level) = level.and_then(|level| LogLevel::parse(&level)) else {
                let reason = "\"level\" must be one of RFC 5424's severities";
                return RpcReply::error(id, code::INVALID_PARAMS, reason);
            };
            session.set_log_level(level);
            Box::pin(shared_state.set_log_levels()).await;
            return RpcReply::result(id, "{}");
        }
        (Some(Method::ResourcesSubscribe), Some(uri)) => {
            // Only the first subscriber's request is sent to the server.
            if let Some(failure) = hidden_item(&context.view, server, frame, address) {
                return RpcReply::failure(id, &failure);
            }
            let resource = resource(&uri.value);
            if let Err(error) = shared_state.subscriptions.check(&session.id, &uri.value) {
                return RpcReply::error(id, code::INVALID_PARAMS, &error.to_string());
            }
            let mut reply = RpcReply::result(id, "{}");
            let subscribe = async || {
                let upstream = Upstream::Shared(Arc::clone(server));
                reply = answer(upstream, context).await;
                reply.error.is_none()
            };
            Box::pin(
                shared_state
                    .subscriptions
                    .join(resource, &session.id, &uri.value, subscribe),
            )
            .await;
            return reply;
        }
        (Some(Method::ResourcesUnsubscribe), Some(uri)) => {
            shared_state.leave(resource(&uri.value), &session.id);
            return RpcReply::result(id, "{}");
        }
        _ => {}
    }
    let upstream = Upstream::Shared(Arc::clone(server));
    answer(upstream, context).await
}

/// Forwards a notification, if the upstream session is open.
pub async fn notify(isolated_session: &IsolatedSession, frame: Frame) {
    if let Some(session) = isolated_session.live_session() {
        session.notify(frame.one_line()).await;
    }
}
