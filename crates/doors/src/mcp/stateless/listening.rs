//! `subscriptions/listen`: a stream that stays open until its client closes it or Mainstay stops.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{join, join_all};
use mainstay_core::{
    catalog::ItemTarget,
    era::{
        Era, code,
        listen::{ListenFilter, completed},
    },
};
use mainstay_gateway::{
    View,
    calls::{CallSink, Calls},
    supervisor::ServerHandle,
};
use mainstay_transport::{Frame, UpstreamSession};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, timeout},
};

use super::{context::Stateless, task_news::TaskNews};
use crate::mcp::{
    reply::{RpcReply, id},
    sessions::{
        listen_streams::{Audience, ListenStream},
        pool::Lease,
        subscriptions::{SubscribedResource, subscribe},
    },
};

/// Time that the acknowledgement waits for a subscription. A later one is not in the filter.
const SUBSCRIBE_LIMIT: Duration = Duration::from_millis(500);

/// Interval at which a stream checks that its pooled session is open. It doubles after a failure.
const CHECK_PAUSE: Duration = Duration::from_secs(1);
const MAX_CHECK_PAUSE: Duration = Duration::from_secs(30);

/// A `subscriptions/listen` request.
pub struct ListenRequest<'a> {
    pub stateless: &'a Arc<Stateless>,
    pub frame: &'a Frame,
    pub sink: &'a CallSink,
    pub cancelled: oneshot::Receiver<String>,
}

impl ListenRequest<'_> {
    fn id(&self) -> &str {
        id(self.frame)
    }

    fn filter(&self) -> Result<ListenFilter, RpcReply> {
        ListenFilter::read(self.frame.params().unwrap_or("{}"))
            .map_err(|error| RpcReply::error(self.id(), code::INVALID_PARAMS, &error.to_string()))
    }

    /// The filter of the request, without resources that are hidden from the client.
    fn visible_filter(&self, server: &ServerHandle, view: &View) -> Result<ListenFilter, RpcReply> {
        let mut filter = self.filter()?;
        (filter.uris).retain(|uri| view.has_resource(&server.name, uri));
        Ok(filter)
    }

    fn too_many(&self) -> RpcReply {
        RpcReply::error(self.id(), code::INTERNAL_ERROR, "too many streams")
    }

    /// Sends the stream's messages until the client, Mainstay or the profile's removal ends it.
    async fn serve_stream(
        mut self,
        listen: &ListenStream,
        upkeep: impl Future<Output = Infallible>,
    ) -> RpcReply {
        tokio::pin!(upkeep);
        loop {
            tokio::select! {
                biased;
                reason = &mut self.cancelled => {
                    return RpcReply::cancelled(self.id(), &reason.unwrap_or_default());
                }
                message = listen.outbox.next() => match message {
                    Some(message) => self.sink.put(message),
                    None => return RpcReply::result(self.id(), &completed(self.id())),
                },
                never = &mut upkeep => match never {},
            }
        }
    }
}

