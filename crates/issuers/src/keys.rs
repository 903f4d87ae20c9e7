//! The keys of an issuer (RFC 7517, RFC 7518, RFC 8037), and the check of a signature with one of them.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mainstay_core::config::SignatureAlgorithm;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{digest::KeyDigest, jwt::MAX_KEY_ID, strict_json::begins_object};

/// Keys in one set at most. An issuer has a handful.
pub const MAX_KEYS: usize = 100;

/// Keys that one token is checked with at most. A signature costs up to a millisecond.
pub const MAX_CANDIDATES: usize = 4;

/// The sizes of RSA keys that are accepted, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Maximum bytes of the public exponent of an RSA key. It is 65537 nearly always.
const MAX_EXPONENT: usize = 4;

/// A public key that can check signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerKey {
    id: Option<String>,
    /// The only algorithm that the key is for. `None` if its set does not say one.
    algorithm: Option<SignatureAlgorithm>,
    material: KeyMaterial,
    pub digest: KeyDigest,
}

/// The parts of a public key. Numbers are big-endian without leading zeros, points are not compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyMaterial {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The keys of one issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<IssuerKey>,
    /// Keys that cannot be used: of another kind, for another purpose, too small, or unreadable.
    pub skipped: usize,
}

/// A document that is no usable set of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    #[error("it is no set of keys (line {line}, column {column})")]
    Unreadable { line: usize, column: usize },
    #[error("it is not in UTF-8")]
    NotUtf8,
    #[error("it is no object of JSON")]
    NoObject,
    #[error("it has more than {MAX_KEYS} keys")]
    TooMany,
    #[error("it has no key for signatures that can be used; {skipped} keys were skipped")]
    NoKey { skipped: usize },
}

/// The keys that may have signed a token.
#[derive(Debug, PartialEq, Eq)]
pub enum Candidates<'s> {
    Keys(Vec<&'s IssuerKey>),
    /// No key has the token's id and fits its algorithm.
    None,
    /// More than [`MAX_CANDIDATES`].
    TooMany,
}

impl KeySet {
    /// Reads a JWK set. Keys that cannot be used are skipped.
    pub fn read(body: &[u8]) -> Result<Self, KeySetError> {
        // Members that are not read are checked by this only.
        let text = std::str::from_utf8(body).map_err(|_| KeySetError::NotUtf8)?;
        if !begins_object(body) {
            return Err(KeySetError::NoObject);
        }
        let set: WrittenSet = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            KeySetError::Unreadable { line, column }
        })?;
        if set.keys.has_more {
            return Err(KeySetError::TooMany);
        }
        let keys: Vec<_> = (set.keys.written.iter())
            .filter_map(|key| IssuerKey::read(key))
            .collect();
        let skipped = set.keys.written.len() - keys.len();
        if keys.is_empty() {
            return Err(KeySetError::NoKey { skipped });
        }
        Ok(Self { keys, skipped })
    }

    /// Number of keys that can be used. It is never 0.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    pub fn contains(&self, digest: &KeyDigest) -> bool {
        self.keys.iter().any(|key| key.digest == *digest)
    }

    /// True if each key of `former` is in this set.
    pub fn has_all(&self, former: &Self) -> bool {
        former.keys.iter().all(|key| self.contains(&key.digest))
    }

    /// The keys with this id, or all of them for a token without an id, that fit the algorithm.
    pub fn candidates(&self, algorithm: SignatureAlgorithm, id: Option<&str>) -> Candidates<'_> {
        let fits = |key: &&IssuerKey| {
            key.fits(algorithm) && id.is_none_or(|id| key.id.as_deref() == Some(id))
        };
        let keys: Vec<_> = (self.keys.iter().filter(fits))
            .take(MAX_CANDIDATES + 1)
            .collect();
        match keys.len() {
            0 => Candidates::None,
            1..=MAX_CANDIDATES => Candidates::Keys(keys),
            _more => Candidates::TooMany,
        }
    }
}

