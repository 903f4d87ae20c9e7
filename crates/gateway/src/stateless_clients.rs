//! Recent clients without a session (2026-07-28). The doors record each request here, so that people
//! see these clients, too.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{
    era::Revision,
    record::{CallOrigin, ClientInfo},
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum number of remembered clients, and the time after which a silent client is forgotten.
pub const MAX_CLIENTS: usize = 200;
const MAX_AGE: Duration = Duration::from_hours(1);

/// Maximum number of bytes of a declared name or version.
const MAX_TEXT: usize = 256;

/// The clients of the last hour.
#[derive(Debug, Default)]
// The mutex is held for one lookup, or for one pass over at most `MAX_CLIENTS` clients.
pub struct StatelessClients(Mutex<Clients>);

#[derive(Debug, Default)]
struct Clients {
    recent: HashMap<CallOrigin, RecentClient>,
    requests: u64,
}

#[derive(Debug)]
struct RecentClient {
    revision: Revision,
    at: Instant,
    /// The number of the latest request. It orders requests that have the same time.
    request: u64,
    calls: u64,
}

/// A client without a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatelessClient {
    pub origin: Arc<CallOrigin>,
    pub revision: Revision,
    /// Time of the latest request.
    pub seen_at: SystemTime,
    /// Number of calls since the client's first request.
    pub calls: u64,
}

impl StatelessClients {
    /// Records a request.
    pub fn note(&self, origin: &CallOrigin, revision: Revision, is_call: bool) {
        let (origin, now) = (bounded(origin), Instant::now());
        let calls = u64::from(is_call);
        let mut clients = self.0.lock();
        clients.requests += 1;
        let request = clients.requests;
        if let Some(recent) = clients.recent.get_mut(&*origin) {
            (recent.revision, recent.at, recent.request) = (revision, now, request);
            recent.calls += calls;
            return;
        }
        if clients.recent.len() >= MAX_CLIENTS {
            clients.forget_old(now);
        }
        if clients.recent.len() >= MAX_CLIENTS {
            clients.forget_a_quarter();
        }
        let recent = RecentClient {
            revision,
            at: now,
            request,
            calls,
        };
        clients.recent.insert(origin.into_owned(), recent);
    }

    /// The clients of the last hour, the client of the newest request first.
    pub fn newest(&self) -> Vec<StatelessClient> {
        let (now, clock) = (Instant::now(), SystemTime::now());
        let mut clients = self.0.lock();
        clients.forget_old(now);
        let mut recent: Vec<_> = clients.recent.iter().collect();
        recent.sort_unstable_by_key(|(_, recent)| std::cmp::Reverse(recent.request));
        let client = |(origin, recent): (&CallOrigin, &RecentClient)| StatelessClient {
            origin: Arc::new(origin.clone()),
            revision: recent.revision,
            seen_at: clock.checked_sub(now - recent.at).unwrap_or(clock),
            calls: recent.calls,
        };
        recent.into_iter().map(client).collect()
    }
}

impl Clients {
    fn forget_old(&mut self, now: Instant) {
        self.recent
            .retain(|_, recent| now.saturating_duration_since(recent.at) < MAX_AGE);
    }

    /// Removes the oldest quarter of the clients, so that with many new clients a pass is needed only
    /// for every fiftieth of them.
    fn forget_a_quarter(&mut self) {
        let mut requests: Vec<_> = self.recent.values().map(|recent| recent.request).collect();
        let (_, last_removed, _) = requests.select_nth_unstable(MAX_CLIENTS / 4 - 1);
        let last_removed = *last_removed;
        self.recent
            .retain(|_, recent| recent.request > last_removed);
    }
}

/// Limits the length of the name and the version that the client has declared.
fn bounded(origin: &CallOrigin) -> Cow<'_, CallOrigin> {
    let client = origin.client.as_ref();
    let is_long = |info: &&ClientInfo| info.name.len().max(info.version.len()) > MAX_TEXT;
    let Some(ClientInfo { name, version }) = client.filter(is_long) else {
        return Cow::Borrowed(origin);
    };
    let cut = |text: &str| text[..text.floor_char_boundary(MAX_TEXT)].to_owned();
    Cow::Owned(CallOrigin {
        client: Some(ClientInfo {
            name: cut(name),
            version: cut(version),
        }),
        ..origin.clone()
    })
}

#[cfg(test)]
mod tests {
    use mainstay_core::record::Door;

    use super::*;

    fn origin(name: &str) -> CallOrigin {
        CallOrigin {
            client: Some(ClientInfo {
                name: name.to_owned(),
                version: "1".to_owned(),
            }),
            ..CallOrigin::from_door(Door::McpHttp)
        }
    }

    fn names(clients: &StatelessClients) -> Vec<String> {
        let all = clients.newest().into_iter();
        all.map(|client| client.origin.client.clone().expect("declared").name)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_known_for_an_hour_and_the_newest_come_first() {
        let clients = StatelessClients::default();
        clients.note(&origin("a"), Revision::LATEST, true);
        tokio::time::advance(Duration::from_mins(30)).await;
        clients.note(&origin("b"), Revision::LATEST, false);
        assert_eq!(names(&clients), ["b", "a"]);
        tokio::time::advance(Duration::from_mins(1)).await;
        clients.note(&origin("a"), Revision::LATEST, true);
        let all = clients.newest();
        assert_eq!(names(&clients), ["a", "b"]);
        assert_eq!((all[0].calls, all[1].calls), (2, 0));
        tokio::time::advance(Duration::from_mins(59)).await;
        assert_eq!(names(&clients), ["a"]);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(names(&clients), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_few_and_their_names_short() {
        let clients = StatelessClients::default();
        for number in 0..MAX_CLIENTS + 50 {
            clients.note(&origin(&format!("c{number}")), Revision::LATEST, true);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let names_now = names(&clients);
        assert_eq!(names_now.len(), MAX_CLIENTS);
        assert_eq!(
            (&*names_now[0], &*names_now[MAX_CLIENTS - 1]),
            ("c249", "c50")
        );
        clients.note(&origin("one more"), Revision::LATEST, true);
        let names_now = names(&clients);
        assert_eq!(names_now.len(), MAX_CLIENTS * 3 / 4 + 1);
        assert_eq!(
            (&*names_now[0], &names_now[MAX_CLIENTS * 3 / 4][..]),
            ("one more", "c100")
        );
        let long = "ü".repeat(MAX_TEXT);
        clients.note(&origin(&long), Revision::LATEST, true);
        clients.note(&origin(&long), Revision::LATEST, true);
        let newest = clients.newest().swap_remove(0);
        let name = newest.origin.client.clone().expect("declared").name;
        assert_eq!((name.len(), newest.calls), (MAX_TEXT, 2));
    }
}
