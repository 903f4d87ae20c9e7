//! Authorization servers whose tokens open Mainstay: Mainstay as a resource server of OAuth 2.1 (MCP specification
//! 2026-07-28, "Authorization").

use std::{net::IpAddr, time::Duration};

use super::{NetworkSettings, Secret};
use crate::words::words;

/// The largest difference between two clocks that is forgiven.
pub const MAX_LEEWAY: Duration = Duration::from_mins(10);

/// Issuers in one configuration at most.
pub const MAX_ISSUERS: usize = 32;

/// Scopes that an issuer's tokens may be required to have, at most.
pub const MAX_REQUIRED_SCOPES: usize = 50;

/// The longest text of a setting, in bytes.
const MAX_TEXT: usize = 2048;

/// An authorization server whose tokens are accepted, and the checks of its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// The URL of the issuer, letter by letter as its tokens name it (`issuer`).
    pub issuer: String,
    /// The identifier of this Mainstay that each token must carry (`audience`; RFC 8707).
    pub audience: String,
    /// The URL of the issuer's keys (`jwksUri`). `None` finds it in the issuer's metadata.
    pub jwks_uri: Option<String>,
    /// The algorithms that a token may be signed with (`algorithms`).
    pub algorithms: Vec<SignatureAlgorithm>,
    /// The way to check tokens that are no JWT (`introspection`). `None` accepts no such tokens.
    pub introspection: Option<IntrospectionSettings>,
    /// The claim with the groups of the subject (`groupsClaim`): a name, or a path such as `realm_access.roles`.
    pub groups_claim: String,
    /// The claim that names the subject (`principalClaim`).
    pub principal_claim: String,
    /// The scopes that each token must have (`requiredScopes`).
    pub required_scopes: Vec<String>,
    /// The difference between the issuer's clock and ours that is forgiven (`leewaySeconds`).
    pub leeway: Duration,
    /// The claim with the version of the subject's tokens (`tokenVersion`). `None` reads no version.
    pub token_version_claim: Option<String>,
    /// The proxy and the certificates of requests to the issuer.
    pub network: NetworkSettings,
}

impl TrustedIssuer {
    /// An issuer with the defaults of all other settings.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            audience: audience.into(),
            jwks_uri: None,
            algorithms: SignatureAlgorithm::DEFAULT.to_vec(),
            introspection: None,
            groups_claim: "groups".to_owned(),
            principal_claim: "sub".to_owned(),
            required_scopes: Vec::new(),
            leeway: Duration::from_mins(1),
            token_version_claim: None,
            network: NetworkSettings::default(),
        }
    }

    /// Checks the settings of this issuer alone.
    pub fn check(&self) -> Result<(), IssuerFault> {
        check_url("issuer", &self.issuer)?;
        if self.issuer.contains(['?', '#']) {
            return Err(IssuerFault::Query);
        }
        let endpoint =
            (self.introspection.as_ref()).and_then(|settings| settings.endpoint.as_deref());
        for (key, url) in [
            ("jwksUri", self.jwks_uri.as_deref()),
            ("introspection.endpoint", endpoint),
        ] {
            url.map_or(Ok(()), |url| check_url(key, url))?;
        }
        let client_id = (self.introspection.as_ref()).map_or("-", |settings| &settings.client_id);
        for (key, text) in [
            ("audience", self.audience.as_str()),
            ("groupsClaim", &self.groups_claim),
            ("principalClaim", &self.principal_claim),
            (
                "tokenVersion",
                self.token_version_claim.as_deref().unwrap_or("-"),
            ),
            ("introspection.clientId", client_id),
        ] {
            if text.is_empty() || text.len() > MAX_TEXT || text.chars().any(char::is_control) {
                return Err(IssuerFault::Text { key });
            }
        }
        if self.algorithms.is_empty() {
            return Err(IssuerFault::NoAlgorithm);
        }
        if self.leeway > MAX_LEEWAY {
            return Err(IssuerFault::Leeway);
        }
        if self.required_scopes.len() > MAX_REQUIRED_SCOPES {
            return Err(IssuerFault::TooManyScopes);
        }
        match self.required_scopes.iter().find(|scope| !is_scope(scope)) {
            Some(scope) => Err(IssuerFault::Scope(scope.clone())),
            None => Ok(()),
        }
    }
}

