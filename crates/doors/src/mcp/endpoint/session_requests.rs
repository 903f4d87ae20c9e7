//! What a client needs a session for on the aggregate: to subscribe, and to set a log level.

use std::sync::Arc;

use futures_util::future::join;
use mainstay_core::{
    catalog::Target,
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
    reply::Reply,
    sessions::{session::ClientSession, subscriptions::Resource},
};

/// A request that needs a session.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    Subscribe,
    Unsubscribe,
    SetLevel,
}

impl Request {
    pub fn of(method: Method) -> Option<Self> {
        match method {
            Method::ResourcesSubscribe => Some(Self::Subscribe),
            Method::ResourcesUnsubscribe => Some(Self::Unsubscribe),
            Method::SetLevel => Some(Self::SetLevel),
            _ => None,
        }
    }
}

/// Answers a request that needs a session, such as [`Request::of`] returns.
pub async fn answer(session: &ClientSession, asked: RequestContext<'_>, request: Request) -> Reply {
    let id = asked.id();
    match request {
        Request::Subscribe => asked
            .subscribe(session)
            .await
            .unwrap_or_else(|failure| Reply::failure(id, &failure)),
        Request::Unsubscribe => asked.unsubscribe(session).await,
        Request::SetLevel => asked.set_level(session).await,
    }
}

impl RequestContext<'_> {
    /// The first to subscribe does so upstream; for the others it is a matter of bookkeeping.
    async fn subscribe(self, session: &ClientSession) -> Result<Reply, Failure> {
        let uri = self.address.uri.as_ref().ok_or_else(|| missing("uri"))?;
        let (shared, id) = (self.shared, self.id());
        if let Err(error) = shared.subscriptions.check(&session.id, &uri.value) {
            return Ok(Reply::error(id, code::INVALID_PARAMS, &error.to_string()));
        }
        self.settled().await;
        let owner = shared.gateway.owner(&self.view, &uri.value).target();
        if let Some(target) = &owner
            && let Some(isolated_session) = self.own_session_of(session, &target.server)
        {
            return self.subscribe_own(target, &isolated_session).await;
        }
        let resource = owner.map(Resource::from);
        // If the owner is not known yet, no session leaves it either.
        let _turn = match &resource {
            Some(resource) => Some(shared.subscriptions.turn(resource).await),
            None => None,
        };
        if let Some(resource) = resource.filter(|resource| shared.subscriptions.has_any(resource)) {
            shared.subscriptions.add(resource, &session.id, &uri.value);
            return Ok(Reply::result(id, "{}"));
        }
        let (target, answer) = self.resource().await?;
        // A refusal subscribes no session.
        if answer.frame.result().is_some() {
            let server = shared.gateway.registry.named(&target.server);
            let own = server.and_then(|server| own_session(session, &server));
            match own {
                Some(isolated_session) => {
                    isolated_session
                        .settings
                        .subscribe(&target.original, &uri.value);
                }
                None => shared
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
        let owner = self.shared.gateway.owner(&self.view, &uri.value);
        if let Some(target) = owner.target() {
            let own = self.own_session_of(session, &target.server);
            if let Some(isolated_session) =
                own.filter(|own| own.settings.unsubscribe(&target.original))
            {
                isolation::leave(&isolated_session, &target.original).await;
            }
            self.shared.leave(target.into(), &session.id);
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
                code::INVALID_PARAMS,
                "\"level\" must be one of RFC 5424's severities",
            );
        };
        session.set_log_level(level);
        join(
            self.shared.set_log_levels(),
            session.own.set_log_level(level),
        )
        .await;
        Reply::result(self.id(), "{}")
    }

    /// The client's own session of the server that has this resource.
    fn own_session_of(
        &self,
        session: &ClientSession,
        server: &ServerName,
    ) -> Option<Arc<IsolatedSession>> {
        let server = self.shared.gateway.registry.named(server)?;
        own_session(session, &server)
    }
}
