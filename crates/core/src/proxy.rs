//! Proxies between Mainstay and remote servers: their URLs, the environment variables that name
//! them, and the hosts that are reached directly.

use std::{fmt, net::IpAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::config::{ProxyChoice, Secret};

/// The environment variables for the proxy of each scheme, in the order of curl.
const HTTPS_VARIABLES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
const HTTP_VARIABLES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
const EXCEPTIONS: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// A web server sets this variable for a CGI program. There, a header of a client can set
/// `HTTP_PROXY` (CVE-2016-5385), so that variable is ignored.
const CGI_VARIABLE: &str = "REQUEST_METHOD";

/// The destination of a request.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    pub is_encrypted: bool,
    /// A host name or an address, without brackets.
    pub host: &'p str,
    pub port: u16,
}

impl<'p> Place<'p> {
    /// Parses a URL. `None` if Mainstay cannot use the URL.
    pub fn from_url(url: &'p str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_encrypted = scheme.eq_ignore_ascii_case("https");
        let authority = rest.split(['/', '?', '#']).next()?;
        let authority = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        let default = default_port(is_encrypted);
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

/// A proxy. `Debug` and `Display` hide the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// True if the connection to the proxy uses TLS.
    pub is_encrypted: bool,
    /// A host name or an address, without brackets.
    pub host: String,
    pub port: u16,
    /// The value of the `Proxy-Authorization` header.
    authorization: Option<Secret>,
}

/// The reason that the URL of a proxy is invalid. It never quotes the URL, which may hold a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProxy {
    #[error("the URL of a proxy must begin with http:// or https://")]
    NoScheme,
    #[error("Mainstay speaks no SOCKS; the URL of a proxy must begin with http:// or https://")]
    Socks,
    #[error("the URL of the proxy has no host")]
    Host,
    #[error("the port of the proxy is not a number from 1 to 65535")]
    Port,
    #[error("the URL of the proxy contains a character that must be percent-encoded")]
    Character,
}

impl Proxy {
    /// Parses `http://[USER:PASSWORD@]HOST[:PORT]`. Ignores a path, like curl.
    pub fn parse(url: &str) -> Result<Self, InvalidProxy> {
        let (scheme, rest) = url.split_once("://").ok_or(InvalidProxy::NoScheme)?;
        let is_encrypted = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            scheme if scheme.starts_with("socks") => return Err(InvalidProxy::Socks),
            _ => return Err(InvalidProxy::NoScheme),
        };
        let is_bad = |byte: u8| !byte.is_ascii_graphic() || b"\"<>\\^`{|}".contains(&byte);
        if rest.bytes().any(is_bad) {
            return Err(InvalidProxy::Character);
        }
        // The password may contain `/` or `?` without percent-encoding.
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let address = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (host, port) = match address.strip_prefix('[') {
            Some(v6) => v6.split_once(']').ok_or(InvalidProxy::Host)?,
            None => address.split_at(address.find(':').unwrap_or(address.len())),
        };
        if host.is_empty() || host.contains(['[', ']']) {
            return Err(InvalidProxy::Host);
        }
        let port = match port.strip_prefix(':') {
            None if !port.is_empty() => return Err(InvalidProxy::Host),
            None | Some("") => default_port(is_encrypted),
            // `parse` also accepts a sign.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let port = digits.parse().map_err(|_| InvalidProxy::Port)?;
                if port == 0 {
                    return Err(InvalidProxy::Port);
                }
                port
            }
            Some(_) => return Err(InvalidProxy::Port),
        };
        let authorization = credentials
            .map(basic)
            .transpose()?
            .map(|value| Secret::new(format!("Basic {value}")));
        Ok(Self {
            is_encrypted,
            host: host.to_owned(),
            port,
            authorization,
        })
    }

    /// Parses the value of an environment variable. The default scheme is `http://`, like in curl.
    fn parse_variable(value: &str) -> Result<Self, InvalidProxy> {
        match value.trim() {
            url if url.contains("://") => Self::parse(url),
            address => Self::parse(&format!("http://{address}")),
        }
    }

    /// The value of the `Proxy-Authorization` header, if the URL has a user.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_ref().map(Secret::expose)
    }
}

/// Writes the URL without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        let (host, port) = (&self.host, self.port);
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

const fn default_port(is_encrypted: bool) -> u16 {
    if is_encrypted { 443 } else { 80 }
}

