//! Requests to a token endpoint, and their answers: codes, refresh tokens, client credentials, devices (RFC 6749;
//! RFC 8628), each for one resource (RFC 8707).

use std::{
    pin::Pin,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use mainstay_core::{config::Secret, redact::Secrets};
use mainstay_transport::{first_error_line, retry_after};
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, Client, ClientId, ClientSecret,
    CsrfToken, DeviceAuthorizationUrl, EndpointNotSet, EndpointSet, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    StandardDeviceAuthorizationResponse, StandardRevocableToken, TokenUrl,
    basic::{BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse},
    url::{Url, form_urlencoded},
};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::{
    assertion::{ASSERTION_TYPE, UnusableKey, sign_assertion},
    discovery::{IssuerMetadata, MetadataError},
    find::DiscoveryError,
    identity::{AuthMethod, ClientIdentity},
    scopes::{OFFLINE_ACCESS, Scopes},
    tokens::{TokenAnswer, Tokens, UnusableToken},
    web::{Web, WebError, WebRequest, WebResponse, proxy_note},
};

type TokenClient<HasAuthUrl = EndpointNotSet, HasDeviceUrl = EndpointNotSet> = Client<
    BasicErrorResponse,
    TokenAnswer,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    HasAuthUrl,
    HasDeviceUrl,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// A grant that led to no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The authorization server says no. Another attempt gets the same answer.
    #[error("{}", refusal_text(.code, .description.as_deref()))]
    Refused {
        code: String,
        description: Option<String>,
    },
    /// There is no answer that says yes or no. A later attempt may get one.
    #[error("{reason}")]
    Unavailable {
        reason: String,
        /// The request may have had its effect.
        is_sent: bool,
    },
    /// The authorization server asks to be asked later.
    #[error("{reason}")]
    Busy { reason: String, pause: Duration },
    #[error(transparent)]
    UnusableToken(#[from] UnusableToken),
    #[error(transparent)]
    UnusableKey(#[from] UnusableKey),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    #[error("the authorization server gave no refresh token")]
    NoRefreshToken,
    #[error("a login without a person needs `oauth.clientId`, with `clientSecret` or `privateKey`")]
    NoMachineIdentity,
}

/// True for the error codes of a client that the authorization server does not know (RFC 6749, 4.1.2.1 and 5.2).
pub(crate) fn means_unknown_client(code: &str) -> bool {
    matches!(code, "invalid_client" | "unauthorized_client")
}

fn refusal_text(code: &str, description: Option<&str>) -> String {
    match description {
        Some(description) => format!("the authorization server says {code}: {description}"),
        None => format!("the authorization server says {code}"),
    }
}

impl GrantError {
    /// A machine looks for its authorization server again and again, because no person is there to correct it.
    pub(crate) fn from_discovery(error: &DiscoveryError) -> Self {
        Self::Unavailable {
            reason: error.to_string(),
            is_sent: false,
        }
    }

    /// True if the authorization server has forgotten the client.
    pub(crate) fn is_client_unknown(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if means_unknown_client(code))
    }

    /// True if a later attempt with the same grant may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Busy { .. })
    }

    /// The pause for which the authorization server asks.
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Busy { pause, .. } => Some(*pause),
            _ => None,
        }
    }
}

/// The authorization request for a browser, and the secrets that redeem its answer.
#[derive(Debug)]
pub struct AuthorizationRequest {
    pub url: Url,
    /// The value of `state` in the redirect.
    pub state: Secret,
    pub verifier: Secret,
}

/// The codes with which a person logs in on another device.
#[derive(Clone, Debug)]
pub struct DeviceCodes(StandardDeviceAuthorizationResponse);

impl DeviceCodes {
    pub fn user_code(&self) -> &str {
        self.0.user_code().secret()
    }

    pub fn verification_uri(&self) -> &str {
        self.0.verification_uri().as_str()
    }

