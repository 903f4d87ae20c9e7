//! Answers one request of a client without a session.

use std::sync::Arc;

use mainstay_core::{
    era::{Era, code, listen::completed, modern},
    message::{self, Method},
    record::CallOrigin,
};
use mainstay_gateway::{
    Gateway, View,
    calls::{CallSink, Closed, Receipt, RequestedCall, Upstream},
    registry::PublishedProfile,
    supervisor::ServerHandle,
};
use mainstay_transport::Frame;
use tokio::{sync::oneshot, time::Instant};

use super::{
    context::Stateless,
    discovery,
    listening::{self, ListenRequest},
};
use crate::mcp::{
    endpoint::{aggregate, isolation::SessionSource, request::RequestContext, transparent},
    reply::{RpcReply, UNKNOWN_STATE, id},
    sessions::{
        pool::{Lease, Seat},
        session::EndpointScope,
    },
    shared::SharedState,
};

/// Closes the receipt of a request, which records a refused call.
pub async fn close(
    shared_state: &SharedState,
    scope: &EndpointScope,
    origin: impl FnOnce() -> Arc<CallOrigin>,
    frame: &Frame,
    receipt: Receipt,
    reply: RpcReply,
) -> Closed<RpcReply> {
    let requested_call = || Some(RequestedCall::from_frame(frame)?.at(scope.server()));
    receipt
        .close(&shared_state.gateway.calls, reply, origin, requested_call)
        .await
}

/// A request that is being answered.
pub struct StatelessRequest {
    pub stateless: Arc<Stateless>,
    pub scope: EndpointScope,
    pub frame: Frame,
    pub sink: CallSink,
    /// The modern server that issued the request's `requestState`, if it has one.
    pub state_server: Option<Box<str>>,
}

impl StatelessRequest {
    fn gateway(&self) -> &Gateway {
        &self.stateless.shared.gateway
    }

    pub async fn reply(
        self,
        receipt: Receipt,
        cancel_signal: oneshot::Receiver<String>,
        seat: Arc<Seat>,
    ) -> Closed<RpcReply> {
        let reply = self.forward(&receipt, cancel_signal, seat).await;
        let origin = || Arc::clone(&self.sink.client.origin);
        close(
            &self.stateless.shared,
            &self.scope,
            origin,
            &self.frame,
            receipt,
            reply,
        )
        .await
    }

    async fn forward(
        &self,
        receipt: &Receipt,
        cancel_signal: oneshot::Receiver<String>,
        seat: Arc<Seat>,
    ) -> RpcReply {
        let id = id(&self.frame);
        let address = match message::address(self.frame.text(), self.frame.envelope()) {
            Ok(address) => address,
            Err(error) => return RpcReply::error(id, code::INVALID_PARAMS, &error.to_string()),
        };
        if let (EndpointScope::Profile(_), Some(level)) =
            (&self.scope, self.sink.client.caller.log_level)
        {
            self.stateless.shared.request_log_level(level).await;
        }
        let method = self.frame.method().unwrap_or(Method::Other);
        let context = |view, cancel_signal| RequestContext {
            shared: &self.stateless.shared,
            view,
            frame: &self.frame,
            address: &address,
            cancelled: cancel_signal,
            sink: self.sink.clone(),
            receipt,
            state_server: self.state_server.as_deref(),
            session_source: SessionSource::Pool(&seat),
        };
        let reply = match &self.scope {
            EndpointScope::Profile(profile) if method == Method::Discover => {
                self.gateway().registry.profile_settled(profile).await;
                let view = self.view(profile);
                RpcReply::result(id, &discovery::profile_result(self.gateway(), &view))
            }
            EndpointScope::Profile(profile) if method == Method::Listen => {
                let view = self.view(profile);
                listening::listen_to_profile(self.listening(cancel_signal), &view).await
            }
            EndpointScope::Profile(profile) => {
                aggregate::answer(context(self.view(profile), cancel_signal)).await
            }
            EndpointScope::One(server) => {
                let principal = &self.sink.client.principal;
                let view = self.gateway().view_of_server(server, principal);
                let upstream = match self.upstream(server, method).await {
                    Ok(Serves::Server) => Upstream::Shared(Arc::clone(server)),
                    Ok(Serves::Shared) if method == Method::Listen => {
                        return listening::listen_to_shared_session(
                            self.listening(cancel_signal),
                            server,
                            &view,
                        )
                        .await;
                    }
                    Ok(Serves::Shared) => Upstream::Shared(Arc::clone(server)),
                    Ok(Serves::OwnLogin(lease)) => {
                        let isolated_session = lease.isolated_session();
                        drop(seat.take(lease));
                        Upstream::IsolatedSession(isolated_session)
                    }
                    Ok(Serves::Pool(lease)) if method == Method::Listen => {
                        return listening::listen_to_pooled_session(
                            self.listening(cancel_signal),
                            lease,
                            &view,
                        )
                        .await;
                    }
                    Ok(Serves::Pool(lease)) => {
                        let isolated_session = lease.isolated_session();
                        // A transparent endpoint needs one lease, so the seat is still empty.
                        drop(seat.take(lease));
                        Upstream::IsolatedSession(isolated_session)
                    }
                    Err(reply) => return reply,
                };
                transparent::answer(upstream, context(view, cancel_signal)).await
            }
        };
        if method == Method::Listen && reply.error.is_none() {
            return RpcReply::result(id, &completed(id));
        }
        reply.with_modern_code(id, method)
    }

