//! Finds the server of a resource that no list and no template includes, by requests to the servers.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use mainstay_core::message::{self, Method};
use mainstay_transport::{Budget, Exchange, InterruptionKind, UpstreamSession};
use tokio::time::timeout;

use super::shared::Calls;
use crate::supervisor::ServerHandle;

/// Number of concurrent queries of a search. High enough that a thousand servers can be queried
/// within the time limit. Low enough to bound the memory for answers.
const CONCURRENT_QUERIES: usize = 100;

/// Time limit of a search. Short, because the client waits, and most unlisted URIs are mistyped.
const SEARCH_LIMIT: Duration = Duration::from_secs(2);

/// Maximum number of bytes that are read of an answer. A longer answer counts as a result, because
/// errors are short.
const MAX_ANSWER: usize = 64 * 1024;

impl Calls {
    /// The first of these servers, in their order, that can read a resource. Queries the servers
    /// concurrently. A server that does not answer in time counts as one that cannot read it.
    ///
    /// The queries are not calls: they are not recorded, and "not found" does not count as an error
    /// in a server's figures. Dropping the future cancels open queries.
    pub async fn find_owner(
        &self,
        servers: impl IntoIterator<Item = Arc<ServerHandle>>,
        uri: &str,
    ) -> Option<Arc<ServerHandle>> {
        let params = format!(r#"{{"uri":{}}}"#, message::quote(uri));
        let with_resources = servers.into_iter().filter_map(|server| {
            let session = server.view().session?;
            let has_resources = session.greeting.capabilities.resources;
            has_resources.then_some((server, session))
        });
        let mut waiting = with_resources.enumerate();
        let mut best = None::<(usize, Arc<ServerHandle>)>;
        let searching = async {
            // The semaphore is never closed.
            let _turn = self.searches.0.acquire().await;
            let (mut queries, mut open) = (FuturesUnordered::new(), BTreeSet::new());
            loop {
                while best.is_none()
                    && queries.len() < CONCURRENT_QUERIES
                    && let Some((place, (server, session))) = waiting.next()
                {
                    open.insert(place);
                    let params = &params;
                    queries.push(async move {
                        let has = self.can_read(session, params).await;
                        (place, server, has)
                    });
                }
                let Some((place, server, has)) = queries.next().await else {
                    return;
                };
                open.remove(&place);
                if has && best.as_ref().is_none_or(|(first, _)| place < *first) {
                    best = Some((place, server));
                }
                // Stop when all queries to servers before the best one have been answered.
                if let Some((first, _)) = &best
                    && open.first().is_none_or(|place| place > first)
                {
                    return;
                }
            }
        };
        // After the time limit, return the best server that has answered.
        timeout(SEARCH_LIMIT, searching).await.ok();
        best.map(|(_, server)| server)
    }

    /// All of these servers that can read a resource. Empty if a server has not answered in time,
    /// because that server may have the resource, too. The queries are like those of
    /// [`find_owner`](Self::find_owner).
    pub async fn find_owners(
        &self,
        servers: impl IntoIterator<Item = Arc<ServerHandle>>,
        uri: &str,
    ) -> Vec<Arc<ServerHandle>> {
        let params = format!(r#"{{"uri":{}}}"#, message::quote(uri));
        let queries = servers.into_iter().filter_map(|server| {
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
            futures_util::stream::iter(queries)
                .buffered(CONCURRENT_QUERIES)
                .filter_map(std::future::ready)
                .collect()
                .await
        };
        timeout(SEARCH_LIMIT, searching).await.unwrap_or_default()
    }

    async fn can_read(&self, session: Arc<UpstreamSession>, params: &str) -> bool {
        let Ok(exchange) = session.start(Method::ResourcesRead, Some(params)).await else {
            return false;
        };
        let mut query = OwnerQuery {
            calls: self,
            session,
            exchange: Some(exchange),
        };
        let has = query.has_result().await;
        query.exchange = None;
        has
    }
}

/// A query to one server. Dropping it before its answer cancels the request at the server.
struct OwnerQuery<'a> {
    calls: &'a Calls,
    session: Arc<UpstreamSession>,
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