    /// The address that has the code in it.
    pub fn complete_uri(&self) -> Option<&str> {
        self.0
            .verification_uri_complete()
            .map(|uri| uri.secret().as_str())
    }

    pub fn lifetime(&self) -> Duration {
        self.0.expires_in()
    }
}

/// The token endpoint of one authorization server, for one client and one resource.
#[derive(Debug)]
pub struct TokenEndpoint<'a> {
    pub web: &'a dyn Web,
    pub issuer: &'a IssuerMetadata,
    pub client: &'a ClientIdentity,
    /// The private key of a client that signs assertions.
    pub private_key: Option<&'a Secret>,
    /// The `resource` parameter.
    pub resource: &'a str,
    pub now: SystemTime,
}

/// Sends the requests of the crate `oauth2`, each with an assertion of its own where the client signs some.
struct Sender<'a> {
    endpoint: &'a TokenEndpoint<'a>,
    started_at: Instant,
}

impl<'c> AsyncHttpClient<'c> for Sender<'_> {
    type Error = GrantError;
    type Future = Pin<Box<dyn Future<Output = Result<WebResponse, GrantError>> + Send + 'c>>;

    fn call(&'c self, request: oauth2::HttpRequest) -> Self::Future {
        Box::pin(async move {
            // The requests for the tokens of a device may take longer than an assertion is valid.
            let now = self.endpoint.now + self.started_at.elapsed();
            let assertion = self.endpoint.assertion(now)?;
            let mut request = request;
            if let Some(assertion) = &assertion {
                append_assertion(request.body_mut(), assertion);
            }
            let mut secrets = secrets_of(request.body());
            secrets.extend(self.endpoint.client.secret.clone());
            let authorization = request.headers().get(http::header::AUTHORIZATION);
            let credentials = authorization.and_then(|value| value.to_str().ok()?.split_once(' '));
            secrets.extend(credentials.map(|(_, credentials)| Secret::new(credentials)));
            let response = self.endpoint.web.send(request).await;
            let response = response.map_err(|error| GrantError::Unavailable {
                reason: error.to_string(),
                is_sent: !matches!(error, WebError::NotSent(_)),
            })?;
            // Only an assertion depends on the clock of this machine.
            let clock_hint = assertion.and_then(|_| clock_hint(&response, now));
            normalise(&response, &secrets, now, clock_hint.as_deref())
        })
    }
}

