//! Session ids that contain the properties of their session, with a seal. A restarted Mainstay
//! reads them, so that it can revive the sessions of clients.
//!
//! `OPENED (11) REVISION (1) CAPABILITIES (2) CLIENT (8) RANDOM (16) SEAL (16) [NAME [00 VERSION]] [- ENDPOINT]`
//!
//! All parts except the endpoint are hexadecimal, so an id is visible ASCII (specification,
//! transports, "Session Management"). The client declared NAME and VERSION. They are cut to a
//! maximum length. CLIENT is a checksum of the name under which the client's switches are stored.
//! It shows whether NAME is complete. RANDOM and SEAL together have 128 unpredictable bits.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use mainstay_core::{
    config::Secret,
    era::{Caller, ClientCapabilities, Revision},
    message,
    principal::Principal,
    switches::client_name,
};
use mainstay_gateway::calls::SealedNames;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::ended::{Birth, REVIVED_FOR};

/// Number of bytes of the seal.
const SEAL: usize = 8;

const TIME_DIGITS: usize = 11;
const REVISION_DIGITS: usize = 1;
const CAPABILITY_DIGITS: usize = 2;
const CLIENT_DIGITS: usize = 8;
const RANDOM_DIGITS: usize = 16;
const HEAD_DIGITS: usize =
    TIME_DIGITS + REVISION_DIGITS + CAPABILITY_DIGITS + CLIENT_DIGITS + RANDOM_DIGITS;

/// Maximum length of a client's name or version in an id, in bytes.
const MAX_WORD: usize = 64;

/// The properties of a session, read from its id.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsealed<'i> {
    pub birth: Birth,
    /// See `EndpointScope::endpoint`.
    pub endpoint: &'i str,
    pub revision: Revision,
    /// The kinds of server requests that the client accepts.
    pub capabilities: ClientCapabilities,
    /// The client's name and version as far as the id has them (JSON text).
    pub client_info: Option<Arc<str>>,
    /// True if `client_info` has the whole name, under which switches are stored.
    pub has_whole_name: bool,
}

/// Creates session ids. Reads ids of this run and of earlier runs with the same key.
#[derive(Debug)]
pub struct Seal {
    /// `None` if later runs need not read the ids.
    key: Option<Secret>,
    /// Start of this run, in milliseconds since 1970. An id from this run that is not open belongs
    /// to an ended session.
    run: u64,
}

/// The current time in milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or_default()
}

impl Seal {
    pub fn new(key: Option<Secret>) -> Self {
        Self {
            key,
            run: unix_ms(),
        }
    }

    /// Start of this run, in milliseconds since 1970.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Sealed names with the same key, so that later runs can read them.
    pub fn names(&self) -> SealedNames {
        SealedNames::new(self.key.clone())
    }

    /// Creates the id of a session that opens at `now` (milliseconds since 1970).
    pub fn id(
        &self,
        now: u64,
        endpoint: &str,
        caller: &Caller,
        principal: &Principal,
    ) -> Result<Box<str>, getrandom::Error> {
        let number = random()?;
        let index = Revision::ALL
            .iter()
            .position(|revision| *revision == caller.revision);
        let head = format!(
            "{:011x}{:x}{:02x}{:08x}{number:016x}",
            now,
            index.unwrap_or_default(),
            caller.capabilities.bits(),
            checksum(&client_name(principal, caller.client_info.as_deref())),
        );
        let declared_text = declared(caller);
        let seal = match &self.key {
            Some(key) => mac(key, &head, &declared_text, endpoint, principal)
                .finalize()
                .into_bytes()[..SEAL]
                .iter()
                .fold(0, |seal, byte| seal << 8 | u64::from(*byte)),
            None => random()?,
        };
        Ok(match endpoint {
            "" => format!("{head}{seal:016x}{declared_text}"),
            _ => format!("{head}{seal:016x}{declared_text}-{endpoint}"),
        }
        .into())
    }

