//! Reads a JWT: its three parts, its header and its claims (RFC 7515, RFC 7519, RFC 9068). Nothing that the token says
//! is trusted before its signature is checked, and no key is ever taken from the token.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mainstay_core::config::SignatureAlgorithm;
use serde_json::{Map, Value};

use crate::{
    refusal::TokenRefusal,
    strict_json::{begins_object, read_object},
};

/// Maximum bytes of a token. Tokens with hundreds of groups have some kilobytes.
pub const MAX_TOKEN: usize = 16 * 1024;

/// Maximum bytes of a key's id.
pub const MAX_KEY_ID: usize = 256;

/// The kind of a token, by its letters alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenShape<'t> {
    Jwt(JwtText<'t>),
    /// A bearer token that is no JWT. Only its issuer can read it.
    Opaque,
    /// Not a bearer token (RFC 6750, 2.1).
    Foreign,
}

/// The parts of a JWT, in base64url. They were not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JwtText<'t> {
    header: &'t str,
    claims: &'t str,
    signature: &'t str,
    /// The bytes that are signed: header and claims.
    signed: &'t str,
}

impl<'t> TokenShape<'t> {
    pub fn new(token: &'t [u8]) -> Self {
        let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        let text = std::str::from_utf8(token).unwrap_or_default();
        if text.is_empty() || !token.iter().all(legal) {
            return Self::Foreign;
        }
        JwtText::new(text).map_or(Self::Opaque, Self::Jwt)
    }
}

impl<'t> JwtText<'t> {
    /// `None` for a text without three parts, or whose first part is no JSON object. Other tokens may have dots, too.
    fn new(text: &'t str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        (begins_object(&decode(header)?) && !claims.contains('.')).then_some(Self {
            header,
            claims,
            signature,
            signed,
        })
    }
}

/// A JWT that was read, and not yet checked.
#[derive(Debug)]
pub struct Jwt<'t> {
    /// The algorithm of the signature. `None` for one that no issuer may use, such as `none`.
    pub algorithm: Option<SignatureAlgorithm>,
    /// The id of the issuer's key.
    pub key_id: Option<String>,
    pub claims: Map<String, Value>,
    pub signed: &'t [u8],
    pub signature: Vec<u8>,
}

impl<'t> Jwt<'t> {
    pub fn read(text: JwtText<'t>) -> Result<Self, TokenRefusal> {
        let header = read_part("header", text.header)?;
        let algorithm = match header.get("alg") {
            Some(Value::String(name)) => SignatureAlgorithm::from_name(name),
            _unusable => return Err(TokenRefusal::missing("alg")),
        };
        check_type(header.get("typ"))?;
        if header.contains_key("crit") {
            return Err(TokenRefusal::Extensions);
        }
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) if id.len() <= MAX_KEY_ID => Some(id.clone()),
            Some(Value::String(_)) => return Err(TokenRefusal::bad_claim("kid", "it is too long")),
            Some(_) => return Err(TokenRefusal::bad_claim("kid", "it is no text")),
        };
        let signature = decode(text.signature).ok_or_else(|| unreadable("signature"))?;
        Ok(Self {
            algorithm,
            key_id,
            claims: read_part("claims", text.claims)?,
            signed: text.signed.as_bytes(),
            signature,
        })
    }

    /// The issuer that the token names.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }
}

/// An access token says `at+jwt` (RFC 9068, 2.1), `JWT`, or nothing. Other types are tokens for other purposes.
fn check_type(kind: Option<&Value>) -> Result<(), TokenRefusal> {
    let Some(kind) = kind else {
        return Ok(());
    };
    let name = kind.as_str().unwrap_or_default().to_ascii_lowercase();
    match name.strip_prefix("application/").unwrap_or(&name) {
        "at+jwt" | "jwt" => Ok(()),
        _other => Err(TokenRefusal::Type),
    }
}

/// Decodes base64url without padding. Each value has one spelling.
fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok()
}

fn unreadable(part: &'static str) -> TokenRefusal {
    TokenRefusal::Unreadable {
        part,
        reason: "it is no base64url".to_owned(),
    }
}