/// Checks a list of issuers: each of them, and that they are told apart.
pub fn check_issuers(issuers: &[TrustedIssuer]) -> Result<(), (usize, IssuerFault)> {
    for (index, issuer) in issuers.iter().enumerate() {
        issuer.check().map_err(|fault| (index, fault))?;
        let former = &issuers[..index];
        if index >= MAX_ISSUERS {
            return Err((index, IssuerFault::TooManyIssuers));
        }
        if former.iter().any(|other| other.issuer == issuer.issuer) {
            return Err((index, IssuerFault::Twice(issuer.issuer.clone())));
        }
        // A token that is no JWT does not name its issuer. It must not be shown to a second one.
        let has_introspection = |other: &TrustedIssuer| other.introspection.is_some();
        if has_introspection(issuer) && former.iter().any(has_introspection) {
            return Err((index, IssuerFault::SecondIntrospection));
        }
    }
    Ok(())
}

/// The way to check tokens that are no JWT: the issuer is asked (RFC 7662).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntrospectionSettings {
    /// The URL to ask at (`endpoint`). `None` finds it in the issuer's metadata.
    pub endpoint: Option<String>,
    /// The id of this Mainstay at the issuer (`clientId`).
    pub client_id: String,
    /// The secret of that id (`clientSecret`).
    pub client_secret: Secret,
}

/// An algorithm of signatures (RFC 7518, 3.1; RFC 8037, 3.1). `none` and the symmetric `HS256` are no such algorithms:
/// whoever knows the public key could sign with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

words!(SignatureAlgorithm {
    "RS256" => Rs256,
    "RS384" => Rs384,
    "RS512" => Rs512,
    "PS256" => Ps256,
    "PS384" => Ps384,
    "PS512" => Ps512,
    "ES256" => Es256,
    "ES384" => Es384,
    "EdDSA" => EdDsa,
});

impl SignatureAlgorithm {
    /// The algorithms of an issuer without `algorithms`.
    pub const DEFAULT: [Self; 4] = [Self::Rs256, Self::Es256, Self::EdDsa, Self::Ps256];

    /// The algorithm with this name in a token or a key. `Ed25519` is the later name of `EdDSA` with that curve
    /// (RFC 9864), the only curve that is supported.
    pub fn from_name(name: &str) -> Option<Self> {
        use crate::words::SettingWords as _;
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        (Self::VALUES.iter().copied()).find(|algorithm| algorithm.word() == name)
    }
}

/// An unusable setting of an issuer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IssuerFault {
    #[error("`{key}` must be an https URL without a user, or an http URL of this machine: {url:?}")]
    Url { key: &'static str, url: String },
    #[error("`issuer` must have no query and no fragment")]
    Query,
    #[error("`{key}` must be a text of 1 to {MAX_TEXT} bytes without control characters")]
    Text { key: &'static str },
    #[error("`algorithms` must name an algorithm")]
    NoAlgorithm,
    #[error("`leewaySeconds` must be at most {}", MAX_LEEWAY.as_secs())]
    Leeway,
    #[error("`requiredScopes` must have at most {MAX_REQUIRED_SCOPES} scopes")]
    TooManyScopes,
    #[error("`requiredScopes` has {0:?}, which is no scope: a word without blanks and quotes")]
    Scope(String),
    #[error("there are more than {MAX_ISSUERS} issuers")]
    TooManyIssuers,
    #[error("the issuer {0} is listed twice")]
    Twice(String),
    #[error(
        "a second issuer has `introspection`; a token that is no JWT does not say which one to ask"
    )]
    SecondIntrospection,
}

impl IssuerFault {
    /// The key of the setting, below the issuer's entry. `None` for a fault of the list.
    pub fn key(&self) -> Option<&'static str> {
        match self {
            Self::Url { key, .. } | Self::Text { key } => Some(key),
            Self::Query | Self::Twice(_) => Some("issuer"),
            Self::NoAlgorithm => Some("algorithms"),
            Self::Leeway => Some("leewaySeconds"),
            Self::TooManyScopes | Self::Scope(_) => Some("requiredScopes"),
            Self::SecondIntrospection => Some("introspection"),
            Self::TooManyIssuers => None,
        }
    }
}

fn check_url(key: &'static str, url: &str) -> Result<(), IssuerFault> {
    if is_secure_url(url) {
        return Ok(());
    }
    let url = url.chars().take(200).collect();
    Err(IssuerFault::Url { key, url })
}

/// True if secrets and keys may travel to and from this URL: it is HTTPS, or leads to this machine. It has no user.
pub fn is_secure_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_text = url.len() <= MAX_TEXT && url.bytes().all(|byte| byte.is_ascii_graphic());
    let has_quote = url.contains(['"', '\\', '<', '>']);
    if authority.is_empty() || authority.contains('@') || !is_text || has_quote {
        return false;
    }
    match scheme {
        "https" => true,
        "http" => is_loopback(authority),
        _ => false,
    }
}