impl TokenEndpoint<'_> {
    fn client(&self) -> TokenClient {
        let client = &self.client;
        let token_client: TokenClient = Client::new(ClientId::new(client.id.clone()))
            .set_token_uri(TokenUrl::from_url(self.issuer.token_endpoint.clone()))
            .set_auth_type(match client.auth_method {
                AuthMethod::ClientSecretBasic => AuthType::BasicAuth,
                AuthMethod::None | AuthMethod::ClientSecretPost | AuthMethod::PrivateKeyJwt => {
                    AuthType::RequestBody
                }
            });
        match (&client.secret, client.auth_method) {
            (Some(secret), AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost) => {
                token_client.set_client_secret(ClientSecret::new(secret.expose().to_owned()))
            }
            _ => token_client,
        }
    }

    /// Parameters of each request to the token endpoint beside those of its grant.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = vec![("resource", self.resource.to_owned())];
        if self.client.auth_method == AuthMethod::ClientSecretBasic {
            // FastMCP looks for the id in the body, whatever the header says.
            parameters.push(("client_id", self.client.id.clone()));
        }
        parameters
    }

    /// The assertion of a client that authenticates itself with a private key.
    fn assertion(&self, now: SystemTime) -> Result<Option<String>, GrantError> {
        let (AuthMethod::PrivateKeyJwt, Some(key)) = (self.client.auth_method, self.private_key)
        else {
            return Ok(None);
        };
        let assertion = sign_assertion(key.expose(), &self.client.id, &self.issuer.issuer, now)?;
        Ok(Some(assertion))
    }

    /// The address to open in a browser. The browser comes back to `redirect`.
    pub fn authorization_request(
        &self,
        redirect: &Url,
        scopes: &Scopes,
    ) -> Result<AuthorizationRequest, GrantError> {
        let endpoint = self.issuer.authorization_endpoint()?.clone();
        let client = self
            .client()
            .set_auth_uri(AuthUrl::from_url(endpoint))
            .set_redirect_uri(RedirectUrl::from_url(redirect.clone()));
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let request = client
            .authorize_url(CsrfToken::new_random)
            .set_pkce_challenge(challenge)
            .add_scopes(scopes.iter().map(|scope| Scope::new(scope.to_owned())))
            .add_extra_param("resource", self.resource);
        let request = if scopes.contains(OFFLINE_ACCESS) {
            // Otherwise a provider of OpenID ignores the scope (OpenID Connect Core 1.0, 11).
            request.add_extra_param("prompt", "consent")
        } else {
            request
        };
        let (url, state) = request.url();
        Ok(AuthorizationRequest {
            url,
            state: Secret::new(state.secret()),
            verifier: Secret::new(verifier.secret()),
        })
    }

    /// Redeems the code of a redirect.
    pub async fn redeem_code(
        &self,
        code: &Secret,
        verifier: &Secret,
        redirect: &Url,
        scopes: &Scopes,
    ) -> Result<Tokens, GrantError> {
        let client = self
            .client()
            .set_redirect_uri(RedirectUrl::from_url(redirect.clone()));
        let mut request = client
            .exchange_code(AuthorizationCode::new(code.expose().to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.expose().to_owned()));
        for (name, value) in self.parameters() {
            request = request.add_extra_param(name, value);
        }
        let answer = request.request_async(&self.sender()).await;
        self.tokens(answer, scopes, None)
    }

    pub async fn refresh(&self, refresh: &Secret, scopes: &Scopes) -> Result<Tokens, GrantError> {
        let client = self.client();
        let token = RefreshToken::new(refresh.expose().to_owned());
        let mut request = client.exchange_refresh_token(&token);
        for (name, value) in self.parameters() {
            request = request.add_extra_param(name, value);
        }
        let answer = request.request_async(&self.sender()).await;
        self.tokens(answer, scopes, Some(refresh))
    }

    /// A token for the client itself.
    pub async fn client_credentials(&self, scopes: &Scopes) -> Result<Tokens, GrantError> {
        let client = self.client();
        let mut request = client
            .exchange_client_credentials()
            .add_scopes(scopes.iter().map(|scope| Scope::new(scope.to_owned())));
        for (name, value) in self.parameters() {
            request = request.add_extra_param(name, value);
        }
        let answer = request.request_async(&self.sender()).await;
        self.tokens(answer, scopes, None)
    }

    /// Asks for codes with which a person logs in on another device.
    pub async fn device_codes(&self, scopes: &Scopes) -> Result<DeviceCodes, GrantError> {
        let client = self.device_client()?;
        let mut request = client
            .exchange_device_code()
            .add_scopes(scopes.iter().map(|scope| Scope::new(scope.to_owned())));
        for (name, value) in self.parameters() {
            request = request.add_extra_param(name, value);
        }
        let codes: Result<StandardDeviceAuthorizationResponse, _> =
            request.request_async(&self.sender()).await;
        codes.map(DeviceCodes).map_err(token_error)
    }

    /// Waits until the person has logged in, has refused, or the codes have expired. `sleep` waits between requests.
    pub async fn await_device<F: Future<Output = ()>>(
        &self,
        codes: &DeviceCodes,
        scopes: &Scopes,
        sleep: impl Fn(Duration) -> F,
    ) -> Result<Tokens, GrantError> {
        let client = self.device_client()?;
        let mut request = client.exchange_device_access_token(&codes.0);
        for (name, value) in self.parameters() {
            request = request.add_extra_param(name, value);
        }
        let sender = self.sender();
        let answer = request.request_async(&sender, sleep, None).await;
        self.tokens(answer, scopes, None)
    }

    /// Revokes a token (RFC 7009). `false` if the authorization server has no endpoint for that.
    pub async fn revoke(&self, token: &Secret) -> Result<bool, GrantError> {
        let Some(endpoint) = &self.issuer.revocation_endpoint else {
            return Ok(false);
        };
        let unavailable = |reason| GrantError::Unavailable {
            reason,
            is_sent: true,
        };
        let request = self.revocation(endpoint, token)?;
        let response = self.web.send(request).await;
        let response = response.map_err(|error| unavailable(error.to_string()))?;
        match response.status().as_u16() {
            200..300 => Ok(true),
            status => Err(unavailable(format!(
                "the authorization server answers HTTP {status} to the revocation"
            ))),
        }
    }

    fn revocation(&self, endpoint: &Url, token: &Secret) -> Result<WebRequest, GrantError> {
        let client = &self.client;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("token", token.expose());
        let mut request = http::Request::post(endpoint.as_str())
            .header("content-type", "application/x-www-form-urlencoded");
        if let (AuthMethod::ClientSecretBasic, Some(secret)) = (client.auth_method, &client.secret)
        {
            let encode = |text: &str| -> String {
                form_urlencoded::byte_serialize(text.as_bytes()).collect()
            };
            let pair = format!("{}:{}", encode(&client.id), encode(secret.expose()));
            let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
            request = request.header("authorization", value);
        } else {
            form.append_pair("client_id", &client.id);
            if let Some(secret) = &client.secret {
                form.append_pair("client_secret", secret.expose());
            }
        }
        let mut body = form.finish().into_bytes();
        if let Some(assertion) = self.assertion(self.now)? {
            append_assertion(&mut body, &assertion);
        }
        let request = request.body(body);
        request.map_err(|error| GrantError::Unavailable {
            reason: error.to_string(),
            is_sent: false,
        })
    }

    fn device_client(&self) -> Result<TokenClient<EndpointNotSet, EndpointSet>, GrantError> {
        let endpoint = self.issuer.device_authorization_endpoint.clone();
        let endpoint = endpoint.ok_or(MetadataError::Missing("device_authorization_endpoint"))?;
        let url = DeviceAuthorizationUrl::from_url(endpoint);
        Ok(self.client().set_device_authorization_url(url))
    }

    fn sender(&self) -> Sender<'_> {
        Sender {
            endpoint: self,
            started_at: Instant::now(),
        }
    }

    fn tokens<E: oauth2::ErrorResponse + IntoRefusal>(
        &self,
        answer: Result<TokenAnswer, RequestTokenError<GrantError, E>>,
        scopes: &Scopes,
        before: Option<&Secret>,
    ) -> Result<Tokens, GrantError> {
        let answer = answer.map_err(token_error)?;
        Ok(Tokens::from_answer(&answer, self.now, scopes, before)?)
    }
}

