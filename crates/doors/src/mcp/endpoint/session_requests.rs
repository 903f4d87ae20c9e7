//! Requests on an aggregate endpoint that change a client session: subscriptions and the log level.

use std::sync::Arc;

use futures_util::future::join;
use mainstay_core::{
    catalog::ItemTarget,
    era::{LogLevel, code},
    failure::Failure,
    ids::ServerName,
    message::Method,
};
use mainstay_gateway::supervisor::IsolatedSession;

use super::{
    isolation::{self, own_session},
    request::{RequestContext, missing},
};
use crate::mcp::{
    reply::RpcReply,
    sessions::{session::ClientSession, subscriptions::SubscribedResource},
};

/// A request that changes a client session.
#[derive(Clone, Copy, Debug)]
pub enum SessionRequest {
    Subscribe,
    Unsubscribe,
    SetLevel,
}

impl SessionRequest {
    pub fn from_method(method: Method) -> Option<Self> {
        match method {
            Method::ResourcesSubscribe => Some(Self::Subscribe),
            Method::ResourcesUnsubscribe => Some(Self::Unsubscribe),
            Method::SetLevel => Some(Self::SetLevel),
            _ => None,
        }
    }
}

/// Answers a request that changes a client session.
pub async fn answer(
    session: &ClientSession,
    context: RequestContext<'_>,
    request: SessionRequest,
) -> RpcReply {
    let id = context.id();
    match request {
        SessionRequest::Subscribe => context
            .subscribe(session)
            .await
            .unwrap_or_else(|failure| RpcReply::failure(id, &failure)),
        SessionRequest::Unsubscribe => context.unsubscribe(session).await,
        SessionRequest::SetLevel => context.set_level(session).await,
    }
}

impl RequestContext<'_> {
    /// Subscribes to a resource. Only the first subscriber's request is sent to the server.
    async fn subscribe(self, session: &ClientSession) -> Result<RpcReply, Failure> {
        let uri = self.address.uri.as_ref().ok_or_else(|| missing("uri"))?;
        let (shared_state, id) = (self.shared, self.id());
        if let Err(error) = shared_state.subscriptions.check(&session.id, &uri.value) {
            return Ok(RpcReply::error(
                id,
                code::INVALID_PARAMS,
                &error.to_string(),
            ));
        }
        self.settled().await;
        let owner = shared_state.gateway.owner(&self.view, &uri.value).target();
        if let Some(target) = &owner
            && let Some(isolated_session) = self.own_session_of(session, &target.server)
        {
            return self.subscribe_isolated(target, &isolated_session).await;
        }
        let resource = owner.map(SubscribedResource::from);
        // A resource with an unknown owner has no subscription that could interfere.
        let _turn = match &resource {
            Some(resource) => Some(shared_state.subscriptions.turn(resource).await),
            None => None,
        };
        if let Some(resource) =
            resource.filter(|resource| shared_state.subscriptions.has_any(resource))
        {
            shared_state
                .subscriptions
                .add(resource, &session.id, &uri.value);
            return Ok(RpcReply::result(id, "{}"));
        }
        let (target, answer) = self.resource().await?;
        // Store the subscription only if the server has accepted it.
        if answer.frame.result().is_some() {
            let server = shared_state.gateway.registry.named(&target.server);
            let isolated_session = server.and_then(|server| own_session(session, &server));
            match isolated_session {
                Some(isolated_session) => {
                    isolated_session
                        .settings
                        .subscribe(&target.original, &uri.value);
                }
                None => shared_state
                    .subscriptions
                    .add(target.into(), &session.id, &uri.value),
            }
        }
        Ok(RpcReply::answer(id, &answer))
    }

    /// Subscribes in the client's isolated session. The subscription is stored before the request
    /// is sent, so that an early notification is forwarded.
    async fn subscribe_isolated(
        self,
        target: &ItemTarget,
        isolated_session: &IsolatedSession,
    ) -> Result<RpcReply, Failure> {
        let uri = self.address.uri.as_ref().ok_or_else(|| missing("uri"))?;
        let (id, settings) = (self.id(), &isolated_session.settings);
        let is_new = settings.subscribe(&target.original, &uri.value);
        let answer = self.forward(target, uri).await;
        let is_granted = matches!(&answer, Ok(answer) if answer.frame.result().is_some());
        if is_new && !is_granted {
            settings.unsubscribe(&target.original);
        }
        Ok(RpcReply::answer(id, &answer?))
    }

    /// Unsubscribes from a resource. Only the last subscriber's request is sent to the server.
    async fn unsubscribe(self, session: &ClientSession) -> RpcReply {
        let Some(uri) = &self.address.uri else {
            return RpcReply::failure(self.id(), &missing("uri"));
        };
        let owner = self.shared.gateway.owner(&self.view, &uri.value);
        if let Some(target) = owner.target() {
            let isolated_session = self.own_session_of(session, &target.server);
            if let Some(isolated_session) = isolated_session
                .filter(|isolated_session| isolated_session.settings.unsubscribe(&target.original))
            {
                isolation::leave(&isolated_session, &target.original).await;
            }
            self.shared.leave(target.into(), &session.id);
        }
        RpcReply::result(self.id(), "{}")
    }

    async fn set_level(self, session: &ClientSession) -> RpcReply {
        let level = self
            .frame
            .text_param("level")
            .and_then(|level| LogLevel::parse(&level));
        let Some(level) = level else {
            return RpcReply::error(
                self.id(),
                code::INVALID_PARAMS,
                "\"level\" must be one of RFC 5424's severities",
            );
        };
        session.set_log_level(level);
        join(
            self.shared.set_log_levels(),
            session.own_sessions.set_log_level(level),
        )
        .await;
        RpcReply::result(self.id(), "{}")
    }

    /// The client's isolated session of the server; `None` if the client uses the shared one.
    fn own_session_of(
        &self,
        session: &ClientSession,
        server: &ServerName,
    ) -> Option<Arc<IsolatedSession>> {
        let server = self.shared.gateway.registry.named(server)?;
        own_session(session, &server)
    }
}
