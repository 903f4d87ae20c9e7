//! Proxies in the environment. Mainstay uses no proxy. If a server cannot be reached, the error
//! mentions a configured proxy as a possible reason.

use std::net::IpAddr;

/// Variables that set a proxy for each scheme, in the usual order of precedence.
const HTTPS_VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const HTTP_VARIABLES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The host and port of a request.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    pub is_encrypted: bool,
    /// A host name or an address, without brackets.
    pub host: &'p str,
    pub port: u16,
}

impl<'p> Place<'p> {
    /// The place of a URL. `None` if Mainstay cannot use the URL.
    pub fn from_url(url: &'p str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_encrypted = scheme.eq_ignore_ascii_case("https");
        let authority = rest.split(['/', '?', '#']).next()?;
        let authority = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        let default = if is_encrypted { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, default),
        };
        Some(Self {
            is_encrypted,
            host: host.trim_start_matches('[').trim_end_matches(']'),
            port,
        })
    }
}

/// The environment variable by which programs with proxy support would use a proxy for this place.
/// `None` for this machine, and for the exceptions in `NO_PROXY`.
pub fn unused(place: Place<'_>, variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let variables = if place.is_encrypted {
        HTTPS_VARIABLES
    } else {
        HTTP_VARIABLES
    };
    let value = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let variable_name = variables.into_iter().find(|name| value(name).is_some())?;
    let host = Host::parse(place.host);
    let exceptions = EXCEPTIONS.into_iter().find_map(value).unwrap_or_default();
    let is_excepted = exceptions
        .split([',', ' ', '\t'])
        .any(|entry| host.is_excepted(entry, place.port));
    (!host.is_here() && !is_excepted).then_some(variable_name)
}

/// The message about a proxy variable that Mainstay ignores.
pub fn unused_message(variable: &str) -> String {
    format!("{variable} is set, and Mainstay uses no proxy")
}

/// The host of a place.
enum Host {
    Address(IpAddr),
    /// A name in lower case, without a dot at the end.
    Name(String),
}

impl Host {
    fn parse(host: &str) -> Self {
        match host.parse() {
            Ok(address) => Self::Address(address),
            Err(_) => {
                let name = host.strip_suffix('.').unwrap_or(host);
                Self::Name(name.to_ascii_lowercase())
            }
        }
    }

    /// True if the host is this machine.
    fn is_here(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback() || address.is_unspecified(),
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }

    /// True if an entry of `NO_PROXY` matches: `*`, a domain with its subdomains, an address, or a
    /// network. All but `*` may have a port.
    fn is_excepted(&self, entry: &str, port: u16) -> bool {
        let entry = entry.trim();
        if entry == "*" {
            return true;
        }
        let entry = match entry.rsplit_once(':') {
            // An IPv6 address without brackets has colons, but no port.
            Some((host, entry_port)) if !host.contains(':') || host.ends_with(']') => {
                if entry_port.parse() != Ok(port) {
                    return false;
                }
                host
            }
            _ => entry,
        };
        let entry = entry.trim_start_matches('[').trim_end_matches(']');
        match self {
            Self::Address(address) => is_within(*address, entry),
            Self::Name(name) => {
                let entry = entry.strip_prefix('*').unwrap_or(entry);
                let domain = entry.trim_matches('.').to_ascii_lowercase();
                let subdomain = name.strip_suffix(domain.as_str());
                !domain.is_empty()
                    && subdomain
                        .is_some_and(|subdomain| subdomain.is_empty() || subdomain.ends_with('.'))
            }
        }
    }
}

/// True if the address equals `entry`, or lies in the network `entry` (`10.0.0.0/8`).
fn is_within(address: IpAddr, entry: &str) -> bool {
    let (network, bits) = match entry.split_once('/') {
        Some((network, bits)) => (network, bits.parse::<u32>().ok()),
        None => (entry, Some(128)),
    };
    let (Ok(network), Some(bits)) = (network.parse(), bits) else {
        return false;
    };
    let is_same = |difference: u128, width: u32| {
        let host_bits = width.saturating_sub(bits);
        difference.checked_shr(host_bits).unwrap_or(0) == 0
    };
    match (address, network) {
        (IpAddr::V4(left), IpAddr::V4(right)) => {
            is_same(u128::from(left.to_bits() ^ right.to_bits()), 32)
        }
        (IpAddr::V6(left), IpAddr::V6(right)) => is_same(left.to_bits() ^ right.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unused_variable(url: &str, variables: &[(&str, &str)]) -> Option<&'static str> {
        let place = Place::from_url(url).expect("a URL");
        unused(place, |name| {
            let value = variables.iter().find(|(key, _)| *key == name);
            value.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn places_are_read_from_urls() {
        for (url, expected) in [
            (
                "https://api.example/mcp?key=a:b@c",
                (true, "api.example", 443),
            ),
            ("http://api.example:8080", (false, "api.example", 8080)),
            ("HTTPS://[2001:db8::1]:8443/", (true, "2001:db8::1", 8443)),
            ("http://[::1]", (false, "::1", 80)),
        ] {
            let Place {
                is_encrypted,
                host,
                port,
            } = Place::from_url(url).expect(url);
            assert_eq!((is_encrypted, host, port), expected, "{url}");
        }
        assert!(Place::from_url("api.example").is_none());
    }

    #[test]
    fn a_proxy_applies_to_its_scheme() {
        let https = ("HTTPS_PROXY", "http://proxy.corp:3128");
        let all_proxy = ("all_proxy", "socks5://proxy.corp");
        for (url, variables, expected) in [
            ("https://api.example", &[https][..], Some("HTTPS_PROXY")),
            ("http://api.example", &[https], None),
            ("http://api.example", &[https, all_proxy], Some("all_proxy")),
            ("https://api.example", &[("https_proxy", " ")], None),
            ("https://api.example", &[], None),
            // No proxy is used for this machine.
            ("https://localhost", &[https], None),
            ("https://127.0.0.1", &[https], None),
            ("https://[::1]", &[https], None),
        ] {
            assert_eq!(
                unused_variable(url, variables),
                expected,
                "{url} {variables:?}"
            );
        }
    }

    #[test]
    fn excepted_places_need_no_proxy() {
        for (url, exceptions, is_excepted) in [
            ("https://api.corp", "*", true),
            ("https://api.corp", "other, .corp", true),
            ("https://API.corp.", "corp", true),
            ("https://api.corp", "*.corp", true),
            ("https://corp", ".corp", true),
            ("https://notcorp", "corp", false),
            ("https://api.corp", "corp:443", true),
            ("https://api.corp", "corp:8443", false),
            ("https://10.1.2.3", "10.0.0.0/8", true),
            ("https://11.1.2.3", "10.0.0.0/8", false),
            ("https://11.1.2.3", "0.0.0.0/0", true),
            ("https://10.1.2.3", "10.1.2.3", true),
            ("https://10.1.2.3", "10.1.2.4", false),
            ("https://[2001:db8::1]", "2001:db8::1", true),
            ("https://[2001:db8::1]", "[2001:db8::1]:443", true),
            ("https://[2001:db8::1]", "2001:db8::/32", true),
            ("https://[2001:db8::1]", "10.0.0.0/8", false),
            ("https://api.corp", ", ,.,*.,/,:,[]:,1/x", false),
        ] {
            let variables = [("ALL_PROXY", "http://proxy:1"), ("NO_PROXY", exceptions)];
            let expected = (!is_excepted).then_some("ALL_PROXY");
            assert_eq!(
                unused_variable(url, &variables),
                expected,
                "{url} {exceptions}"
            );
        }
    }
}
