//! Requests of the web page. A browser that is signed in sends a cookie, also on behalf of pages of other ports
//! and origins. So the cookie counts only where the request shows that our own page makes it.

use std::time::SystemTime;

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderValue, Method, header};
use mainstay_core::config::Secret;
use mainstay_tokens::{SESSION_LIFETIME, Tokens, same};
use sha2::Sha256;

use crate::guard;

/// The header that repeats [`SignedIn::csrf_token`] with every request that may change something.
pub const CSRF_HEADER: &str = "x-csrf-token";

/// Cookies of our name that are tried. Programs at other ports can set more of them.
const MAX_COOKIES: usize = 8;

/// The browser session of a request.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub secret: Secret,
    pub expires_at: SystemTime,
}

/// Why a cookie opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no cookie of a session, or the session has ended")]
    NotSignedIn,
    #[error(
        "a session is for Mainstay's own page only: Origin must name the host and port of the Host header, and \
         Sec-Fetch-Site must be same-origin"
    )]
    OtherOrigin,
    #[error("X-CSRF-Token is missing: send the csrfToken of GET /api/session")]
    NoCsrfToken,
    #[error("X-CSRF-Token is not that of this session: GET /api/session has it as csrfToken")]
    WrongCsrfToken,
}

/// Lets a request of the page in by its cookie.
pub fn admit(tokens: &Tokens, method: &Method, headers: &HeaderMap) -> Result<SignedIn, Refused> {
    let session = session(tokens, headers).ok_or(Refused::NotSignedIn)?;
    if !guard::is_same_origin(headers) {
        return Err(Refused::OtherOrigin);
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let given = headers.get(CSRF_HEADER).ok_or(Refused::NoCsrfToken)?;
        if !same(given.as_bytes(), session.csrf_token().expose().as_bytes()) {
            return Err(Refused::WrongCsrfToken);
        }
    }
    Ok(session)
}

/// The session that a request's cookie names.
pub fn session(tokens: &Tokens, headers: &HeaderMap) -> Option<SignedIn> {
    let name = cookie_name(headers)?;
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|cookies| cookies.to_str().ok());
    let values = cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .filter(|(found, _)| *found == name)
        .map(|(_, value)| value);
    values.take(MAX_COOKIES).find_map(|value| {
        Some(SignedIn {
            expires_at: tokens.session(value.as_bytes())?,
            secret: Secret::new(value),
        })
    })
}

/// `mainstay-PORT`: browsers send the cookies of a host to all of its ports, and there may be a Mainstay at each.
fn cookie_name(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    Some(format!("mainstay-{}", guard::port(host)?))
}

impl SignedIn {
    /// What the page must repeat in a header. A page of another origin can have the cookie sent, but cannot
    /// read this.
    pub fn csrf_token(&self) -> Secret {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.expose().as_bytes())
            .expect("a key of any length will do");
        mac.update(b"mainstay csrf");
        let digits = mac.finalize().into_bytes();
        let digits = digits.iter().map(|byte| format!("{byte:02x}"));
        Secret::new(digits.collect::<String>())
    }

    /// The `Set-Cookie` that signs the browser of this request in.
    pub fn cookie(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        set_cookie(headers, self.secret.expose(), SESSION_LIFETIME.as_secs())
    }
}

/// The `Set-Cookie` that removes the cookie.
pub fn no_cookie(headers: &HeaderMap) -> Option<HeaderValue> {
    set_cookie(headers, "", 0)
}