/// True for `localhost`, names below it, and loopback addresses, with or without a port.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// True for a `scope-token` (RFC 6749, 3.3).
fn is_scope(scope: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    (1..=MAX_TEXT).contains(&scope.len()) && scope.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer() -> TrustedIssuer {
        TrustedIssuer::new("https://login.example/t", "https://mcp.example/mcp")
    }

    fn introspection() -> IntrospectionSettings {
        IntrospectionSettings {
            endpoint: None,
            client_id: "mainstay".to_owned(),
            client_secret: Secret::new("hush"),
        }
    }

    #[test]
    fn the_defaults_are_valid_and_hide_the_secret() {
        let issuer = TrustedIssuer {
            introspection: Some(introspection()),
            ..issuer()
        };
        assert_eq!(issuer.check(), Ok(()));
        assert!(!format!("{issuer:?}").contains("hush"));
        assert_eq!(check_issuers(&[issuer]), Ok(()));
    }

    #[test]
    fn each_bad_setting_is_named() {
        type Change = fn(&mut TrustedIssuer);
        let rows: [(&str, Change); 15] = [
            ("issuer", |issuer| issuer.issuer = String::new()),
            ("issuer", |issuer| issuer.issuer = "http://a.example".into()),
            ("issuer", |issuer| issuer.issuer = "https://u:p@a".into()),
            ("issuer", |issuer| issuer.issuer = "https://a/?x=1".into()),
            ("issuer", |issuer| issuer.issuer = "https://a/\"".into()),
            ("audience", |issuer| issuer.audience = String::new()),
            ("audience", |issuer| issuer.audience = "a\n".into()),
            ("jwksUri", |issuer| {
                issuer.jwks_uri = Some("ftp://a/keys".into());
            }),
            ("introspection.endpoint", |issuer| {
                let endpoint = Some("http://a.example/".into());
                issuer.introspection = Some(IntrospectionSettings {
                    endpoint,
                    ..introspection()
                });
            }),
            ("introspection.clientId", |issuer| {
                let client_id = String::new();
                issuer.introspection = Some(IntrospectionSettings {
                    client_id,
                    ..introspection()
                });
            }),
            ("algorithms", |issuer| issuer.algorithms.clear()),
            ("principalClaim", |issuer| issuer.principal_claim.clear()),
            ("tokenVersion", |issuer| {
                issuer.token_version_claim = Some(String::new());
            }),
            ("leewaySeconds", |issuer| {
                issuer.leeway = Duration::from_hours(1);
            }),
            ("requiredScopes", |issuer| {
                issuer.required_scopes = vec!["a b".into()];
            }),
        ];
        for (key, change) in rows {
            let mut issuer = issuer();
            change(&mut issuer);
            let fault = issuer.check().expect_err(key);
            assert_eq!(fault.key(), Some(key), "{fault}");
        }
    }

    #[test]
    fn issuers_are_told_apart() {
        assert_eq!(
            check_issuers(&[issuer(), issuer()]),
            Err((1, IssuerFault::Twice("https://login.example/t".to_owned())))
        );
        let [mut one, mut other] = [issuer(), issuer()];
        other.issuer.push('2');
        one.introspection = Some(introspection());
        other.introspection = Some(introspection());
        assert_eq!(
            check_issuers(&[one, other]),
            Err((1, IssuerFault::SecondIntrospection))
        );
        let many: Vec<_> = (0..=MAX_ISSUERS)
            .map(|number| TrustedIssuer::new(format!("https://a/{number}"), "b"))
            .collect();
        assert_eq!(
            check_issuers(&many),
            Err((MAX_ISSUERS, IssuerFault::TooManyIssuers))
        );
    }

    #[test]
    fn plain_http_is_for_this_machine() {
        for (url, is_good) in [
            ("https://a", true),
            ("http://localhost:1/x", true),
            ("http://a.localhost", true),
            ("http://127.0.0.9:80/", true),
            ("http://[::1]:80/", true),
            ("http://localhost.example/", false),
            ("http://127.0.0.1.example/", false),
            ("http://127.0.0.1@example/", false),
            ("http://[::2]/", false),
            ("HTTPS://a", false),
            ("https://", false),
            ("https:///x", false),
            ("https://a b", false),
            ("https://ä", false),
            ("a", false),
        ] {
            assert_eq!(is_secure_url(url), is_good, "{url}");
        }
    }

    #[test]
    fn symmetric_algorithms_and_none_have_no_name() {
        for name in ["none", "None", "HS256", "HS512", "rs256", "ES512", ""] {
            assert_eq!(SignatureAlgorithm::from_name(name), None, "{name}");
        }
        let later = SignatureAlgorithm::from_name("Ed25519");
        assert_eq!(later, Some(SignatureAlgorithm::EdDsa));
        assert_eq!(
            SignatureAlgorithm::from_name("RS256"),
            Some(SignatureAlgorithm::Rs256)
        );
    }
}
