//! URLs of servers: resolving references, comparing origins, and showing URLs without secrets.

use http::Uri;

/// Resolves a reference (RFC 3986) against a base URI. The reference is absolute, or a path with its query.
pub fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    if reference.contains("://") {
        return reference.parse().ok();
    }
    let path = if reference.starts_with('/') {
        reference.to_owned()
    } else if reference.starts_with('?') {
        format!("{}{reference}", base.path())
    } else {
        let folder = base
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{folder}/{reference}")
    };
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(path.parse().ok()?);
    Uri::from_parts(parts).ok()
}

pub fn same_origin(one: &Uri, other: &Uri) -> bool {
    let port = |uri: &Uri| {
        uri.port_u16()
            .unwrap_or(if uri.scheme_str() == Some("https") {
                443
            } else {
                80
            })
    };
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    one.scheme() == other.scheme() && host(one) == host(other) && port(one) == port(other)
}

/// The URL without the parts that may contain keys: user, password and query.
pub fn place(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{}", uri.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_resolve_against_the_stream_they_came_on() {
        let base: Uri = "http://host:1/a/sse?x=1".parse().expect("a URI");
        for (reference, expected) in [
            ("/messages?id=1", "http://host:1/messages?id=1"),
            ("messages", "http://host:1/a/messages"),
            ("?session=2", "http://host:1/a/sse?session=2"),
            ("http://host:1/m", "http://host:1/m"),
        ] {
            assert_eq!(
                resolve(&base, reference).expect("resolved").to_string(),
                expected,
                "{reference}"
            );
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let uri = |text: &str| text.parse::<Uri>().expect("a URI");
        assert!(same_origin(&uri("http://a/x"), &uri("http://A:80/y")));
        for other in [
            "http://a@b/x",
            "http://a.b/x",
            "https://a/x",
            "http://b/x",
            "http://a:81/x",
        ] {
            assert!(!same_origin(&uri("http://a/x"), &uri(other)), "{other}");
        }
    }
}