/// Encodes `USER:PASSWORD` of a URL for basic authentication (RFC 7617). Percent-encoding is
/// decoded first.
fn basic(of_url: &str) -> Result<String, InvalidProxy> {
    let (user, password) = of_url.split_once(':').unwrap_or((of_url, ""));
    let mut credentials = percent_decoded(user)?;
    credentials.push(b':');
    credentials.extend(percent_decoded(password)?);
    Ok(STANDARD.encode(credentials))
}

/// Decodes percent-encoding such as `%40`. A percent sign without two hex digits stays.
pub(crate) fn percent_decoded(text: &str) -> Result<Vec<u8>, InvalidProxy> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = match (first, after) {
            (b'%', [high, low, ..]) => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        match code {
            // Refuse control characters. A line break would end the header.
            Some((high, low)) if high * 16 + low < 0x20 => return Err(InvalidProxy::Character),
            Some((high, low)) => {
                decoded.push(high * 16 + low);
                rest = &after[2..];
            }
            None => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    Ok(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

/// The decoded password in a proxy's URL.
pub fn password(url: &str) -> Option<String> {
    let authorization = Proxy::parse(url).ok()?.authorization?;
    let credentials = authorization.expose().strip_prefix("Basic ")?;
    let decoded = String::from_utf8(STANDARD.decode(credentials).ok()?).ok()?;
    let (_, password) = decoded.split_once(':')?;
    (!password.is_empty()).then(|| password.to_owned())
}

/// The proxies from environment variables, and the hosts without a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyVariables {
    https: Option<ProxyVariable>,
    http: Option<ProxyVariable>,
    exceptions: String,
}

/// An environment variable that names a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProxyVariable {
    name: &'static str,
    value: Secret,
}

impl ProxyVariables {
    /// Reads the environment variables. An empty variable counts as unset.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let is_cgi = value(CGI_VARIABLE).is_some();
        let first = |names: [&'static str; 4]| {
            let mut usable = names
                .into_iter()
                .filter(|name| *name != "HTTP_PROXY" || !is_cgi);
            usable.find_map(|name| {
                let value = Secret::new(value(name)?);
                Some(ProxyVariable { name, value })
            })
        };
        Self {
            https: first(HTTPS_VARIABLES),
            http: first(HTTP_VARIABLES),
            exceptions: EXCEPTIONS.into_iter().find_map(value).unwrap_or_default(),
        }
    }

    /// Returns the variable for this destination. `None` for loopback and for entries of
    /// `NO_PROXY`.
    fn variable_for(&self, place: Place<'_>) -> Option<&ProxyVariable> {
        let variable = if place.is_encrypted {
            self.https.as_ref()?
        } else {
            self.http.as_ref()?
        };
        let host = Host::parse(place.host);
        let mut exceptions = self.exceptions.split([',', ' ', '\t']);
        let is_excepted = exceptions.any(|entry| host.is_excepted(entry, place.port));
        (!host.is_here() && !is_excepted).then_some(variable)
    }
}

/// A proxy, and the setting or variable that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenProxy {
    pub proxy: Proxy,
    pub source: ProxySource,
}

/// Describes the proxy, with its environment variable.
impl fmt::Display for ChosenProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxy, source } = self;
        match source {
            ProxySource::Setting => write!(f, "the proxy {proxy}"),
            ProxySource::Variable(variable) => write!(f, "the proxy {proxy} ({variable})"),
        }
    }
}

/// The source of a proxy's URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxySource {
    /// The server's setting `proxy`.
    Setting,
    /// An environment variable of this name.
    Variable(&'static str),
}

/// The name of the setting or variable, for messages.
impl fmt::Display for ProxySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting => f.write_str("`proxy`"),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// The URL of a proxy is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{source_of_url} names a proxy that cannot be used: {reason}; `\"proxy\": false` does without one"
)]
pub struct UnusableProxy {
    pub source_of_url: ProxySource,
    pub reason: InvalidProxy,
}

