//! The URLs of metadata documents, in the order in which they are tried, and the checks of the documents
//! (specification 2026-07-28, "Authorization Server Discovery"; RFC 9728; RFC 8414; OpenID Connect Discovery 1.0).

use mainstay_core::well_known::{issuer_metadata_paths, resource_metadata_path};
use oauth2::url::{Host, Url};
use serde::{Deserialize, Serialize};

use crate::scopes::{OFFLINE_ACCESS, Scopes};

/// The URLs of a server's own metadata if its challenge names none: below its path, then at its root.
pub fn resource_metadata_urls(server: &Url) -> Vec<Url> {
    let at_root = at_path(server, &resource_metadata_path(""));
    let below_path = at_path(server, &resource_metadata_path(server.path()));
    if below_path == at_root {
        return vec![at_root];
    }
    vec![below_path, at_root]
}

/// The URLs of an authorization server's metadata.
pub fn issuer_metadata_urls(issuer: &Url) -> Vec<Url> {
    let paths = issuer_metadata_paths(issuer.path());
    paths.iter().map(|path| at_path(issuer, path)).collect()
}

/// Returns the URL with another path, without query and fragment.
fn at_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Returns the canonical URI of an MCP server, the `resource` of RFC 8707: without query and fragment, and without the
/// slash of an empty path.
pub fn canonical_resource(server: &Url) -> String {
    let url = at_path(server, server.path());
    let text = url.as_str();
    match url.path() {
        "/" => text.trim_end_matches('/').to_owned(),
        _ => text.to_owned(),
    }
}

/// True if secrets may be sent to this URL: it is HTTPS, or on this machine.
pub fn is_secure(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Metadata that must not be used. The texts are for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    #[error("it is not the JSON of such a document: {0}")]
    Unreadable(String),
    #[error("it is about the resource {found}, and the server is {expected}")]
    OtherResource { found: String, expected: String },
    #[error("it names no authorization server")]
    NoIssuer,
    #[error("it names the issuer {found}, and {expected} was asked")]
    OtherIssuer { found: String, expected: String },
    #[error("its `{member}` is no URL: {url}")]
    NoUrl { member: &'static str, url: String },
    #[error("its `{member}` is not encrypted: {url}")]
    Insecure { member: &'static str, url: String },
    #[error("it has no `{0}`")]
    Missing(&'static str),
    #[error(
        "the authorization server does not support PKCE with S256, without which a login is not safe"
    )]
    NoPkce,
}

/// The members of a protected resource's metadata that a login needs (RFC 9728, 2).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ResourceMetadata {
    /// The value for `resource` parameters, as the server writes it.
    pub resource: String,
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    #[serde(default)]
    pub scopes_supported: Option<Scopes>,
}

impl ResourceMetadata {
    /// Parses the metadata of `server`.
    pub fn read(body: &[u8], server: &Url) -> Result<Self, MetadataError> {
        let metadata: Self = read_json(body)?;
        let is_about_server =
            Url::parse(&metadata.resource).is_ok_and(|resource| is_resource_of(&resource, server));
        if !is_about_server {
            return Err(MetadataError::OtherResource {
                found: metadata.resource,
                expected: canonical_resource(server),
            });
        }
        if metadata.authorization_servers.is_empty() {
            return Err(MetadataError::NoIssuer);
        }
        Ok(metadata)
    }

    /// Returns the issuer for the login: the configured one, or the one at which Mainstay is registered, else the
    /// first. `None` if the server does not name the configured issuer.
    pub fn issuer(&self, configured: Option<&str>, registered: Option<&str>) -> Option<&str> {
        let issuers = &self.authorization_servers;
        let find = |searched: &str| {
            issuers
                .iter()
                .find(|issuer| is_same_but_slash(issuer, searched))
        };
        match configured {
            Some(configured) => find(configured),
            None => registered.and_then(find).or(issuers.first()),
        }
        .map(String::as_str)
    }
}

