//! Asks an issuer over the network: for its metadata, its keys, and its opaque tokens. Each answer is bounded, and no
//! redirect is followed: a document of keys decides who comes in.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, Response, Uri, header};
use mainstay_core::{
    config::{IntrospectionSettings, TrustedIssuer, is_secure_url},
    well_known::issuer_metadata_paths,
};
use mainstay_transport::{BoundedError, BoundedRequest, is_in_private_network, send_bounded};
use serde::Deserialize;

use crate::{
    keys::{KeySet, KeySetError},
    strict_json::begins_object,
};

/// Maximum bytes of a document. A hundred keys with certificates have less.
const MAX_DOCUMENT: usize = 1024 * 1024;

/// Maximum bytes of an answer to an introspection. A thousand of them are remembered.
const MAX_INTROSPECTION: usize = 64 * 1024;

/// Time limit for one request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// Time limit for all requests that one question takes. Shorter than [`crate::WAIT_LIMIT`], so that whoever waits
/// learns the reason.
const FETCH_LIMIT: Duration = Duration::from_secs(8);

/// The characters of a foreign text that are shown.
const MAX_SHOWN: usize = 200;

/// Sends the requests about one issuer.
#[derive(Debug)]
pub struct IssuerClient {
    settings: Arc<TrustedIssuer>,
    /// The endpoints in the issuer's metadata. Forgotten when a request to them fails: they may have moved.
    found: ArcSwapOption<IssuerMetadata>,
}

/// The part of an issuer's metadata that is needed (RFC 8414, 2).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct IssuerMetadata {
    issuer: String,
    #[serde(default)]
    jwks_uri: Option<String>,
    #[serde(default)]
    introspection_endpoint: Option<String>,
    #[serde(default)]
    introspection_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Keys that were fetched, and the time for which they are fresh.
#[derive(Debug)]
pub struct FetchedKeySet {
    pub keys: KeySet,
    pub max_age: Option<Duration>,
}

/// The reason that an issuer has no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Unanswered(#[from] BoundedError),
    #[error("{url} answered {status}")]
    Refused { url: String, status: u16 },
    #[error("{url} does not accept `clientId` and `clientSecret` of the introspection ({status})")]
    Credentials { url: String, status: u16 },
    #[error("{url} answered with no metadata (line {line}, column {column})")]
    NoMetadata {
        url: String,
        line: usize,
        column: usize,
    },
    #[error("{url} is about the issuer {found:?}, and `issuer` is {expected:?}")]
    OtherIssuer {
        url: String,
        found: String,
        expected: String,
    },
    #[error("the metadata of {issuer} has no `{member}`")]
    NoEndpoint {
        issuer: String,
        member: &'static str,
    },
    #[error("the `{member}` of {issuer} is no https URL: {url:?}")]
    Insecure {
        issuer: String,
        member: &'static str,
        url: String,
    },
    #[error("{url} cannot be used for its keys: {reason}")]
    Keys { url: String, reason: KeySetError },
    #[error("the issuer did not answer within {} s", FETCH_LIMIT.as_secs())]
    Late,
    #[error("a request cannot be made of the URL {url:?}")]
    Url { url: String },
}

/// Tells who has named a URL. Metadata of an issuer of the internet must not lead to the network of this Mainstay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedBy {
    Configuration,
    Metadata,
}

/// An endpoint and who has named it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    url: String,
    named_by: NamedBy,
}

impl IssuerClient {
    pub fn new(settings: Arc<TrustedIssuer>) -> Self {
        Self {
            settings,
            found: ArcSwapOption::empty(),
        }
    }

