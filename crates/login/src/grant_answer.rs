//! Reads the answers of a token endpoint (RFC 6749, 5), and classifies its errors.

use std::time::{Duration, SystemTime};

use mainstay_core::{config::Secret, redact::Secrets};
use mainstay_transport::{first_error_line, retry_after};
use oauth2::url::form_urlencoded;
use serde_json::{Map, Value};

use crate::{
    assertion::UnusableKey,
    discovery::MetadataError,
    find::DiscoveryError,
    tokens::UnusableToken,
    web::{WebResponse, proxy_note},
};

/// The error of a grant that brought no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The authorization server refused the grant. Another attempt would get the same answer.
    #[error("{}", refusal_text(.code, .description.as_deref()))]
    Refused {
        code: String,
        description: Option<String>,
    },
    /// The authorization server gave no usable answer. A later attempt may succeed.
    #[error("{reason}")]
    Unavailable {
        reason: String,
        /// True if the authorization server may have processed the request.
        is_sent: bool,
    },
    /// The authorization server requests a later attempt.
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
    /// Makes a retryable error of a failed discovery, because a machine login has no person who could correct it.
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

    /// The pause that the authorization server requests.
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Busy { pause, .. } => Some(*pause),
            _ => None,
        }
    }
}

/// Maximum difference of two clocks that causes no refusal.
const CLOCK_LEEWAY: Duration = Duration::from_secs(60);

/// Returns the difference of this machine's clock to the date of an answer, in words. `None` if it is small.
pub fn clock_hint(response: &WebResponse, now: SystemTime) -> Option<String> {
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

/// Codes of temporary errors.
const TRANSIENT_CODES: [&str; 2] = ["temporarily_unavailable", "server_error"];

/// Codes that authorization servers use (RFC 6749, 5.2; RFC 8628, 3.5; RFC 8707, 2). Any other code, with a status
/// that authorization servers do not use for errors, comes from a gateway in front of the server.
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

/// Maximum pause between two requests for the tokens of a device, and maximum lifetime of its codes, in seconds.
const MAX_INTERVAL: u64 = 60;
const MAX_DEVICE_LIFETIME: u64 = 60 * 60;

/// Request parameters whose values are never quoted in errors.
const SECRET_PARAMETERS: [&str; 7] = [
    "code",
    "refresh_token",
    "code_verifier",
    "client_secret",
    "client_assertion",
    "device_code",
    "token",
];

/// The secrets in the form body of a request.
pub fn secrets_of(form: &[u8]) -> Vec<Secret> {
    form_urlencoded::parse(form)
        .filter(|(name, _)| SECRET_PARAMETERS.contains(&name.as_ref()))
        .map(|(_, value)| Secret::new(value))
        .collect()
}

/// Removes these secrets from a text of the authorization server, in each encoding in which it may quote them.
fn without_secrets(text: &str, secrets: &[Secret]) -> String {
    match Secrets::with_credentials(None, secrets) {
        Some(secrets) => secrets.hide(text).into_owned(),
        None => text.to_owned(),
    }
}

/// Clamps the times in an answer with device codes.
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

/// Maximum length of an error description that is stored, in characters.
const MAX_DESCRIPTION: usize = 300;

/// Converts an answer to the form of RFC 6749: JSON, and an error status for errors. Servers also send form bodies,
/// errors with status 200, and web pages. An answer that neither grants nor refuses is [`GrantError::Unavailable`].
pub fn read_answer(
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
        // Do not quote the body, which may contain tokens.
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

/// The error code of an answer. Some servers send an object with a `code` instead.
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

/// The members of an answer, which is JSON or a form body.
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
