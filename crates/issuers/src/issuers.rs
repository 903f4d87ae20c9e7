//! All issuers: which of them a token is of, the fetches that its check needs, and the tokens that were found good.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::FutureExt as _;
use mainstay_core::config::{IssuerFault, TrustedIssuer, check_issuers};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    digest::TokenDigest,
    generations::Generations,
    introspection::{IntrospectionResult, read_answer},
    issuer::{Issuer, IssuerAnswer, VersionError},
    jwt::{Jwt, MAX_TOKEN, TokenShape},
    key_sets::{FetchAdvice, KeyChange, KeyStatus},
    refusal::TokenRefusal,
    verified::{Standing, VerifiedToken},
};

/// The longest time that a request waits for keys or an introspection.
pub const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// Good tokens that are remembered at most. Each has about a kilobyte.
const MAX_VERIFIED: usize = 4096;

/// Introspections at the same time. Others wait for their turn.
const MAX_INTROSPECTIONS: usize = 16;

/// The wait that a client is asked for when a fetch has taken too long.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The wall clock. Claims are compared with it.
pub type WallClock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The issuers of a configuration. Clones share them. A new configuration gets new `Issuers`; [`Issuers::close`] ends
/// the fetches of the former.
#[derive(Clone)]
pub struct Issuers(Arc<Shared>);

struct Shared {
    issuers: Vec<Arc<Issuer>>,
    /// Good JWTs. Locked for one look-up.
    verified: Mutex<Generations<VerifiedToken>>,
    clock: WallClock,
    changes: watch::Sender<()>,
    introspecting: Semaphore,
    tasks: TaskTracker,
    runtime: Handle,
    stop: CancellationToken,
}

/// The result of a check that does not wait.
#[derive(Debug)]
pub enum Checked {
    Valid(VerifiedToken),
    Refused(TokenRefusal),
    /// No issuer could have issued this: it is no JWT, and no issuer has an introspection.
    NotOurs,
    /// [`PendingCheck::wait`] has the result.
    Pending(PendingCheck),
}

/// A token whose check waits for keys or for an introspection. Holds the token, which `Debug` hides.
pub struct PendingCheck {
    token: Box<[u8]>,
    issuer: Arc<Issuer>,
    issuers: Issuers,
}

impl PendingCheck {
    /// Waits for the result of the check, [`WAIT_LIMIT`] at most. Dropping the future ends the wait, and no fetch.
    pub async fn wait(self) -> Result<VerifiedToken, TokenRefusal> {
        let mut settled = self.issuer.settled.subscribe();
        let checked = timeout(WAIT_LIMIT, async {
            loop {
                // A fetch that ends after this look is noticed.
                settled.mark_unchanged();
                let now = self.issuers.now();
                match self.issuers.examine(&self.token, now) {
                    Examined::Decided(verdict) => return verdict,
                    Examined::NotOurs => return Err(TokenRefusal::UnknownIssuer),
                    Examined::Pending(_) => {}
                }
                if settled.changed().await.is_err() {
                    // Not reached: this check has the issuer, and the issuer has the sender.
                    return Err(late());
                }
            }
        });
        checked.await.unwrap_or_else(|_| Err(late()))
    }
}

impl fmt::Debug for PendingCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCheck")
            .field("issuer", &self.issuer.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.issuers.iter().map(|issuer| &issuer.name);
        f.debug_list().entries(names).finish()
    }
}

/// The state of one issuer, for `doctor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerStatus {
    pub issuer: Arc<str>,
    pub keys: KeyStatus,
    /// The reason that the last introspection had no answer.
    pub introspection_error: Option<String>,
}

/// The result of a check, without a copy of the token.
enum Examined {
    Decided(Result<VerifiedToken, TokenRefusal>),
    NotOurs,
    Pending(Arc<Issuer>),
}

impl Issuers {
    /// The issuers of these settings. Must be called on a runtime, which carries out the fetches. The error has the
    /// index of the issuer.
    pub fn new(
        settings: Vec<TrustedIssuer>,
        clock: WallClock,
    ) -> Result<Self, (usize, IssuerFault)> {
        check_issuers(&settings)?;
        Ok(Self(Arc::new(Shared {
            issuers: settings.into_iter().map(Issuer::new).collect(),
            verified: Mutex::new(Generations::new(MAX_VERIFIED)),
            clock,
            changes: watch::Sender::new(()),
            introspecting: Semaphore::new(MAX_INTROSPECTIONS),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            stop: CancellationToken::new(),
        })))
    }

    /// Begins to fetch the keys of each issuer, so that the first request does not wait. An issuer with an
    /// introspection may have no keys, and is left out.
    pub fn prefetch(&self) {
        let now = self.now();
        for issuer in &self.0.issuers {
            if issuer.settings.introspection.is_none() {
                self.carry_out(issuer, issuer.begin_first_fetch(now));
            }
        }
    }

