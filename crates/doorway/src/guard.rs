//! Checks `Host` and `Origin` of every request. The check stops web pages that call loopback
//! addresses (DNS rebinding). Both headers are parsed by RFC 3986: a comparison of substrings would
//! admit `localhost:80@evil.com` and `[::1].evil.com`.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    num::NonZeroU16,
};

use http::{HeaderMap, HeaderValue, Uri, header};

/// The allowed host names and origins of a listener.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// The `Host` of most requests, the listener's own address. Compared first.
    authority: Option<String>,
    hosts: Allowed<Host>,
    origins: Allowed<String>,
}

/// Configured names. Loopback names are allowed in addition.
#[derive(Clone, Debug)]
enum Allowed<T> {
    All,
    These(Vec<T>),
}

impl<T> Default for Allowed<T> {
    fn default() -> Self {
        Self::These(Vec::new())
    }
}

/// The reason that a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// An invalid request (RFC 9112, section 3.2). It is answered with 400, the others with 403.
    #[error("a request needs one Host header, which is a host name or address and maybe a port")]
    Malformed,
    #[error("Host is not one of this server's names")]
    Host,
    #[error("Origin is not allowed")]
    Origin,
}

impl Guard {
    /// Allows loopback names, `address`, and the configured entries. The entry `*` allows
    /// everything.
    pub fn new(address: SocketAddr, hosts: &[String], origins: &[String]) -> Self {
        let mut allowed_hosts = Allowed::from_config(hosts, Host::configured);
        let mut authority = None;
        if !address.ip().is_unspecified() {
            if let Allowed::These(hosts) = &mut allowed_hosts {
                hosts.push(Host::Address(address.ip()));
            }
            authority = Some(address.to_string());
        }
        Self {
            authority,
            hosts: allowed_hosts,
            origins: Allowed::from_config(origins, |origin| Some(origin.to_owned())),
        }
    }

    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Forbidden> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (host, second_host) = (hosts.next(), hosts.next());
        // An absolute request target contains a host, too. Check both.
        let line_host = uri.authority().map(http::uri::Authority::as_str);
        let header_host = host.map(|host| host.to_str().map_err(|_| Forbidden::Malformed));
        if second_host.is_some() || header_host.is_none() && line_host.is_none() {
            return Err(Forbidden::Malformed);
        }
        for host in line_host.map(Ok).into_iter().chain(header_host) {
            self.check_host(host?)?;
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next().map(HeaderValue::to_str), origins.next()) {
            (None, _) => Ok(()),
            (Some(Ok(origin)), None) if self.allows(origin) => Ok(()),
            (Some(_), _) => Err(Forbidden::Origin),
        }
    }

    fn check_host(&self, host: &str) -> Result<(), Forbidden> {
        if self.authority.as_deref() == Some(host) {
            return Ok(());
        }
        let (host, _) = authority(host).ok_or(Forbidden::Malformed)?;
        if host.is_loopback() || self.hosts.any(|allowed_host| *allowed_host == host) {
            Ok(())
        } else {
            Err(Forbidden::Host)
        }
    }

    /// True if pages of this origin may send requests.
    pub fn allows(&self, origin: &str) -> bool {
        let parsed_origin = web_origin(origin);
        parsed_origin.as_ref().is_some_and(|(_, host, _)| host.is_loopback())
            // Origins of applications, such as `app://x`, are compared as text.
            || self.origins.any(|allowed_origin| {
                allowed_origin == origin || parsed_origin.is_some() && web_origin(allowed_origin) == parsed_origin
            })
    }
}

/// True if the request may come from Mainstay's own page. `Origin` and `Sec-Fetch-Site` must match
/// the host and port of `Host`, if they are present.
pub fn is_same_origin(headers: &HeaderMap) -> bool {
    let sites = headers.get_all("sec-fetch-site").iter();
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.and_then(authority);
    let is_ours = |origin: &HeaderValue| {
        let origin = origin.to_str().ok().and_then(web_origin)?;
        let (_, name, port) = &origin;
        let (host, host_port) = host.as_ref()?;
        let host_port = host_port.map_or(default_port(origin.0), NonZeroU16::get);
        Some(name == host && *port == host_port)
    };
    sites
        .map(HeaderValue::as_bytes)
        .all(|site| matches!(site, b"same-origin" | b"none"))
        && origins.all(|origin| is_ours(origin) == Some(true))
}

