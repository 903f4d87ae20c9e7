//! Authenticates requests of the web page. A browser sends the cookie to every port of the host,
//! and also for pages of other origins. A request therefore needs the page key, too, which only
//! Mainstay's page can read. A download has a ticket instead of the key.

use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use mainstay_core::config::Secret;
use mainstay_tokens::{BrowserSession, SESSION_LIFETIME, Tokens};

use crate::guard;

/// The request header with the page key, which the page got at the sign-in.
pub const PAGE_KEY_HEADER: &str = "x-page-key";

/// The last query parameter of a download's URL. The browser sends no page key there.
pub const TICKET: &str = "ticket";

/// Maximum number of cookies that are tried. A program at another port can set cookies of this
/// name.
const MAX_COOKIES: usize = 8;

/// The browser session of a request.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub secret: Secret,
    session: BrowserSession,
}

/// The reason that the page's request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no cookie of a session, or the session has ended")]
    NotSignedIn,
    #[error(
        "a session is for Mainstay's own page only: Origin must name the host and port of the Host header, and \
         Sec-Fetch-Site must be same-origin"
    )]
    OtherOrigin,
    #[error("X-Page-Key is missing: send the pageKey of POST /api/session")]
    NoPageKey,
    #[error("X-Page-Key is not that of this session; sign in again")]
    WrongPageKey,
    #[error("the ticket was used, has expired, or is for something else")]
    WrongTicket,
}

/// Admits a request of the page by its cookie and its page key. A GET may have a ticket instead of
/// the key. The ticket is then removed from `uri`.
pub fn admit(
    tokens: &Tokens,
    method: &Method,
    uri: &mut Uri,
    headers: &HeaderMap,
) -> Result<SignedIn, Refused> {
    let signed_in = session(tokens, headers).ok_or(Refused::NotSignedIn)?;
    if !guard::is_same_origin(headers) {
        return Err(Refused::OtherOrigin);
    }
    match (headers.get(PAGE_KEY_HEADER), without_ticket(uri)) {
        (Some(key), _) if signed_in.session.has_page_key(key.as_bytes()) => Ok(signed_in),
        (Some(_), _) => Err(Refused::WrongPageKey),
        (None, Some((path, ticket))) if *method == Method::GET => {
            if !tokens.take_ticket(&ticket, &signed_in.secret, &path) {
                return Err(Refused::WrongTicket);
            }
            *uri = path.parse().map_err(|_| Refused::WrongTicket)?;
            Ok(signed_in)
        }
        (None, _) => Err(Refused::NoPageKey),
    }
}

/// Splits a URL that ends with a ticket. Returns the path with the rest of the query, and the
/// ticket.
fn without_ticket(uri: &Uri) -> Option<(String, Secret)> {
    let full_path = uri.path_and_query()?.as_str();
    let (path, ticket) = full_path.rsplit_once(TICKET)?;
    let path = path.strip_suffix(['?', '&'])?;
    Some((path.to_owned(), Secret::new(ticket.strip_prefix('=')?)))
}

/// The browser session of a request's cookie.
pub fn session(tokens: &Tokens, headers: &HeaderMap) -> Option<SignedIn> {
    let name = cookie_name(headers)?;
    let values = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|cookies| cookies.to_str().ok())
        // One header can contain several cookies.
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .filter(|(cookie_key, _)| *cookie_key == name)
        .map(|(_, value)| value);
    values.take(MAX_COOKIES).find_map(|value| {
        Some(SignedIn {
            session: tokens.session(value.as_bytes())?,
            secret: Secret::new(value),
        })
    })
}

/// The cookie's name, `mainstay-PORT`. Browsers share cookies between the ports of a host.
fn cookie_name(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    Some(format!("mainstay-{}", guard::port(host)?))
}

impl SignedIn {
    pub fn expires_at(&self) -> SystemTime {
        self.session.expires_at()
    }
}

/// The `Set-Cookie` header that signs the browser of this request in. `is_tls` is true if the request came over
/// TLS, as far as Mainstay knows.
pub fn cookie(headers: &HeaderMap, is_tls: bool, secret: &Secret) -> Option<HeaderValue> {
    set_cookie(headers, is_tls, secret.expose(), SESSION_LIFETIME.as_secs())
}

