//! Texts for people about failed connections: the host, the reason, and the setting to change.

use std::{io, net::IpAddr, time::Duration};

use rustls::{AlertDescription, CertificateError, Error as TlsError};

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

/// The text for an origin at a private address, to which a URL of the internet must not lead.
pub fn private(authority: &str, address: IpAddr) -> io::Error {
    io::Error::other(format!(
        "{authority} is at the private address {address}, to which a server of the internet must not lead"
    ))
}

/// The text for a host name that cannot be resolved.
pub fn unresolved(host: &str, error: &io::Error) -> io::Error {
    let words = format!("the host name {host} cannot be resolved ({error})");
    io::Error::new(error.kind(), words)
}

/// The text for a connection that took longer than `limit`. `way` is the text that names the proxy in use.
pub fn too_late(authority: &str, way: Option<&str>, limit: Duration) -> io::Error {
    let limit = limit.as_secs();
    let words = match way {
        None => format!("{authority} does not answer within {limit} s"),
        Some(way) => format!("{authority} cannot be reached {way} within {limit} s"),
    };
    io::Error::new(io::ErrorKind::TimedOut, words)
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref()
}

/// The text for a failed TLS handshake with a proxy. `setting` is the setting or variable that names the
/// proxy.
pub fn unencrypted_proxy(
    host: &str,
    authority: &str,
    setting: &str,
    error: &io::Error,
) -> io::Error {
    match tls_error(error) {
        Some(TlsError::InvalidMessage(_)) => {
            let words = format!("it speaks plain HTTP; write http:// in {setting}");
            io::Error::new(error.kind(), words)
        }
        Some(_) | None => unencrypted(host, authority, error, false),
    }
}

/// The text for a connection that ended because the server refuses the client's certificate or requires one.
/// `None` if the connection ended for another reason.
pub fn refused_certificate(
    authority: &str,
    error: &io::Error,
    shows_certificate: bool,
) -> Option<io::Error> {
    use AlertDescription as Alert;

    let Some(TlsError::AlertReceived(alert)) = tls_error(error) else {
        return None;
    };
    let is_about_certificate = matches!(
        alert,
        Alert::AccessDenied
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRequired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::DecryptError
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate
    );
    is_about_certificate.then(|| {
        let words = refused_handshake(authority, *alert, shows_certificate);
        io::Error::new(error.kind(), words)
    })
}

fn refused_handshake(authority: &str, alert: AlertDescription, shows_certificate: bool) -> String {
    match (alert, shows_certificate) {
        (AlertDescription::CertificateRequired, false) => format!(
            "{authority} asks for a client certificate; name one by `clientCert` and its key by `clientKey`"
        ),
        (_, false) => format!(
            "{authority} refuses the TLS handshake ({alert:?}); if it asks for a client certificate, name one by `clientCert`"
        ),
        (_, true) => format!(
            "{authority} does not accept the certificate in `clientCert`, or refuses the TLS handshake for another reason ({alert:?})"
        ),
    }
}

/// The text for a failed TLS handshake.
pub fn unencrypted(
    host: &str,
    authority: &str,
    error: &io::Error,
    shows_certificate: bool,
) -> io::Error {
    let words = match tls_error(error) {
        Some(TlsError::InvalidMessage(_)) => {
            format!("the server at {authority} speaks plain HTTP; write http:// in `url`")
        }
        Some(TlsError::InvalidCertificate(reason)) => certificate(host, reason),
        Some(TlsError::AlertReceived(alert)) => {
            refused_handshake(authority, *alert, shows_certificate)
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
            "the certificate of {host} is not trusted: its issuer is unknown; name a file with the issuer's certificate by `caFile`, or add it to the system's trust store"
        ),
        // The verifier reports this case by a type that this crate cannot name.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            format!(
                "the certificate of {host} is not trusted: it signs itself, and is an authority's (CA:TRUE), which no server may show; make one with CA:FALSE (openssl req -x509 … -addext basicConstraints=critical,CA:FALSE), and name its file by `caFile`"
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
            unencrypted("example.com", "example.com:443", &error, false).to_string()
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
                "CA:FALSE), and name its file by `caFile`",
            ),
        ] {
            let words = words(reason);
            assert!(words.contains(expected), "{expected}: {words}");
            assert!(!words.contains("Other"), "{words}");
        }
    }
}
