//! The identity of the client that logs in: registered by hand, by a metadata document, or by dynamic registration
//! (specification 2026-07-28, "Client Registration"; RFC 7591).

use std::time::{Duration, SystemTime};

use mainstay_core::config::{OAuth, Secret};
use oauth2::url::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    discovery::{IssuerMetadata, is_loopback},
    scopes::Scopes,
    secret_text,
};

/// The method by which a client authenticates itself at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// A public client, which sends only its id.
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

impl AuthMethod {
    /// The name of the method in metadata and registrations (RFC 7591, 2).
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// The method for a client with or without a secret. A server that names no methods supports
    /// `client_secret_basic` (RFC 8414, 2).
    fn for_client(issuer: &IssuerMetadata, has_secret: bool) -> Self {
        let supported = issuer.token_endpoint_auth_methods_supported.as_deref();
        let supports = |method: Self| {
            supported.is_some_and(|names| names.iter().any(|name| name == method.name()))
        };
        match (has_secret, supported) {
            (false, _) => Self::None,
            (true, Some(_))
                if !supports(Self::ClientSecretBasic) && supports(Self::ClientSecretPost) =>
            {
                Self::ClientSecretPost
            }
            (true, _) => Self::ClientSecretBasic,
        }
    }
}

/// A client of one authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientIdentity {
    pub id: String,
    #[serde(default, with = "secret_text::optional")]
    pub secret: Option<Secret>,
    pub auth_method: AuthMethod,
}

/// A client that was registered dynamically. It is valid only for its issuer and its redirect URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    pub issuer: String,
    pub redirect_uri: String,
    pub client: ClientIdentity,
    /// Time at which the secret expires. `None` if it does not expire.
    pub expires_at: Option<SystemTime>,
    /// The scopes for which the client was registered. Some authorization servers grant no other scopes to it.
    #[serde(default)]
    pub scopes: Scopes,
}

impl Registration {
    pub fn is_valid(&self, issuer: &str, redirect_uri: &str, now: SystemTime) -> bool {
        self.issuer == issuer
            && self.redirect_uri == redirect_uri
            && self.expires_at.is_none_or(|at| now < at)
    }

    /// True if the client may request these scopes.
    pub fn has_scopes(&self, scopes: &Scopes) -> bool {
        scopes.lacking(&self.scopes).is_empty()
    }
}

/// The next step for getting a client identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityChoice {
    Ready(ClientIdentity),
    /// A client must be registered at this endpoint.
    Register(Url),
}

/// The authorization server accepts only clients that were registered by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the authorization server takes registered clients only: register one there, and set `oauth.clientId`"
)]
pub struct NeedsClientId;

/// Chooses the client identity in the order of the specification.
pub fn choose_identity(
    settings: &OAuth,
    issuer: &IssuerMetadata,
    registration: Option<&Registration>,
) -> Result<IdentityChoice, NeedsClientId> {
    if let Some(id) = &settings.client_id {
        let auth_method = match (&settings.private_key, &settings.client_secret) {
            (Some(_), _) => AuthMethod::PrivateKeyJwt,
            (None, secret) => AuthMethod::for_client(issuer, secret.is_some()),
        };
        return Ok(IdentityChoice::Ready(ClientIdentity {
            id: id.clone(),
            secret: settings.client_secret.clone(),
            auth_method,
        }));
    }
    let document = settings.client_metadata_url.as_ref();
    if let Some(url) = document.filter(|_| issuer.client_id_metadata_document_supported) {
        let auth_method = match settings.private_key {
            Some(_) => AuthMethod::PrivateKeyJwt,
            None => AuthMethod::None,
        };
        return Ok(IdentityChoice::Ready(ClientIdentity {
            id: url.clone(),
            secret: None,
            auth_method,
        }));
    }
    if let Some(registration) = registration {
        return Ok(IdentityChoice::Ready(registration.client.clone()));
    }
    let endpoint = issuer.registration_endpoint.clone();
    endpoint.map(IdentityChoice::Register).ok_or(NeedsClientId)
}

