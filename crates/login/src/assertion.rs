//! The signed assertion by which a client with a private key authenticates itself (RFC 7523, 2.2).

use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject as _};
use serde_json::json;

/// The value of `client_assertion_type`.
pub const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The lifetime of an assertion. An assertion is used as soon as it is signed.
const LIFETIME: Duration = Duration::from_mins(5);

/// A private key that cannot sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableKey {
    #[error("`oauth.privateKey` is no private key in PEM")]
    NoPem,
    #[error(
        "`oauth.privateKey` must be an RSA, P-256, P-384 or Ed25519 key in PKCS #8 (RSA also in PKCS #1)"
    )]
    Kind,
    #[error("`oauth.privateKey` cannot sign")]
    Signing,
}

/// A private key with its algorithm.
enum SigningKey {
    Es256(EcdsaKeyPair),
    Es384(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

impl SigningKey {
    fn from_pem(pem: &str, random: &SystemRandom) -> Result<Self, UnusableKey> {
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| UnusableKey::NoPem)?;
        let der = key.secret_der();
        if let PrivateKeyDer::Pkcs1(_) = key {
            return RsaKeyPair::from_der(der)
                .map(Self::Rs256)
                .map_err(|_| UnusableKey::Kind);
        }
        let ecdsa = |algorithm| EcdsaKeyPair::from_pkcs8(algorithm, der, random);
        let es256 = ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Self::Es256);
        es256
            .or_else(|_| ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::Es384))
            .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Self::EdDsa))
            .or_else(|_| RsaKeyPair::from_pkcs8(der).map(Self::Rs256))
            .map_err(|_| UnusableKey::Kind)
    }

    /// The name of the algorithm (RFC 7518, 3.1; RFC 8037, 3.1).
    fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::Es384(_) => "ES384",
            Self::EdDsa(_) => "EdDSA",
            Self::Rs256(_) => "RS256",
        }
    }

    fn sign(&self, random: &SystemRandom, text: &[u8]) -> Result<Vec<u8>, UnusableKey> {
        match self {
            Self::Es256(key) | Self::Es384(key) => {
                let signature = key.sign(random, text).map_err(|_| UnusableKey::Signing)?;
                Ok(signature.as_ref().to_vec())
            }
            Self::EdDsa(key) => Ok(key.sign(text).as_ref().to_vec()),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, random, text, &mut signature)
                    .map_err(|_| UnusableKey::Signing)?;
                Ok(signature)
            }
        }
    }
}

/// Returns a new assertion of the client for the authorization server `audience`.
pub fn sign_assertion(
    pem: &str,
    client_id: &str,
    audience: &str,
    now: SystemTime,
) -> Result<String, UnusableKey> {
    let random = SystemRandom::new();
    let key = SigningKey::from_pem(pem, &random)?;
    let seconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    };
    let mut id = [0; 16];
    ring::rand::SecureRandom::fill(&random, &mut id).map_err(|_| UnusableKey::Signing)?;
    let header = json!({"alg": key.algorithm(), "typ": "JWT"});
    let claims = json!({
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "jti": URL_SAFE_NO_PAD.encode(id),
        "iat": seconds(now),
        "exp": seconds(now + LIFETIME),
    });
    let encode = |json: &serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let signature = key.sign(&random, signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, KeyPair as _, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    fn pem(der: &[u8]) -> String {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
    }

    fn decode(part: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(part).expect("base64")
    }

    #[test]
    fn an_assertion_is_signed_by_the_key_and_lasts_five_minutes() {
        let random = SystemRandom::new();
        let document = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
        let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key");
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let jwt =
            sign_assertion(&pem(document.as_ref()), "me", "https://a", now).expect("an assertion");
        let (signed, signature) = jwt.rsplit_once('.').expect("three parts");
        let (header, claims) = signed.split_once('.').expect("three parts");
        let public = UnparsedPublicKey::new(&ED25519, key.public_key().as_ref());
        public
            .verify(signed.as_bytes(), &decode(signature))
            .expect("a valid signature");
        let header: Value = serde_json::from_slice(&decode(header)).expect("JSON");
        assert_eq!(header["alg"], "EdDSA");
        let claims: Value = serde_json::from_slice(&decode(claims)).expect("JSON");
        assert_eq!(claims["iss"], "me");
        assert_eq!(claims["sub"], "me");
        assert_eq!(claims["aud"], "https://a");
        assert_eq!(claims["iat"], 1000);
        assert_eq!(claims["exp"], 1300);
        let again =
            sign_assertion(&pem(document.as_ref()), "me", "https://a", now).expect("an assertion");
        assert_ne!(jwt, again, "each has an id of its own");
    }

    #[test]
    fn p256_keys_sign_with_es256() {
        let random = SystemRandom::new();
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let jwt = sign_assertion(&pem(document.as_ref()), "me", "a", SystemTime::now())
            .expect("an assertion");
        let header: Value =
            serde_json::from_slice(&decode(jwt.split('.').next().expect("a header")))
                .expect("JSON");
        assert_eq!(header["alg"], "ES256");
    }

    #[test]
    fn what_is_no_key_is_told() {
        let sign = |pem: &str| sign_assertion(pem, "me", "a", SystemTime::now());
        assert_eq!(sign("secret"), Err(UnusableKey::NoPem));
        assert_eq!(sign(&pem(b"nonsense")), Err(UnusableKey::Kind));
    }
}
