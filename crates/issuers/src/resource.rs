//! Mainstay as a protected resource: its metadata, which leads clients to the issuers (RFC 9728), and the challenge of
//! an answer without access (RFC 6750, 3; RFC 9728, 5.1).

use mainstay_core::{config::TrustedIssuer, well_known::resource_metadata_path};
use serde_json::json;

use crate::refusal::TokenRefusal;

/// The metadata of a resource whose clients get their tokens from these issuers: a JSON document.
pub fn protected_resource_metadata(
    resource: &str,
    issuers: &[TrustedIssuer],
    resource_name: &str,
) -> String {
    let servers: Vec<_> = issuers.iter().map(|issuer| &issuer.issuer).collect();
    let mut metadata = json!({
        "resource": resource,
        "authorization_servers": servers,
        "bearer_methods_supported": ["header"],
        "resource_name": resource_name,
    });
    let scopes = required_scopes(issuers);
    if !scopes.is_empty() {
        metadata["scopes_supported"] = json!(scopes);
    }
    metadata.to_string()
}

/// The scopes that tokens of any of the issuers must have, each once.
pub fn required_scopes(issuers: &[TrustedIssuer]) -> Vec<&str> {
    let mut scopes: Vec<&str> = Vec::new();
    for scope in issuers.iter().flat_map(|issuer| &issuer.required_scopes) {
        if !scopes.contains(&scope.as_str()) {
            scopes.push(scope);
        }
    }
    scopes
}

/// The URL of the metadata of a resource. `None` for a resource that is no URL.
pub fn resource_metadata_url(resource: &str) -> Option<String> {
    let (scheme, rest) = resource.split_once("://")?;
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let path_at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(path_at);
    let metadata_path = resource_metadata_path(path);
    (!authority.is_empty()).then(|| format!("{scheme}://{authority}{metadata_path}"))
}

/// The value of `WWW-Authenticate` of an answer with 401 or 403. `refusal` is `None` for a request without a token.
/// `scopes` are those that a client should ask its issuer for.
pub fn challenge(
    refusal: Option<&TokenRefusal>,
    scopes: &[&str],
    metadata_url: Option<&str>,
) -> String {
    let mut parameters = Vec::new();
    if let Some(error) = refusal.and_then(TokenRefusal::error) {
        parameters.push(("error", error.to_owned()));
    }
    if let Some(refusal) = refusal {
        parameters.push(("error_description", refusal.description().to_owned()));
    }
    let demanded = refusal.and_then(TokenRefusal::scope);
    let scope = demanded.unwrap_or_else(|| scopes.join(" "));
    if !scope.is_empty() {
        parameters.push(("scope", scope));
    }
    if let Some(url) = metadata_url {
        parameters.push(("resource_metadata", url.to_owned()));
    }
    let parameters: Vec<_> = (parameters.into_iter())
        .map(|(name, value)| format!("{name}=\"{}\"", quotable(&value)))
        .collect();
    if parameters.is_empty() {
        "Bearer".to_owned()
    } else {
        format!("Bearer {}", parameters.join(", "))
    }
}

/// The characters that a quoted value may have (RFC 6750, 3). The values come from the configuration, which was
/// checked; this is for a caller that has not.
fn quotable(value: &str) -> String {
    let is_legal = |letter: &char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
    value.chars().filter(is_legal).collect()
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use serde_json::Value;

    use super::*;

    fn issuers() -> Vec<TrustedIssuer> {
        [
            ("https://a", vec!["read"]),
            ("https://b", vec!["read", "call"]),
        ]
        .map(|(issuer, scopes)| TrustedIssuer {
            required_scopes: scopes.into_iter().map(str::to_owned).collect(),
            ..TrustedIssuer::new(issuer, "https://mcp/mcp")
        })
        .to_vec()
    }

    #[test]
    fn metadata_leads_to_the_issuers() {
        let text = protected_resource_metadata("https://mcp/mcp", &issuers(), "Mainstay of Ada");
        let metadata: Value = serde_json::from_str(&text).expect("JSON");
        let expected = json!({
            "resource": "https://mcp/mcp",
            "authorization_servers": ["https://a", "https://b"],
            "scopes_supported": ["read", "call"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Mainstay of Ada",
        });
        assert_eq!(metadata, expected);
        let plain = [TrustedIssuer::new("https://a", "x")];
        let text = protected_resource_metadata("https://mcp", &plain, "Mainstay");
        assert!(!text.contains("scopes_supported"), "{text}");
    }

    #[test]
    fn the_place_of_the_metadata_is_before_the_path() {
        for (resource, expected) in [
            (
                "https://mcp:1/mcp",
                Some("https://mcp:1/.well-known/oauth-protected-resource/mcp"),
            ),
            (
                "https://mcp/",
                Some("https://mcp/.well-known/oauth-protected-resource"),
            ),
            (
                "https://mcp?x#y",
                Some("https://mcp/.well-known/oauth-protected-resource"),
            ),
            (
                "api://mainstay/x",
                Some("api://mainstay/.well-known/oauth-protected-resource/x"),
            ),
            ("https:///x", None),
            ("mainstay", None),
        ] {
            assert_eq!(resource_metadata_url(resource).as_deref(), expected);
        }
    }

    #[test]
    fn a_challenge_names_the_error_the_scopes_and_the_metadata() {
        let url = Some("https://mcp/.well-known/oauth-protected-resource");
        let scopes = TokenRefusal::Scopes {
            missing: vec!["call".to_owned()],
            required: Arc::from(["read".to_owned(), "call".to_owned()]),
        };
        let unavailable = TokenRefusal::Unavailable {
            reason: "https://secret.internal is down".to_owned(),
            retry_after: Duration::from_millis(1500),
        };
        for (refusal, hint, url, expected) in [
            (None, &[][..], None, "Bearer"),
            (
                None,
                &["read"][..],
                url,
                r#"Bearer scope="read", resource_metadata="https://mcp/.well-known/oauth-protected-resource""#,
            ),
            (
                Some(&TokenRefusal::Signature),
                &[],
                None,
                r#"Bearer error="invalid_token", error_description="the token is not valid here""#,
            ),
            (
                Some(&TokenRefusal::Expired),
                &["read"],
                None,
                r#"Bearer error="invalid_token", error_description="the token has expired", scope="read""#,
            ),
            (
                Some(&scopes),
                &[],
                None,
                r#"Bearer error="insufficient_scope", error_description="the token lacks a scope", scope="read call""#,
            ),
            (
                Some(&unavailable),
                &[],
                None,
                r#"Bearer error_description="the token cannot be checked at present""#,
            ),
            (None, &["a\"b\\c\r\nd"], None, r#"Bearer scope="abcd""#),
        ] {
            assert_eq!(challenge(refusal, hint, url), expected);
        }
        assert_eq!((scopes.status(), unavailable.status()), (403, 503));
        assert_eq!(unavailable.retry_after_seconds(), Some(2));
        assert_eq!(TokenRefusal::Signature.status(), 401);
    }
}
