//! Browser sessions of the web page. A browser signs in with a one-time code or the control token,
//! and gets a cookie. `mainstay_doorway::browser` checks the cookie of later requests.

use axum::{
    Extension, Json,
    extract::{FromRequestParts, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, Method, header, request::Parts};
use mainstay_api as api;
use mainstay_core::principal::Principal;
use mainstay_doorway::{
    browser::{self, SignedIn},
    guard,
    peer::OverTls,
};
use mainstay_platform::utc;
use mainstay_tokens::{CODE_LIFETIME, Pass, SESSION_LIFETIME, TokenError, Tokens};
use tokio::time::sleep;

use super::{
    RestDoor,
    body::{Body, UnprovenBody},
    refusal::Refusal,
    tokens::changed,
};

/// True for a request that signs in. It has no credentials yet.
pub fn is_sign_in(method: &Method, path: &str) -> bool {
    method == Method::POST && path == api::BROWSER_SESSION
}

/// Creates a link that signs in one browser, once.
pub fn link(tokens: &Tokens) -> Result<api::SignInLink, TokenError> {
    let code = tokens.make_code()?.expose().to_owned();
    Ok(api::SignInLink {
        path: format!("/#/sign-in?code={code}"),
        code,
        expires_in_seconds: CODE_LIFETIME.as_secs(),
    })
}

pub async fn make_link(State(door): State<RestDoor>) -> Result<Response, Refusal> {
    door.has_page(api::SESSION_LINKS)?;
    Ok(uncached(Json(link(&door.tokens)?).into_response()))
}

pub async fn sign_in(
    State(door): State<RestDoor>,
    over_tls: Option<Extension<OverTls>>,
    headers: HeaderMap,
    UnprovenBody(given): UnprovenBody<api::SignIn>,
) -> Result<Response, Refusal> {
    door.has_page(api::BROWSER_SESSION)?;
    if !guard::is_same_origin(&headers) {
        return Err(browser::Refused::OtherOrigin.into());
    }
    let checked = check(&door.tokens, given);
    if let Err(refusal @ (Refusal::InvalidCode | Refusal::WrongToken)) = checked {
        sleep(door.tokens.failure_delay()).await;
        return Err(refusal);
    }
    checked?;
    let former = browser::session(&door.tokens, &headers).map(|session| session.secret);
    let signed_in = changed(&door, move |tokens| {
        tokens.sign_in(former.as_ref(), SESSION_LIFETIME)
    });
    let session = signed_in.await?;
    let answer = api::SignedIn {
        page_key: session.page_key.expose().to_owned(),
        expires_at: utc::rfc3339(session.expires_at),
    };
    let cookie = browser::cookie(&headers, over_tls.is_some(), &session.secret);
    Ok(with_cookie(Json(answer).into_response(), cookie))
}

fn check(tokens: &Tokens, credential: api::SignIn) -> Result<(), Refusal> {
    match (credential.code, credential.token) {
        (Some(code), _) if tokens.take_code(code.as_bytes()) => Ok(()),
        (Some(_), _) => Err(Refusal::InvalidCode),
        (None, Some(token)) => match tokens.bearer(token.trim().as_bytes()) {
            Some(Pass {
                principal: Principal::Operator,
                ..
            }) => Ok(()),
            Some(_) => Err(Refusal::NotForClients),
            None => Err(Refusal::WrongToken),
        },
        (None, None) => Err(Refusal::MissingParameter("code")),
    }
}

pub async fn show(OfBrowser(session): OfBrowser) -> Response {
    let answer = api::BrowserSession {
        signed_in: true,
        expires_at: utc::rfc3339(session.expires_at()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    uncached(Json(answer).into_response())
}

/// Creates a ticket for a download. The browser sends no page key with a download.
pub async fn make_ticket(
    State(door): State<RestDoor>,
    OfBrowser(session): OfBrowser,
    Body(given): Body<api::Download>,
) -> Result<Response, Refusal> {
    let path = given.path.ok_or(Refusal::MissingParameter("path"))?;
    let ticket = door.tokens.make_ticket(&session.secret, &path)?;
    let link = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{link}{}={}", browser::TICKET, ticket.expose());
    Ok(uncached(Json(api::DownloadTicket { path }).into_response()))
}

pub async fn sign_out(
    State(door): State<RestDoor>,
    over_tls: Option<Extension<OverTls>>,
    headers: HeaderMap,
    OfBrowser(session): OfBrowser,
) -> Result<Response, Refusal> {
    changed(&door, move |tokens| tokens.sign_out(&session.secret)).await?;
    let answer = Json(api::SignedOut { signed_in: false }).into_response();
    let cookie = browser::no_cookie(&headers, over_tls.is_some());
    Ok(with_cookie(answer, cookie))
}

fn with_cookie(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    uncached(response)
}

/// Forbids caches to store the response, because it has a secret.
fn uncached(mut response: Response) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}

/// The browser session of a request; an error if the request has a token instead of a cookie.
pub struct OfBrowser(SignedIn);

impl FromRequestParts<RestDoor> for OfBrowser {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &RestDoor) -> Result<Self, Refusal> {
        let session = parts.extensions.get::<SignedIn>().cloned();
        session.map(Self).ok_or(Refusal::NoSession)
    }
}