fn read_part(part: &'static str, text: &str) -> Result<Map<String, Value>, TokenRefusal> {
    let bytes = decode(text).ok_or_else(|| unreadable(part))?;
    read_object(&bytes).map_err(|error| TokenRefusal::Unreadable {
        part,
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.c2ln", encode(header), encode(claims))
    }

    fn read(token: &str) -> Result<Jwt<'_>, TokenRefusal> {
        let TokenShape::Jwt(text) = TokenShape::new(token.as_bytes()) else {
            panic!("not the shape of a JWT: {token}");
        };
        Jwt::read(text)
    }

    #[test]
    fn a_token_has_one_of_three_shapes() {
        let jwt = token(r#"{"alg":"RS256"}"#, "{}");
        for (token, expected) in [
            ("opaque-token_~+/123==", "opaque"),
            ("a.b.c", "opaque"),
            ("a.b", "opaque"),
            ("", "foreign"),
            ("a b", "foreign"),
            ("ä", "foreign"),
            ("a\"b", "foreign"),
            (&jwt, "jwt"),
            (&jwt[..jwt.len() - 4], "jwt"),
            (&format!("{jwt}.x"), "opaque"),
            (&format!("x.{jwt}"), "opaque"),
        ] {
            let shape = match TokenShape::new(token.as_bytes()) {
                TokenShape::Jwt(_) => "jwt",
                TokenShape::Opaque => "opaque",
                TokenShape::Foreign => "foreign",
            };
            assert_eq!(shape, expected, "{token}");
        }
        assert_eq!(TokenShape::new(b"\xff\xfe"), TokenShape::Foreign);
    }

    #[test]
    fn each_bad_header_has_its_refusal() {
        let long = format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(10_000));
        for (header, word) in [
            (r#"{"typ":"JWT"}"#, "missing_claim"),
            (r#"{"alg":null}"#, "missing_claim"),
            (r#"{"alg":["RS256"]}"#, "missing_claim"),
            (r#"{"alg":"RS256","alg":"none"}"#, "unreadable"),
            (r#"{"alg":"RS256""#, "unreadable"),
            (r#"{"alg":"RS256","typ":"dpop+jwt"}"#, "type"),
            (r#"{"alg":"RS256","typ":"logout+jwt"}"#, "type"),
            (r#"{"alg":"RS256","typ":1}"#, "type"),
            (
                r#"{"alg":"RS256","crit":["b64"],"b64":false}"#,
                "extensions",
            ),
            (r#"{"alg":"RS256","crit":[]}"#, "extensions"),
            (r#"{"alg":"RS256","kid":1}"#, "bad_claim"),
            (&long, "bad_claim"),
        ] {
            let refusal = read(&token(header, "{}")).expect_err(header);
            assert_eq!(refusal.word(), word, "{header}");
        }
    }

    #[test]
    fn types_of_access_tokens_are_accepted() {
        for kind in ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt"] {
            let header = format!(r#"{{"alg":"ES256","typ":"{kind}","kid":"1"}}"#);
            let token = token(&header, r#"{"iss":"https://a"}"#);
            let jwt = read(&token).expect(kind);
            assert_eq!(jwt.algorithm, Some(SignatureAlgorithm::Es256));
            assert_eq!(jwt.key_id.as_deref(), Some("1"));
            assert_eq!(jwt.issuer(), Some("https://a"));
            assert_eq!(jwt.signature, b"sig");
        }
        let token = token(r#"{"alg":"none"}"#, "{}");
        assert_eq!(read(&token).expect("read").algorithm, None);
    }

    #[test]
    fn each_value_has_one_spelling() {
        let good = token(r#"{"alg":"RS256"}"#, "{}");
        for bad in [
            format!("{good}="),
            format!("{good}+"),
            // Bits behind the last byte.
            good.replace(".c2ln", ".c2lnZZ"),
        ] {
            let refusal = read(&bad).expect_err(&bad);
            assert_eq!(refusal.word(), "unreadable", "{bad}");
        }
    }
}
