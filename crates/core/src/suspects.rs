//! Finds the calls that crash their server, and refuses them for a while.
//!
//! A call is identified by method, name and arguments. If a server's process exits by itself, each
//! call in flight becomes a suspect. An answer clears the suspect. A suspect that was in flight at
//! [`CRASHES`] crashes without an answer in between is refused for [`REFUSED_FOR`]. So a frequent
//! call that happens to be in flight at each crash stays allowed. Two calls that crash the server
//! in turn are both refused.
//!
//! Because callers may vary the arguments, the name alone is a suspect too. A crash counts for the
//! name only if all calls in flight with that name are new suspects. The name is refused only if no
//! single call explains the crash. So one harmful argument does not block a tool for all clients.

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

/// Number of crashes, without an answer in between, after which a suspect is refused.
pub const CRASHES: u32 = 3;

/// Time for which a call is refused. A suspect is remembered for the same time.
pub const REFUSED_FOR: Duration = Duration::from_mins(10);

/// Maximum number of suspects of one server, and of calls in flight that are examined at a crash.
pub const MAX_SUSPECTS: usize = 256;

/// Identifies a call to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSignature<'a> {
    pub method: Method,
    /// The original name of the tool or prompt, or the URI of the resource.
    pub name: &'a str,
    /// The arguments, as JSON text.
    pub arguments: &'a str,
}

/// The arguments for which a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arguments {
    Same,
    Any,
}

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    pub method: Method,
    pub name: Arc<str>,
    pub arguments: Arguments,
    /// Number of crashes with this call in flight, without an answer in between.
    pub crashes: u32,
    pub until: Instant,
}

