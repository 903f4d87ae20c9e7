//! Checks the claims of a token, whether a JWT holds them or an introspection answers them.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::config::TrustedIssuer;
use serde_json::{Map, Value};

use crate::refusal::TokenRefusal;

/// Maximum bytes of a subject. OpenID Connect allows 255.
const MAX_SUBJECT: usize = 256;

/// Maximum groups of a subject, and scopes of a token. More would not fit into a token of 16 KiB.
const MAX_WORDS: usize = 1000;

/// Maximum bytes of a group, a scope or a client's id.
const MAX_WORD: usize = 512;

/// Members on the way to a claim, such as 2 in `realm_access.roles`.
const MAX_PATH: usize = 8;

/// Maximum remaining lifetime of a token. An access token lives for minutes or hours; an end beyond this is a mistake.
const MAX_LIFETIME: Duration = Duration::from_hours(24 * 366);

/// The latest time of a claim: the end of the year 9999.
const MAX_TIME: f64 = 253_402_300_799.0;

/// Words of a claim: groups or scopes.
pub type ClaimWords = Arc<[Arc<str>]>;

/// The claims of a token that were checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    pub subject: Arc<str>,
    pub groups: ClaimWords,
    pub scopes: ClaimWords,
    pub client_id: Option<Arc<str>>,
    /// The end of the token, with the leeway of its issuer.
    pub expires_at: SystemTime,
    pub token_version: Option<u64>,
}

/// Checks all claims but `iss`, which has led to the issuer. Scopes are the last check: [`missing_scopes`].
pub fn check_claims(
    claims: &Map<String, Value>,
    issuer: &TrustedIssuer,
    now: SystemTime,
) -> Result<Claims, TokenRefusal> {
    check_audience(claims, &issuer.audience)?;
    let expires_at = check_times(claims, issuer.leeway, now)?;
    // A token that is bound to a key must not be accepted from whoever holds it (RFC 9449, 7.1; RFC 8705, 3).
    if claims.get("cnf").is_some_and(|bound| !bound.is_null()) {
        return Err(TokenRefusal::Bound);
    }
    Ok(Claims {
        subject: subject(claims, &issuer.principal_claim)?,
        groups: groups(claims, &issuer.groups_claim)?,
        scopes: scopes(claims)?,
        client_id: client_id(claims)?,
        expires_at,
        token_version: match &issuer.token_version_claim {
            Some(name) => version(claims, name)?,
            None => None,
        },
    })
}

/// The scopes that an issuer's tokens must have and this token lacks.
pub fn missing_scopes(scopes: &ClaimWords, required: &[String]) -> Vec<String> {
    let is_missing = |scope: &&String| !scopes.iter().any(|present| **present == ***scope);
    required.iter().filter(is_missing).cloned().collect()
}

fn check_audience(claims: &Map<String, Value>, audience: &str) -> Result<(), TokenRefusal> {
    let is_ours = match claims.get("aud") {
        None | Some(Value::Null) => return Err(TokenRefusal::missing("aud")),
        Some(Value::String(named)) => named == audience,
        Some(Value::Array(named)) => {
            if !named.iter().all(Value::is_string) {
                return Err(TokenRefusal::bad_claim(
                    "aud",
                    "it has a value that is no text",
                ));
            }
            named.iter().any(|named| named.as_str() == Some(audience))
        }
        Some(_) => return Err(TokenRefusal::bad_claim("aud", "it is no text and no list")),
    };
    if is_ours {
        Ok(())
    } else {
        Err(TokenRefusal::Audience)
    }
}

/// Returns the end of the token with the leeway.
fn check_times(
    claims: &Map<String, Value>,
    leeway: Duration,
    now: SystemTime,
) -> Result<SystemTime, TokenRefusal> {
    let end = time(claims, "exp")?.ok_or_else(|| TokenRefusal::missing("exp"))?;
    let expires_at = end + leeway;
    if expires_at <= now {
        return Err(TokenRefusal::Expired);
    }
    if end > now + MAX_LIFETIME {
        return Err(TokenRefusal::bad_claim("exp", "it is years away"));
    }
    for name in ["nbf", "iat"] {
        let Some(start) = time(claims, name)? else {
            continue;
        };
        if start > now + leeway {
            return Err(TokenRefusal::NotYet);
        }
        if start >= end {
            return Err(TokenRefusal::bad_claim(name, "it is not before `exp`"));
        }
    }
    Ok(expires_at)
}

/// A `NumericDate` (RFC 7519, 2): seconds, which may have a fraction.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<SystemTime>, TokenRefusal> {
    let seconds = match claims.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(seconds)) => seconds.as_f64(),
        Some(_) => return Err(TokenRefusal::bad_claim(name, "it is no number")),
    };
    let seconds = seconds.filter(|seconds| (0.0..=MAX_TIME).contains(seconds));
    let since = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since)) {
        Some(time) => Ok(Some(time)),
        None => Err(TokenRefusal::bad_claim(name, "it is no point in time")),
    }
}

