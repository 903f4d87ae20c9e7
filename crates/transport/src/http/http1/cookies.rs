//! The cookies of the connections to one server (RFC 6265). Load balancers use cookies to route a client to
//! one server.
//!
//! All requests go to one host, so `Domain` only decides if a cookie is accepted.

use std::{
    net::IpAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use http::Uri;
use parking_lot::Mutex;

use super::Head;

/// The maximum number of stored cookies. Beyond it, the oldest cookie is dropped.
const MAX_COOKIES: usize = 50;

/// The maximum number of bytes of a cookie with its attributes.
const MAX_COOKIE: usize = 4096;

/// The maximum size, in bytes, of the `Cookie` line of a request. Servers refuse longer request heads.
const MAX_SENT: usize = 8192;

/// The cookies of one host. Without stored and configured cookies, requests do not lock the list.
pub struct CookieJar {
    host: String,
    is_encrypted: bool,
    has_cookies: AtomicBool,
    /// The `Cookie` header of the configuration. It is sent in one line with the cookies.
    configured: Option<String>,
    /// Locked for a lookup or a change, never across an await.
    cookies: Mutex<Vec<Cookie>>,
}

struct Cookie {
    name: String,
    value: String,
    path: String,
    expires: Option<SystemTime>,
}

/// Hides the cookies, which may be secrets.
impl std::fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CookieJar").finish_non_exhaustive()
    }
}

impl CookieJar {
    pub fn new(uri: &Uri, configured: Option<String>) -> Self {
        Self {
            configured,
            host: uri.host().unwrap_or_default().to_ascii_lowercase(),
            is_encrypted: uri.scheme_str() == Some("https"),
            has_cookies: AtomicBool::new(false),
            cookies: Mutex::default(),
        }
    }

    /// Stores the cookies of an answer.
    pub fn store(&self, head: &Head) {
        let now = SystemTime::now();
        for line in head.all("set-cookie") {
            self.set(&line, now);
        }
    }

    fn set(&self, line: &str, now: SystemTime) {
        let Some(cookie) = self.read(line, now) else {
            return;
        };
        let mut cookies = self.cookies.lock();
        let is_same = |stored: &Cookie| stored.name == cookie.name && stored.path == cookie.path;
        cookies.retain(|stored| !is_same(stored) && !stored.is_over(now));
        if !cookie.is_over(now) {
            if cookies.len() == MAX_COOKIES {
                cookies.remove(0);
            }
            cookies.push(cookie);
        }
        self.has_cookies
            .store(!cookies.is_empty(), Ordering::Relaxed);
    }

    /// Reads one `Set-Cookie` (RFC 6265, 5.2 and 5.3). `None` if the cookie is not for this connection.
    fn read(&self, line: &str, now: SystemTime) -> Option<Cookie> {
        if line.len() > MAX_COOKIE || line.bytes().any(|byte| byte.is_ascii_control()) {
            return None;
        }
        let mut parts = line.split(';').map(str::trim);
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let (mut path, mut expires, mut max_age) = ("/", None, None);
        for part in parts {
            let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match attribute.trim().to_ascii_lowercase().as_str() {
                "path" if value.starts_with('/') => path = value,
                "domain" if !self.is_within(value) => return None,
                "secure" if !self.is_encrypted => return None,
                "expires" => expires = date(value),
                "max-age" => max_age = value.parse::<i64>().ok(),
                _ => {}
            }
        }
        if let Some(seconds) = max_age {
            let seconds = Duration::from_secs(seconds.max(0).unsigned_abs());
            // If the clock cannot represent the time, the cookie does not expire.
            expires = now.checked_add(seconds);
        }
        (!name.is_empty()).then(|| Cookie {
            name: name.to_owned(),
            value: value.to_owned(),
            path: path.to_owned(),
            expires,
        })
    }

    /// True if the host of this jar is in `domain` (RFC 6265, 5.1.3).
    fn is_within(&self, domain: &str) -> bool {
        let domain = domain.trim_start_matches('.').to_ascii_lowercase();
        let is_below = || {
            let above = self.host.strip_suffix(&domain);
            above.is_some_and(|above| above.ends_with('.')) && self.host.parse::<IpAddr>().is_err()
        };
        domain.is_empty() || domain == self.host || is_below()
    }

    /// Writes the `Cookie` line of a request for this path, if there are cookies for it.
    pub fn write_to(&self, head: &mut Vec<u8>, path: &str) {
        if self.has_cookies.load(Ordering::Relaxed) || self.configured.is_some() {
            let line = self.line(path, SystemTime::now());
            head.extend_from_slice(line.as_bytes());
        }
    }

    fn line(&self, path: &str, now: SystemTime) -> String {
        let cookies = self.cookies.lock();
        let configured = self.configured.as_deref();
        let mut line = configured.map_or_else(String::new, |value| format!("cookie: {value}"));
        // Send the newest cookies if not all of them fit.
        let sent = cookies.iter().rev();
        for cookie in sent.filter(|cookie| cookie.is_for(path) && !cookie.is_over(now)) {
            let Cookie { name, value, .. } = cookie;
            if line.len() + name.len() + value.len() > MAX_SENT {
                break;
            }
            let separator = if line.is_empty() { "cookie: " } else { "; " };
            line = format!("{line}{separator}{name}={value}");
        }
        if !line.is_empty() {
            line.push_str("\r\n");
        }
        line
    }
}

