//! Checks URLs and headers before they are sent.

use std::net::IpAddr;

use crate::read::{node::Node, report::FindingReport};

/// The defect of an invalid URL. The error omits the URL, which may contain a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidUrl {
    #[error("the URL must begin with http:// or https://")]
    Scheme,
    #[error("the URL has no host")]
    Host,
    #[error("the URL's port is not a number from 1 to 65535")]
    Port,
    #[error("the URL contains a character that must be percent-encoded")]
    Character,
    #[error("credentials in a URL are not sent; use `headers` or `bearerToken`")]
    Credentials,
}

pub(crate) fn check_url(url: &str) -> Result<(), InvalidUrl> {
    let (scheme, rest) = url.split_once("://").ok_or(InvalidUrl::Scheme)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(InvalidUrl::Scheme);
    }
    if !rest
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
    {
        return Err(InvalidUrl::Character);
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(InvalidUrl::Credentials);
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(v6) => v6.split_once(']').ok_or(InvalidUrl::Host)?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if host.is_empty() || host.contains(['[', ']']) {
        return Err(InvalidUrl::Host);
    }
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(()),
        None => Err(InvalidUrl::Host),
        // Check the digits, because `parse` would also accept a sign.
        Some(digits) => match digits.parse::<u16>() {
            Ok(1..) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(()),
            _ => Err(InvalidUrl::Port),
        },
    }
}

/// The reason that a header cannot be sent. It never contains the header's value, which may be
/// secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHeader {
    #[error("not a header name: letters, digits and !#$%&'*+-.^_`|~ only")]
    Name,
    #[error("a header's value can only have visible ASCII characters, spaces and tabs")]
    Value,
}

/// Checks a name and a value, and returns the name in lower case (RFC 9110, section 5).
pub fn check_header(name: &str, value: &str) -> Result<String, InvalidHeader> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(InvalidHeader::Name);
    }
    if !value
        .bytes()
        .all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t'))
    {
        return Err(InvalidHeader::Value);
    }
    Ok(name.to_ascii_lowercase())
}

/// True for headers that Mainstay sets itself, for the connection and the protocol.
pub fn is_ours(lowercase_name: &str) -> bool {
    matches!(
        lowercase_name,
        "accept"
            | "connection"
            | "content-length"
            | "content-type"
            | "host"
            | "keep-alive"
            | "last-event-id"
            | "mcp-method"
            | "mcp-name"
            | "mcp-protocol-version"
            | "mcp-session-id"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Reads the origin at which browsers reach Mainstay. A login redirects the browser to it with a code in the URL,
/// so the origin needs TLS unless it is on this machine (OAuth 2.1, 1.5).
pub(crate) fn public_url(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<String> {
    let text = node.string(report)?;
    if let Err(fault) = check_url(text) {
        report.error(&node.place, fault.to_string());
        return None;
    }
    let url = text.trim_end_matches('/');
    let (scheme, authority) = url.split_once("://").unwrap_or_default();
    if authority.contains(['/', '?', '#']) {
        report.error(&node.place, "expected scheme, host and port alone");
        return None;
    }
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    let is_loopback = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback());
    if !scheme.eq_ignore_ascii_case("https") && !is_loopback {
        report.error(
            &node.place,
            "expected an `https://` URL, or one of this machine",
        );
        return None;
    }
    Some(url.to_owned())
}

/// Reads the URL of an MCP registry.
pub(crate) fn registry_url(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<String> {
    let url = node.string(report)?;
    if ["http://", "https://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
    {
        return Some(url.to_owned());
    }
    report.error(&node.place, "the URL must begin with http:// or https://");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let check = |url: &str, expected| assert_eq!(check_url(url), expected, "{url}");
        check("http://localhost", Ok(()));
        check("HTTPS://example.com:8443/mcp?x=%20#y", Ok(()));
        check("http://[::1]:7420/mcp/", Ok(()));
        check("http://x?q", Ok(()));
        check("localhost:7420/mcp", Err(InvalidUrl::Scheme));
        check("ftp://example.com", Err(InvalidUrl::Scheme));
        check("", Err(InvalidUrl::Scheme));
        check("http://", Err(InvalidUrl::Host));
        check("http:///mcp", Err(InvalidUrl::Host));
        check("http://:80/", Err(InvalidUrl::Host));
        check("http://[::1/", Err(InvalidUrl::Host));
        check("http://[::1]x/", Err(InvalidUrl::Host));
        check("http://h:0", Err(InvalidUrl::Port));
        check("http://h:65536", Err(InvalidUrl::Port));
        check("http://h:+80", Err(InvalidUrl::Port));
        check("http://h:", Err(InvalidUrl::Port));
        check("http://h/a b", Err(InvalidUrl::Character));
        check("http://h/ü", Err(InvalidUrl::Character));
        check("http://h/\r\nx", Err(InvalidUrl::Character));
        check("http://me:secret@h/", Err(InvalidUrl::Credentials));
    }

    #[test]
    fn headers() {
        let check = |name, value, expected: Result<&str, _>| {
            assert_eq!(
                check_header(name, value),
                expected.map(str::to_owned),
                "{name}"
            );
        };
        check("X-Api-Key", "a b\tc", Ok("x-api-key"));
        check("", "", Err(InvalidHeader::Name));
        check("a b", "", Err(InvalidHeader::Name));
        check("a:", "", Err(InvalidHeader::Name));
        check("a", "x\r\nb: c", Err(InvalidHeader::Value));
        check("a", "\u{7f}", Err(InvalidHeader::Value));
        check("a", "é", Err(InvalidHeader::Value));
    }
}