/// The body of a registration (RFC 7591, 2; OpenID Connect Dynamic Client Registration, 2).
pub fn registration_body(
    issuer: &IssuerMetadata,
    redirect_uri: &Url,
    scopes: &Scopes,
    device: bool,
) -> Value {
    let supported = issuer.token_endpoint_auth_methods_supported.as_deref();
    let supports = |method: AuthMethod| {
        supported.is_none_or(|names| names.iter().any(|name| name == method.name()))
    };
    let methods = [
        AuthMethod::None,
        AuthMethod::ClientSecretBasic,
        AuthMethod::ClientSecretPost,
    ];
    let method = methods.into_iter().find(|method| supports(*method));
    let mut grants = vec!["authorization_code", "refresh_token"];
    if device {
        grants.push("urn:ietf:params:oauth:grant-type:device_code");
    }
    let mut body = json!({
        "client_name": "Mainstay",
        "software_id": "mainstay",
        "software_version": env!("CARGO_PKG_VERSION"),
        "redirect_uris": [redirect_uri.as_str()],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": method.unwrap_or(AuthMethod::None).name(),
        "application_type": if is_loopback(redirect_uri) { "native" } else { "web" },
    });
    if !scopes.is_empty() {
        body["scope"] = json!(scopes);
    }
    body
}

/// The error of a dynamic registration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    #[error("the authorization server refuses to register a client: {0}")]
    Refused(String),
    #[error("the authorization server cannot register a client at the moment: {0}")]
    Unavailable(String),
    #[error("the answer to the registration is not the JSON of one: {0}")]
    Unreadable(String),
    #[error("the registered client has to authenticate itself by `{0}`, which Mainstay cannot")]
    UnknownMethod(String),
}

/// Maximum length of the reason of a refused registration, in characters.
const MAX_REASON: usize = 300;