/// Chooses the proxy for a destination. `None` connects directly.
pub fn choose(
    choice: &ProxyChoice,
    variables: &ProxyVariables,
    place: Place<'_>,
) -> Result<Option<ChosenProxy>, UnusableProxy> {
    let (parsed, source) = match choice {
        ProxyChoice::None => return Ok(None),
        ProxyChoice::Through(url) => (Proxy::parse(url.expose()), ProxySource::Setting),
        ProxyChoice::OfEnvironment => {
            let Some(variable) = variables.variable_for(place) else {
                return Ok(None);
            };
            let parsed = Proxy::parse_variable(variable.value.expose());
            (parsed, ProxySource::Variable(variable.name))
        }
    };
    match parsed {
        Ok(proxy) => Ok(Some(ChosenProxy { proxy, source })),
        Err(reason) => Err(UnusableProxy {
            source_of_url: source,
            reason,
        }),
    }
}

/// The host of a place.
enum Host {
    Address(IpAddr),
    /// A name in lower case, without a trailing dot.
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

    /// True if the host is this machine: a loopback or unspecified address, or `localhost`.
    fn is_here(&self) -> bool {
        match self {
            Self::Address(address) => {
                let address = address.to_canonical();
                address.is_loopback() || address.is_unspecified()
            }
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }

    /// True if an entry of `NO_PROXY` matches: `*`, a domain (with its subdomains), an address, or
    /// a network. All but `*` may end with a port.
    fn is_excepted(&self, entry: &str, port: u16) -> bool {
        let entry = entry.trim();
        if entry == "*" {
            return true;
        }
        let entry = match entry.rsplit_once(':') {
            // An IPv6 address without brackets cannot have a port.
            Some((host, of_entry)) if !host.contains(':') || host.ends_with(']') => {
                if of_entry.parse() != Ok(port) {
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
                let below = name.strip_suffix(domain.as_str());
                !domain.is_empty()
                    && below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
            }
        }
    }
}

/// True if the address equals `entry`, or is in the network `entry` (`10.0.0.0/8`).
fn is_within(address: IpAddr, entry: &str) -> bool {
    let (network, bits) = match entry.split_once('/') {
        Some((network, bits)) => (network, bits.parse::<u32>().ok()),
        None => (entry, Some(128)),
    };
    let (Ok(network), Some(bits)) = (network.parse(), bits) else {
        return false;
    };
    let is_same = |differing: u128, width: u32| {
        let host_bits = width.saturating_sub(bits);
        differing.checked_shr(host_bits).unwrap_or(0) == 0
    };
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            is_same(u128::from(one.to_bits() ^ other.to_bits()), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => is_same(one.to_bits() ^ other.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &[(&str, &str)]) -> ProxyVariables {
        ProxyVariables::read(|name| {
            let mut matching = set.iter().filter(|(key, _)| *key == name);
            matching.next().map(|(_, value)| (*value).to_owned())
        })
    }

    /// Returns the variable and the proxy for this URL.
    fn chosen(url: &str, set: &[(&str, &str)]) -> Option<String> {
        let place = Place::from_url(url).expect("a URL");
        let chosen = choose(&ProxyChoice::OfEnvironment, &variables(set), place);
        let chosen = chosen.expect("usable")?;
        Some(format!("{} {}", chosen.source, chosen.proxy))
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
    fn the_environment_names_a_proxy_for_each_scheme() {
        let https = ("HTTPS_PROXY", "http://proxy.corp:3128");
        let http = ("HTTP_PROXY", "proxy.corp:8080");
        let all = ("all_proxy", "https://other.corp");
        let of_https = "HTTPS_PROXY http://proxy.corp:3128";
        let of_http = "HTTP_PROXY http://proxy.corp:8080";
        let of_all = "all_proxy https://other.corp:443";
        for (url, variables, expected) in [
            ("https://api.example", &[https][..], Some(of_https)),
            ("http://api.example", &[https], None),
            ("http://api.example", &[https, http], Some(of_http)),
            ("http://api.example", &[https, all], Some(of_all)),
            ("https://api.example", &[https, all], Some(of_https)),
            (
                "https://api.example",
                &[https, ("https_proxy", "low:1")],
                Some("https_proxy http://low:1"),
            ),
            ("https://api.example", &[("https_proxy", " ")], None),
            ("https://api.example", &[], None),
            // In a CGI program, a header of a client sets `HTTP_PROXY`.
            ("http://api.example", &[http, (CGI_VARIABLE, "GET")], None),
            (
                "http://api.example",
                &[("http_proxy", "low:1"), (CGI_VARIABLE, "GET")],
                Some("http_proxy http://low:1"),
            ),
            // Loopback hosts are reached directly.
            ("https://localhost", &[https], None),
            ("https://a.localhost.", &[https], None),
            ("https://127.0.0.1", &[https], None),
            ("https://127.9.9.9", &[https], None),
            ("https://[::1]", &[https], None),
            ("https://[::ffff:127.0.0.1]", &[https], None),
        ] {
            assert_eq!(
                chosen(url, variables).as_deref(),
                expected,
                "{url} {variables:?}"
            );
        }
    }

    #[test]
    fn a_setting_wins_over_the_environment_and_holds_for_this_machine_too() {
        let variables = variables(&[("ALL_PROXY", "http://env:1"), ("NO_PROXY", "*")]);
        let place = Place::from_url("http://127.0.0.1:9/").expect("a URL");
        let setting = ProxyChoice::Through(Secret::new("http://me:pw@set:2"));
        let chosen = choose(&setting, &variables, place).expect("usable");
        let chosen = chosen.expect("a proxy");
        assert_eq!(chosen.source, ProxySource::Setting);
        assert_eq!(chosen.proxy.to_string(), "http://set:2");
        assert_eq!(choose(&ProxyChoice::None, &variables, place), Ok(None));
    }

    #[test]
    fn urls_of_proxies_are_parsed() {
        for (url, displayed, credentials) in [
            ("http://proxy:3128", "http://proxy:3128", None),
            ("HTTPS://proxy/path", "https://proxy:443", None),
            ("http://proxy", "http://proxy:80", None),
            ("http://[::1]:3128/", "http://[::1]:3128", None),
            ("http://me:pw@proxy:1", "http://proxy:1", Some("me:pw")),
            ("http://me@proxy:1", "http://proxy:1", Some("me:")),
            (
                "http://CORP%5Cme:p%40%3aw%25@proxy:1",
                "http://proxy:1",
                Some("CORP\\me:p@:w%"),
            ),
            (
                "http://me:a/b?c@d@proxy:1",
                "http://proxy:1",
                Some("me:a/b?c@d"),
            ),
            ("http://me:50%@proxy:1", "http://proxy:1", Some("me:50%")),
        ] {
            let proxy = Proxy::parse(url).expect(url);
            assert_eq!(proxy.to_string(), displayed, "{url}");
            let expected = credentials.map(|text| format!("Basic {}", STANDARD.encode(text)));
            assert_eq!(proxy.authorization(), expected.as_deref(), "{url}");
            let secret = password(url).unwrap_or_else(|| "unset".to_owned());
            assert!(!format!("{proxy} {proxy:?}").contains(&secret), "{url}");
        }
        for (url, expected) in [
            ("proxy:3128", InvalidProxy::NoScheme),
            ("ftp://proxy", InvalidProxy::NoScheme),
            ("socks5h://proxy:1080", InvalidProxy::Socks),
            ("http://", InvalidProxy::Host),
            ("http://:3128", InvalidProxy::Host),
            ("http://[::1", InvalidProxy::Host),
            ("http://[::1]x", InvalidProxy::Host),
            ("http://proxy:0", InvalidProxy::Port),
            ("http://proxy:65536", InvalidProxy::Port),
            ("http://proxy:+1", InvalidProxy::Port),
            ("http://pro xy:1", InvalidProxy::Character),
            ("http://me:a%0d%0ab@proxy:1", InvalidProxy::Character),
        ] {
            assert_eq!(Proxy::parse(url), Err(expected), "{url}");
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_an_error_with_its_variable() {
        let variables = variables(&[("ALL_PROXY", "socks5://me:hunter2@proxy:1080")]);
        let place = Place::from_url("https://api.example").expect("a URL");
        let error = choose(&ProxyChoice::OfEnvironment, &variables, place);
        assert_eq!(
            error.expect_err("SOCKS").to_string(),
            "ALL_PROXY names a proxy that cannot be used: Mainstay speaks no SOCKS; the URL of a proxy must begin with http:// or https://; `\"proxy\": false` does without one"
        );
        assert!(!format!("{variables:?}").contains("hunter2"));
    }

    #[test]
    fn places_that_are_excepted_need_no_proxy() {
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
            let expected = (!is_excepted).then_some("ALL_PROXY http://proxy:1");
            assert_eq!(
                chosen(url, &variables).as_deref(),
                expected,
                "{url} {exceptions}"
            );
        }
    }
}
