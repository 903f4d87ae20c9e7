//! Keys of issuers: they sign tokens, and have a public form for a set of keys.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair,
        RsaPublicKeyComponents,
    },
};
use serde_json::{Value, json};

/// A private RSA key of 2048 bits, for tests only: no crate of ours makes one.
const RSA_KEY: &str = include_str!("rsa-key.base64");

pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub enum Signer {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    /// With the name of the algorithm: `RS256` or `PS256`.
    Rsa(Box<RsaKeyPair>, &'static str),
}

impl Signer {
    pub fn ed25519() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(key.as_ref()).expect("a key"))
    }

    pub fn p256() -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        Self::P256(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("a key"))
    }

    pub fn p384() -> Self {
        let (algorithm, random) = (&ECDSA_P384_SHA384_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        Self::P384(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("a key"))
    }

    pub fn rsa(algorithm: &'static str) -> Self {
        let key = STANDARD.decode(RSA_KEY.replace('\n', "")).expect("base64");
        Self::Rsa(
            Box::new(RsaKeyPair::from_pkcs8(&key).expect("a key")),
            algorithm,
        )
    }

    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(_) => "EdDSA",
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Rsa(_, algorithm) => algorithm,
        }
    }

    /// The public key as an element of a set of keys.
    pub fn jwk(&self, id: &str) -> Value {
        let coordinates = |point: &[u8]| {
            let (x, y) = point[1..].split_at(point.len() / 2);
            (encode(x), encode(y))
        };
        match self {
            Self::Ed25519(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(key.public_key())})
            }
            Self::P256(key) => {
                let (x, y) = coordinates(key.public_key().as_ref());
                json!({"kty": "EC", "crv": "P-256", "kid": id, "x": x, "y": y})
            }
            Self::P384(key) => {
                let (x, y) = coordinates(key.public_key().as_ref());
                json!({"kty": "EC", "crv": "P-384", "kid": id, "x": x, "y": y})
            }
            Self::Rsa(key, _) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                let (modulus, exponent) = (encode(public.n), encode(public.e));
                json!({"kty": "RSA", "kid": id, "n": modulus, "e": exponent, "use": "sig"})
            }
        }
    }

    /// The bytes of the public key, as somebody takes them who mistakes the key for a shared secret.
    pub fn public_bytes(&self) -> Vec<u8> {
        match self {
            Self::Ed25519(key) => key.public_key().as_ref().to_vec(),
            Self::P256(key) | Self::P384(key) => key.public_key().as_ref().to_vec(),
            Self::Rsa(key, _) => key.public_key().as_ref().to_vec(),
        }
    }

    /// A token with this header and these claims.
    pub fn token(&self, header: &Value, claims: &Value) -> String {
        self.token_of_texts(&header.to_string(), claims.to_string().as_bytes())
    }

    /// A token whose parts may be no JSON.
    pub fn token_of_texts(&self, header: &str, claims: &[u8]) -> String {
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = encode(self.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::P256(key) | Self::P384(key) => key
                .sign(&random, message)
                .expect("signed")
                .as_ref()
                .to_vec(),
            Self::Rsa(key, algorithm) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let padding: &dyn ring::signature::RsaEncoding = match *algorithm {
                    "PS256" => &RSA_PSS_SHA256,
                    _pkcs1 => &RSA_PKCS1_SHA256,
                };
                key.sign(padding, &random, message, &mut signature)
                    .expect("signed");
                signature
            }
        }
    }
}