/// Reads the answer to a registration (RFC 7591, 3.2).
pub fn read_registration(
    status: u16,
    body: &[u8],
    issuer: &IssuerMetadata,
    redirect_uri: &Url,
    scopes: &Scopes,
) -> Result<Registration, RegistrationError> {
    #[derive(Deserialize)]
    struct Registered {
        client_id: String,
        #[serde(default)]
        client_secret: Option<String>,
        #[serde(default)]
        client_secret_expires_at: Option<u64>,
        #[serde(default)]
        token_endpoint_auth_method: Option<String>,
    }
    #[derive(Deserialize)]
    struct Refused {
        error: String,
        #[serde(default)]
        error_description: Option<String>,
    }
    if let Ok(refused) = serde_json::from_slice::<Refused>(body) {
        let reason = match refused.error_description {
            Some(description) => format!("{}: {description}", refused.error),
            None => refused.error,
        };
        let reason = reason.chars().take(MAX_REASON).collect();
        return Err(RegistrationError::Refused(reason));
    }
    if !(200..300).contains(&status) {
        let line = mainstay_transport::first_error_line(body);
        let separator = if line.is_empty() { "" } else { ": " };
        let reason = format!("HTTP {status}{separator}{line}");
        return Err(match status {
            429 | 500.. => RegistrationError::Unavailable(reason),
            _ => RegistrationError::Refused(reason),
        });
    }
    let registered: Registered = serde_json::from_slice(body)
        // Do not quote the error, which may contain the client's secret.
        .map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            RegistrationError::Unreadable(place)
        })?;
    let secret = registered
        .client_secret
        .filter(|secret| !secret.is_empty())
        .map(Secret::new);
    let auth_method = match registered.token_endpoint_auth_method.as_deref() {
        None => AuthMethod::for_client(issuer, secret.is_some()),
        Some("none") => AuthMethod::None,
        Some("client_secret_basic") => AuthMethod::ClientSecretBasic,
        Some("client_secret_post") => AuthMethod::ClientSecretPost,
        Some(method) => return Err(RegistrationError::UnknownMethod(method.to_owned())),
    };
    let expires_at = registered
        .client_secret_expires_at
        .filter(|seconds| *seconds > 0);
    Ok(Registration {
        scopes: scopes.clone(),
        issuer: issuer.issuer.clone(),
        redirect_uri: redirect_uri.to_string(),
        client: ClientIdentity {
            id: registered.client_id,
            secret,
            auth_method,
        },
        expires_at: expires_at
            .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    fn issuer() -> IssuerMetadata {
        IssuerMetadata::legacy_endpoints(&url("https://a"))
    }

    fn settings(id: Option<&str>, secret: Option<&str>, document: Option<&str>) -> OAuth {
        OAuth {
            client_id: id.map(str::to_owned),
            client_secret: secret.map(Secret::new),
            client_metadata_url: document.map(str::to_owned),
            ..OAuth::default()
        }
    }

    fn registration() -> Registration {
        Registration {
            issuer: "https://a".to_owned(),
            redirect_uri: "http://127.0.0.1:1/callback".to_owned(),
            client: ClientIdentity {
                id: "registered".to_owned(),
                secret: None,
                auth_method: AuthMethod::None,
            },
            expires_at: None,
            scopes: Scopes::default(),
        }
    }

    #[test]
    fn the_identity_is_chosen_in_the_order_of_the_specification() {
        let stored = registration();
        let with_documents = IssuerMetadata {
            client_id_metadata_document_supported: true,
            ..issuer()
        };
        let document = Some("https://me/client.json");
        for (settings, issuer, stored, id) in [
            (
                settings(Some("mine"), None, document),
                &with_documents,
                Some(&stored),
                "mine",
            ),
            (
                settings(None, None, document),
                &with_documents,
                Some(&stored),
                "https://me/client.json",
            ),
            (
                settings(None, None, document),
                &issuer(),
                Some(&stored),
                "registered",
            ),
            (
                settings(None, None, None),
                &with_documents,
                Some(&stored),
                "registered",
            ),
        ] {
            let choice = choose_identity(&settings, issuer, stored).expect("a choice");
            let IdentityChoice::Ready(client) = choice else {
                panic!("{choice:?}");
            };
            assert_eq!(client.id, id);
        }
        let endpoint = url("https://a/register");
        let none = settings(None, None, None);
        assert_eq!(
            choose_identity(&none, &issuer(), None),
            Ok(IdentityChoice::Register(endpoint))
        );
        let closed = IssuerMetadata {
            registration_endpoint: None,
            ..issuer()
        };
        assert_eq!(choose_identity(&none, &closed, None), Err(NeedsClientId));
    }

    #[test]
    fn a_client_authenticates_itself_as_the_server_supports() {
        let basic = AuthMethod::ClientSecretBasic;
        let post = AuthMethod::ClientSecretPost;
        for (supported, secret, expected) in [
            (None, Some("s"), basic),
            (None, None, AuthMethod::None),
            (Some(vec![basic, post]), Some("s"), basic),
            (Some(vec![post]), Some("s"), post),
            (Some(vec![AuthMethod::None]), Some("s"), basic),
            (Some(vec![post]), None, AuthMethod::None),
        ] {
            let names = supported.map(|methods: Vec<AuthMethod>| {
                methods
                    .iter()
                    .map(|method| method.name().to_owned())
                    .collect()
            });
            let issuer = IssuerMetadata {
                token_endpoint_auth_methods_supported: names,
                ..issuer()
            };
            let choice = choose_identity(&settings(Some("id"), secret, None), &issuer, None);
            let Ok(IdentityChoice::Ready(client)) = choice else {
                panic!("{choice:?}");
            };
            assert_eq!(client.auth_method, expected, "{issuer:?}");
        }
    }

    #[test]
    fn a_registration_is_native_on_this_machine_and_of_the_web_elsewhere() {
        let scopes = Scopes::parse("a b");
        let native = registration_body(
            &issuer(),
            &url("http://127.0.0.1:1/callback"),
            &scopes,
            false,
        );
        assert_eq!(native["application_type"], "native");
        assert_eq!(native["scope"], "a b");
        assert_eq!(native["token_endpoint_auth_method"], "none");
        assert_eq!(
            native["grant_types"],
            json!(["authorization_code", "refresh_token"])
        );
        let web = registration_body(
            &issuer(),
            &url("https://m.example/callback"),
            &Scopes::default(),
            true,
        );
        assert_eq!(web["application_type"], "web");
        assert_eq!(web.get("scope"), None);
        assert_eq!(
            web["grant_types"][2],
            "urn:ietf:params:oauth:grant-type:device_code"
        );
        let post_only = IssuerMetadata {
            token_endpoint_auth_methods_supported: Some(vec!["client_secret_post".to_owned()]),
            ..issuer()
        };
        let body = registration_body(&post_only, &url("http://localhost/"), &scopes, false);
        assert_eq!(body["token_endpoint_auth_method"], "client_secret_post");
    }

    #[test]
    fn a_registration_belongs_to_its_issuer_and_redirect_and_may_expire() {
        let redirect = url("http://127.0.0.1:1/callback");
        let body = json!({"client_id": "c", "client_secret": "s", "client_secret_expires_at": 100});
        let registration = read_registration(
            201,
            body.to_string().as_bytes(),
            &issuer(),
            &redirect,
            &Scopes::parse("a b"),
        )
        .expect("one");
        assert_eq!(
            registration.client.auth_method,
            AuthMethod::ClientSecretBasic
        );
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert!(registration.is_valid("https://a", redirect.as_str(), at(99)));
        assert!(registration.has_scopes(&Scopes::parse("b")));
        assert!(!registration.has_scopes(&Scopes::parse("b c")));
        assert!(!registration.is_valid("https://a", redirect.as_str(), at(100)));
        assert!(!registration.is_valid("https://b", redirect.as_str(), at(99)));
        assert!(!registration.is_valid("https://a", "http://127.0.0.1:2/callback", at(99)));
        let body = json!({"client_id": "c", "client_secret_expires_at": 0});
        let forever = read_registration(
            200,
            body.to_string().as_bytes(),
            &issuer(),
            &redirect,
            &Scopes::default(),
        )
        .expect("one");
        assert_eq!(forever.expires_at, None);
        assert_eq!(forever.client.auth_method, AuthMethod::None);
    }

    #[test]
    fn a_refused_registration_says_why() {
        let read = |status, body: &str| {
            let read = read_registration(
                status,
                body.as_bytes(),
                &issuer(),
                &url("http://localhost/"),
                &Scopes::default(),
            );
            read.expect_err(body).to_string()
        };
        let refused = "the authorization server refuses to register a client: ";
        for (status, body, reason) in [
            (
                400,
                r#"{"error": "invalid_redirect_uri", "error_description": "no"}"#,
                "invalid_redirect_uri: no",
            ),
            (
                200,
                r#"{"error": "invalid_client_metadata"}"#,
                "invalid_client_metadata",
            ),
            (403, "<html>", "HTTP 403"),
            (404, "not here\nx", "HTTP 404: not here"),
        ] {
            assert_eq!(read(status, body), format!("{refused}{reason}"));
        }
        assert_eq!(
            read(503, "busy"),
            "the authorization server cannot register a client at the moment: HTTP 503: busy"
        );
        assert!(
            read(201, "{}").starts_with("the answer to the registration is not the JSON of one")
        );
        let method = r#"{"client_id": "c", "token_endpoint_auth_method": "tls_client_auth"}"#;
        assert!(read(201, method).contains("`tls_client_auth`"));
    }
}