impl IssuerKey {
    /// `None` for a key that cannot be used.
    fn read(json: &RawValue) -> Option<Self> {
        let text = json.get();
        let key: WrittenKey = serde_json::from_str(text)
            .ok()
            .filter(|_| begins_object(text.as_bytes()))?;
        let algorithm = match &key.alg {
            Some(name) => Some(SignatureAlgorithm::from_name(name)?),
            None => None,
        };
        let is_for_signatures = key.usage.as_deref().is_none_or(|usage| usage == "sig")
            && (key.key_ops.as_ref())
                .is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        // A private key that was published by mistake has signed anything.
        let is_private = key.d.is_some() || key.k.is_some();
        let is_long = (key.kid.as_ref()).is_some_and(|id| id.len() > MAX_KEY_ID);
        if !is_for_signatures || is_private || is_long {
            return None;
        }
        let material = KeyMaterial::read(&key)?;
        let issuer_key = Self {
            digest: material.digest(),
            id: key.kid,
            algorithm,
            material,
        };
        let fits_itself = algorithm.is_none_or(|algorithm| issuer_key.fits(algorithm));
        fits_itself.then_some(issuer_key)
    }

    fn fits(&self, algorithm: SignatureAlgorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm) && self.material.fits(algorithm)
    }

    /// True if this key has signed the message. `false` for an algorithm that the key does not fit.
    pub fn verifies(
        &self,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        self.fits(algorithm) && self.material.verifies(algorithm, message, signature)
    }
}

impl KeyMaterial {
    fn read(key: &WrittenKey) -> Option<Self> {
        match (key.kty.as_str(), key.crv.as_deref()) {
            ("RSA", _) => {
                let modulus = number(key.n.as_deref()?)?;
                let exponent = number(key.e.as_deref()?)?;
                let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
                let is_odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
                let is_usable = RSA_BITS.contains(&bits)
                    && (1..=MAX_EXPONENT).contains(&exponent.len())
                    && exponent != [1]
                    && is_odd(&modulus)
                    && is_odd(&exponent);
                is_usable.then_some(Self::Rsa { modulus, exponent })
            }
            ("EC", Some("P-256")) => point(key, 32).map(Self::P256),
            ("EC", Some("P-384")) => point(key, 48).map(Self::P384),
            ("OKP", Some("Ed25519")) => coordinate(key.x.as_deref()?, 32).map(Self::Ed25519),
            _unsupported => None,
        }
    }

    fn digest(&self) -> KeyDigest {
        match self {
            Self::Rsa { modulus, exponent } => KeyDigest::new(&[b"RSA", modulus, exponent]),
            Self::P256(point) => KeyDigest::new(&[b"P-256", point]),
            Self::P384(point) => KeyDigest::new(&[b"P-384", point]),
            Self::Ed25519(point) => KeyDigest::new(&[b"Ed25519", point]),
        }
    }

    fn fits(&self, algorithm: SignatureAlgorithm) -> bool {
        use SignatureAlgorithm as Algorithm;
        match algorithm {
            Algorithm::Rs256
            | Algorithm::Rs384
            | Algorithm::Rs512
            | Algorithm::Ps256
            | Algorithm::Ps384
            | Algorithm::Ps512 => matches!(self, Self::Rsa { .. }),
            Algorithm::Es256 => matches!(self, Self::P256(_)),
            Algorithm::Es384 => matches!(self, Self::P384(_)),
            Algorithm::EdDsa => matches!(self, Self::Ed25519(_)),
        }
    }

    fn verifies(&self, algorithm: SignatureAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        let by_point = |algorithm: &'static dyn VerificationAlgorithm, point: &[u8]| {
            let key = UnparsedPublicKey::new(algorithm, point);
            key.verify(message, signature).is_ok()
        };
        match self {
            Self::Rsa { modulus, exponent } => {
                let (n, e) = (modulus, exponent);
                rsa_parameters(algorithm).is_some_and(|parameters| {
                    let key = RsaPublicKeyComponents { n, e };
                    key.verify(parameters, message, signature).is_ok()
                })
            }
            Self::P256(point) => by_point(&ECDSA_P256_SHA256_FIXED, point),
            Self::P384(point) => by_point(&ECDSA_P384_SHA384_FIXED, point),
            Self::Ed25519(point) => by_point(&ED25519, point),
        }
    }
}

fn rsa_parameters(algorithm: SignatureAlgorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        SignatureAlgorithm::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        SignatureAlgorithm::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
        SignatureAlgorithm::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        SignatureAlgorithm::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
        SignatureAlgorithm::Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
        SignatureAlgorithm::Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
        SignatureAlgorithm::Es256 | SignatureAlgorithm::Es384 | SignatureAlgorithm::EdDsa => None,
    }
}

