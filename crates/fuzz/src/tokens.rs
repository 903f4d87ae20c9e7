//! Access tokens from clients, against a simple reader: [`Jwt`], [`check_claims`].

use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mainstay_core::config::{SignatureAlgorithm, TrustedIssuer};
use mainstay_issuers::readers::{Claims, Jwt, TokenShape, check_claims};
use serde_json::{Map, Value};

const AUDIENCE: &str = "https://mcp";

/// The time of the checks, in seconds since 1970. Inputs are likely to have numbers like it.
const NOW: u32 = 1000;

const LEEWAY: u32 = 60;

/// Reads the bytes as a token; and then their first line as a header, and the rest as claims.
pub fn check(data: &[u8]) {
    let _ = read(data);
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let header = parts.next().unwrap_or_default();
    let claims = parts.next().unwrap_or_default();
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let token = format!(
        "{}.{}.{}",
        encode(header),
        encode(claims),
        encode(b"signature")
    );
    let Some(jwt) = read(token.as_bytes()) else {
        return;
    };
    let simple: Value = serde_json::from_slice(header).expect("a header is JSON");
    assert_eq!(
        jwt.key_id.as_deref(),
        simple.get("kid").and_then(Value::as_str)
    );
    assert!(simple["alg"].is_string() && simple.get("crit").is_none());
    let name = jwt.algorithm.map(SignatureAlgorithm::word);
    assert!(
        name.is_none() || simple["alg"] == name.unwrap_or_default() || simple["alg"] == "Ed25519"
    );
    let simple: Value = serde_json::from_slice(claims).expect("claims are JSON");
    assert_eq!(Value::Object(jwt.claims.clone()), simple);
    assert_eq!(jwt.signature, b"signature");

    let issuer = TrustedIssuer {
        groups_claim: "realm.roles".to_owned(),
        token_version_claim: Some("ver".to_owned()),
        leeway: Duration::from_secs(LEEWAY.into()),
        ..TrustedIssuer::new("https://a", AUDIENCE)
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.into());
    if let Ok(checked) = check_claims(&jwt.claims, &issuer, now) {
        check_good(&checked, &jwt.claims);
    }
}

/// `None` for bytes that are no JWT.
fn read(token: &[u8]) -> Option<Jwt<'_>> {
    match TokenShape::new(token) {
        TokenShape::Jwt(text) => {
            let jwt = Jwt::read(text).ok()?;
            let parts = token.split(|byte| *byte == b'.').count();
            assert!(parts == 3 && token.starts_with(jwt.signed));
            Some(jwt)
        }
        TokenShape::Opaque | TokenShape::Foreign => None,
    }
}

fn check_good(checked: &Claims, claims: &Map<String, Value>) {
    let is_ours = match &claims["aud"] {
        Value::Array(audiences) => audiences.iter().any(|audience| audience == AUDIENCE),
        audience => audience == AUDIENCE,
    };
    assert!(is_ours, "{claims:?}");
    let seconds = |name: &str| claims.get(name).and_then(Value::as_f64);
    let (now, leeway) = (f64::from(NOW), f64::from(LEEWAY));
    let end = seconds("exp").expect("a token has an end");
    assert!(end + leeway > now, "{claims:?}");
    for name in ["nbf", "iat"] {
        let start = seconds(name).unwrap_or_default();
        // A fraction below a nanosecond is rounded.
        assert!(
            start <= now + leeway + 1e-6 && (start < end || start == 0.0),
            "{claims:?}"
        );
    }
    assert!(claims.get("cnf").is_none_or(Value::is_null));
    assert_eq!(claims["sub"], *checked.subject);
    let is_clean = |text: &str| !text.chars().any(char::is_control);
    assert!(!checked.subject.trim().is_empty() && is_clean(&checked.subject));
    let words = checked.groups.iter().chain(&*checked.scopes);
    assert!(words.chain(&checked.client_id).all(|word| is_clean(word)));
    let version = claims.get("ver").and_then(Value::as_u64);
    assert_eq!(checked.token_version, version);
}
