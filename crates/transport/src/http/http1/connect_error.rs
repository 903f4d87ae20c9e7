//! Errors of connections as texts for people: the host, the reason, and the setting to change.

use std::{io, time::Duration};

use mainstay_core::proxy;
use rustls::{CertificateError, Error as TlsError};

/// The text for a failed TCP connection. Keeps the kind of the error.
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

/// The text for a host name that cannot be resolved.
pub fn unresolved(host: &str, error: &io::Error) -> io::Error {
    let words = format!("the host name {host} cannot be resolved ({error})");
    io::Error::new(error.kind(), words)
}

pub fn too_late(authority: &str, limit: Duration) -> io::Error {
    let words = format!("{authority} does not answer within {} s", limit.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, words)
}

/// Adds a hint about the proxy that this environment variable names. Keeps the kind of the error.
pub fn unproxied(error: &io::Error, variable: &str) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("{error}; {}", proxy::unused_message(variable)),
    )
}

/// The text for a failed TLS handshake.
pub fn unencrypted(host: &str, authority: &str, error: &io::Error) -> io::Error {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<TlsError>());
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
        // The verifier reports this case by a type that Mainstay cannot name.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            format!(
                "the certificate of {host} is not trusted: it signs itself, and is an authority's (CA:TRUE), which no server may show; make one with CA:FALSE (openssl req -x509 … -addext basicConstraints=critical,CA:FALSE), and name its file by SSL_CERT_FILE"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the certificate of {host} has expired")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the certificate of {host} is not valid yet; check the clocks")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the certificate is not for {host}, but for another name")
        }
        CertificateError::Revoked => format!("the certificate of {host} has been revoked"),
        CertificateError::BadEncoding => format!("the certificate of {host} cannot be read"),
        CertificateError::BadSignature => {
            format!("the certificate of {host} is not signed by whom it names as its issuer")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("the certificate of {host} is not one for servers")
        }
        other => {
            tracing::debug!(host, ?other, "a certificate is not accepted");
            format!(
                "the certificate of {host} is not accepted: it breaks a rule for certificates; have a new one made for the server"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

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
            (CertificateError::Revoked, "of example.com has been revoked"),
            (
                CertificateError::UnhandledCriticalExtension,
                "breaks a rule for certificates; have",
            ),
            (
                CertificateError::Other(OtherError(Arc::new(io::Error::other(
                    "CaUsedAsEndEntity",
                )))),
                "CA:FALSE), and name its file by SSL_CERT_FILE",
            ),
        ] {
            let words = words(reason);
            assert!(words.contains(expected), "{expected}: {words}");
            assert!(!words.contains("Other"), "{words}");
        }
    }
}