    /// Checks a token without waiting. A token that was good is a hash and a look-up. Tokens that Mainstay itself has
    /// issued are not for this: the caller looks them up first, and must not show them to an issuer.
    pub fn check_now(&self, token: &[u8], now: SystemTime) -> Checked {
        match self.examine(token, now) {
            Examined::Decided(Ok(verified)) => Checked::Valid(verified),
            Examined::Decided(Err(refusal)) => Checked::Refused(refusal),
            Examined::NotOurs => Checked::NotOurs,
            Examined::Pending(issuer) => Checked::Pending(PendingCheck {
                token: token.into(),
                issuer,
                issuers: self.clone(),
            }),
        }
    }

    /// The standing of a token that was good, without a look at the token. Asked before each use, and when
    /// [`Self::changes`] says so.
    pub fn standing(&self, token: &VerifiedToken, now: SystemTime) -> Standing {
        let is_current = |issuer: &Arc<Issuer>| Arc::ptr_eq(issuer, &token.checked_by);
        if !self.0.issuers.iter().any(is_current) {
            // Another configuration has other checks.
            return Standing::Unproven;
        }
        let (standing, fetch) = token.checked_by.standing(token, now);
        self.carry_out(&token.checked_by, fetch);
        standing
    }

    /// Notifies when the standing of a token may have changed by something else than time: a version was raised, or a
    /// key is gone.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// Ends the tokens of a subject that have a lower version than this, at once. Returns `false` if they had ended
    /// before. Versions are not stored here: after a start the caller raises them again.
    pub fn raise_token_version(
        &self,
        issuer: &str,
        subject: &str,
        version: u64,
    ) -> Result<bool, VersionError> {
        let is_named = |candidate: &&Arc<Issuer>| &*candidate.name == issuer;
        let found = self.0.issuers.iter().find(is_named);
        let found = found.ok_or_else(|| VersionError::UnknownIssuer(issuer.to_owned()))?;
        let is_raised = found.raise_version(subject, version)?;
        if is_raised {
            self.0.changes.send_replace(());
        }
        Ok(is_raised)
    }

    pub fn statuses(&self) -> Vec<IssuerStatus> {
        (self.0.issuers.iter())
            .map(|issuer| IssuerStatus {
                issuer: Arc::clone(&issuer.name),
                keys: issuer.key_status(),
                introspection_error: issuer.introspections.lock().error().map(str::to_owned),
            })
            .collect()
    }