    /// Reads an id of an earlier run, to revive its session. `None` for an invalid or expired id,
    /// an id of this run, or one of another principal.
    pub fn open<'i>(&self, id: &'i str, principal: &Principal, now: u64) -> Option<Unsealed<'i>> {
        let session_identity = self.read(id, principal)?;
        let opened_at = session_identity.birth.opened;
        let age = Duration::from_millis(now.saturating_sub(opened_at));
        (opened_at < self.run && age <= REVIVED_FOR).then_some(session_identity)
    }

    /// Reads an id of any run. `None` for an invalid id, or one of another principal.
    pub fn read<'i>(&self, id: &'i str, principal: &Principal) -> Option<Unsealed<'i>> {
        let (head, rest) = id.split_at_checked(HEAD_DIGITS)?;
        let (seal, rest) = rest.split_at_checked(2 * SEAL)?;
        let (declared_text, endpoint) = match rest.split_once('-') {
            None => (rest, ""),
            Some((declared_text, endpoint)) if !endpoint.is_empty() => (declared_text, endpoint),
            Some(_) => return None,
        };
        let number = u64::from_str_radix(seal, 16).ok()?;
        // Accept one spelling of an id only: lower case.
        if format!("{number:016x}") != seal {
            return None;
        }
        let key = self.key.as_ref()?;
        mac(key, head, declared_text, endpoint, principal)
            .verify_truncated_left(&number.to_be_bytes())
            .ok()?;
        let (opened_text, rest) = head.split_at(TIME_DIGITS);
        let (index, rest) = rest.split_at(REVISION_DIGITS);
        let index = usize::from_str_radix(index, 16).ok()?;
        let (bits, rest) = rest.split_at(CAPABILITY_DIGITS);
        let bits = u8::from_str_radix(bits, 16).ok()?;
        let client = u32::from_str_radix(&rest[..CLIENT_DIGITS], 16).ok()?;
        let client_info = client_info(declared_text);
        let name = client_name(principal, client_info.as_deref());
        let has_whole_name = checksum(&name) == client;
        Some(Unsealed {
            birth: Birth {
                opened: u64::from_str_radix(opened_text, 16).ok()?,
                seal: number,
            },
            endpoint,
            revision: *Revision::ALL.get(index)?,
            capabilities: ClientCapabilities::from_bits(bits),
            client_info,
            has_whole_name,
        })
    }
}

fn checksum(name: &str) -> u32 {
    let digest = Sha256::digest(name);
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// The client's name and version, cut to [`MAX_WORD`], in hexadecimal.
fn declared(caller: &Caller) -> String {
    let info = caller.client_info.as_deref().unwrap_or("{}");
    let client_member = |member| {
        let client_member = message::text_member(info, member)?;
        let client_member: String = client_member.chars().filter(|c| *c != '\0').collect();
        Some(client_member[..client_member.floor_char_boundary(MAX_WORD)].to_owned())
    };
    let client_text = match (client_member("name"), client_member("version")) {
        (None, _) => String::new(),
        (Some(name), None) => name,
        (Some(name), Some(version)) => format!("{name}\0{version}"),
    };
    client_text.bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn client_info(declared_text: &str) -> Option<Arc<str>> {
    let digits = declared_text.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    let client_text = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
    let info = match client_text.split_once('\0') {
        _ if client_text.is_empty() => return None,
        Some((name, version)) => json!({"name": name, "version": version}),
        None => json!({"name": client_text}),
    };
    Some(info.to_string().into())
}

fn mac(
    key: &Secret,
    head: &str,
    declared_text: &str,
    endpoint: &str,
    principal: &Principal,
) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes())
        .expect("a key of any length will do");
    mac.update(head.as_bytes());
    mac.update(declared_text.as_bytes());
    mac.update(b"-");
    mac.update(endpoint.as_bytes());
    // A space separates the principal, because no endpoint contains one.
    mac.update(b" ");
    mac.update(principal.to_string().as_bytes());
    mac
}

