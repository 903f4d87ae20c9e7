//! Errors between Mainstay and a server over HTTP, in words: the host, the reason, and what to set.

use std::{io, time::Duration};

use http::Uri;
use mainstay_core::{config::HttpLaunch, lifecycle::Loss};
use rustls::{CertificateError, Error as TlsError};

use super::{
    http_client::resolve,
    http1::{Error, Head, SPEAKS_TLS},
};

/// A connection that failed. Keeps the kind of the error.
pub fn unconnected(authority: &str, error: &io::Error) -> io::Error {
    let words = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("nothing listens at {authority} (connection refused)")
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            format!("there is no way to {authority} ({})", error.kind())
        }
        io::ErrorKind::TimedOut => format!("{authority} does not answer (timed out)"),
        _ => format!("{authority}: {error}"),
    };
    io::Error::new(error.kind(), words)
}

/// A name that stands for no address.
pub fn unresolved(host: &str, error: &io::Error) -> io::Error {
    let words = format!("the host name {host} cannot be resolved ({error})");
    io::Error::new(error.kind(), words)
}

pub fn too_late(authority: &str, limit: Duration) -> io::Error {
    let words = format!("{authority} does not answer within {} s", limit.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, words)
}

/// A TLS handshake that failed.
pub fn unencrypted(host: &str, authority: &str, error: &io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<TlsError>());
    let words = match inner {
        Some(TlsError::InvalidMessage(_)) => {
            format!("the server at {authority} speaks plain HTTP; write http:// in `url`")
        }
        Some(TlsError::InvalidCertificate(reason)) => certificate(host, reason),
        Some(TlsError::AlertReceived(alert)) => {
            format!("{authority} refuses the TLS handshake ({alert:?})")
        }
        Some(other) => format!("no TLS with {authority}: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            format!("{authority} closed the connection during the TLS handshake")
        }
        None => format!("no TLS with {authority}: {error}"),
    };
    io::Error::new(error.kind(), words)
}

fn certificate(host: &str, reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => format!(
            "the certificate of {host} is not trusted: its issuer is unknown; add the issuer's to the system's trust store, or name a file of trusted ones by SSL_CERT_FILE"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the certificate of {host} has expired")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the certificate of {host} is not valid yet; check the clocks")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the certificate is not for {host}, but for another name")
        }
        other => format!("the certificate of {host} is not accepted: {other}"),
    }
}

/// Why there was no answer at all to the first request.
pub fn unanswered(uri: &Uri, error: &Error) -> Loss {
    let authority = uri.authority().map_or("the server", |it| it.as_str());
    Loss::ConnectFailed(match error {
        Error::Connect(error) => error.to_string(),
        Error::Malformed(SPEAKS_TLS) => speaks_tls(authority),
        Error::NotWritten(_) | Error::Broken(_) if uri.scheme_str() == Some("http") => format!(
            "{authority} closed the connection without an answer; one that speaks TLS needs https:// in `url`"
        ),
        Error::NotWritten(_) | Error::Broken(_) => {
            format!("{authority} closed the connection without an answer")
        }
        Error::Malformed(_) | Error::OverBudget(_) => format!("{authority}: {error}"),
    })
}

fn speaks_tls(authority: &str) -> String {
    format!("the server at {authority} speaks TLS; write https:// in `url`")
}

/// The hint for a server that asks for TLS in an HTTP error, as nginx and Go do.
pub fn wants_tls(uri: &Uri, body: &str) -> Option<Loss> {
    let says = [
        "plain HTTP request was sent to HTTPS",
        "HTTP request to an HTTPS server",
    ];
    let authority = uri.authority()?.as_str();
    says.iter()
        .any(|words| body.contains(words))
        .then(|| Loss::ConnectFailed(speaks_tls(authority)))
}

/// HTTP 401 or 403 to the first request.
pub fn unauthorized(head: &Head, launch: &HttpLaunch) -> Loss {
    let status = head.status;
    let marks = ["authorization", "key", "token", "cookie"];
    let mut headers = launch.headers.iter();
    let sends = headers.any(|(name, _)| marks.iter().any(|mark| name.contains(mark)));
    let wants_oauth = head
        .get("www-authenticate")
        .is_some_and(|wanted| wanted.contains("resource_metadata"));
    let oauth = if wants_oauth && status == 401 {
        "; it names an OAuth server, where Mainstay cannot sign in: get a token elsewhere"
    } else {
        ""
    };
    let words = match (status, sends) {
        (401, false) => "the server wants credentials; set `bearerToken` or `headers`",
        (401, true) => {
            "the server does not accept the credentials; renew `bearerToken` or `headers`"
        }
        (_, false) => {
            "the server forbids access; set `bearerToken` or `headers` if it wants credentials"
        }
        (_, true) => "the server forbids access; the credentials lack a permission for it",
    };
    Loss::Unauthorized(format!("HTTP {status}: {words}{oauth}"))
}

/// What 401 and 403 ask for, where it is not known what was sent.
pub fn advice(status: u16) -> &'static str {
    match status {
        401 => "; set or renew `bearerToken` or `headers`",
        403 => "; the credentials lack a permission, or there are none",
        _ => "",
    }
}

/// The target of a redirect that is not followed, without the part that may hold keys.
pub fn redirected(uri: &Uri, head: &Head) -> Option<String> {
    if !(300..400).contains(&head.status) {
        return None;
    }
    let target = resolve(uri, head.get("location")?)?.to_string();
    let target = target.split(['?', '#']).next().unwrap_or_default();
    Some(format!(
        "the server redirects to {target} (HTTP {}), which is not followed; set `url` to where the server is",
        head.status
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fail_in_words() {
        let kind = |kind: io::ErrorKind| unconnected("h:1", &kind.into()).to_string();
        assert_eq!(
            kind(io::ErrorKind::ConnectionRefused),
            "nothing listens at h:1 (connection refused)"
        );
        assert_eq!(
            kind(io::ErrorKind::NetworkUnreachable),
            "there is no way to h:1 (network unreachable)"
        );
        let refused = unconnected("h:1", &io::ErrorKind::ConnectionRefused.into());
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn certificates_are_refused_in_words() {
        let words = |reason: CertificateError| {
            let error = io::Error::other(TlsError::InvalidCertificate(reason));
            unencrypted("example.com", "example.com:443", &error).to_string()
        };
        for (reason, expected) in [
            (CertificateError::UnknownIssuer, "its issuer is unknown"),
            (CertificateError::Expired, "of example.com has expired"),
            (CertificateError::NotValidForName, "is not for example.com"),
            (CertificateError::Revoked, "of example.com is not accepted"),
        ] {
            assert!(words(reason).contains(expected), "{expected}");
        }
    }
}