/// Serves a listen stream on a profile.
pub async fn listen_to_profile(request: ListenRequest<'_>, view: &View) -> RpcReply {
    let requested_filter = match request.filter() {
        Ok(requested_filter) => requested_filter,
        Err(refusal) => return refusal,
    };
    let has_tasks = request.sink.client.caller.capabilities.tasks;
    if !requested_filter.tasks.is_empty() && !has_tasks {
        return RpcReply::tasks_undeclared(request.id());
    }
    let stateless = Arc::clone(request.stateless);
    let name = stateless.listen_streams.name();
    // Ends the subscriptions when it is dropped.
    let _listening = Listening {
        stateless: &stateless,
        name: &name,
    };
    let (shared_state, listen) = (&stateless.shared, &name);
    let subscribe_futures = requested_filter.uris.iter().map(|uri| async move {
        let owner = shared_state.gateway.settled_owner(view, uri).await?;
        let subscribe_futures =
            timeout(SUBSCRIBE_LIMIT, shared_state.subscribe(owner, listen, uri)).await;
        subscribe_futures.unwrap_or(false).then(|| uri.clone())
    });
    let (promise, promise_receiver) = watch::channel(false);
    let (news, acknowledgements): (Vec<_>, Vec<_>) = TaskNews::for_tasks(
        &stateless.shared,
        view,
        &requested_filter.tasks,
        request.sink,
        request.id(),
    )
    .into_iter()
    .map(|news| {
        let (acknowledge_sender, acknowledgement) = oneshot::channel();
        (
            news.tell(acknowledge_sender, promise_receiver.clone()),
            acknowledgement,
        )
    })
    .unzip();
    let mut news = pin!(async {
        join_all(news).await;
        std::future::pending().await
    });
    let acknowledge_sender = acknowledgements
        .into_iter()
        .map(|acknowledgement| async move {
            let tasks = timeout(SUBSCRIBE_LIMIT, acknowledgement).await;
            tasks.ok().and_then(Result::ok).unwrap_or_default()
        });
    let subscribe_futures = join(join_all(subscribe_futures), join_all(acknowledge_sender));
    let (uris, tasks) = tokio::select! {
        biased;
        subscribe_futures = subscribe_futures => subscribe_futures,
        never = &mut news => match never {},
    };
    let filter = ListenFilter {
        uris: uris.into_iter().flatten().collect(),
        tasks: tasks.into_iter().flatten().collect(),
        ..requested_filter
    };
    let client = Arc::clone(&request.sink.client);
    let audience = Audience::Profile(Arc::clone(&view.profile), client);
    let Some(listen) = stateless
        .listen_streams
        .add(&name, request.id(), filter, Some(audience))
    else {
        return request.too_many();
    };
    request.sink.put(listen.acknowledged());
    promise.send_replace(true);
    request.serve_stream(&listen, news).await
}

struct Listening<'a> {
    stateless: &'a Stateless,
    name: &'a str,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.stateless.listen_streams.remove(self.name);
        self.stateless.shared.leave_all(self.name);
    }
}

/// Serves a listen stream on the shared session of a legacy server.
pub async fn listen_to_shared_session(
    request: ListenRequest<'_>,
    server: &Arc<ServerHandle>,
    view: &View,
) -> RpcReply {
    let requested_filter = match request.visible_filter(server, view) {
        Ok(requested_filter) => requested_filter,
        Err(refusal) => return refusal,
    };
    let limit = server.config().longest_start();
    let session = match server.session(Era::Legacy, Instant::now() + limit).await {
        Ok(session) => session,
        Err(failure) => return RpcReply::failure(request.id(), &failure),
    };
    let stateless = request.stateless;
    let name = stateless.listen_streams.name();
    // Ends the subscriptions when it is dropped.
    let _listening = Listening {
        stateless,
        name: &name,
    };
    let requested_filter = requested_filter.supported_by(&session.greeting.capabilities);
    let (shared_state, listen) = (&stateless.shared, &name);
    let subscribe_futures = requested_filter.uris.iter().map(|uri| async move {
        let target = ItemTarget::new(server.name.clone(), uri.as_str());
        let subscribe_futures =
            timeout(SUBSCRIBE_LIMIT, shared_state.subscribe(target, listen, uri)).await;
        subscribe_futures.unwrap_or(false).then(|| uri.clone())
    });
    let filter = ListenFilter {
        uris: join_all(subscribe_futures)
            .await
            .into_iter()
            .flatten()
            .collect(),
        ..requested_filter
    };
    let audience = Audience::Server(server.name.clone());
    let Some(listen) = stateless
        .listen_streams
        .add(&name, request.id(), filter, Some(audience))
    else {
        return request.too_many();
    };
    request.sink.put(listen.acknowledged());
    request.serve_stream(&listen, std::future::pending()).await
}

