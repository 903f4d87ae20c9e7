//! Sets of keys from issuers, against a simple reader: [`KeySet`].

use mainstay_core::{config::SignatureAlgorithm, words::SettingWords as _};
use mainstay_issuers::readers::{Candidates, KeySet, KeySetError, MAX_CANDIDATES, MAX_KEYS};
use serde_json::Value;

/// Reads the bytes as a set of keys, and checks a signature with each of its keys.
pub fn check(data: &[u8]) {
    let set = match KeySet::read(data) {
        Ok(set) => set,
        Err(KeySetError::NoKey { skipped }) => {
            assert_eq!(written_keys(data).len(), skipped);
            return;
        }
        Err(KeySetError::TooMany | KeySetError::Unreadable { .. }) => return,
    };
    let written = written_keys(data);
    assert!(written.len() <= MAX_KEYS);
    assert_eq!(set.len() + set.skipped, written.len());
    let is_supported = |key: &&Value| {
        let is_public = key.get("d").is_none_or(Value::is_null);
        matches!(key["kty"].as_str(), Some("RSA" | "EC" | "OKP")) && is_public
    };
    assert!((1..=written.iter().filter(is_supported).count()).contains(&set.len()));
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

fn written_keys(data: &[u8]) -> Vec<Value> {
    let set: Value = serde_json::from_slice(data).expect("a set is JSON");
    let keys = set["keys"].as_array();
    keys.expect("a set has a list").clone()
}
