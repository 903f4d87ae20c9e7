//! Calls that crash their server: which are suspects, and which are refused for a while.
//!
//! A call is a request by its method, name and arguments. Every call in flight when the server's process
//! ends by itself is a suspect; its answer acquits it. One that was in flight at [`CRASHES`] crashes,
//! with no answer in between, is refused for [`REFUSED_FOR`]. So a call that is there at each crash only
//! because it comes often stays allowed, and two calls that crash the server by turns are both refused.
//!
//! The name alone is a suspect as well, because callers may vary the arguments. It is charged with a
//! crash only if all calls of it in flight were new, and refused only if no other call explains the
//! crash: one harmful argument does not take the tool from all clients.

use std::{
    cell::LazyCell,
    collections::HashSet,
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::message::Method;

/// A call is refused after this many crashes with the call in flight, and no answer to it in between.
pub const CRASHES: u32 = 3;

/// How long a call is refused. What was in flight at a crash is a suspect for as long.
pub const REFUSED_FOR: Duration = Duration::from_mins(10);

/// Suspects that are kept of one server, and calls in flight that are looked at after one crash.
pub const MAX_SUSPECTS: usize = 256;

/// What a call asks of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSignature<'a> {
    pub method: Method,
    /// The server's own name of the tool or prompt, or the URI of the resource.
    pub name: &'a str,
    /// As JSON text.
    pub arguments: &'a str,
}

/// With which arguments a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arguments {
    Same,
    Any,
}

/// A call that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    pub method: Method,
    pub name: Arc<str>,
    pub arguments: Arguments,
    /// Crashes with the call in flight, and no answer to it.
    pub crashes: u32,
    pub until: Instant,
}