fn subject(claims: &Map<String, Value>, name: &str) -> Result<Arc<str>, TokenRefusal> {
    let subject = match find(claims, name) {
        None | Some(Value::Null) => return Err(TokenRefusal::missing(name)),
        Some(Value::String(subject)) => subject,
        Some(_) => return Err(TokenRefusal::bad_claim(name, "it is no text")),
    };
    if subject.trim().is_empty() {
        return Err(TokenRefusal::bad_claim(name, "it is empty"));
    }
    check_word(name, subject, MAX_SUBJECT)?;
    Ok(subject.as_str().into())
}

fn check_word(name: &str, word: &str, limit: usize) -> Result<(), TokenRefusal> {
    if word.len() > limit {
        return Err(TokenRefusal::bad_claim(name, "it is too long"));
    }
    if word.chars().any(char::is_control) {
        return Err(TokenRefusal::bad_claim(name, "it has a control character"));
    }
    Ok(())
}

/// The claim with this name, else the claim at this path: names may contain dots, such as those that are URLs.
fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let mut members = name.split('.').take(MAX_PATH);
    let first = claims.get(members.next()?)?;
    members.try_fold(first, |value, member| value.get(member))
}

/// The character that separates the words of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    Blank,
    /// A text is one word.
    None,
}

/// The words of a claim: a list of texts, or a text. Empty without the claim. No word is left out: a rule may be about
/// that word.
fn words(
    claims: &Map<String, Value>,
    name: &str,
    separator: Separator,
) -> Result<ClaimWords, TokenRefusal> {
    let listed: Vec<&str> = match find(claims, name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) if separator == Separator::Blank => {
            text.split_ascii_whitespace().collect()
        }
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(values)) => {
            let texts = values.iter().map(Value::as_str);
            let texts = texts.collect::<Option<Vec<_>>>();
            texts.ok_or_else(|| TokenRefusal::bad_claim(name, "it has a value that is no text"))?
        }
        Some(_) => return Err(TokenRefusal::bad_claim(name, "it is no text and no list")),
    };
    if listed.len() > MAX_WORDS {
        return Err(TokenRefusal::bad_claim(name, "it has too many words"));
    }
    for word in &listed {
        check_word(name, word, MAX_WORD)?;
    }
    Ok(listed.into_iter().map(Arc::from).collect())
}

/// The groups. A token whose groups did not fit names a place to ask for them (OpenID Connect Core 1.0, 5.6.2). Without
/// them a rule about a group would not find its group.
fn groups(claims: &Map<String, Value>, name: &str) -> Result<ClaimWords, TokenRefusal> {
    let elsewhere = claims.get("_claim_names");
    if elsewhere.is_some_and(|names| names.get(name).is_some()) {
        return Err(TokenRefusal::bad_claim(name, "it is not in the token"));
    }
    words(claims, name, Separator::None)
}

/// The scopes, in the claim of RFC 9068 or in `scp`, which some authorization servers write.
fn scopes(claims: &Map<String, Value>) -> Result<ClaimWords, TokenRefusal> {
    let name = if claims.contains_key("scope") {
        "scope"
    } else {
        "scp"
    };
    words(claims, name, Separator::Blank)
}

fn client_id(claims: &Map<String, Value>) -> Result<Option<Arc<str>>, TokenRefusal> {
    for name in ["client_id", "azp"] {
        match claims.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(id)) => {
                check_word(name, id, MAX_WORD)?;
                return Ok(Some(id.as_str().into()));
            }
            Some(_) => return Err(TokenRefusal::bad_claim(name, "it is no text")),
        }
    }
    Ok(None)
}