fn set_cookie(headers: &HeaderMap, value: &str, seconds: u64) -> Option<HeaderValue> {
    let name = cookie_name(headers)?;
    let origin = headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
    // A proxy in front of Mainstay may speak TLS.
    let is_tls = origin.is_some_and(|origin| origin.starts_with(b"https://"));
    let secure = if is_tls { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}");
    let mut cookie = HeaderValue::from_str(&cookie).ok()?;
    cookie.set_sensitive(true);
    Some(cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: (&str, &str) = ("host", "127.0.0.1:7420");

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, HeaderValue::from_str(value).expect("a header"));
        }
        headers
    }

    fn signed_in() -> (Tokens, SignedIn) {
        let tokens = Tokens::from(Secret::new("control"));
        let (secret, expires_at) = tokens.sign_in(None, SESSION_LIFETIME).expect("signed in");
        (tokens, SignedIn { secret, expires_at })
    }

    #[test]
    fn a_cookie_is_found_by_the_port_of_its_host() {
        let (tokens, session) = signed_in();
        let secret = session.secret.expose();
        let check = |host, cookie: &str, expected| {
            let headers = headers(&[("host", host), ("cookie", cookie)]);
            let found = super::session(&tokens, &headers).is_some();
            assert_eq!(found, expected, "{host} {cookie}");
        };
        let good = format!("mainstay-7420={secret}");
        check("127.0.0.1:7420", &good, true);
        check("[::1]:7420", &good, true);
        check("127.0.0.1:7421", &good, false);
        check("127.0.0.1", &good, false);
        check("gate.example", &format!("mainstay-80={secret}"), true);
        check(
            "127.0.0.1:7420",
            &format!("a=b; mainstay-7420=x;  {good}; c"),
            true,
        );
        check("127.0.0.1:7420", &format!("xmainstay-7420={secret}"), false);
        check("127.0.0.1:7420", &format!("mainstay-7420={secret}0"), false);
        check("127.0.0.1:7420", "mainstay-7420=", false);
        check("127.0.0.1:7420", "mainstay-7420=control", false);
        let many = "mainstay-7420=x; ".repeat(MAX_COOKIES);
        check("127.0.0.1:7420", &format!("{many}{good}"), false);
        assert!(super::session(&tokens, &headers(&[("cookie", &good)])).is_none());
    }

    #[test]
    fn only_our_own_page_uses_the_cookie() {
        let (tokens, session) = signed_in();
        let cookie = format!("mainstay-7420={}", session.secret.expose());
        let check = |more: &[(&'static str, &str)], expected: Option<Refused>| {
            let mut given = vec![HOST, ("cookie", &cookie)];
            given.extend(more);
            let found = admit(&tokens, &Method::GET, &headers(&given)).err();
            assert_eq!(found, expected, "{more:?}");
        };
        let other = Some(Refused::OtherOrigin);
        check(&[], None);
        check(&[("sec-fetch-site", "same-origin")], None);
        check(&[("sec-fetch-site", "none")], None);
        check(&[("sec-fetch-site", "same-site")], other);
        check(&[("sec-fetch-site", "cross-site")], other);
        check(&[("sec-fetch-site", "")], other);
        check(&[("origin", "http://127.0.0.1:7420")], None);
        for origin in [
            "http://127.0.0.1:7421",
            "http://127.0.0.1",
            "http://localhost:7420",
            "http://127.0.0.1:7420.evil.example",
            "null",
            "",
        ] {
            check(&[("origin", origin)], other);
        }
        let origin = ("origin", "http://127.0.0.1:7420");
        check(&[origin, ("sec-fetch-site", "same-site")], other);
    }

    #[test]
    fn what_may_change_something_repeats_the_csrf_token() {
        let (tokens, session) = signed_in();
        let cookie = format!("mainstay-7420={}", session.secret.expose());
        let token = session.csrf_token();
        let (_, foreign) = signed_in();
        let foreign = foreign.csrf_token();
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
            for (given, expected) in [
                (None, Some(Refused::NoCsrfToken)),
                (Some(""), Some(Refused::WrongCsrfToken)),
                (Some(&token.expose()[1..]), Some(Refused::WrongCsrfToken)),
                (Some(foreign.expose()), Some(Refused::WrongCsrfToken)),
                (Some(session.secret.expose()), Some(Refused::WrongCsrfToken)),
                (Some(token.expose()), None),
            ] {
                let mut all = vec![HOST, ("cookie", cookie.as_str())];
                all.extend(given.map(|given| (CSRF_HEADER, given)));
                let found = admit(&tokens, &method, &headers(&all)).err();
                assert_eq!(found, expected, "{method} {given:?}");
            }
        }
        tokens.sign_out(&session.secret).expect("signed out");
        let all = headers(&[HOST, ("cookie", &cookie), (CSRF_HEADER, token.expose())]);
        let found = admit(&tokens, &Method::POST, &all).err();
        assert_eq!(found, Some(Refused::NotSignedIn));
    }

    #[test]
    fn the_cookie_is_out_of_reach_of_scripts_and_other_sites() {
        let (_, session) = signed_in();
        let cookie = session.cookie(&headers(&[HOST])).expect("a cookie");
        let expected = format!(
            "mainstay-7420={}; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000",
            session.secret.expose()
        );
        assert_eq!(cookie.to_str().expect("text"), expected);
        let behind_tls = headers(&[("host", "gate.example"), ("origin", "https://gate.example")]);
        let cookie = session.cookie(&behind_tls).expect("a cookie");
        assert!(cookie.to_str().expect("text").ends_with("; Secure"));
        let gone = no_cookie(&headers(&[HOST])).expect("a cookie");
        let expected = "mainstay-7420=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0";
        assert_eq!(gone.to_str().expect("text"), expected);
    }
}