/// True if a resource is the server or contains it: it has the same origin, and a path above the server's. A slash at
/// the end makes no difference.
fn is_resource_of(resource: &Url, server: &Url) -> bool {
    let path = resource.path().trim_end_matches('/');
    let below = server.path().strip_prefix(path);
    resource.origin() == server.origin()
        && resource
            .query()
            .is_none_or(|query| server.query() == Some(query))
        && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

fn is_same_but_slash(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// The members of an authorization server's metadata that a login needs (RFC 8414, 2; RFC 9207, 3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerMetadata {
    pub issuer: String,
    #[serde(default)]
    pub authorization_endpoint: Option<Url>,
    pub token_endpoint: Url,
    #[serde(default)]
    pub registration_endpoint: Option<Url>,
    #[serde(default)]
    pub device_authorization_endpoint: Option<Url>,
    #[serde(default)]
    pub revocation_endpoint: Option<Url>,
    #[serde(default)]
    pub scopes_supported: Option<Scopes>,
    #[serde(default)]
    pub code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub client_id_metadata_document_supported: bool,
}

impl IssuerMetadata {
    /// Parses a document that was found at a metadata URL of `issuer`, and checks it.
    pub fn read(body: &[u8], issuer: &str) -> Result<Self, MetadataError> {
        let metadata: Self = read_json(body)?;
        if metadata.issuer != issuer {
            return Err(MetadataError::OtherIssuer {
                found: metadata.issuer,
                expected: issuer.to_owned(),
            });
        }
        metadata.check_endpoints()?;
        Ok(metadata)
    }

    /// Parses the document at the root of a server of 2025-03-26. Only the document itself names the issuer.
    pub fn read_legacy(body: &[u8], server: &Url) -> Result<Self, MetadataError> {
        let metadata: Self = read_json(body)?;
        let is_own =
            Url::parse(&metadata.issuer).is_ok_and(|issuer| issuer.origin() == server.origin());
        if !is_own {
            return Err(MetadataError::OtherIssuer {
                found: metadata.issuer,
                expected: server.origin().ascii_serialization(),
            });
        }
        metadata.check_endpoints()?;
        Ok(metadata)
    }

    /// The endpoints of a server of 2025-03-26 without metadata ("Fallbacks for Servers without Metadata Discovery").
    pub fn legacy_endpoints(server: &Url) -> Self {
        Self {
            issuer: server.origin().ascii_serialization(),
            authorization_endpoint: Some(at_path(server, "/authorize")),
            token_endpoint: at_path(server, "/token"),
            registration_endpoint: Some(at_path(server, "/register")),
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: None,
            // The specification requires PKCE of these servers, but they cannot announce it.
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            token_endpoint_auth_methods_supported: None,
            authorization_response_iss_parameter_supported: false,
            client_id_metadata_document_supported: false,
        }
    }

    fn check_endpoints(&self) -> Result<(), MetadataError> {
        let endpoints = [
            (
                "authorization_endpoint",
                self.authorization_endpoint.as_ref(),
            ),
            ("token_endpoint", Some(&self.token_endpoint)),
            ("registration_endpoint", self.registration_endpoint.as_ref()),
            (
                "device_authorization_endpoint",
                self.device_authorization_endpoint.as_ref(),
            ),
            ("revocation_endpoint", self.revocation_endpoint.as_ref()),
        ];
        for (member, endpoint) in endpoints {
            if let Some(url) = endpoint.filter(|url| !is_secure(url)) {
                let url = url.to_string();
                return Err(MetadataError::Insecure { member, url });
            }
        }
        Ok(())
    }

    /// The endpoint for a browser. The authorization server must support PKCE ("Authorization Code Protection").
    pub fn authorization_endpoint(&self) -> Result<&Url, MetadataError> {
        let methods = self.code_challenge_methods_supported.as_deref();
        if !methods
            .unwrap_or_default()
            .iter()
            .any(|method| method == "S256")
        {
            return Err(MetadataError::NoPkce);
        }
        self.authorization_endpoint
            .as_ref()
            .ok_or(MetadataError::Missing("authorization_endpoint"))
    }
}

fn read_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, MetadataError> {
    serde_json::from_slice(body).map_err(|error| MetadataError::Unreadable(error.to_string()))
}

/// The scopes to request at a first login ("Scope Selection Strategy"): those of the configuration, else of the
/// challenge, else of the resource. `offline_access` is added if the authorization server supports it, because it
/// brings a refresh token.
pub fn scopes_to_request(
    configured: &Scopes,
    challenged: Option<&Scopes>,
    resource: Option<&Scopes>,
    issuer: &IssuerMetadata,
) -> Scopes {
    let scopes = if configured.is_empty() {
        challenged.or(resource).cloned().unwrap_or_default()
    } else {
        configured.clone()
    };
    let has_offline = issuer
        .scopes_supported
        .as_ref()
        .is_some_and(|supported| supported.contains(OFFLINE_ACCESS));
    if has_offline && !scopes.is_empty() {
        scopes.union(&Scopes::parse(OFFLINE_ACCESS))
    } else {
        scopes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn texts(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn metadata_is_looked_for_in_the_specified_order() {
        assert_eq!(
            texts(&resource_metadata_urls(&url(
                "https://h:1/public/mcp/?key=1#f"
            ))),
            [
                "https://h:1/.well-known/oauth-protected-resource/public/mcp",
                "https://h:1/.well-known/oauth-protected-resource",
            ]
        );
        assert_eq!(
            texts(&resource_metadata_urls(&url("https://h/"))),
            ["https://h/.well-known/oauth-protected-resource"]
        );
        assert_eq!(
            texts(&issuer_metadata_urls(&url("https://a/tenant1"))),
            [
                "https://a/.well-known/oauth-authorization-server/tenant1",
                "https://a/.well-known/openid-configuration/tenant1",
                "https://a/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            texts(&issuer_metadata_urls(&url("https://a"))),
            [
                "https://a/.well-known/oauth-authorization-server",
                "https://a/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn the_canonical_resource_has_no_query_and_no_slash_of_an_empty_path() {
        for (server, resource) in [
            ("HTTPS://MCP.Example.com", "https://mcp.example.com"),
            ("https://h:8443/?a=1", "https://h:8443"),
            ("https://h/server/mcp#x", "https://h/server/mcp"),
            ("https://h/mcp/", "https://h/mcp/"),
        ] {
            assert_eq!(canonical_resource(&url(server)), resource);
        }
    }

    #[test]
    fn a_resource_must_contain_the_server() {
        let read = |resource: &str| {
            let body = json!({"resource": resource, "authorization_servers": ["https://a"]});
            ResourceMetadata::read(body.to_string().as_bytes(), &url("https://h/v1/mcp"))
        };
        for resource in [
            "https://h/v1/mcp",
            "https://h/v1/mcp/",
            "https://h/v1",
            "https://h",
            "https://H:443/",
        ] {
            assert_eq!(read(resource).expect(resource).resource, resource);
        }
        for resource in [
            "https://h/v1/m",
            "https://h/v2",
            "http://h/v1/mcp",
            "https://other/v1/mcp",
            "https://h:1",
            "h",
        ] {
            let error = read(resource).expect_err(resource);
            assert!(
                matches!(error, MetadataError::OtherResource { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn the_issuer_is_the_configured_one_the_registered_one_or_the_first() {
        let metadata = ResourceMetadata {
            resource: "https://h".to_owned(),
            authorization_servers: vec!["https://a".to_owned(), "https://b/".to_owned()],
            scopes_supported: None,
        };
        for (configured, registered, expected) in [
            (None, None, Some("https://a")),
            (None, Some("https://b"), Some("https://b/")),
            (None, Some("https://gone"), Some("https://a")),
            (Some("https://b/"), Some("https://a"), Some("https://b/")),
            (Some("https://c"), None, None),
        ] {
            assert_eq!(metadata.issuer(configured, registered), expected);
        }
    }

    fn issuer_document() -> Value {
        json!({
            "issuer": "https://a/t",
            "authorization_endpoint": "https://a/t/authorize",
            "token_endpoint": "https://a/t/token",
            "code_challenge_methods_supported": ["plain", "S256"],
            "unknown": {"x": 1},
        })
    }

    #[test]
    fn an_issuer_is_compared_letter_by_letter() {
        let body = issuer_document().to_string();
        let read = |issuer: &str| IssuerMetadata::read(body.as_bytes(), issuer);
        assert!(read("https://a/t").is_ok());
        for issuer in [
            "https://a/t/",
            "https://A/t",
            "https://a:443/t",
            "https://b/t",
        ] {
            let error = read(issuer).expect_err(issuer);
            assert!(
                matches!(error, MetadataError::OtherIssuer { .. }),
                "{error}"
            );
        }
        assert!(IssuerMetadata::read_legacy(body.as_bytes(), &url("https://a/mcp")).is_ok());
        assert!(IssuerMetadata::read_legacy(body.as_bytes(), &url("https://b/mcp")).is_err());
    }

    #[test]
    fn endpoints_that_are_not_encrypted_are_refused() {
        for member in [
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "device_authorization_endpoint",
        ] {
            let mut document = issuer_document();
            document[member] = json!("http://a.example/x");
            let error = IssuerMetadata::read(document.to_string().as_bytes(), "https://a/t");
            let error = error.expect_err(member);
            assert_eq!(
                error.to_string(),
                format!("its `{member}` is not encrypted: http://a.example/x")
            );
            document[member] = json!("http://127.0.0.1:1/x");
            assert!(IssuerMetadata::read(document.to_string().as_bytes(), "https://a/t").is_ok());
        }
    }

    #[test]
    fn a_login_in_a_browser_needs_pkce() {
        for (methods, is_good) in [
            (json!(["S256"]), true),
            (json!(["plain"]), false),
            (json!([]), false),
            (Value::Null, false),
        ] {
            let mut document = issuer_document();
            document["code_challenge_methods_supported"] = methods;
            let metadata = IssuerMetadata::read(document.to_string().as_bytes(), "https://a/t")
                .expect("metadata");
            assert_eq!(
                metadata.authorization_endpoint().is_ok(),
                is_good,
                "{document}"
            );
        }
    }

    #[test]
    fn a_page_is_no_metadata() {
        let error = IssuerMetadata::read(b"<html>", "https://a").expect_err("an error");
        assert!(matches!(error, MetadataError::Unreadable(_)), "{error}");
    }

    #[test]
    fn scopes_come_from_the_configuration_the_challenge_or_the_resource() {
        let mut issuer = IssuerMetadata::legacy_endpoints(&url("https://a"));
        let none = Scopes::default();
        let [a, b, c] = ["a", "b", "c"].map(Scopes::parse);
        let request = |issuer: &_, configured, challenged, resource| {
            scopes_to_request(configured, challenged, resource, issuer).to_string()
        };
        assert_eq!(request(&issuer, &a, Some(&b), Some(&c)), "a");
        assert_eq!(request(&issuer, &none, Some(&b), Some(&c)), "b");
        assert_eq!(request(&issuer, &none, None, Some(&c)), "c");
        assert_eq!(request(&issuer, &none, None, None), "");
        issuer.scopes_supported = Some(Scopes::parse("openid offline_access"));
        assert_eq!(request(&issuer, &none, Some(&b), None), "b offline_access");
    }
}