/// The outcome of a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashVerdict {
    /// The calls that are refused from now on.
    pub refused: Vec<RefusedCall>,
    /// Number of crashes, including this one, that these calls explain. The lifecycle does not
    /// count them.
    pub crashes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scope {
    /// Calls whose arguments have this SHA-256 digest.
    Same([u8; 32]),
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// A suspect until this time, if no other crash follows.
    Suspected(Instant),
    RefusedCall(Instant),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Suspect {
    method: Method,
    name: Arc<str>,
    scope: Scope,
    crashes: u32,
    /// Number of this suspect's crashes that the lifecycle does not count.
    excused: u32,
    standing: Standing,
}

/// The suspects of one server. The value is immutable: each change returns a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects(Vec<Suspect>);

impl Suspects {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Time at which [`Suspects::passed`] has something to do.
    pub fn due(&self) -> Option<Instant> {
        self.0.iter().map(Suspect::until).min()
    }

    /// Returns the refusal of a call. `None` if the call is allowed.
    pub fn refusal(&self, call: CallSignature<'_>, now: Instant) -> Option<RefusedCall> {
        let digest = LazyCell::new(|| digest(call.arguments));
        let is_refusing = |suspect: &&Suspect| {
            matches!(suspect.standing, Standing::RefusedCall(until) if now < until)
                && suspect.covers(call, &digest)
        };
        self.0
            .iter()
            .find(is_refusing)
            .map(Suspect::to_refused_call)
    }

    /// Handles a crash. `in_flight` are the calls in flight, latest first.
    #[must_use]
    pub fn crashed(&self, in_flight: &[CallSignature<'_>], now: Instant) -> (Self, CrashVerdict) {
        let mut next_suspects = self.passed(now).0;
        let charged_indexes = next_suspects.charge(in_flight, now);
        let verdict = next_suspects.judge(&charged_indexes, now);
        next_suspects.0.sort_by_key(|suspect| {
            std::cmp::Reverse((suspect.is_refused(), suspect.crashes, suspect.until()))
        });
        next_suspects.0.truncate(MAX_SUSPECTS);
        (next_suspects, verdict)
    }

    /// Handles an answer to a call, which clears the suspect. `None` if nothing changes. A refused
    /// call stays refused, because a late answer may be for an earlier call.
    #[must_use]
    pub fn answered(&self, call: CallSignature<'_>) -> Option<Self> {
        let digest = LazyCell::new(|| digest(call.arguments));
        let is_acquitted =
            |suspect: &Suspect| !suspect.is_refused() && suspect.covers(call, &digest);
        let has_suspect = self.0.iter().any(is_acquitted);
        has_suspect.then(|| {
            Self(
                self.0
                    .iter()
                    .filter(|suspect| !is_acquitted(suspect))
                    .cloned()
                    .collect(),
            )
        })
    }

    /// Removes expired suspects. Returns the calls that are allowed again. They stay suspects, and
    /// one more crash refuses them again.
    #[must_use]
    pub fn passed(&self, now: Instant) -> (Self, Vec<RefusedCall>) {
        let (mut next_suspects, mut allowed) = (Vec::with_capacity(self.0.len()), Vec::new());
        for suspect in &self.0 {
            match suspect.standing {
                Standing::Suspected(until) if until <= now => {}
                Standing::RefusedCall(until) if until <= now => {
                    allowed.push(suspect.to_refused_call());
                    next_suspects.push(Suspect {
                        standing: Standing::Suspected(now + REFUSED_FOR),
                        ..suspect.clone()
                    });
                }
                Standing::Suspected(_) | Standing::RefusedCall(_) => {
                    next_suspects.push(suspect.clone())
                }
            }
        }
        (Self(next_suspects), allowed)
    }

    /// All refused calls.
    pub fn all_refused(&self) -> Vec<RefusedCall> {
        let refused_suspects = self.0.iter().filter(|suspect| suspect.is_refused());
        refused_suspects.map(Suspect::to_refused_call).collect()
    }

    /// Counts the crash for each distinct call in flight. Returns the indexes of the suspects.
    fn charge(&mut self, in_flight: &[CallSignature<'_>], now: Instant) -> Vec<usize> {
        let (mut charged_indexes, mut seen_calls) = (Vec::new(), HashSet::new());
        let mut names: Vec<(CallSignature<'_>, bool)> = Vec::new();
        for call in in_flight.iter().take(MAX_SUSPECTS) {
            let scope = Scope::Same(digest(call.arguments));
            if !seen_calls.insert((call.method, call.name, scope)) {
                continue;
            }
            let (index, is_new) = self.charge_one(*call, scope, now);
            charged_indexes.push(index);
            match names
                .iter_mut()
                .find(|(named_call, _)| named_call.is_same_name(*call))
            {
                Some((_, are_new)) => *are_new &= is_new,
                None => names.push((*call, is_new)),
            }
        }
        for (call, are_new) in names {
            if are_new {
                charged_indexes.push(self.charge_one(call, Scope::Any, now).0);
            }
        }
        charged_indexes
    }

    fn charge_one(&mut self, call: CallSignature<'_>, scope: Scope, now: Instant) -> (usize, bool) {
        let position = self
            .0
            .iter()
            .position(|suspect| suspect.scope == scope && suspect.is_named(call));
        let index = position.unwrap_or(self.0.len());
        if position.is_none() {
            self.0.push(Suspect {
                method: call.method,
                name: Arc::from(call.name),
                scope,
                crashes: 0,
                excused: 0,
                standing: Standing::Suspected(now),
            });
        }
        let suspect = &mut self.0[index];
        suspect.crashes = suspect.crashes.saturating_add(1);
        if !suspect.is_refused() {
            suspect.standing = Standing::Suspected(now + REFUSED_FOR);
        }
        (index, position.is_none())
    }

    /// Refuses the suspects with too many crashes. The other suspects are cleared, because the
    /// refused ones explain the crash.
    fn judge(&mut self, charged_indexes: &[usize], now: Instant) -> CrashVerdict {
        let mut guilty: Vec<usize> = charged_indexes.to_vec();
        guilty.retain(|index| self.0[*index].crashes >= CRASHES && !self.0[*index].is_refused());
        let is_name = |index: &usize| self.0[*index].scope == Scope::Any;
        let (names, calls): (Vec<_>, Vec<_>) = guilty.into_iter().partition(is_name);
        // If several names have too many crashes, the harmful one is unknown.
        let guilty = match names.len() {
            1 if calls.is_empty() => names,
            _ => calls,
        };
        if guilty.is_empty() {
            return CrashVerdict::default();
        }
        let mut verdict = CrashVerdict::default();
        for index in guilty {
            let suspect = &mut self.0[index];
            suspect.standing = Standing::RefusedCall(now + REFUSED_FOR);
            verdict.crashes = verdict.crashes.max(suspect.crashes - suspect.excused);
            suspect.excused = suspect.crashes;
            verdict.refused.push(suspect.to_refused_call());
        }
        self.0.retain(|suspect| suspect.excused > 0);
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

    /// True if the suspect includes this call. `digest` is computed only if the name matches.
    fn covers(&self, call: CallSignature<'_>, digest: &impl Deref<Target = [u8; 32]>) -> bool {
        self.is_named(call)
            && match &self.scope {
                Scope::Any => true,
                Scope::Same(expected) => *expected == **digest,
            }
    }

    fn is_named(&self, call: CallSignature<'_>) -> bool {
        self.method == call.method && *self.name == *call.name
    }

    fn to_refused_call(&self) -> RefusedCall {
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
