//! Clients without a session (2026-07-28) that came lately. The doors note each request, so that people see
//! these clients although nothing is open.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::{
    era::Revision,
    record::{ClientInfo, Origin},
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Clients that are remembered, and for how long.
pub const MAX_CLIENTS: usize = 200;
const MAX_AGE: Duration = Duration::from_hours(1);

/// Bytes of a declared name or version.
const MAX_TEXT: usize = 256;

/// The clients of the last hour.
#[derive(Debug, Default)]
// The mutex is locked for one look-up, or one walk over the few clients.
pub struct StatelessClients(Mutex<Clients>);

#[derive(Debug, Default)]
struct Clients {
    noted: HashMap<Origin, Noted>,
    requests: u64,
}

#[derive(Debug)]
struct Noted {
    revision: Revision,
    at: Instant,
    /// The number of its latest request: two requests may come at the same time.
    request: u64,
    calls: u64,
}

/// A client without a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatelessClient {
    pub origin: Arc<Origin>,
    pub revision: Revision,
    /// When its latest request came.
    pub seen_at: SystemTime,
    /// Its calls since it was first seen.
    pub calls: u64,
}

impl StatelessClients {
    /// A request came.
    pub fn note(&self, origin: &Origin, revision: Revision, is_call: bool) {
        let (origin, now) = (bounded(origin), Instant::now());
        let calls = u64::from(is_call);
        let mut clients = self.0.lock();
        clients.requests += 1;
        let request = clients.requests;
        if let Some(noted) = clients.noted.get_mut(&*origin) {
            (noted.revision, noted.at, noted.request) = (revision, now, request);
            noted.calls += calls;
            return;
        }
        if clients.noted.len() >= MAX_CLIENTS {
            clients.forget_old(now);
        }
        if clients.noted.len() >= MAX_CLIENTS {
            clients.forget_a_quarter();
        }
        let noted = Noted {
            revision,
            at: now,
            request,
            calls,
        };
        clients.noted.insert(origin.into_owned(), noted);
    }

    /// Those of the last hour, the newest first.
    pub fn newest(&self) -> Vec<StatelessClient> {
        let (now, clock) = (Instant::now(), SystemTime::now());
        let mut clients = self.0.lock();
        clients.forget_old(now);
        let mut noted: Vec<_> = clients.noted.iter().collect();
        noted.sort_unstable_by_key(|(_, noted)| std::cmp::Reverse(noted.request));
        let client = |(origin, noted): (&Origin, &Noted)| StatelessClient {
            origin: Arc::new(origin.clone()),
            revision: noted.revision,
            seen_at: clock.checked_sub(now - noted.at).unwrap_or(clock),
            calls: noted.calls,
        };
        noted.into_iter().map(client).collect()
    }
}

impl Clients {
    fn forget_old(&mut self, now: Instant) {
        self.noted
            .retain(|_, noted| now.saturating_duration_since(noted.at) < MAX_AGE);
    }

    /// Makes room for many at once: however many clients come, the walk is made once for fifty of them.
    fn forget_a_quarter(&mut self) {
        let mut requests: Vec<_> = self.noted.values().map(|noted| noted.request).collect();
        let (_, last, _) = requests.select_nth_unstable(MAX_CLIENTS / 4 - 1);
        let last = *last;
        self.noted.retain(|_, noted| noted.request > last);
    }
}

/// With texts of the client that are not endless.
fn bounded(origin: &Origin) -> Cow<'_, Origin> {
    let client = origin.client.as_ref();
    let is_long = |info: &&ClientInfo| info.name.len().max(info.version.len()) > MAX_TEXT;
    let Some(ClientInfo { name, version }) = client.filter(is_long) else {
        return Cow::Borrowed(origin);
    };
    let cut = |text: &str| text[..text.floor_char_boundary(MAX_TEXT)].to_owned();
    Cow::Owned(Origin {
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

    fn of(name: &str) -> Origin {
        Origin {
            client: Some(ClientInfo {
                name: name.to_owned(),
                version: "1".to_owned(),
            }),
            ..Origin::of(Door::McpHttp)
        }
    }

    fn names(clients: &StatelessClients) -> Vec<String> {
        let all = clients.newest().into_iter();
        all.map(|it| it.origin.client.clone().expect("declared").name)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_known_for_an_hour_and_the_newest_come_first() {
        let clients = StatelessClients::default();
        clients.note(&of("a"), Revision::LATEST, true);
        tokio::time::advance(Duration::from_mins(30)).await;
        clients.note(&of("b"), Revision::LATEST, false);
        assert_eq!(names(&clients), ["b", "a"]);
        tokio::time::advance(Duration::from_mins(1)).await;
        clients.note(&of("a"), Revision::LATEST, true);
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
            clients.note(&of(&format!("c{number}")), Revision::LATEST, true);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let names_now = names(&clients);
        assert_eq!(names_now.len(), MAX_CLIENTS);
        assert_eq!(
            (&*names_now[0], &*names_now[MAX_CLIENTS - 1]),
            ("c249", "c50")
        );
        clients.note(&of("one more"), Revision::LATEST, true);
        let names_now = names(&clients);
        assert_eq!(names_now.len(), MAX_CLIENTS * 3 / 4 + 1);
        assert_eq!(
            (&*names_now[0], &names_now[MAX_CLIENTS * 3 / 4][..]),
            ("one more", "c100")
        );
        let long = "ü".repeat(MAX_TEXT);
        clients.note(&of(&long), Revision::LATEST, true);
        clients.note(&of(&long), Revision::LATEST, true);
        let newest = clients.newest().swap_remove(0);
        let name = newest.origin.client.clone().expect("declared").name;
        assert_eq!((name.len(), newest.calls), (MAX_TEXT, 2));
    }
}