fn version(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, TokenRefusal> {
    match find(claims, name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(version)) if version.is_u64() => Ok(version.as_u64()),
        Some(_) => Err(TokenRefusal::bad_claim(name, "it is no whole number")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn issuer() -> TrustedIssuer {
        TrustedIssuer::new("https://a", "https://mcp")
    }

    fn good() -> Value {
        json!({
            "iss": "https://a",
            "aud": "https://mcp",
            "sub": "ada",
            "iat": NOW - 10,
            "exp": NOW + 300,
        })
    }

    fn check_with(issuer: &TrustedIssuer, claims: &Value) -> Result<Claims, TokenRefusal> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        check_claims(claims.as_object().expect("an object"), issuer, now)
    }

    fn answer(name: &str, value: &Value) -> String {
        let mut claims = good();
        if value == &json!("absent") {
            claims.as_object_mut().expect("an object").remove(name);
        } else {
            claims[name] = value.clone();
        }
        match check_with(&issuer(), &claims) {
            Ok(_) => "good".to_owned(),
            Err(refusal) => refusal.word().to_owned(),
        }
    }

    #[test]
    fn each_claim_has_its_answers() {
        let absent = json!("absent");
        for (name, value, expected) in [
            ("aud", json!("https://mcp"), "good"),
            ("aud", json!(["https://other", "https://mcp"]), "good"),
            ("aud", json!("https://mcp/"), "audience"),
            ("aud", json!("https://MCP"), "audience"),
            ("aud", json!("https://mcp.evil"), "audience"),
            ("aud", json!(["https://other"]), "audience"),
            ("aud", json!([]), "audience"),
            ("aud", json!(["https://mcp", 1]), "bad_claim"),
            ("aud", json!({"https://mcp": 1}), "bad_claim"),
            ("aud", Value::Null, "missing_claim"),
            ("aud", absent.clone(), "missing_claim"),
            // One minute of leeway.
            ("exp", json!(NOW - 59), "bad_claim"),
            ("exp", json!(NOW - 60), "expired"),
            ("exp", json!(0), "expired"),
            ("exp", json!(1_800_000_000.5), "good"),
            ("exp", json!((NOW + 300).to_string()), "bad_claim"),
            ("exp", json!(-1), "bad_claim"),
            ("exp", json!(1e300), "bad_claim"),
            ("exp", json!(u64::MAX), "bad_claim"),
            ("exp", json!(NOW + 3 * 366 * 86400), "bad_claim"),
            ("exp", json!([NOW + 300]), "bad_claim"),
            ("exp", json!(true), "bad_claim"),
            ("exp", absent.clone(), "missing_claim"),
            ("nbf", json!(NOW + 60), "good"),
            ("nbf", json!(NOW + 61), "not_yet_valid"),
            ("nbf", json!("0"), "bad_claim"),
            ("iat", json!(NOW + 60), "good"),
            ("iat", json!(NOW + 61), "not_yet_valid"),
            ("iat", json!(1e19), "bad_claim"),
            ("iat", absent.clone(), "good"),
            ("sub", absent.clone(), "missing_claim"),
            ("sub", json!(""), "bad_claim"),
            ("sub", json!(" "), "bad_claim"),
            ("sub", json!("a\nb"), "bad_claim"),
            ("sub", json!("a\u{85}b"), "bad_claim"),
            ("sub", json!("a".repeat(256)), "good"),
            ("sub", json!("a".repeat(257)), "bad_claim"),
            ("sub", json!(7), "bad_claim"),
            ("groups", json!(["a", "b"]), "good"),
            ("groups", json!(["a", 1]), "bad_claim"),
            ("groups", json!(["a\n"]), "bad_claim"),
            ("groups", json!({"a": true}), "bad_claim"),
            ("groups", json!(vec!["g"; 1001]), "bad_claim"),
            ("groups", json!(["g".repeat(513)]), "bad_claim"),
            ("_claim_names", json!({"groups": "src1"}), "bad_claim"),
            ("_claim_names", json!({"photo": "src1"}), "good"),
            ("scope", json!(1), "bad_claim"),
            ("client_id", json!([]), "bad_claim"),
            ("cnf", json!({"jkt": "x"}), "bound"),
            ("cnf", json!("x"), "bound"),
        ] {
            assert_eq!(answer(name, &value), expected, "{name}: {value}");
        }
    }

    #[test]
    fn an_end_within_the_leeway_is_good() {
        let mut claims = good();
        claims["iat"] = json!(NOW - 1000);
        claims["exp"] = json!(NOW - 59);
        let checked = check_with(&issuer(), &claims).expect("good");
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW + 1);
        assert_eq!(checked.expires_at, end);
    }

    #[test]
    fn claims_are_found_by_name_and_by_path() {
        let mut claims = good();
        claims["realm_access"] = json!({"roles": ["admin"], "name": "ada@x", "version": 4});
        claims["https://x.example/groups"] = json!("staff");
        claims["scp"] = json!(["read", "write"]);
        claims["azp"] = json!("laptop");
        let named = |groups: &str| TrustedIssuer {
            groups_claim: groups.to_owned(),
            principal_claim: "realm_access.name".to_owned(),
            token_version_claim: Some("realm_access.version".to_owned()),
            ..issuer()
        };
        let checked = check_with(&named("realm_access.roles"), &claims).expect("good");
        assert_eq!(*checked.groups, [Arc::from("admin")]);
        assert_eq!(&*checked.subject, "ada@x");
        assert_eq!(checked.token_version, Some(4));
        assert_eq!(checked.client_id.as_deref(), Some("laptop"));
        assert_eq!(*checked.scopes, [Arc::from("read"), Arc::from("write")]);
        let checked = check_with(&named("https://x.example/groups"), &claims).expect("good");
        assert_eq!(*checked.groups, [Arc::from("staff")]);
        let checked = check_with(&named("realm_access.none.at.all"), &claims).expect("good");
        assert!(checked.groups.is_empty());
        let missing = missing_scopes(&checked.scopes, &["read".to_owned(), "rea".to_owned()]);
        assert_eq!(missing, ["rea"]);
    }

    #[test]
    fn a_version_is_a_whole_number() {
        let issuer = TrustedIssuer {
            token_version_claim: Some("ver".to_owned()),
            ..issuer()
        };
        for (value, is_good) in [
            (json!(0), true),
            (Value::Null, true),
            (json!(-1), false),
            (json!(1.5), false),
            (json!("1"), false),
        ] {
            let mut claims = good();
            claims["ver"] = value.clone();
            assert_eq!(check_with(&issuer, &claims).is_ok(), is_good, "{value}");
        }
    }
}