/// A number in base64url, without leading zeros. `None` for zero.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let start = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[start..].to_vec())
}

fn coordinate(text: &str, length: usize) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    (bytes.len() == length).then_some(bytes)
}

/// A point of a curve, not compressed (SEC 1, 2.3.3).
fn point(key: &WrittenKey, length: usize) -> Option<Vec<u8>> {
    const NOT_COMPRESSED: u8 = 4;
    let x = coordinate(key.x.as_deref()?, length)?;
    let y = coordinate(key.y.as_deref()?, length)?;
    Some([&[NOT_COMPRESSED][..], &x, &y].concat())
}

#[derive(Deserialize)]
struct WrittenSet<'a> {
    #[serde(borrow)]
    keys: WrittenKeys<'a>,
}

/// The first [`MAX_KEYS`] elements of a list, not yet read.
struct WrittenKeys<'a> {
    written: Vec<&'a RawValue>,
    has_more: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for WrittenKeys<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = WrittenKeys<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of keys")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<WrittenKeys<'de>, A::Error> {
        let mut written = Vec::new();
        while written.len() < MAX_KEYS {
            match seq.next_element()? {
                Some(key) => written.push(key),
                None => {
                    let has_more = false;
                    return Ok(WrittenKeys { written, has_more });
                }
            }
        }
        let mut has_more = false;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            has_more = true;
        }
        Ok(WrittenKeys { written, has_more })
    }
}