    fn view(&self, profile: &Arc<PublishedProfile>) -> View {
        let client = &self.sink.client;
        self.gateway()
            .view(profile, &client.principal, &client.caller)
    }

    /// Selects the upstream session for a request to one server. Returns a reply if Mainstay
    /// answers the request itself.
    async fn upstream(
        &self,
        server: &Arc<ServerHandle>,
        method: Method,
    ) -> Result<Serves, RpcReply> {
        let id = id(&self.frame);
        self.gateway().registry.attempted(server).await;
        let limit = server.config().longest_start();
        let failure_reply = |failure| RpcReply::failure(id, &failure);
        let (session, is_known_modern) = (server.view().session, server.eras().modern);
        let is_modern = match (&session, is_known_modern) {
            (Some(session), _) => session.era() == Era::Modern,
            (None, Some(is_modern)) => is_modern,
            (None, None) => {
                let session_result = server.session(Era::Modern, Instant::now() + limit).await;
                session_result.map_err(failure_reply)?.era() == Era::Modern
            }
        };
        if is_modern
            && self
                .state_server
                .as_deref()
                .is_none_or(|issuer| issuer == server.name.as_str())
        {
            let client = &self.sink.client;
            return Ok(if server.has_own_login(&client.principal) {
                Serves::OwnLogin(self.stateless.shared.pool.lease(server, client))
            } else {
                Serves::Server
            });
        }
        if self.state_server.is_some() {
            return Err(RpcReply::error(id, code::INVALID_PARAMS, UNKNOWN_STATE));
        }
        let client = &self.sink.client;
        let is_isolated = !server.shares_its_session() || server.has_own_login(&client.principal);
        let lease = is_isolated.then(|| self.stateless.shared.pool.lease(server, client));
        if method == Method::Discover {
            let deadline = Instant::now() + limit;
            let session = match (session, &lease) {
                (Some(session), _) => Ok(session),
                (None, Some(lease)) => lease.isolated_session().session(deadline).await,
                (None, None) => server.session(Era::Legacy, deadline).await,
            };
            let session = session.map_err(failure_reply)?;
            let greeting_json = session.initialize_answer.result().unwrap_or("{}");
            return Err(RpcReply::result(
                id,
                &discovery::legacy_result(greeting_json),
            ));
        }
        if modern::is_removed(method) {
            return Err(RpcReply::unknown_method(id, &self.frame.method_name()));
        }
        let level = client.caller.log_level;
        let Some(lease) = lease else {
            if let Some(level) = level {
                self.stateless.shared.request_log_level(level).await;
            }
            return Ok(Serves::Shared);
        };
        if let Some(level) = level {
            lease
                .request_log_level(level)
                .await
                .map_err(failure_reply)?;
        }
        Ok(Serves::Pool(lease))
    }

    fn listening(&self, cancel_signal: oneshot::Receiver<String>) -> ListenRequest<'_> {
        ListenRequest {
            stateless: &self.stateless,
            frame: &self.frame,
            sink: &self.sink,
            cancelled: cancel_signal,
        }
    }
}

/// The upstream session for a request to one server.
enum Serves {
    /// The shared session of a modern server.
    Server,
    /// The shared session of a legacy server.
    Shared,
    /// A pooled session of a legacy server.
    Pool(Lease),
    /// A session of a modern server that uses the client's own login.
    OwnLogin(Lease),
}
