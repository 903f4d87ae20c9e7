//! Requests that a proxy passes on: the visitor behind a trusted proxy (`http.trustedProxies`).
//!
//! Only the words of trusted proxies are believed. Each proxy appends the address of its own peer to
//! `X-Forwarded-For`, so the list is read from its end, up to the first address that is no trusted proxy. What
//! stands before that address may be the visitor's invention. The header `Forwarded` (RFC 7239) is not read: a
//! proxy that writes one of the two kinds passes on the other as the visitor sent it.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue, header};
use mainstay_core::config::AddressRange;

const FOR: &str = "x-forwarded-for";
const PROTO: &str = "x-forwarded-proto";
const HOST: &str = "x-forwarded-host";

/// Maximum number of proxies in a row.
const MAX_PROXIES: usize = 16;

/// True if the peer of a connection is a trusted proxy.
pub fn is_trusted(trusted: &[AddressRange], peer: IpAddr) -> bool {
    trusted.iter().any(|range| range.contains(peer))
}

/// The address of the visitor, for a request from a trusted proxy at `peer`. Without a usable header it is the
/// last address that is known for certain.
pub fn visitor(trusted: &[AddressRange], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let mut visitor = peer;
    for element in from_the_end(headers, FOR).take(MAX_PROXIES) {
        let Some(address) = element.and_then(address) else {
            break;
        };
        visitor = address;
        if !is_trusted(trusted, address) {
            break;
        }
    }
    visitor
}

/// True if the visitor speaks HTTPS to the trusted proxy. `None` if the proxy does not say.
pub fn is_https(headers: &HeaderMap) -> Option<bool> {
    let scheme = from_the_end(headers, PROTO).next()??;
    match scheme {
        scheme if scheme.eq_ignore_ascii_case("https") => Some(true),
        scheme if scheme.eq_ignore_ascii_case("http") => Some(false),
        _ => None,
    }
}

/// Replaces `Host` by the one that the trusted proxy names. A later check reads it by its grammar.
pub fn restore_host(headers: &mut HeaderMap) {
    let Some(host) = from_the_end(headers, HOST).next() else {
        return;
    };
    // A value that is no text is no host either.
    let host = host.and_then(|host| HeaderValue::from_str(host).ok());
    let host = host.unwrap_or_else(|| HeaderValue::from_static(""));
    headers.insert(header::HOST, host);
}

/// The elements of a list from the end, over all lines of this name. `None` for an element that is no text.
fn from_the_end<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> impl Iterator<Item = Option<&'h str>> {
    let lines: Vec<&HeaderValue> = headers.get_all(name).iter().collect();
    lines.into_iter().rev().flat_map(|line| {
        let elements = line.as_bytes().rsplit(|byte| *byte == b',');
        elements.map(|element| Some(std::str::from_utf8(element).ok()?.trim()))
    })
}

/// The address of an element. Some proxies add a port, and brackets around IPv6.
fn address(element: &str) -> Option<IpAddr> {
    let bare = element
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(element);
    let address = match bare.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => element.parse::<SocketAddr>().ok()?.ip(),
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted() -> Vec<AddressRange> {
        ["127.0.0.1", "10.0.0.0/8", "fd00::/8"]
            .map(|range| range.parse().expect("a range"))
            .to_vec()
    }

    fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value).expect("a header"));
        }
        headers
    }

    fn visitor_of(lines: &[&[u8]]) -> String {
        let lines: Vec<_> = lines.iter().map(|line| (FOR, *line)).collect();
        let peer = "127.0.0.1".parse().expect("an address");
        visitor(&trusted(), peer, &headers(&lines)).to_string()
    }

    #[test]
    fn the_visitor_is_the_last_address_that_is_no_trusted_proxy() {
        for (lines, expected) in [
            (&[][..], "127.0.0.1"),
            (&[&b"203.0.113.9"[..]], "203.0.113.9"),
            (&[b"203.0.113.9, 10.1.1.1"], "203.0.113.9"),
            // The visitor has invented the beginning.
            (
                &[b"192.0.2.1, 203.0.113.9, 10.1.1.1,10.2.2.2"],
                "203.0.113.9",
            ),
            (&[b"10.9.9.9, 203.0.113.9"], "203.0.113.9"),
            (&[b"192.0.2.1", b"203.0.113.9", b"10.1.1.1"], "203.0.113.9"),
            // All are proxies.
            (&[b"10.3.3.3, 10.2.2.2"], "10.3.3.3"),
            (&[b"2001:db8::7, fd00::1"], "2001:db8::7"),
            (&[b"[2001:db8::7]:443"], "2001:db8::7"),
            (&[b"[2001:db8::7]"], "2001:db8::7"),
            (&[b"203.0.113.9:5000"], "203.0.113.9"),
            (&[b"::ffff:203.0.113.9"], "203.0.113.9"),
            (&[b"203.0.113.9, ::ffff:10.1.1.1"], "203.0.113.9"),
            // Nothing before garbage is believed.
            (&[b"203.0.113.9, unknown"], "127.0.0.1"),
            (&[b"203.0.113.9, unknown, 10.1.1.1"], "10.1.1.1"),
            (&[b"203.0.113.9,"], "127.0.0.1"),
            (&[b"203.0.113.9, \xff"], "127.0.0.1"),
            (&[b"203.0.113.9", b""], "127.0.0.1"),
            (&[b"1.2.3.4.5"], "127.0.0.1"),
        ] {
            assert_eq!(visitor_of(lines), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_chain_of_proxies_is_bounded() {
        let chain = format!("203.0.113.9{}", ", 10.1.1.1".repeat(MAX_PROXIES));
        assert_eq!(visitor_of(&[chain.as_bytes()]), "10.1.1.1");
    }

    #[test]
    fn scheme_and_host_are_those_of_the_nearest_proxy() {
        for (lines, expected) in [
            (&[][..], None),
            (&[&b"https"[..]], Some(true)),
            (&[b"HTTP"], Some(false)),
            (&[b"https, http"], Some(false)),
            (&[b"http", b"https"], Some(true)),
            (&[b"gopher"], None),
            (&[b"\xff"], None),
        ] {
            let lines: Vec<_> = lines.iter().map(|line| (PROTO, *line)).collect();
            assert_eq!(is_https(&headers(&lines)), expected, "{lines:?}");
        }
        for (lines, expected) in [
            (&[][..], "inner:7420"),
            (&[&b"gate.example"[..]], "gate.example"),
            (&[b"evil.example, gate.example:8443"], "gate.example:8443"),
            (&[b"\xff"], ""),
            (&[b""], ""),
        ] {
            let mut all = vec![("host", &b"inner:7420"[..])];
            all.extend(lines.iter().map(|line| (HOST, *line)));
            let mut headers = headers(&all);
            restore_host(&mut headers);
            let hosts: Vec<_> = headers.get_all(header::HOST).iter().collect();
            assert_eq!(hosts, [expected], "{lines:?}");
        }
    }
}