/// An error answer of the library, by its code and its description.
trait IntoRefusal: std::fmt::Display {
    fn into_refusal(self) -> (String, Option<String>);
}

impl<T: oauth2::ErrorResponseType + std::fmt::Display + 'static> IntoRefusal
    for oauth2::StandardErrorResponse<T>
{
    fn into_refusal(self) -> (String, Option<String>) {
        (self.error().to_string(), self.error_description().cloned())
    }
}

fn token_error<E: oauth2::ErrorResponse + IntoRefusal>(
    error: RequestTokenError<GrantError, E>,
) -> GrantError {
    match error {
        RequestTokenError::ServerResponse(refusal) => {
            let (code, description) = refusal.into_refusal();
            GrantError::Refused { code, description }
        }
        RequestTokenError::Request(error) => error,
        // The error may quote a token.
        RequestTokenError::Parse(error, _) => GrantError::Unavailable {
            reason: match error.path().to_string().as_str() {
                "." => "the authorization server's answer is not the JSON of one".to_owned(),
                member => format!("`{member}` in the authorization server's answer cannot be read"),
            },
            is_sent: true,
        },
        RequestTokenError::Other(reason) => GrantError::Unavailable {
            reason,
            is_sent: true,
        },
    }
}

/// Adds the parameters of an assertion to a form (RFC 7523, 2.2).
fn append_assertion(form: &mut Vec<u8>, assertion: &str) {
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    parameters.append_pair("client_assertion_type", ASSERTION_TYPE);
    parameters.append_pair("client_assertion", assertion);
    form.push(b'&');
    form.extend_from_slice(parameters.finish().as_bytes());
}

