//! `subscriptions/listen`: a stream that lives until its client closes it or Mainstay stops.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{join, join_all};
use mainstay_core::{
    catalog::Target,
    era::{
        Era, code,
        listen::{Filter, completed},
    },
};
use mainstay_gateway::{
    View,
    calls::{CallSink, Calls},
    supervisor::Server,
};
use mainstay_transport::{Frame, Session};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, timeout},
};

use super::{context::Stateless, task_news::News};
use crate::mcp::{
    reply::{Reply, id},
    sessions::{
        listen_streams::{Audience, Listen},
        pool::Lease,
        subscriptions::{Resource, subscribe},
    },
};

/// How long a server may take to accept a subscription: a client waits for the acknowledgement.
const SUBSCRIBE_LIMIT: Duration = Duration::from_millis(500);

/// How often a pooled session is checked, which only its users bring back; after a failure less and
/// less often.
const LOOK: Duration = Duration::from_secs(1);
const MAX_LOOK: Duration = Duration::from_secs(30);

/// A request for a stream.
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

    fn filter(&self) -> Result<Filter, Reply> {
        Filter::read(self.frame.params().unwrap_or("{}"))
            .map_err(|error| Reply::error(self.id(), code::INVALID_PARAMS, &error.to_string()))
    }

    /// What it wants to hear of a server, less the resources that its client does not see.
    fn visible_filter(&self, server: &Server, view: &View) -> Result<Filter, Reply> {
        let mut filter = self.filter()?;
        (filter.uris).retain(|uri| view.has_resource(&server.name, uri));
        Ok(filter)
    }

    fn too_many(&self) -> Reply {
        Reply::error(self.id(), code::INTERNAL_ERROR, "too many streams")
    }

    /// Tells the client what it wants to hear, until one of the two ends it.
    async fn tell(mut self, listen: &Listen, upkeep: impl Future<Output = Infallible>) -> Reply {
        tokio::pin!(upkeep);
        loop {
            tokio::select! {
                biased;
                reason = &mut self.cancelled => {
                    return Reply::cancelled(self.id(), &reason.unwrap_or_default());
                }
                message = listen.outbox.next() => match message {
                    Some(message) => self.sink.put(message),
                    None => return Reply::result(self.id(), &completed(self.id())),
                },
                never = &mut upkeep => match never {},
            }
        }
    }
}