/// The `Set-Cookie` header that removes the cookie.
pub fn no_cookie(headers: &HeaderMap, is_tls: bool) -> Option<HeaderValue> {
    set_cookie(headers, is_tls, "", 0)
}

fn set_cookie(headers: &HeaderMap, is_tls: bool, value: &str, seconds: u64) -> Option<HeaderValue> {
    let name = cookie_name(headers)?;
    let origin = headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
    // A proxy that is not trusted may speak TLS.
    let is_tls = is_tls || origin.is_some_and(|origin| origin.starts_with(b"https://"));
    let secure_attribute = if is_tls { "; Secure" } else { "" };
    let cookie = format!(
        "{name}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure_attribute}"
    );
    let mut cookie = HeaderValue::from_str(&cookie).ok()?;
    cookie.set_sensitive(true);
    Some(cookie)
}

#[cfg(test)]
mod tests {
    use mainstay_tokens::NewSession;

    use super::*;

    const HOST: (&str, &str) = ("host", "127.0.0.1:7420");

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).expect("a header"));
        }
        headers
    }

    fn signed_in() -> (Tokens, NewSession) {
        let tokens = Tokens::from(Secret::new("control"));
        let session = tokens.sign_in(None, SESSION_LIFETIME).expect("signed in");
        (tokens, session)
    }

    #[test]
    fn a_cookie_is_found_by_the_port_of_its_host() {
        let (tokens, session) = signed_in();
        let secret = session.secret.expose();
        let check = |host, cookie: &str, expected| {
            let headers = headers(&[("host", host), ("cookie", cookie)]);
            let has_session = super::session(&tokens, &headers).is_some();
            assert_eq!(has_session, expected, "{host} {cookie}");
        };
        let valid_cookie = format!("mainstay-7420={secret}");
        check("127.0.0.1:7420", &valid_cookie, true);
        check("[::1]:7420", &valid_cookie, true);
        check("127.0.0.1:7421", &valid_cookie, false);
        check("127.0.0.1", &valid_cookie, false);
        check("gate.example", &format!("mainstay-80={secret}"), true);
        check(
            "127.0.0.1:7420",
            &format!("a=b; mainstay-7420=x;  {valid_cookie}; c"),
            true,
        );
        check("127.0.0.1:7420", &format!("xmainstay-7420={secret}"), false);
        check("127.0.0.1:7420", &format!("mainstay-7420={secret}0"), false);
        check("127.0.0.1:7420", "mainstay-7420=", false);
        check("127.0.0.1:7420", "mainstay-7420=control", false);
        let many_cookies = "mainstay-7420=x; ".repeat(MAX_COOKIES);
        check(
            "127.0.0.1:7420",
            &format!("{many_cookies}{valid_cookie}"),
            false,
        );
        assert!(super::session(&tokens, &headers(&[("cookie", &valid_cookie)])).is_none());
    }

    fn admitted(
        tokens: &Tokens,
        method: &Method,
        address: &str,
        pairs: &[(&'static str, &str)],
    ) -> Result<String, Refused> {
        let mut uri = address.parse().expect("an address");
        admit(tokens, method, &mut uri, &headers(pairs)).map(|_| uri.to_string())
    }

    #[test]
    fn only_our_own_page_uses_the_cookie() {
        let (tokens, session) = signed_in();
        let cookie = format!("mainstay-7420={}", session.secret.expose());
        let key = session.page_key.expose();
        let check = |extra_headers: &[(&'static str, &str)], expected: Option<Refused>| {
            let mut sent_headers = vec![HOST, ("cookie", &*cookie), (PAGE_KEY_HEADER, key)];
            sent_headers.extend(extra_headers);
            let refusal = admitted(&tokens, &Method::GET, "/api/x", &sent_headers).err();
            assert_eq!(refusal, expected, "{extra_headers:?}");
        };
        let other_origin = Some(Refused::OtherOrigin);
        check(&[], None);
        check(&[("sec-fetch-site", "same-origin")], None);
        check(&[("sec-fetch-site", "none")], None);
        check(&[("sec-fetch-site", "same-site")], other_origin);
        check(&[("sec-fetch-site", "cross-site")], other_origin);
        check(&[("sec-fetch-site", "")], other_origin);
        check(&[("origin", "http://127.0.0.1:7420")], None);
        for origin in [
            "http://127.0.0.1:7421",
            "http://127.0.0.1",
            "http://localhost:7420",
            "http://127.0.0.1:7420.evil.example",
            "null",
            "",
        ] {
            check(&[("origin", origin)], other_origin);
        }
        let origin = ("origin", "http://127.0.0.1:7420");
        check(&[origin, ("sec-fetch-site", "same-site")], other_origin);
    }

    /// A program at another port can use the cookie, because browsers send it to every port.
    #[test]
    fn a_cookie_opens_nothing_without_its_page_key() {
        let (tokens, session) = signed_in();
        let cookie = format!("mainstay-7420={}", session.secret.expose());
        let key = session.page_key.expose();
        let foreign_session = tokens.sign_in(None, SESSION_LIFETIME).expect("signed in");
        for method in [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::DELETE,
        ] {
            for (page_key, expected) in [
                (None, Some(Refused::NoPageKey)),
                (Some(""), Some(Refused::WrongPageKey)),
                (Some(&key[1..]), Some(Refused::WrongPageKey)),
                (
                    Some(foreign_session.page_key.expose()),
                    Some(Refused::WrongPageKey),
                ),
                (Some(session.secret.expose()), Some(Refused::WrongPageKey)),
                (Some(key), None),
            ] {
                let mut all_headers = vec![HOST, ("cookie", cookie.as_str())];
                all_headers.extend(page_key.map(|key| (PAGE_KEY_HEADER, key)));
                let refusal = admitted(&tokens, &method, "/api/x", &all_headers).err();
                assert_eq!(refusal, expected, "{method} {page_key:?}");
            }
        }
        tokens.sign_out(&session.secret).expect("signed out");
        let all_headers = [HOST, ("cookie", &*cookie), (PAGE_KEY_HEADER, key)];
        let refusal = admitted(&tokens, &Method::POST, "/api/x", &all_headers).err();
        assert_eq!(refusal, Some(Refused::NotSignedIn));
    }

    #[test]
    fn a_ticket_downloads_its_path_once() {
        let (tokens, session) = signed_in();
        let foreign_session = tokens.sign_in(None, SESSION_LIFETIME).expect("signed in");
        let get = |session: &NewSession, method: &Method, address: &str| {
            let cookie = format!("mainstay-7420={}", session.secret.expose());
            admitted(&tokens, method, address, &[HOST, ("cookie", &cookie)])
        };
        for path in ["/api/objects/c?x=1", "/api/objects/c"] {
            let ticket = tokens.make_ticket(&session.secret, path).expect("made");
            let link = if path.contains('?') { '&' } else { '?' };
            let full_uri = format!("{path}{link}ticket={}", ticket.expose());
            let wrong_ticket = Err(Refused::WrongTicket);
            assert_eq!(get(&foreign_session, &Method::GET, &full_uri), wrong_ticket);
            assert_eq!(
                get(
                    &session,
                    &Method::GET,
                    &full_uri.replace("objects/c", "objects/d")
                ),
                wrong_ticket
            );
            assert_eq!(
                get(&session, &Method::POST, &full_uri),
                Err(Refused::NoPageKey)
            );
            assert_eq!(get(&session, &Method::GET, &full_uri), Ok(path.to_owned()));
            assert_eq!(get(&session, &Method::GET, &full_uri), wrong_ticket);
        }
    }

    #[test]
    fn the_cookie_is_out_of_reach_of_scripts_and_other_sites() {
        let (_, session) = signed_in();
        let cookie = super::cookie(&headers(&[HOST]), false, &session.secret).expect("a cookie");
        let expected = format!(
            "mainstay-7420={}; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000",
            session.secret.expose()
        );
        assert_eq!(cookie.to_str().expect("text"), expected);
        let behind_tls = headers(&[("host", "gate.example"), ("origin", "https://gate.example")]);
        let cookie = super::cookie(&behind_tls, false, &session.secret).expect("a cookie");
        assert!(cookie.to_str().expect("text").ends_with("; Secure"));
        let cookie = super::cookie(&headers(&[HOST]), true, &session.secret).expect("a cookie");
        assert!(cookie.to_str().expect("text").ends_with("; Secure"));
        let removed_cookie = no_cookie(&headers(&[HOST]), false).expect("a cookie");
        let expected = "mainstay-7420=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0";
        assert_eq!(removed_cookie.to_str().expect("text"), expected);
    }
}