fn random() -> Result<u64, getrandom::Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use mainstay_core::principal::ClientName;

    use super::*;

    fn run(key: u8, run: u64) -> Seal {
        Seal {
            key: Some(Secret::new(format!("a key with the number {key}"))),
            run,
        }
    }

    #[test]
    fn a_later_run_knows_what_a_session_was() {
        for revision in Revision::ALL {
            for endpoint in ["", "files", "mcp/files"] {
                let capabilities = ClientCapabilities::all();
                let info = r#"{"name":"tests","version":"1.0"}"#;
                let caller = Caller {
                    capabilities: Arc::new(capabilities.clone()),
                    client_info: Some(info.into()),
                    ..Caller::at(revision)
                };
                let opened_at = 1_795_000_000_000;
                let id = run(1, opened_at)
                    .id(opened_at, endpoint, &caller, &Principal::Operator)
                    .expect("random");
                let seal = &id[HEAD_DIGITS..][..2 * SEAL];
                let seal = u64::from_str_radix(seal, 16).expect("a number");
                let session_identity = Unsealed {
                    birth: Birth {
                        opened: opened_at,
                        seal,
                    },
                    endpoint,
                    revision,
                    capabilities,
                    client_info: Some(info.into()),
                    has_whole_name: true,
                };
                let later_run = run(1, opened_at + 1);
                let last_time =
                    opened_at + u64::try_from(REVIVED_FOR.as_millis()).expect("it fits");
                let open_at = |now| later_run.open(&id, &Principal::Operator, now);
                assert_eq!(open_at(last_time), Some(session_identity), "{id}");
                assert_eq!(open_at(last_time + 1), None, "too old");
            }
        }
    }

    /// Records of a revived session have the client's name, up to the size limit.
    #[test]
    fn a_later_run_knows_what_a_client_called_itself() {
        let long_text = "é".repeat(MAX_WORD);
        let cut_text = "é".repeat(MAX_WORD / 2);
        for (info, expected, is_whole) in [
            (
                json!({"name": "c-1 ü", "title": "C"}),
                Some(json!({"name": "c-1 ü"})),
                true,
            ),
            (
                json!({"name": "c", "version": ""}),
                Some(json!({"name": "c", "version": ""})),
                true,
            ),
            (
                json!({"name": long_text, "version": long_text}),
                Some(json!({"name": cut_text, "version": cut_text})),
                false,
            ),
            (
                json!({"name": "a\0b", "version": "1"}),
                Some(json!({"name": "ab", "version": "1"})),
                false,
            ),
            (json!({"version": "1"}), None, true),
            (json!("c"), None, true),
        ] {
            let caller = Caller {
                client_info: Some(info.to_string().into()),
                ..Caller::default()
            };
            let id = run(1, 1).id(1, "a-b", &caller, &Principal::Anonymous);
            let id = id.expect("random");
            assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
            let later_run = run(1, 2);
            let session_identity = later_run.open(&id, &Principal::Anonymous, 2);
            let session_identity = session_identity.expect("an earlier run's");
            assert_eq!(session_identity.has_whole_name, is_whole, "{info}");
            assert_eq!(
                session_identity.client_info.as_deref(),
                expected
                    .map(|client_info| client_info.to_string())
                    .as_deref(),
                "{info}"
            );
        }
    }

    #[test]
    fn foreign_and_current_ids_are_not_revived() {
        let seal = run(1, 2_000_000_000_000);
        let id = run(1, 1)
            .id(
                1_999_999_999_999,
                "files",
                &Caller::default(),
                &Principal::Anonymous,
            )
            .expect("random");
        let opens = |seal: &Seal, id: &str| {
            let now = 2_000_000_000_000;
            seal.open(id, &Principal::Anonymous, now).is_some()
        };
        assert!(opens(&seal, &id));
        assert!(!opens(&run(2, 2_000_000_000_000), &id), "another key");
        assert!(
            !opens(&run(1, 1_999_999_999_999), &id),
            "this run's own have ended"
        );
        assert!(seal.read(&id, &Principal::Anonymous).is_some());
        assert!(!opens(&Seal::new(None), &id), "without a key");
        let other_name = ClientName::new("laptop").expect("a name");
        for other_name in [Principal::Operator, Principal::Client(other_name)] {
            assert_eq!(
                seal.read(&id, &other_name),
                None,
                "somebody else's: {other_name}"
            );
        }
        for index in 0..id.len() {
            let mut changed_id = id.to_string().into_bytes();
            changed_id[index] = if changed_id[index] == b'0' {
                b'1'
            } else {
                b'0'
            };
            let changed_id = String::from_utf8(changed_id).expect("ASCII");
            assert!(!opens(&seal, &changed_id), "{changed_id}");
        }
        for other_name in [
            "",
            "x",
            &id[..id.len() - 1],
            &id[..HEAD_DIGITS + 14],
            "é".repeat(30).as_str(),
        ] {
            assert!(!opens(&seal, other_name), "{other_name}");
        }
    }
}