    /// Fetches the keys of the issuer.
    pub async fn fetch_keys(&self) -> Result<FetchedKeySet, FetchError> {
        let fetched = within_limit(async {
            let endpoint = match &self.settings.jwks_uri {
                Some(url) => Endpoint::configured(url),
                None => {
                    self.found_endpoint("jwks_uri", |found| found.jwks_uri.clone())
                        .await?
                }
            };
            let request = Request::get(&endpoint.url)
                .header(header::ACCEPT, "application/jwk-set+json, application/json");
            let answer = self
                .send(&endpoint, request, String::new(), MAX_DOCUMENT)
                .await?;
            let keys = KeySet::read(answer.body()).map_err(|reason| FetchError::Keys {
                url: endpoint.url,
                reason,
            })?;
            let cache_control = answer.headers().get(header::CACHE_CONTROL);
            let cache_control = cache_control.and_then(|value| value.to_str().ok());
            let max_age = cache_control.and_then(max_age);
            Ok(FetchedKeySet { keys, max_age })
        })
        .await;
        self.forget_after(fetched)
    }

    /// Asks the issuer about a token. Returns the body of its answer.
    pub async fn introspect(
        &self,
        settings: &IntrospectionSettings,
        token: &str,
    ) -> Result<Vec<u8>, FetchError> {
        let answer = within_limit(async {
            let (endpoint, in_body) = match &settings.endpoint {
                Some(url) => (Endpoint::configured(url), false),
                None => {
                    let member = "introspection_endpoint";
                    let get = |found: &IssuerMetadata| found.introspection_endpoint.clone();
                    let endpoint = self.found_endpoint(member, get).await?;
                    let found = self.found.load();
                    let in_body = found
                        .as_ref()
                        .is_some_and(|found| found.takes_secret_in_body());
                    (endpoint, in_body)
                }
            };
            let mut form = format!("token={}&token_type_hint=access_token", form_encoded(token));
            let id = form_encoded(&settings.client_id);
            let secret = form_encoded(settings.client_secret.expose());
            let mut request = Request::post(&endpoint.url)
                .header(header::ACCEPT, "application/json")
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            if in_body {
                form = format!("{form}&client_id={id}&client_secret={secret}");
            } else {
                let credentials = STANDARD.encode(format!("{id}:{secret}"));
                request = request.header(header::AUTHORIZATION, format!("Basic {credentials}"));
            }
            match self.send(&endpoint, request, form, MAX_INTROSPECTION).await {
                Err(FetchError::Refused {
                    url,
                    status: status @ (401 | 403),
                }) => Err(FetchError::Credentials { url, status }),
                answer => answer.map(Response::into_body),
            }
        })
        .await;
        self.forget_after(answer)
    }

    fn forget_after<T>(&self, result: Result<T, FetchError>) -> Result<T, FetchError> {
        if result.is_err() {
            self.found.store(None);
        }
        result
    }

    /// The endpoint that the metadata has as this member.
    async fn found_endpoint<M: Into<Option<String>>>(
        &self,
        member: &'static str,
        get: impl Fn(&IssuerMetadata) -> M,
    ) -> Result<Endpoint, FetchError> {
        let found = match self.found.load_full() {
            Some(found) => found,
            None => {
                let found = Arc::new(self.discover().await?);
                self.found.store(Some(Arc::clone(&found)));
                found
            }
        };
        let issuer = self.settings.issuer.clone();
        let Some(url) = get(&found).into() else {
            return Err(FetchError::NoEndpoint { issuer, member });
        };
        if !is_secure_url(&url) {
            let url = shortened(&url);
            return Err(FetchError::Insecure {
                issuer,
                member,
                url,
            });
        }
        Ok(Endpoint {
            url,
            named_by: NamedBy::Metadata,
        })
    }