/// True for a request of another site's page without `Origin`, such as one for an image. The page
/// cannot read the answer, but it could open streams.
pub fn is_from_unnamed_origin(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    !headers.contains_key(header::ORIGIN)
        && sites.any(|site| matches!(site.as_bytes(), b"cross-site" | b"same-site"))
}

/// The port in a `Host` header, or 80.
pub fn port(host: &str) -> Option<u16> {
    let (_, port) = authority(host)?;
    Some(port.map_or(default_port(false), NonZeroU16::get))
}

const fn default_port(is_tls: bool) -> u16 {
    if is_tls { 443 } else { 80 }
}

impl<T> Allowed<T> {
    /// Parses configured entries. Entries that cannot be parsed match nothing and are omitted.
    fn from_config(configured_values: &[String], parse: impl Fn(&str) -> Option<T>) -> Self {
        if configured_values.iter().any(|entry| entry == "*") {
            return Self::All;
        }
        Self::These(
            configured_values
                .iter()
                .filter_map(|entry| parse(entry))
                .collect(),
        )
    }

    fn any(&self, matches: impl Fn(&T) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => these.iter().any(matches),
        }
    }
}

/// The host of an authority (RFC 3986).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    /// A name in lower case, without a final dot.
    Name(String),
}

impl Host {
    /// Parses a configured host. An IPv6 address needs no brackets.
    fn configured(text: &str) -> Option<Self> {
        match text.parse() {
            Ok(address) => Some(Self::Address(address)),
            Err(_) => Self::parse(text),
        }
    }

    /// Parses a host; `None` if it is invalid. An IPv6 zone is refused, because only the sender
    /// knows its meaning (RFC 6874, section 4).
    fn parse(text: &str) -> Option<Self> {
        if let Some(inner_address) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner_address.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_label = |label: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.bytes().all(is_allowed)
        };
        name.split('.')
            .all(is_label)
            .then(|| Self::Name(name.to_ascii_lowercase()))
    }

    fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Name(name) => name == "localhost",
        }
    }
}

/// Parses host and port (RFC 3986, section 3.2); `None` for any other text, also for user
/// information.
fn authority(text: &str) -> Option<(Host, Option<NonZeroU16>)> {
    // The colons of an IPv6 address are inside of its brackets.
    let after_brackets = text.rfind(']').map_or(0, |index| index + 1);
    let Some(colon) = text[after_brackets..].find(':') else {
        return Some((Host::parse(text)?, None));
    };
    let (host, port) = text.split_at(after_brackets + colon);
    let port = &port[1..];
    let port = match port {
        "" => None,
        // Check the digits: `parse` would accept a sign.
        _ if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
        _ => return None,
    };
    Some((Host::parse(host)?, port))
}