/// A smaller difference of two clocks is no reason for a refusal.
const CLOCK_LEEWAY: Duration = Duration::from_secs(60);

/// Says by how much this machine's clock is wrong, by the date of an answer.
fn clock_hint(response: &WebResponse, now: SystemTime) -> Option<String> {
    let date = response.headers().get(http::header::DATE)?.to_str().ok()?;
    let date = httpdate::parse_http_date(date).ok()?;
    let (difference, word) = match now.duration_since(date) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    (difference > CLOCK_LEEWAY).then(|| {
        let minutes = difference.as_secs().div_ceil(60);
        format!("this machine's clock is {minutes} minutes {word} the authorization server's")
    })
}

/// Codes of errors that pass.
const TRANSIENT_CODES: [&str; 2] = ["temporarily_unavailable", "server_error"];

/// Codes that an authorization server uses (RFC 6749, 5.2; RFC 8628, 3.5; RFC 8707, 2). With a status that no
/// authorization server gives to an error, another code comes from a gateway before it.
const KNOWN_CODES: [&str; 11] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "invalid_target",
    "access_denied",
    "authorization_pending",
    "slow_down",
    "expired_token",
];

/// Maximum length of an error code that is stored, in characters.
const MAX_CODE: usize = 60;

/// Longest pause between two requests for the tokens of a device, and longest lifetime of its codes, in seconds.
const MAX_INTERVAL: u64 = 60;
const MAX_DEVICE_LIFETIME: u64 = 60 * 60;

/// Parameters of requests whose values no error may quote.
const SECRET_PARAMETERS: [&str; 7] = [
    "code",
    "refresh_token",
    "code_verifier",
    "client_secret",
    "client_assertion",
    "device_code",
    "token",
];

/// The secrets in the form of a request.
fn secrets_of(form: &[u8]) -> Vec<Secret> {
    form_urlencoded::parse(form)
        .filter(|(name, _)| SECRET_PARAMETERS.contains(&name.as_ref()))
        .map(|(_, value)| Secret::new(value))
        .collect()
}

/// A text of the authorization server without these secrets, in whatever form it quotes them.
fn without_secrets(text: &str, secrets: &[Secret]) -> String {
    match Secrets::with_credentials(None, secrets) {
        Some(secrets) => secrets.hide(text).into_owned(),
        None => text.to_owned(),
    }
}

/// Limits the times of an answer with the codes of a device.
fn limit_device_times(object: &mut Map<String, Value>) {
    if !object.contains_key("device_code") {
        return;
    }
    for (name, min, max) in [
        ("interval", 1, MAX_INTERVAL),
        ("expires_in", 1, MAX_DEVICE_LIFETIME),
    ] {
        if let Some(seconds) = object.get(name).and_then(Value::as_u64) {
            object.insert(name.to_owned(), Value::from(seconds.clamp(min, max)));
        }
    }
}

/// The longest description of an error that is kept, in characters.
const MAX_DESCRIPTION: usize = 300;

