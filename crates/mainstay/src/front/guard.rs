//! Who may speak to the HTTP doors at all: `Host` and `Origin` are checked on every path, against
//! web pages that reach for loopback (DNS rebinding).

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue, Uri, header};

/// Which names and origins are served.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// What most clients say: the address as it stands in our URLs.
    authority: Option<String>,
    /// Host names beside loopback ones, lower-case, without port.
    hosts: Vec<String>,
    /// Origins beside loopback ones, as browsers send them.
    origins: Vec<String>,
}

/// Answered with 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    #[error("Host is not one of this server's names")]
    Host,
    #[error("Origin is not allowed")]
    Origin,
}

impl Guard {
    /// A guard for a door at `address`; `*` allows everything.
    pub fn new(address: SocketAddr, hosts: &[String], origins: &[String]) -> Self {
        let mut hosts: Vec<String> = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let mut authority = None;
        if !address.ip().is_unspecified() {
            hosts.push(address.ip().to_string());
            authority = Some(address.to_string());
        }
        Self {
            authority,
            hosts,
            origins: origins.to_vec(),
        }
    }

    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Forbidden> {
        // HTTP/1.1 requires Host; a request line in absolute form goes before it.
        let host = uri
            .authority()
            .map(http::uri::Authority::as_str)
            .or_else(|| headers.get(header::HOST)?.to_str().ok());
        if !host.is_some_and(|host| self.knows(host)) {
            return Err(Forbidden::Host);
        }
        match headers.get(header::ORIGIN).map(HeaderValue::to_str) {
            None => Ok(()),
            Some(Ok(origin)) if self.allows(origin) => Ok(()),
            Some(_) => Err(Forbidden::Origin),
        }
    }

    fn knows(&self, host: &str) -> bool {
        if self.authority.as_deref() == Some(host) {
            return true;
        }
        let name = without_port(host).to_ascii_lowercase();
        is_loopback(&name)
            || self
                .hosts
                .iter()
                .any(|known| known == "*" || *known == name)
    }

    /// Whether pages of this origin may call us; programs send none.
    pub fn allows(&self, origin: &str) -> bool {
        let loopback = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"))
            .is_some_and(|host| is_loopback(&without_port(host).to_ascii_lowercase()));
        loopback
            || self
                .origins
                .iter()
                .any(|known| known == "*" || known == origin)
    }
}

/// `[::1]:80` → `::1`, `localhost:80` → `localhost`.
fn without_port(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_loopback(name: &str) -> bool {
    name == "localhost"
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Result<(), Forbidden> {
        let guard = Guard::new(
            "192.0.2.1:7420".parse().expect("an address"),
            &["gate.example".to_owned()],
            &["https://app.example".to_owned()],
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
            "127.0.0.1:7420",
            "[::1]:7420",
            "192.0.2.1",
            "gate.example:443",
        ] {
            assert_eq!(check(host, None), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert_eq!(check(host, None), Err(Forbidden::Host), "{host}");
        }
    }

    #[test]
    fn only_loopback_and_configured_origins_are_served() {
        for origin in [
            "http://localhost:6274",
            "https://127.0.0.1",
            "http://[::1]:1",
            "https://app.example",
        ] {
            assert_eq!(check("localhost", Some(origin)), Ok(()), "{origin}");
        }
        for origin in [
            "http://localhost.evil.example",
            "null",
            "https://app.example.evil",
            "file://",
        ] {
            assert_eq!(
                check("localhost", Some(origin)),
                Err(Forbidden::Origin),
                "{origin}"
            );
        }
    }
}