/// Serves a listen stream on a pooled session of a legacy server.
pub async fn listen_to_pooled_session(
    request: ListenRequest<'_>,
    lease: Lease,
    view: &View,
) -> RpcReply {
    let isolated_session = lease.isolated_session();
    let requested_filter = match request.visible_filter(&isolated_session.server, view) {
        Ok(requested_filter) => requested_filter,
        Err(refusal) => return refusal,
    };
    let limit = isolated_session.server.config().longest_start();
    let session = match isolated_session.session(Instant::now() + limit).await {
        Ok(session) => session,
        Err(failure) => return RpcReply::failure(request.id(), &failure),
    };
    let audience = lease.audience();
    let name = audience.listen_streams.name();
    let requested_filter = requested_filter.supported_by(&session.greeting.capabilities);
    let pooled_listener = PooledListener {
        calls: request.stateless.shared.gateway.calls.clone(),
        lease: &lease,
        name: &name,
    };
    let (listener, upstream) = (&pooled_listener, &session);
    let subscribe_futures = requested_filter.uris.iter().map(|uri| async move {
        let subscribe_futures = timeout(SUBSCRIBE_LIMIT, listener.subscribe(upstream, uri)).await;
        subscribe_futures.unwrap_or(false).then(|| uri.clone())
    });
    let uris: Vec<String> = join_all(subscribe_futures)
        .await
        .into_iter()
        .flatten()
        .collect();
    let filter = ListenFilter {
        uris: uris.clone(),
        ..requested_filter
    };
    let Some(listen) = audience
        .listen_streams
        .add(&name, request.id(), filter, None)
    else {
        return request.too_many();
    };
    request.sink.put(listen.acknowledged());
    let upkeep = pooled_listener.upkeep(session, &listen, &uris);
    request.serve_stream(&listen, upkeep).await
}

/// A listen stream on a pooled session. Dropping it ends its subscriptions.
struct PooledListener<'a> {
    calls: Calls,
    lease: &'a Lease,
    name: &'a str,
}

impl PooledListener<'_> {
    fn resource(&self, uri: &str) -> SubscribedResource {
        SubscribedResource {
            server: self.lease.isolated_session().server.name.clone(),
            uri: uri.into(),
        }
    }

    /// Subscribes to a resource. Only the first subscriber's request is sent to the server.
    async fn subscribe(&self, session: &UpstreamSession, uri: &str) -> bool {
        let subscriptions = &self.lease.audience().subscriptions;
        let subscribe_upstream = async || subscribe(session, uri).await;
        subscriptions
            .join(self.resource(uri), self.name, uri, subscribe_upstream)
            .await
    }

    /// Reopens the session when it is lost. The client is then notified that everything may have
    /// changed.
    async fn upkeep(
        &self,
        mut session: Arc<UpstreamSession>,
        listen: &ListenStream,
        uris: &[String],
    ) -> Infallible {
        let isolated_session = self.lease.isolated_session();
        let mut pause = CHECK_PAUSE;
        loop {
            tokio::time::sleep(pause).await;
            let live_session = isolated_session.live_session();
            if live_session.is_some_and(|live_session| Arc::ptr_eq(&live_session, &session)) {
                continue;
            }
            let limit = isolated_session.server.config().longest_start();
            match isolated_session.session(Instant::now() + limit).await {
                Ok(again) => {
                    for uri in uris {
                        let subscriptions = &self.lease.audience().subscriptions;
                        subscriptions.renew(&self.resource(uri), &again).await;
                    }
                    session = again;
                    pause = CHECK_PAUSE;
                    listen.notify_all();
                }
                Err(error) => {
                    tracing::debug!(%error, "a session that is listened to did not come back");
                    pause = (pause * 2).min(MAX_CHECK_PAUSE);
                }
            }
        }
    }
}

impl Drop for PooledListener<'_> {
    fn drop(&mut self) {
        let orphaned_resources = self.lease.leave(self.name);
        let session = self.lease.isolated_session().live_session();
        let Some(session) = session.filter(|_| !orphaned_resources.is_empty()) else {
            return;
        };
        let subscriptions = Arc::clone(&self.lease.audience().subscriptions);
        self.calls.in_background(async move {
            for resource in orphaned_resources {
                subscriptions.release(&resource, &session).await;
            }
        });
    }
}