/// A key as its issuer writes it. Certificates (`x5c`, `x5u`) are not read.
#[derive(Deserialize)]
struct WrittenKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    /// A part of a private key.
    d: Option<IgnoredAny>,
    /// A symmetric key.
    k: Option<IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn encode(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn rsa(bits: usize) -> Value {
        let mut modulus = vec![0xa5; bits.div_ceil(8)];
        if !bits.is_multiple_of(8) {
            modulus[0] = 1 << (bits % 8 - 1);
        }
        json!({"kty": "RSA", "kid": "r", "n": encode(&modulus), "e": "AQAB"})
    }

    fn ed25519(id: &str) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(&[7; 32])})
    }

    fn read(keys: &[Value]) -> Result<KeySet, KeySetError> {
        KeySet::read(json!({"keys": keys}).to_string().as_bytes())
    }

    #[test]
    fn keys_that_cannot_be_used_are_skipped() {
        let with = |mut key: Value, name: &str, value: Value| {
            key[name] = value;
            key
        };
        let p256 =
            json!({"kty": "EC", "crv": "P-256", "x": encode(&[1; 32]), "y": encode(&[2; 32])});
        for (key, is_good) in [
            (rsa(2048), true),
            (rsa(8192), true),
            (rsa(512), false),
            (rsa(1024), false),
            (rsa(2047), false),
            (rsa(8193), false),
            (with(rsa(2048), "e", json!("AQ")), false),
            (with(rsa(2048), "e", json!("AAAA")), false),
            (with(rsa(2048), "e", json!("AQABAQAB")), false),
            (with(rsa(2048), "n", json!("AA")), false),
            (with(rsa(2048), "n", json!("")), false),
            (with(rsa(2048), "n", json!("+/")), false),
            (with(rsa(2048), "n", json!(5)), false),
            (with(rsa(2048), "d", json!("AQ")), false),
            (with(rsa(2048), "use", json!("enc")), false),
            (with(rsa(2048), "use", json!("sig")), true),
            (with(rsa(2048), "key_ops", json!(["verify"])), true),
            (with(rsa(2048), "key_ops", json!(["encrypt"])), false),
            (with(rsa(2048), "alg", json!("RS512")), true),
            (with(rsa(2048), "alg", json!("RSA-OAEP")), false),
            (with(rsa(2048), "alg", json!("HS256")), false),
            (with(rsa(2048), "alg", json!("ES256")), false),
            (with(rsa(2048), "kid", json!("k".repeat(257))), false),
            (with(rsa(2048), "kid", json!(1)), false),
            (p256.clone(), true),
            (with(p256.clone(), "crv", json!("P-384")), false),
            (with(p256.clone(), "crv", json!("secp256k1")), false),
            (with(p256.clone(), "x", json!(encode(&[1; 31]))), false),
            (with(p256, "alg", json!("RS256")), false),
            (ed25519("e"), true),
            (with(ed25519("e"), "crv", json!("Ed448")), false),
            (with(ed25519("e"), "crv", json!("X25519")), false),
            (json!({"kty": "oct", "k": "AQ", "alg": "HS256"}), false),
            (json!({"kty": "AKP"}), false),
            (json!({}), false),
            (json!(null), false),
            (json!([]), false),
            (json!("x"), false),
            // The members of a key in their order, without names.
            (
                json!([
                    "OKP",
                    "e",
                    null,
                    null,
                    null,
                    "Ed25519",
                    null,
                    null,
                    encode(&[7; 32]),
                    null,
                    null,
                    null
                ]),
                false,
            ),
        ] {
            let set = read(&[key.clone(), ed25519("other")]).expect("a usable key");
            assert_eq!(
                (set.count(), set.skipped),
                if is_good { (2, 0) } else { (1, 1) },
                "{key}"
            );
        }
    }

    #[test]
    fn a_set_without_keys_or_with_too_many_is_an_error() {
        assert_eq!(read(&[]), Err(KeySetError::NoKey { skipped: 0 }));
        assert_eq!(read(&[rsa(512)]), Err(KeySetError::NoKey { skipped: 1 }));
        let all = vec![ed25519("e"); MAX_KEYS];
        assert_eq!(read(&all).map(|set| set.count()), Ok(MAX_KEYS));
        assert_eq!(
            read(&[all, vec![json!({})]].concat()),
            Err(KeySetError::TooMany)
        );
        let million = format!("{{\"keys\":[{}1]}}", "{},".repeat(1_000_000));
        assert_eq!(KeySet::read(million.as_bytes()), Err(KeySetError::TooMany));
        for text in ["", "<html>", "[]", "[[]]", "null", "1"] {
            assert_eq!(
                KeySet::read(text.as_bytes()),
                Err(KeySetError::NoObject),
                "{text}"
            );
        }
        for text in [
            "{}",
            r#"{"keys":{}}"#,
            r#"{"keys":null}"#,
            r#"{"keys":[],"keys":[]}"#,
            r#"{"keys":[{}"#,
        ] {
            let error = KeySet::read(text.as_bytes()).expect_err(text);
            assert!(
                matches!(error, KeySetError::Unreadable { .. }),
                "{text}: {error}"
            );
        }
        assert_eq!(
            KeySet::read(b"{\"keys\":[],\"x\":\"\xff\"}"),
            Err(KeySetError::NotUtf8)
        );
        let nested = format!(
            "{{\"keys\":[{}{}]}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        KeySet::read(nested.as_bytes()).expect_err("too deep");
    }

    #[test]
    fn candidates_have_the_id_and_fit_the_algorithm() {
        use SignatureAlgorithm as Algorithm;
        let mut for_one = rsa(2048);
        for_one["alg"] = json!("RS256");
        let set = read(&[for_one, ed25519("e"), ed25519("e"), ed25519("f")]).expect("keys");
        let count = |algorithm, id| match set.candidates(algorithm, id) {
            Candidates::Keys(keys) => keys.len(),
            Candidates::None => 0,
            Candidates::TooMany => usize::MAX,
        };
        assert_eq!(count(Algorithm::EdDsa, Some("e")), 2);
        assert_eq!(count(Algorithm::EdDsa, None), 3);
        assert_eq!(count(Algorithm::EdDsa, Some("r")), 0);
        assert_eq!(count(Algorithm::EdDsa, Some("")), 0);
        assert_eq!(count(Algorithm::Rs256, Some("r")), 1);
        assert_eq!(count(Algorithm::Ps256, Some("r")), 0);
        let many = read(&vec![ed25519("e"); MAX_CANDIDATES + 1]).expect("keys");
        assert_eq!(many.candidates(Algorithm::EdDsa, None), Candidates::TooMany);
    }

    #[test]
    fn a_removed_key_is_noticed() {
        let one = read(&[ed25519("a")]).expect("keys");
        let both = read(&[rsa(2048), ed25519("b")]).expect("keys");
        assert!(both.has_all(&one), "an id is no part of the key");
        assert!(!one.has_all(&both));
    }
}
