//! The `requestState` of a suspended call. It is sealed, because a client could change or copy it
//! (2026-07-28, "Multi Round-Trip Requests", "Server Requirements").

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use mainstay_core::principal::Principal;
use mainstay_transport::Frame;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::mcp::sessions::session::EndpointScope;

/// Time for which a parked call waits for its client's next attempt.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// Number of bytes of the seal.
const SEAL: usize = 16;

const ID_DIGITS: usize = 32;
const TIME_DIGITS: usize = 11;

/// Identifies a call across its attempts: a hash of endpoint, principal, method and params. Params
/// that differ between attempts are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallDigest([u8; 32]);

impl CallDigest {
    pub fn new(scope: &EndpointScope, principal: &Principal, frame: &Frame) -> Self {
        let mut hash = Sha256::new();
        part(&mut hash, scope.endpoint().as_bytes());
        part(&mut hash, principal.to_string().as_bytes());
        part(&mut hash, frame.method_name().as_bytes());
        let params = frame.params().unwrap_or("{}");
        // Params that are nested too deeply to parse are hashed as text.
        let mut params: Value =
            serde_json::from_str(params).unwrap_or_else(|_| params.to_owned().into());
        if let Some(params) = params.as_object_mut() {
            for name in ["_meta", "inputResponses", "requestState"] {
                params.remove(name);
            }
        }
        // A client may reorder the members of its retry.
        params.sort_all_objects();
        part(&mut hash, params.to_string().as_bytes());
        Self(hash.finalize().into())
    }
}

/// Hashes a part after its length, so that no bytes can move between parts.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

/// Identifies one parked call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParkId(u128);

impl ParkId {
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}

/// Creates and reads states. The key lasts for one run, as parked calls do.
#[derive(Debug)]
pub struct Seals {
    key: [u8; 32],
    /// The prefix of this run's states. It differs from that of a Mainstay above or below this one.
    prefix: String,
    since: Instant,
}

impl Seals {
    pub fn new() -> Result<Self, getrandom::Error> {
        let (mut key, mut name) = ([0; 32], [0; 4]);
        getrandom::fill(&mut key)?;
        getrandom::fill(&mut name)?;
        Ok(Self {
            key,
            prefix: format!("mainstay-{:08x}-", u32::from_be_bytes(name)),
            since: Instant::now(),
        })
    }

    /// True if a state has the prefix of this run.
    pub fn knows(&self, state: &str) -> bool {
        state.starts_with(&self.prefix)
    }

    /// Creates the state for a parked call.
    pub fn seal(&self, park: ParkId, call: &CallDigest) -> String {
        let elapsed_ms = self.since.elapsed().as_millis();
        let head = format!("{}{:032x}{elapsed_ms:011x}", self.prefix, park.0);
        let seal = self.mac(&head, call).finalize().into_bytes();
        let seal = seal[..SEAL].iter().map(|byte| format!("{byte:02x}"));
        let seal: String = seal.collect();
        head + &seal
    }

    /// The parked call of a state. `None` if the state was changed, has expired, or is of another
    /// call.
    pub fn open(&self, state: &str, call: &CallDigest) -> Option<ParkId> {
        let head = self.prefix.len() + ID_DIGITS + TIME_DIGITS;
        let (head, seal) = state.split_at_checked(head)?;
        let seal = (seal.len() == 2 * SEAL)
            .then(|| u128::from_str_radix(seal, 16).ok())
            .flatten()?
            .to_be_bytes();
        self.mac(head, call).verify_truncated_left(&seal).ok()?;
        let (park, time) = head.strip_prefix(&self.prefix)?.split_at(ID_DIGITS);
        let sealed_at = Duration::from_millis(u64::from_str_radix(time, 16).ok()?);
        let age = self.since.elapsed().saturating_sub(sealed_at);
        let park = u128::from_str_radix(park, 16).ok()?;
        (age < PATIENCE).then_some(ParkId(park))
    }

    fn mac(&self, head: &str, call: &CallDigest) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of any length will do");
        for bytes in [head.as_bytes(), &call.0] {
            mac.update(&(bytes.len() as u64).to_be_bytes());
            mac.update(bytes);
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn digest(request: &str) -> CallDigest {
        let frame = Frame::read(request.to_owned().into()).expect("a request");
        CallDigest::new(&scope(), &Principal::Anonymous, &frame)
    }

    fn scope() -> EndpointScope {
        EndpointScope::Profile(Arc::default())
    }

    fn call(params: &str) -> CallDigest {
        digest(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#
        ))
    }

    #[test]
    fn attempts_at_one_call_are_the_same_and_other_calls_differ() {
        let first = call(r#"{"name":"t","arguments":{"a":1,"b":[{"c":2,"d":3}]},"_meta":{"x":1}}"#);
        let retry = call(
            r#"{"requestState":"s","arguments":{"b":[{"d":3,"c":2}],"a":1},"inputResponses":{"k":{}},"name":"t"}"#,
        );
        assert_eq!(first, retry);
        for other_params in [
            r#"{"name":"t","arguments":{"a":1,"b":[{"c":2,"d":4}]}}"#,
            r#"{"name":"u","arguments":{"a":1,"b":[{"c":2,"d":3}]}}"#,
            r#"{"name":"t","arguments":{"a":1,"b":[{"c":2,"d":3}]},"more":1}"#,
        ] {
            assert_ne!(first, call(other_params), "{other_params}");
        }
        let read_request = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}"#;
        assert_ne!(call("{}"), digest(read_request));
        let frame = Frame::read(read_request.to_owned().into()).expect("a request");
        let operators = CallDigest::new(&scope(), &Principal::Operator, &frame);
        assert_ne!(operators, digest(read_request));
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_opens_for_its_call_and_its_time_alone() {
        let (seals, other_seals) = (Seals::new().expect("random"), Seals::new().expect("random"));
        let (park, own_call) = (ParkId::random().expect("random"), call(r#"{"name":"t"}"#));
        let state = seals.seal(park, &own_call);
        assert_eq!(seals.open(&state, &own_call), Some(park));
        assert_eq!(seals.open(&state, &call(r#"{"name":"u"}"#)), None);
        assert_eq!(other_seals.open(&state, &own_call), None);
        assert!(seals.knows(&state) && !other_seals.knows(&state));
        for index in 0..state.len() {
            let mut changed_state = state.clone().into_bytes();
            changed_state[index] = if changed_state[index] == b'0' {
                b'1'
            } else {
                b'0'
            };
            let changed_state = String::from_utf8(changed_state).expect("ASCII");
            assert_eq!(
                seals.open(&changed_state, &own_call),
                None,
                "{changed_state}"
            );
        }
        for other_state in [
            "",
            "x",
            &state[1..],
            &state[..state.len() - 1],
            &(state.clone() + "0"),
        ] {
            assert_eq!(seals.open(other_state, &own_call), None, "{other_state}");
        }
        tokio::time::advance(PATIENCE / 2).await;
        assert_eq!(seals.open(&state, &own_call), Some(park));
        tokio::time::advance(PATIENCE / 2).await;
        assert_eq!(seals.open(&state, &own_call), None);
    }
}
