//! Finds the server of a resource that no list and no template names.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use mainstay_core::message::{self, Method};
use mainstay_transport::{Budget, Exchange, InterruptionKind, Session};
use tokio::time::timeout;

use super::shared::Calls;
use crate::supervisor::Server;

/// Servers that are asked at the same time. A thousand servers that answer within some milliseconds
/// are all asked within the time limit, and a search holds no more than as many answers.
const SIDE_BY_SIDE: usize = 100;

/// The time limit of a search: the client waits for it, and most URIs of this kind are mistyped.
const SEARCH_LIMIT: Duration = Duration::from_secs(2);

/// How much of an answer is read. Only whether it is a result matters, and errors are short: an answer
/// that is longer counts as a result.
const MAX_ANSWER: usize = 64 * 1024;

impl Calls {
    /// The first of these servers, in their order, that can read a resource. The servers are asked side
    /// by side; one that does not answer in time does not have the resource.
    ///
    /// The questions are Mainstay's own. They are no calls: they are not on record, and "not found" is
    /// no error in a server's figures. Dropping the future cancels those that are open.
    pub async fn find_owner(
        &self,
        servers: impl IntoIterator<Item = Arc<Server>>,
        uri: &str,
    ) -> Option<Arc<Server>> {
        let params = format!(r#"{{"uri":{}}}"#, message::quote(uri));
        let with_resources = servers.into_iter().filter_map(|server| {
            let session = server.view().session?;
            let has_resources = session.greeting.capabilities.resources;
            has_resources.then_some((server, session))
        });
        let mut waiting = with_resources.enumerate();
        let mut best = None::<(usize, Arc<Server>)>;
        let searching = async {
            // The semaphore is never closed.
            let _turn = self.searches.0.acquire().await;
            let (mut asked, mut open) = (FuturesUnordered::new(), BTreeSet::new());
            loop {
                while best.is_none()
                    && asked.len() < SIDE_BY_SIDE
                    && let Some((place, (server, session))) = waiting.next()
                {
                    open.insert(place);
                    let params = &params;
                    asked.push(async move {
                        let has = self.can_read(session, params).await;
                        (place, server, has)
                    });
                }
                let Some((place, server, has)) = asked.next().await else {
                    return;
                };
                open.remove(&place);
                if has && best.as_ref().is_none_or(|(first, _)| place < *first) {
                    best = Some((place, server));
                }
                // A server that stands before the best may still answer.
                if let Some((first, _)) = &best
                    && open.first().is_none_or(|place| place > first)
                {
                    return;
                }
            }
        };
        // When the time is up, the best of those that have answered counts.
        timeout(SEARCH_LIMIT, searching).await.ok();
        best.map(|(_, server)| server)
    }

    /// All of these servers that can read a resource; none where one of them has not answered in time, since it
    /// may have the resource, too. The questions are as those of [`find_owner`](Self::find_owner).
    pub async fn find_owners(
        &self,
        servers: impl IntoIterator<Item = Arc<Server>>,
        uri: &str,
    ) -> Vec<Arc<Server>> {
        let params = format!(r#"{{"uri":{}}}"#, message::quote(uri));
        let asked = servers.into_iter().filter_map(|server| {
            let session = server.view().session?;
            let has_resources = session.greeting.capabilities.resources;
            let params = &params;
            has_resources.then_some(async move {
                let has = self.can_read(session, params).await;
                has.then_some(server)
            })
        });
        let searching = async {
            // The semaphore is never closed.
            let _turn = self.searches.0.acquire().await;
            let asked = futures_util::stream::iter(asked).buffered(SIDE_BY_SIDE);
            asked.filter_map(std::future::ready).collect().await
        };
        timeout(SEARCH_LIMIT, searching).await.unwrap_or_default()
    }

    async fn can_read(&self, session: Arc<Session>, params: &str) -> bool {
        let Ok(exchange) = session.start(Method::ResourcesRead, Some(params)).await else {
            return false;
        };
        let mut question = OwnerQuery {
            calls: self,
            session,
            exchange: Some(exchange),
        };
        let has = question.has_result().await;
        question.exchange = None;
        has
    }
}

/// A question that is cancelled when it is dropped before it is answered.
struct OwnerQuery<'a> {
    calls: &'a Calls,
    session: Arc<Session>,
    exchange: Option<Exchange>,
}

impl OwnerQuery<'_> {
    async fn has_result(&mut self) -> bool {
        let Some(exchange) = &mut self.exchange else {
            return false;
        };
        match exchange.answer_within(&Budget::new(MAX_ANSWER)).await {
            Ok(answer) => answer.result().is_some(),
            Err(interruption) => matches!(interruption.kind, InterruptionKind::TooLarge(_)),
        }
    }
}

impl Drop for OwnerQuery<'_> {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            let reason = "the resource is not needed any more".to_owned();
            self.calls.cancel(&self.session, exchange, reason);
        }
    }
}