    /// Ends all fetches, and waits for their ends. Who waits for one is refused as unavailable.
    pub async fn close(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    fn now(&self) -> SystemTime {
        (self.0.clock)()
    }

    fn examine(&self, token: &[u8], now: SystemTime) -> Examined {
        if token.len() > MAX_TOKEN {
            return Examined::Decided(Err(TokenRefusal::TooLarge {
                length: token.len(),
                limit: MAX_TOKEN,
            }));
        }
        let digest = TokenDigest::new(token);
        let remembered = self.0.verified.lock().get(&digest);
        if let Some(verified) = remembered {
            match self.standing(&verified, now) {
                Standing::Good => return Examined::Decided(Ok(verified)),
                Standing::Unproven | Standing::Ended => self.0.verified.lock().remove(&digest),
            }
        }
        match TokenShape::new(token) {
            TokenShape::Jwt(text) => match Jwt::read(text) {
                Ok(jwt) => self.examine_jwt(&jwt, digest, now),
                Err(refusal) => Examined::Decided(Err(refusal)),
            },
            TokenShape::Opaque => self.examine_opaque(token, digest, now),
            TokenShape::Foreign => Examined::NotOurs,
        }
    }

    fn examine_jwt(&self, jwt: &Jwt<'_>, digest: TokenDigest, now: SystemTime) -> Examined {
        let is_named = |issuer: &&Arc<Issuer>| jwt.issuer() == Some(&*issuer.name);
        let Some(issuer) = self.0.issuers.iter().find(is_named) else {
            return Examined::Decided(Err(TokenRefusal::UnknownIssuer));
        };
        let (answer, fetch) = issuer.check_jwt(jwt, now);
        self.carry_out(issuer, fetch);
        match answer {
            IssuerAnswer::Decided(verdict) => {
                if let Ok(verified) = &verdict {
                    self.0.verified.lock().insert(digest, verified.clone());
                }
                Examined::Decided(verdict)
            }
            IssuerAnswer::Pending => Examined::Pending(Arc::clone(issuer)),
        }
    }

    fn examine_opaque(&self, token: &[u8], digest: TokenDigest, now: SystemTime) -> Examined {
        let can_ask = |issuer: &&Arc<Issuer>| issuer.settings.introspection.is_some();
        let Some(issuer) = self.0.issuers.iter().find(can_ask) else {
            return Examined::NotOurs;
        };
        let (answer, ask) = issuer.check_opaque(digest, now);
        if ask == FetchAdvice::Begin {
            self.introspect(issuer, token, digest);
        }
        match answer {
            IssuerAnswer::Decided(verdict) => Examined::Decided(verdict),
            IssuerAnswer::Pending => Examined::Pending(Arc::clone(issuer)),
        }
    }

    /// Carries out a fetch of keys that was begun.
    fn carry_out(&self, issuer: &Arc<Issuer>, fetch: FetchAdvice) {
        match fetch {
            FetchAdvice::None => {}
            FetchAdvice::Begin => {
                let turn = KeyFetch {
                    shared: Arc::clone(&self.0),
                    issuer: Arc::clone(issuer),
                    is_finished: false,
                };
                self.spawn(turn.run());
            }
        }
    }

    fn introspect(&self, issuer: &Arc<Issuer>, token: &[u8], digest: TokenDigest) {
        let turn = IntrospectionTurn {
            shared: Arc::clone(&self.0),
            issuer: Arc::clone(issuer),
            digest,
            is_finished: false,
        };
        // The letters of an opaque token were checked.
        let token = String::from_utf8_lossy(token).into_owned();
        self.spawn(turn.run(token));
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.0.stop.clone();
        let task = async move {
            // Dropping the work ends its turn.
            stop.run_until_cancelled_owned(work).await;
        };
        self.0.tasks.spawn_on(task.boxed(), &self.0.runtime);
    }
}

/// A fetch of keys under way. Dropping it ends the fetch as failed.
struct KeyFetch {
    shared: Arc<Shared>,
    issuer: Arc<Issuer>,
    is_finished: bool,
}

impl KeyFetch {
    async fn run(mut self) {
        let fetched = self.issuer.client.fetch_keys().await;
        self.is_finished = true;
        let now = (self.shared.clock)();
        let issuer = &self.issuer.name;
        let former = self.issuer.key_status();
        match fetched {
            Ok(fetched) => {
                let keys = fetched.keys.count();
                let change = (self.issuer.keys.lock()).succeed(fetched.keys, fetched.max_age, now);
                if former.error.is_some() || former.fetched_at.is_none() {
                    tracing::info!(%issuer, keys, "the issuer's keys were fetched");
                }
                match change {
                    KeyChange::KeptAll => {}
                    KeyChange::Removed => {
                        tracing::info!(%issuer, keys, "a key of the issuer is gone, and its tokens have ended");
                        self.shared.changes.send_replace(());
                    }
                }
            }
            Err(error) => {
                let reason = error.to_string();
                if former.error.as_deref() != Some(&reason) {
                    tracing::warn!(%issuer, %reason, "the issuer's keys cannot be fetched");
                }
                self.issuer.keys.lock().fail(reason, now);
            }
        }
        self.issuer.settled.send_replace(());
    }
}

impl Drop for KeyFetch {
    fn drop(&mut self) {
        if !self.is_finished {
            let now = (self.shared.clock)();
            self.issuer.keys.lock().fail(ABANDONED.to_owned(), now);
            self.issuer.settled.send_replace(());
        }
    }
}

/// A question to an issuer about a token. Dropping it ends the question as failed.
struct IntrospectionTurn {
    shared: Arc<Shared>,
    issuer: Arc<Issuer>,
    digest: TokenDigest,
    is_finished: bool,
}

impl IntrospectionTurn {
    async fn run(mut self, token: String) {
        let result = self.ask(&token).await;
        self.is_finished = true;
        let now = (self.shared.clock)();
        if let IntrospectionResult::Failed(reason) = &result {
            let former = self.issuer.introspections.lock().error().map(str::to_owned);
            if former.as_ref() != Some(reason) {
                let issuer = &self.issuer.name;
                tracing::warn!(%issuer, %reason, "the issuer has no answer about a token");
            }
        }
        self.issuer.finish_introspection(self.digest, result, now);
    }

    async fn ask(&self, token: &str) -> IntrospectionResult {
        let Some(settings) = &self.issuer.settings.introspection else {
            return IntrospectionResult::Failed(ABANDONED.to_owned());
        };
        let Ok(_turn) = self.shared.introspecting.acquire().await else {
            return IntrospectionResult::Failed(ABANDONED.to_owned());
        };
        // The issuer may have failed while this request waited for its turn.
        let now = (self.shared.clock)();
        let paused = {
            let introspections = self.issuer.introspections.lock();
            introspections
                .pause(now)
                .map(|(reason, _)| reason.to_owned())
        };
        if let Some(reason) = paused {
            return IntrospectionResult::Failed(reason);
        }
        match self.issuer.client.introspect(settings, token).await {
            Ok(body) => read_answer(&body, &self.issuer.settings, (self.shared.clock)()),
            Err(error) => IntrospectionResult::Failed(error.to_string()),
        }
    }
}

impl Drop for IntrospectionTurn {
    fn drop(&mut self) {
        if !self.is_finished {
            let now = (self.shared.clock)();
            let result = IntrospectionResult::Failed(ABANDONED.to_owned());
            self.issuer.finish_introspection(self.digest, result, now);
        }
    }
}

/// The reason of a fetch that was ended before its answer.
const ABANDONED: &str = "Mainstay is stopping, or takes another configuration";

fn late() -> TokenRefusal {
    TokenRefusal::Unavailable {
        reason: format!("no answer within {} s", WAIT_LIMIT.as_secs()),
        retry_after: RETRY_AFTER,
    }
}
