//! Sets of keys from issuers, against a simple reader: [`KeySet`].

use mainstay_core::{config::SignatureAlgorithm, words::SettingWords as _};
use mainstay_issuers::readers::{Candidates, KeySet, KeySetError, MAX_CANDIDATES, MAX_KEYS};
use serde_json::Value;

/// Reads the bytes as a set of keys, and checks a signature with each of its keys.
pub fn check(data: &[u8]) {
    let set = match KeySet::read(data) {
        Ok(set) => set,
        Err(KeySetError::NoKey { skipped }) => {
            assert!(written_keys(data).is_none_or(|keys| keys.len() == skipped));
            return;
        }
        Err(
            KeySetError::NotUtf8
            | KeySetError::NoObject
            | KeySetError::TooMany
            | KeySetError::Unreadable { .. },
        ) => return,
    };
    let Some(written) = written_keys(data) else {
        return;
    };
    assert!(written.len() <= MAX_KEYS);
    assert_eq!(set.count() + set.skipped, written.len());
    let is_supported = |key: &&Value| {
        let is_public = key.get("d").is_none_or(Value::is_null);
        matches!(key["kty"].as_str(), Some("RSA" | "EC" | "OKP")) && is_public
    };
    assert!((1..=written.iter().filter(is_supported).count()).contains(&set.count()));
    let ids = written.iter().filter_map(|key| key["kid"].as_str());
    for id in ids.map(Some).chain([None, Some("none")]) {
        for algorithm in SignatureAlgorithm::VALUES {
            let Candidates::Keys(keys) = set.candidates(*algorithm, id) else {
                continue;
            };
            assert!(keys.len() <= MAX_CANDIDATES);
            for key in keys {
                // A signature that was made by nobody.
                assert!(!key.verifies(*algorithm, b"message", data));
            }
        }
    }
}

/// `None` for a set with a number that is too large or with half of a character, beside what is read.
fn written_keys(data: &[u8]) -> Option<Vec<Value>> {
    let text = std::str::from_utf8(data).expect("a set is text");
    let set: Value = serde_json::from_str(text).ok()?;
    let keys = set["keys"].as_array();
    Some(keys.expect("a set has a list").clone())
}