    /// Looks for the issuer's metadata at the places of the specification.
    async fn discover(&self) -> Result<IssuerMetadata, FetchError> {
        let issuer = &self.settings.issuer;
        let bad_url = || FetchError::Url {
            url: shortened(issuer),
        };
        let uri: Uri = issuer.parse().map_err(|_| bad_url())?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(bad_url());
        };
        // The first place with a document that cannot be used says more than a later one without a document.
        let mut failure: Option<FetchError> = None;
        for path in issuer_metadata_paths(uri.path()) {
            let endpoint = Endpoint::configured(&format!("{scheme}://{authority}{path}"));
            let request = Request::get(&endpoint.url).header(header::ACCEPT, "application/json");
            let read = match self
                .send(&endpoint, request, String::new(), MAX_DOCUMENT)
                .await
            {
                Ok(answer) => IssuerMetadata::read(answer.body(), &endpoint.url, issuer),
                Err(error @ FetchError::Unanswered(BoundedError::Redirect { .. })) => Err(error),
                Err(error @ FetchError::Refused { .. }) => Err(error),
                Err(error) => return Err(error),
            };
            match read {
                Ok(metadata) => return Ok(metadata),
                Err(error) => {
                    let says_more = match &failure {
                        None => true,
                        Some(former) => {
                            matches!(former, FetchError::Refused { .. })
                                && !matches!(error, FetchError::Refused { .. })
                        }
                    };
                    if says_more {
                        failure = Some(error);
                    }
                }
            }
        }
        Err(failure.unwrap_or_else(bad_url))
    }

    /// Returns a successful answer.
    async fn send(
        &self,
        endpoint: &Endpoint,
        request: http::request::Builder,
        body: String,
        max_bytes: usize,
    ) -> Result<Response<Vec<u8>>, FetchError> {
        let request = request
            .body(body.into_bytes())
            .map_err(|_| FetchError::Url {
                url: shortened(&endpoint.url),
            })?;
        let answer = send_bounded(BoundedRequest {
            request,
            network: &self.settings.network,
            max_bytes,
            time_limit: REQUEST_LIMIT,
            only_public: self.is_only_public(endpoint.named_by).await,
            follows_redirects: false,
        })
        .await?;
        match answer.response.status().as_u16() {
            200 => Ok(answer.response),
            status => Err(FetchError::Refused {
                url: answer.url,
                status,
            }),
        }
    }

    /// True if a private address is refused.
    async fn is_only_public(&self, named_by: NamedBy) -> bool {
        match named_by {
            NamedBy::Configuration => false,
            NamedBy::Metadata => match self.settings.issuer.parse() {
                Ok(issuer) => !is_in_private_network(&issuer).await,
                Err(_) => true,
            },
        }
    }
}

impl Endpoint {
    fn configured(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            named_by: NamedBy::Configuration,
        }
    }
}

impl IssuerMetadata {
    fn read(body: &[u8], url: &str, issuer: &str) -> Result<Self, FetchError> {
        let no_metadata = |line, column| FetchError::NoMetadata {
            url: url.to_owned(),
            line,
            column,
        };
        if !begins_object(body) {
            return Err(no_metadata(1, 1));
        }
        let metadata: Self = serde_json::from_slice(body)
            .map_err(|error| no_metadata(error.line(), error.column()))?;
        if metadata.issuer != issuer {
            return Err(FetchError::OtherIssuer {
                url: url.to_owned(),
                found: shortened(&metadata.issuer),
                expected: issuer.to_owned(),
            });
        }
        Ok(metadata)
    }

    /// True if the issuer takes a client's secret in the body only. All others take it in a header (RFC 6749, 2.3.1).
    fn takes_secret_in_body(&self) -> bool {
        let methods = self.introspection_endpoint_auth_methods_supported.as_ref();
        methods.is_some_and(|methods| {
            let has = |name: &str| methods.iter().any(|method| method == name);
            has("client_secret_post") && !has("client_secret_basic")
        })
    }
}