/// Listens to the servers of a profile.
pub async fn of_profile(asked: ListenRequest<'_>, view: &View) -> Reply {
    let wanted = match asked.filter() {
        Ok(wanted) => wanted,
        Err(refusal) => return refusal,
    };
    let has_tasks = asked.sink.client.caller.capabilities.tasks;
    if !wanted.tasks.is_empty() && !has_tasks {
        return Reply::tasks_undeclared(asked.id());
    }
    let stateless = Arc::clone(asked.stateless);
    let name = stateless.listen_streams.name();
    // Undone when this is dropped.
    let _listening = Listening {
        stateless: &stateless,
        name: &name,
    };
    let (shared, listen) = (&stateless.shared, &name);
    let subscribed = wanted.uris.iter().map(|uri| async move {
        let owner = shared.gateway.settled_owner(view, uri).await?;
        let subscribed = timeout(SUBSCRIBE_LIMIT, shared.subscribe(owner, listen, uri)).await;
        subscribed.unwrap_or(false).then(|| uri.clone())
    });
    let (promise, promised) = watch::channel(false);
    let (news, honoured): (Vec<_>, Vec<_>) = News::of(
        &stateless.shared,
        view,
        &wanted.tasks,
        asked.sink,
        asked.id(),
    )
    .into_iter()
    .map(|news| {
        let (honoured, told) = oneshot::channel();
        (news.tell(honoured, promised.clone()), told)
    })
    .unzip();
    let mut news = pin!(async {
        join_all(news).await;
        std::future::pending().await
    });
    let honoured = honoured.into_iter().map(|told| async move {
        let told = timeout(SUBSCRIBE_LIMIT, told).await;
        told.ok().and_then(Result::ok).unwrap_or_default()
    });
    let subscribed = join(join_all(subscribed), join_all(honoured));
    let (uris, tasks) = tokio::select! {
        biased;
        subscribed = subscribed => subscribed,
        never = &mut news => match never {},
    };
    let filter = Filter {
        uris: uris.into_iter().flatten().collect(),
        tasks: tasks.into_iter().flatten().collect(),
        ..wanted
    };
    let client = Arc::clone(&asked.sink.client);
    let audience = Audience::Profile(Arc::clone(&view.profile), client);
    let Some(listen) = stateless
        .listen_streams
        .add(&name, asked.id(), filter, Some(audience))
    else {
        return asked.too_many();
    };
    asked.sink.put(listen.acknowledged());
    promise.send_replace(true);
    asked.tell(&listen, news).await
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

/// Listens to one legacy server, in the session that all its clients share.
pub async fn of_shared(asked: ListenRequest<'_>, server: &Arc<Server>, view: &View) -> Reply {
    let wanted = match asked.visible_filter(server, view) {
        Ok(wanted) => wanted,
        Err(refusal) => return refusal,
    };
    let limit = server.config().longest_start();
    let session = match server.session(Era::Legacy, Instant::now() + limit).await {
        Ok(session) => session,
        Err(failure) => return Reply::failure(asked.id(), &failure),
    };
    let stateless = asked.stateless;
    let name = stateless.listen_streams.name();
    // Undone when this is dropped.
    let _listening = Listening {
        stateless,
        name: &name,
    };
    let wanted = wanted.of(&session.greeting.capabilities);
    let (shared, listen) = (&stateless.shared, &name);
    let subscribed = wanted.uris.iter().map(|uri| async move {
        let target = Target {
            server: server.name.clone(),
            original: uri.as_str().into(),
        };
        let subscribed = timeout(SUBSCRIBE_LIMIT, shared.subscribe(target, listen, uri)).await;
        subscribed.unwrap_or(false).then(|| uri.clone())
    });
    let filter = Filter {
        uris: join_all(subscribed).await.into_iter().flatten().collect(),
        ..wanted
    };
    let audience = Audience::Server(server.name.clone());
    let Some(listen) = stateless
        .listen_streams
        .add(&name, asked.id(), filter, Some(audience))
    else {
        return asked.too_many();
    };
    asked.sink.put(listen.acknowledged());
    asked.tell(&listen, std::future::pending()).await
}

/// Listens to one legacy server, in the session of clients like this one.
pub async fn of_pooled(asked: ListenRequest<'_>, lease: Lease, view: &View) -> Reply {
    let isolated_session = lease.isolated_session();
    let wanted = match asked.visible_filter(&isolated_session.server, view) {
        Ok(wanted) => wanted,
        Err(refusal) => return refusal,
    };
    let limit = isolated_session.server.config().longest_start();
    let session = match isolated_session.session(Instant::now() + limit).await {
        Ok(session) => session,
        Err(failure) => return Reply::failure(asked.id(), &failure),
    };
    let audience = lease.audience();
    let name = audience.listen_streams.name();
    let wanted = wanted.of(&session.greeting.capabilities);
    let hearing = Hearing {
        calls: asked.stateless.shared.gateway.calls.clone(),
        lease: &lease,
        name: &name,
    };
    let (hears, upstream) = (&hearing, &session);
    let subscribed = wanted.uris.iter().map(|uri| async move {
        let subscribed = timeout(SUBSCRIBE_LIMIT, hears.subscribe(upstream, uri)).await;
        subscribed.unwrap_or(false).then(|| uri.clone())
    });
    let uris: Vec<String> = join_all(subscribed).await.into_iter().flatten().collect();
    let filter = Filter {
        uris: uris.clone(),
        ..wanted
    };
    let Some(listen) = audience.listen_streams.add(&name, asked.id(), filter, None) else {
        return asked.too_many();
    };
    asked.sink.put(listen.acknowledged());
    let upkeep = hearing.upkeep(session, &listen, &uris);
    asked.tell(&listen, upkeep).await
}

/// A stream's part in a pooled session.
struct Hearing<'a> {
    calls: Calls,
    lease: &'a Lease,
    name: &'a str,
}

impl Hearing<'_> {
    fn resource(&self, uri: &str) -> Resource {
        Resource {
            server: self.lease.isolated_session().server.name.clone(),
            uri: uri.into(),
        }
    }

    /// The first to subscribe does so upstream.
    async fn subscribe(&self, session: &Session, uri: &str) -> bool {
        let subscriptions = &self.lease.audience().subscriptions;
        let ask = async || subscribe(session, uri).await;
        subscriptions
            .join(self.resource(uri), self.name, uri, ask)
            .await
    }

    /// Brings the session back when it is lost. What happened meanwhile is unknown.
    async fn upkeep(
        &self,
        mut session: Arc<Session>,
        listen: &Listen,
        uris: &[String],
    ) -> Infallible {
        let isolated_session = self.lease.isolated_session();
        let mut pause = LOOK;
        loop {
            tokio::time::sleep(pause).await;
            let live = isolated_session.live_session();
            if live.is_some_and(|live| Arc::ptr_eq(&live, &session)) {
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
                    pause = LOOK;
                    listen.tell_all();
                }
                Err(error) => {
                    tracing::debug!(%error, "a session that is listened to did not come back");
                    pause = (pause * 2).min(MAX_LOOK);
                }
            }
        }
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        let orphans = self.lease.leave(self.name);
        let session = self.lease.isolated_session().live_session();
        let Some(session) = session.filter(|_| !orphans.is_empty()) else {
            return;
        };
        let subscriptions = Arc::clone(&self.lease.audience().subscriptions);
        self.calls.in_background(async move {
            for resource in orphans {
                subscriptions.release(&resource, &session).await;
            }
        });
    }
}