/// What follows from a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Calls that are refused from now on.
    pub refused: Vec<RefusedCall>,
    /// The crashes that these calls explain, this one among them. They do not count against the server.
    pub crashes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scope {
    /// By the digest of the arguments.
    Same([u8; 32]),
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Until this time.
    Suspected(Instant),
    RefusedCall(Instant),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Suspect {
    method: Method,
    name: Arc<str>,
    scope: Scope,
    crashes: u32,
    /// Those of them that said nothing against the server.
    excused: u32,
    standing: Standing,
}

/// The suspects of one server. A snapshot: what changes it makes another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects(Vec<Suspect>);

impl Suspects {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When [`Suspects::passed`] changes something.
    pub fn due(&self) -> Option<Instant> {
        self.0.iter().map(Suspect::until).min()
    }

    /// Whether the call is refused.
    pub fn refusal(&self, asked: CallSignature<'_>, now: Instant) -> Option<RefusedCall> {
        let digest = LazyCell::new(|| digest(asked.arguments));
        let refusing = |it: &&Suspect| {
            matches!(it.standing, Standing::RefusedCall(until) if now < until)
                && it.covers(asked, &digest)
        };
        self.0.iter().find(refusing).map(Suspect::refused)
    }

    /// The server has crashed with these calls in flight, the latest first.
    #[must_use]
    pub fn crashed(&self, in_flight: &[CallSignature<'_>], now: Instant) -> (Self, Verdict) {
        let mut next = self.passed(now).0;
        let charged = next.charge(in_flight, now);
        let verdict = next.judge(&charged, now);
        next.0
            .sort_by_key(|it| std::cmp::Reverse((it.is_refused(), it.crashes, it.until())));
        next.0.truncate(MAX_SUSPECTS);
        (next, verdict)
    }

    /// The call was answered. `None` if that changes nothing. What is refused stays so: an answer that
    /// comes after all is none to a call of now.
    #[must_use]
    pub fn answered(&self, asked: CallSignature<'_>) -> Option<Self> {
        let digest = LazyCell::new(|| digest(asked.arguments));
        let acquitted = |it: &Suspect| !it.is_refused() && it.covers(asked, &digest);
        let found = self.0.iter().any(acquitted);
        found.then(|| Self(self.0.iter().filter(|it| !acquitted(it)).cloned().collect()))
    }

    /// What time has passed for, and the calls that are allowed again. They stay suspects: one more crash
    /// has them refused again.
    #[must_use]
    pub fn passed(&self, now: Instant) -> (Self, Vec<RefusedCall>) {
        let (mut next, mut allowed) = (Vec::with_capacity(self.0.len()), Vec::new());
        for suspect in &self.0 {
            match suspect.standing {
                Standing::Suspected(until) if until <= now => {}
                Standing::RefusedCall(until) if until <= now => {
                    allowed.push(suspect.refused());
                    next.push(Suspect {
                        standing: Standing::Suspected(now + REFUSED_FOR),
                        ..suspect.clone()
                    });
                }
                Standing::Suspected(_) | Standing::RefusedCall(_) => next.push(suspect.clone()),
            }
        }
        (Self(next), allowed)
    }

    /// All calls that are refused.
    pub fn all_refused(&self) -> Vec<RefusedCall> {
        let refused = self.0.iter().filter(|it| it.is_refused());
        refused.map(Suspect::refused).collect()
    }

    /// Charges every call in flight with a crash, once; returns where they are.
    fn charge(&mut self, in_flight: &[CallSignature<'_>], now: Instant) -> Vec<usize> {
        let (mut charged, mut seen) = (Vec::new(), HashSet::new());
        let mut names: Vec<(CallSignature<'_>, bool)> = Vec::new();
        for asked in in_flight.iter().take(MAX_SUSPECTS) {
            let scope = Scope::Same(digest(asked.arguments));
            if !seen.insert((asked.method, asked.name, scope)) {
                continue;
            }
            let (at, is_new) = self.charge_one(*asked, scope, now);
            charged.push(at);
            match names.iter_mut().find(|(it, _)| it.is_same_name(*asked)) {
                Some((_, are_new)) => *are_new &= is_new,
                None => names.push((*asked, is_new)),
            }
        }
        for (asked, are_new) in names {
            if are_new {
                charged.push(self.charge_one(asked, Scope::Any, now).0);
            }
        }
        charged
    }

    fn charge_one(
        &mut self,
        asked: CallSignature<'_>,
        scope: Scope,
        now: Instant,
    ) -> (usize, bool) {
        let known = self
            .0
            .iter()
            .position(|it| it.scope == scope && it.is_named(asked));
        let at = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Suspect {
                method: asked.method,
                name: Arc::from(asked.name),
                scope,
                crashes: 0,
                excused: 0,
                standing: Standing::Suspected(now),
            });
        }
        let suspect = &mut self.0[at];
        suspect.crashes = suspect.crashes.saturating_add(1);
        if !suspect.is_refused() {
            suspect.standing = Standing::Suspected(now + REFUSED_FOR);
        }
        (at, known.is_none())
    }

    /// Refuses those that have been charged too often. A crash that they explain is not charged to
    /// others.
    fn judge(&mut self, charged: &[usize], now: Instant) -> Verdict {
        let mut guilty: Vec<usize> = charged.to_vec();
        guilty.retain(|at| self.0[*at].crashes >= CRASHES && !self.0[*at].is_refused());
        let is_name = |at: &usize| self.0[*at].scope == Scope::Any;
        let (names, calls): (Vec<_>, Vec<_>) = guilty.into_iter().partition(is_name);
        // Of several names it is unknown which one it was.
        let guilty = match names.len() {
            1 if calls.is_empty() => names,
            _ => calls,
        };
        if guilty.is_empty() {
            return Verdict::default();
        }
        let mut verdict = Verdict::default();
        for at in guilty {
            let suspect = &mut self.0[at];
            suspect.standing = Standing::RefusedCall(now + REFUSED_FOR);
            verdict.crashes = verdict.crashes.max(suspect.crashes - suspect.excused);
            suspect.excused = suspect.crashes;
            verdict.refused.push(suspect.refused());
        }
        self.0.retain(|it| it.excused > 0);
        verdict
    }
}

impl CallSignature<'_> {
    fn is_same_name(&self, other: CallSignature<'_>) -> bool {
        self.method == other.method && self.name == other.name
    }
}

impl Suspect {
    fn is_refused(&self) -> bool {
        matches!(self.standing, Standing::RefusedCall(_))
    }

    fn until(&self) -> Instant {
        match self.standing {
            Standing::Suspected(until) | Standing::RefusedCall(until) => until,
        }
    }

    /// The digest is made where the name is the same only.
    fn covers(&self, asked: CallSignature<'_>, digest: &impl Deref<Target = [u8; 32]>) -> bool {
        self.is_named(asked)
            && match &self.scope {
                Scope::Any => true,
                Scope::Same(own) => *own == **digest,
            }
    }

    fn is_named(&self, asked: CallSignature<'_>) -> bool {
        self.method == asked.method && *self.name == *asked.name
    }

    fn refused(&self) -> RefusedCall {
        RefusedCall {
            method: self.method,
            name: Arc::clone(&self.name),
            arguments: match self.scope {
                Scope::Any => Arguments::Any,
                Scope::Same(_) => Arguments::Same,
            },
            crashes: self.crashes,
            until: self.until(),
        }
    }
}

fn digest(arguments: &str) -> [u8; 32] {
    Sha256::digest(arguments).into()
}

#[cfg(test)]
mod tests;