async fn within_limit<T>(
    work: impl Future<Output = Result<T, FetchError>>,
) -> Result<T, FetchError> {
    let limited = tokio::time::timeout(FETCH_LIMIT, work);
    limited.await.unwrap_or(Err(FetchError::Late))
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

/// The time for which an answer is fresh (RFC 9111, 5.2.2). `None` if the header does not say.
fn max_age(cache_control: &str) -> Option<Duration> {
    let mut directives = cache_control.split(',').map(str::trim);
    directives.find_map(|directive| {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match name.to_ascii_lowercase().as_str() {
            "no-store" | "no-cache" => Some(Duration::ZERO),
            "max-age" => {
                let seconds = value.trim_matches('"').parse().ok()?;
                Some(Duration::from_secs(seconds))
            }
            _other => None,
        }
    })
}

/// A value of a form (`application/x-www-form-urlencoded`).
fn form_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => {
                encoded.push(char::from(byte));
            }
            _reserved => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                encoded.push('%');
                encoded.push(char::from(DIGITS[usize::from(byte >> 4)]));
                encoded.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_is_read_from_cache_control() {
        for (header, seconds) in [
            ("max-age=600", Some(600)),
            ("public, Max-Age=\"600\", must-revalidate", Some(600)),
            ("no-cache, max-age=600", Some(0)),
            ("max-age=-1", None),
            ("max-age=99999999999999999999", None),
            ("s-maxage=5", None),
            ("public", None),
            ("", None),
        ] {
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(max_age(header), expected, "{header}");
        }
    }

    #[test]
    fn values_of_forms_are_encoded() {
        assert_eq!(form_encoded("aZ9-._*"), "aZ9-._*");
        assert_eq!(
            form_encoded("a b&c=d:~+/ä"),
            "a%20b%26c%3Dd%3A%7E%2B%2F%C3%A4"
        );
    }

    #[test]
    fn metadata_must_be_of_the_issuer() {
        let read = |text: &str| IssuerMetadata::read(text.as_bytes(), "https://a/x", "https://a");
        let metadata = read(r#"{"issuer":"https://a","jwks_uri":"https://k","more":1}"#);
        assert_eq!(
            metadata.expect("metadata").jwks_uri.as_deref(),
            Some("https://k")
        );
        for text in [r#"{"issuer":"https://a/"}"#, r#"{"issuer":"https://A"}"#] {
            let error = read(text).expect_err(text);
            assert!(matches!(error, FetchError::OtherIssuer { .. }), "{error}");
        }
        read(r#"["https://a","https://k",null,null]"#).expect_err("an array");
        let error = read("<html>").expect_err("no metadata").to_string();
        assert_eq!(
            error,
            "https://a/x answered with no metadata (line 1, column 1)"
        );
    }

    #[test]
    fn a_secret_goes_into_the_header_unless_only_the_body_is_taken() {
        let takes_in_body = |methods: &[&str]| {
            let methods = methods.iter().map(ToString::to_string).collect();
            let metadata = IssuerMetadata {
                issuer: String::new(),
                jwks_uri: None,
                introspection_endpoint: None,
                introspection_endpoint_auth_methods_supported: Some(methods),
            };
            metadata.takes_secret_in_body()
        };
        assert!(!takes_in_body(&[]));
        assert!(!takes_in_body(&[
            "client_secret_post",
            "client_secret_basic"
        ]));
        assert!(takes_in_body(&["private_key_jwt", "client_secret_post"]));
    }

    /// An issuer of the internet must not lead Mainstay to the services of its own network.
    #[tokio::test]
    async fn metadata_of_a_public_issuer_leads_to_no_private_address() {
        let client = |issuer: &str| {
            let settings = TrustedIssuer::new(issuer, "https://mcp");
            IssuerClient::new(Arc::new(settings))
        };
        for (issuer, named_by, is_only_public) in [
            ("https://8.8.8.8", NamedBy::Metadata, true),
            ("https://8.8.8.8", NamedBy::Configuration, false),
            ("https://10.0.0.1", NamedBy::Metadata, false),
            ("http://127.0.0.1:1", NamedBy::Metadata, false),
        ] {
            let found = client(issuer).is_only_public(named_by).await;
            assert_eq!(found, is_only_public, "{issuer} {named_by:?}");
        }
        let endpoint = Endpoint {
            url: "http://127.0.0.1:1/keys".to_owned(),
            named_by: NamedBy::Metadata,
        };
        let request = Request::get(&endpoint.url);
        let client = client("https://8.8.8.8");
        let sent = client
            .send(&endpoint, request, String::new(), MAX_DOCUMENT)
            .await;
        let error = sent.expect_err("a private address").to_string();
        assert!(error.contains("private address 127.0.0.1"), "{error}");
    }
}