impl Cookie {
    fn is_over(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// True if the cookie is sent for this path (RFC 6265, 5.1.4).
    fn is_for(&self, path: &str) -> bool {
        path.strip_prefix(self.path.as_str()).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('/') || self.path.ends_with('/')
        })
    }
}

/// Reads the date of a cookie. Old servers write it with hyphens and without the century (RFC 6265, 5.1.1).
fn date(value: &str) -> Option<SystemTime> {
    let spaced = value.replace('-', " ");
    let mut parts: Vec<&str> = spaced.split_whitespace().collect();
    let year = parts.get(3).filter(|year| year.len() == 2);
    let year = year.map(|year| match year.parse::<u8>() {
        Ok(70..) => format!("19{year}"),
        Ok(_) | Err(_) => format!("20{year}"),
    });
    if let Some(year) = &year {
        parts[3] = year;
    }
    httpdate::parse_http_date(&parts.join(" "))
        .or_else(|_| httpdate::parse_http_date(value))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar(url: &str) -> CookieJar {
        CookieJar::new(&url.parse().expect("a URI"), None)
    }

    /// Some servers read only one `Cookie` line.
    #[test]
    fn a_configured_cookie_shares_the_line() {
        let uri = "http://h/".parse().expect("a URI");
        let jar = CookieJar::new(&uri, Some("key=1".to_owned()));
        assert_eq!(jar.line("/", now()), "cookie: key=1\r\n");
        jar.set("lb=2", now());
        assert_eq!(jar.line("/", now()), "cookie: key=1; lb=2\r\n");
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    /// The line that is sent after these `Set-Cookie` headers.
    fn sent(url: &str, path: &str, set: &[&str]) -> String {
        let jar = jar(url);
        for line in set {
            jar.set(line, now());
        }
        jar.line(path, now()).trim_end().to_owned()
    }

    #[test]
    fn cookies_go_back_where_they_belong() {
        let url = "http://a.example.com/mcp";
        for (set, expected) in [
            ("lb=1", "cookie: lb=1"),
            ("lb=1; Path=/; HttpOnly; SameSite=Lax", "cookie: lb=1"),
            ("lb=\"a=b\"", "cookie: lb=\"a=b\""),
            ("lb=1; Path=/mcp", "cookie: lb=1"),
            ("lb=1; path=/m", ""),
            ("lb=1; Path=/other", ""),
            ("lb=1; Path=relative", "cookie: lb=1"),
            ("lb=1; Domain=example.com", "cookie: lb=1"),
            ("lb=1; Domain=.a.example.com", "cookie: lb=1"),
            ("lb=1; Domain=b.example.com", ""),
            ("lb=1; Domain=ple.com", ""),
            ("lb=1; Secure", ""),
            ("lb=1; Max-Age=10", "cookie: lb=1"),
            ("lb=1; Max-Age=0", ""),
            ("lb=1; Max-Age=-1", ""),
            ("lb=1; Max-Age=9223372036854775807", "cookie: lb=1"),
            (
                "lb=1; Expires=Sun, 06 Nov 1994 08:49:38 GMT",
                "cookie: lb=1",
            ),
            ("lb=1; Expires=Sun, 06-Nov-1994 08:49:36 GMT", ""),
            (
                "lb=1; Max-Age=5; Expires=Sun, 06 Nov 1994 08:49:36 GMT",
                "cookie: lb=1",
            ),
            ("lb=1; Expires=whenever", "cookie: lb=1"),
            ("=1", ""),
            ("lb", ""),
            ("lb=1\u{7}", ""),
        ] {
            assert_eq!(sent(url, "/mcp", &[set]), expected, "{set}");
        }
        assert_eq!(
            sent("https://h/", "/mcp", &["lb=1; Secure"]),
            "cookie: lb=1"
        );
        assert_eq!(sent("http://127.0.0.1/", "/", &["lb=1; Domain=0.0.1"]), "");
        assert_eq!(
            sent("http://127.0.0.1/", "/", &["lb=1; Domain=127.0.0.1"]),
            "cookie: lb=1"
        );
    }

    #[test]
    fn a_cookie_is_replaced_and_taken_back() {
        let url = "http://h/mcp";
        let set = ["a=1", "b=2", "a=3", "b=; Max-Age=0"];
        assert_eq!(sent(url, "/mcp", &set[..3]), "cookie: a=3; b=2");
        assert_eq!(sent(url, "/mcp", &set), "cookie: a=3");
        let jar = jar(url);
        jar.set("a=1; Max-Age=10", now());
        assert_eq!(jar.line("/", now() + Duration::from_secs(10)), "");
    }

    #[test]
    fn a_server_that_sets_cookies_without_end_costs_a_bounded_head() {
        let jar = jar("http://h/");
        for n in 0..1000 {
            jar.set(&format!("c{n}={}", "x".repeat(1000)), now());
        }
        assert_eq!(jar.cookies.lock().len(), MAX_COOKIES);
        let line = jar.line("/", now());
        assert!(
            line.contains("c999=") && line.len() < MAX_SENT + 100,
            "{}",
            line.len()
        );
        jar.set(&format!("long={}", "x".repeat(MAX_COOKIE)), now());
        assert!(!jar.line("/", now()).contains("long"));
    }
}
