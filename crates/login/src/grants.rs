//! Requests to a token endpoint for codes, refresh tokens, client credentials and devices (RFC 6749; RFC 8628). Each
//! request is for one resource (RFC 8707).

use std::{
    pin::Pin,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use mainstay_core::config::Secret;
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, Client, ClientId, ClientSecret,
    CsrfToken, DeviceAuthorizationUrl, EndpointNotSet, EndpointSet, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    StandardDeviceAuthorizationResponse, StandardRevocableToken, TokenUrl,
    basic::{BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse},
    url::{Url, form_urlencoded},
};
use tokio::time::Instant;

use crate::{
    assertion::{ASSERTION_TYPE, sign_assertion},
    discovery::{IssuerMetadata, MetadataError},
    grant_answer::{GrantError, clock_hint, read_answer, secrets_of},
    identity::{AuthMethod, ClientIdentity},
    scopes::{OFFLINE_ACCESS, Scopes},
    tokens::{TokenAnswer, Tokens},
    web::{Web, WebError, WebRequest, WebResponse},
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

/// The URL of an authorization request for a browser, and the secrets that redeem the answer.
#[derive(Debug)]
pub struct AuthorizationRequest {
    pub url: Url,
    /// The value of `state` in the redirect.
    pub state: Secret,
    pub verifier: Secret,
}

/// The codes with which a user logs in on another device.
#[derive(Clone, Debug)]
pub struct DeviceCodes(StandardDeviceAuthorizationResponse);

impl DeviceCodes {
    pub fn user_code(&self) -> &str {
        self.0.user_code().secret()
    }

    pub fn verification_uri(&self) -> &str {
        self.0.verification_uri().as_str()
    }

    /// The URL that includes the code.
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

/// Sends the requests of the crate `oauth2`. If the client signs assertions, each request gets a new one.
struct Sender<'a> {
    endpoint: &'a TokenEndpoint<'a>,
    started_at: Instant,
}

impl<'c> AsyncHttpClient<'c> for Sender<'_> {
    type Error = GrantError;
    type Future = Pin<Box<dyn Future<Output = Result<WebResponse, GrantError>> + Send + 'c>>;

    fn call(&'c self, request: oauth2::HttpRequest) -> Self::Future {
        Box::pin(async move {
            // Polling for the tokens of a device may take longer than an assertion is valid.
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
            read_answer(&response, &secrets, now, clock_hint.as_deref())
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

    /// Parameters of each request to the token endpoint, in addition to those of its grant.
    fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = vec![("resource", self.resource.to_owned())];
        if self.client.auth_method == AuthMethod::ClientSecretBasic {
            // FastMCP requires the id in the body, even if the header has it.
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

    /// Returns the URL to open in a browser. The browser is redirected to `redirect`.
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
            // Without this, an OpenID provider ignores the scope (OpenID Connect Core 1.0, 11).
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

    /// Requests a token for the client itself.
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

    /// Requests codes with which a user logs in on another device.
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

    /// Polls until the user has logged in or refused, or the codes have expired. `sleep` waits between two requests.
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

    /// Revokes a token (RFC 7009). Returns `false` if the authorization server has no revocation endpoint.
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

/// An error answer of the crate `oauth2`, as its code and its description.
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
        // Do not quote the error, which may contain a token.
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