/// The answer as RFC 6749 has it: JSON, with an error status where it is an error. Servers also write forms, errors
/// with status 200, and pages. An answer that says neither yes nor no is [`GrantError::Unavailable`].
fn normalise(
    response: &WebResponse,
    secrets: &[Secret],
    now: SystemTime,
    clock_hint: Option<&str>,
) -> Result<WebResponse, GrantError> {
    let status = response.status().as_u16();
    let pause = response.headers().get(http::header::RETRY_AFTER);
    let pause = pause.and_then(|value| retry_after(value.to_str().ok()?, now));
    let unavailable = |reason| match pause {
        Some(pause) => GrantError::Busy { reason, pause },
        None => GrantError::Unavailable {
            reason,
            is_sent: true,
        },
    };
    let object = read_object(response);
    let code = object.as_ref().and_then(error_code);
    if let Some(code) = code {
        let code: String = without_secrets(&code, secrets)
            .chars()
            .take(MAX_CODE)
            .collect();
        let is_final_status = matches!(status, 200..300 | 400 | 401);
        let is_of_gateway = !is_final_status && !KNOWN_CODES.contains(&code.as_str());
        if status >= 500
            || status == 429
            || is_of_gateway
            || TRANSIENT_CODES.contains(&code.as_str())
        {
            return Err(unavailable(refusal_text(&code, None)));
        }
        let description = object
            .as_ref()
            .and_then(|object| object.get("error_description"));
        let description = description.and_then(Value::as_str);
        let description = description.map(|text| {
            let text = without_secrets(text, secrets);
            text.chars().take(MAX_DESCRIPTION).collect::<String>()
        });
        let parts: Vec<&str> = description
            .as_deref()
            .into_iter()
            .chain(clock_hint)
            .collect();
        let mut error = Map::new();
        error.insert("error".to_owned(), Value::from(code));
        if !parts.is_empty() {
            let description = parts.join("; ");
            error.insert("error_description".to_owned(), Value::from(description));
        }
        return Ok(json_response(http::StatusCode::BAD_REQUEST, error));
    }
    match object {
        Some(mut object) if (200..300).contains(&status) => {
            limit_device_times(&mut object);
            Ok(json_response(http::StatusCode::OK, object))
        }
        // It may have tokens in it.
        _ if (200..300).contains(&status) => Err(unavailable(format!(
            "the authorization server answers HTTP {status}"
        ))),
        _ => {
            let body = without_secrets(&String::from_utf8_lossy(response.body()), secrets);
            let line = first_error_line(body.as_bytes());
            let separator = if line.is_empty() { "" } else { ": " };
            let note = proxy_note(response);
            Err(unavailable(format!(
                "the authorization server answers HTTP {status}{separator}{line}{note}"
            )))
        }
    }
}

/// The error code of an answer. Some servers write an object with a `code` in its place.
fn error_code(object: &Map<String, Value>) -> Option<String> {
    let code = match object.get("error")? {
        Value::String(code) => code.clone(),
        Value::Object(error) => error
            .get("code")
            .or_else(|| error.get("error"))?
            .as_str()?
            .to_owned(),
        _ => return None,
    };
    (!code.is_empty()).then_some(code)
}

/// The members of an answer in JSON or as a form.
fn read_object(response: &WebResponse) -> Option<Map<String, Value>> {
    let body = response.body().as_slice();
    if let Ok(Value::Object(object)) = serde_json::from_slice(body) {
        return Some(object);
    }
    let content_type = response.headers().get("content-type")?.to_str().ok()?;
    if !content_type.starts_with("application/x-www-form-urlencoded") {
        return None;
    }
    let pairs = form_urlencoded::parse(body);
    Some(
        pairs
            .map(|(name, value)| (name.into_owned(), Value::from(value.into_owned())))
            .collect(),
    )
}

fn json_response(status: http::StatusCode, object: Map<String, Value>) -> WebResponse {
    let mut response = WebResponse::new(Value::Object(object).to_string().into_bytes());
    *response.status_mut() = status;
    response
}