/// Parses a web origin into scheme (`true` for HTTPS), host and port.
fn web_origin(origin: &str) -> Option<(bool, Host, u16)> {
    let (scheme, rest) = origin.split_once("://")?;
    let is_tls = scheme.eq_ignore_ascii_case("https");
    if !is_tls && !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let (host, port) = authority(rest)?;
    let port = port.map_or(default_port(is_tls), NonZeroU16::get);
    Some((is_tls, host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Result<(), Forbidden> {
        let guard = Guard::new(
            "192.0.2.1:7420".parse().expect("an address"),
            &["gate.example".to_owned(), "2001:db8::1".to_owned()],
            &["https://app.example".to_owned(), "app://desktop".to_owned()],
        );
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a header"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().expect("a header"));
        }
        guard.check(&Uri::from_static("/mcp"), &headers)
    }

    #[test]
    fn only_our_own_names_are_served() {
        for host in [
            "localhost",
            "LOCALHOST:7420",
            "localhost.",
            "localhost:",
            "127.0.0.1:7420",
            "127.3.2.1",
            "[::1]:7420",
            "[0:0::1]",
            "192.0.2.1",
            "192.0.2.1:7420",
            "gate.example:443",
            "Gate.Example.:65535",
            "[2001:DB8::1]:1",
        ] {
            assert_eq!(check(host, None), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil-localhost",
            "0.0.0.0",
            "2130706433",
            "0x7f.0.0.1",
            "127.1",
            "127.0.0.1.",
            "[::]",
            "[::2]:7420",
        ] {
            assert_eq!(check(host, None), Err(Forbidden::Host), "{host}");
        }
        for host in [
            "",
            ".",
            ":80",
            "localhost..",
            ".localhost",
            "localhost:80@evil.com",
            "user@localhost",
            "localhost:80:80",
            "localhost:65536",
            "localhost:0",
            "localhost:+80",
            "localhost:-1",
            "localhost:8o",
            "localhost/",
            "localhost#",
            "localhost, evil.com",
            "localhost evil.com",
            "local%68ost",
            "[::1].evil.com",
            "[::1]evil.com:80",
            "evil.com[::1]",
            "[::1]]",
            "[[::1]]",
            "[::1",
            "::1",
            "[::1%lo]",
            "[::1%25lo]:80",
            "[127.0.0.1]",
            "http://localhost",
        ] {
            assert_eq!(check(host, None), Err(Forbidden::Malformed), "{host}");
        }
    }

    #[test]
    fn only_loopback_and_configured_origins_are_served() {
        for origin in [
            "http://localhost:6274",
            "https://127.0.0.1",
            "http://[::1]:1",
            "HTTP://LOCALHOST",
            "https://app.example",
            "https://APP.example:443",
            "app://desktop",
        ] {
            assert_eq!(check("localhost", Some(origin)), Ok(()), "{origin}");
        }
        for origin in [
            "http://localhost.evil.example",
            "http://localhost:80.evil.com",
            "http://localhost:80@evil.com",
            "http://localhost@evil.com",
            "http://[::1].evil.com",
            "http://localhost/",
            "http://localhost:65536",
            "http://",
            "",
            "localhost",
            "ftp://localhost",
            "app://desktop.evil",
            "http://app.example",
            "https://app.example:444",
            "null",
            "https://app.example.evil",
            "file://",
            "http://localhost, http://evil.com",
        ] {
            assert_eq!(
                check("localhost", Some(origin)),
                Err(Forbidden::Origin),
                "{origin}"
            );
        }
    }

    /// A page at another port of the same host has another origin.
    #[test]
    fn the_same_origin_has_the_same_host_and_port() {
        for (host, origin, expected) in [
            ("127.0.0.1:7420", "http://127.0.0.1:7420", true),
            ("LOCALHOST:7420", "http://localhost.:7420", true),
            ("[0::1]:7420", "http://[::1]:7420", true),
            ("gate.example", "https://gate.example", true),
            ("gate.example", "http://gate.example:80", true),
            ("gate.example:443", "https://gate.example", true),
            ("127.0.0.1:7420", "http://127.0.0.1:7421", false),
            ("127.0.0.1:7420", "http://localhost:7420", false),
            ("gate.example:443", "http://gate.example", false),
            ("gate.example", "https://gate.example.evil.example", false),
            ("gate.example", "null", false),
            ("a@b", "http://b", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().expect("a header"));
            headers.insert(header::ORIGIN, origin.parse().expect("a header"));
            assert_eq!(is_same_origin(&headers), expected, "{host} {origin}");
        }
    }

    #[test]
    fn a_page_that_is_elsewhere_names_its_origin() {
        for (site, origin, expected) in [
            (None, None, false),
            (Some("none"), None, false),
            (Some("same-origin"), None, false),
            (Some("same-site"), None, true),
            (Some("cross-site"), None, true),
            (Some("cross-site"), Some("http://localhost:3000"), false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [("sec-fetch-site", site), ("origin", origin)] {
                if let Some(value) = value {
                    headers.insert(name, value.parse().expect("a header"));
                }
            }
            assert_eq!(
                is_from_unnamed_origin(&headers),
                expected,
                "{site:?} {origin:?}"
            );
        }
    }

    /// `*` allows every host and origin, but still refuses malformed headers.
    #[test]
    fn a_star_allows_all_that_are_well_formed() {
        let star = ["*".to_owned()];
        let guard = Guard::new("0.0.0.0:1".parse().expect("an address"), &star, &star);
        let mut headers = HeaderMap::new();
        let check = |headers: &HeaderMap| guard.check(&Uri::from_static("/mcp"), headers);
        assert_eq!(check(&headers), Err(Forbidden::Malformed));
        headers.insert(header::HOST, "any.example".parse().expect("a header"));
        headers.insert(header::ORIGIN, "null".parse().expect("a header"));
        assert_eq!(check(&headers), Ok(()));
        headers.append(header::HOST, "any.example".parse().expect("a header"));
        assert_eq!(check(&headers), Err(Forbidden::Malformed));
        headers.insert(header::HOST, "a@b".parse().expect("a header"));
        assert_eq!(check(&headers), Err(Forbidden::Malformed));
    }
}
