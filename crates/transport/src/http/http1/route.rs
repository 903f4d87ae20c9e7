//! The route to an origin: direct, or through a proxy.
//!
//! A proxy opens a tunnel to an encrypted origin by `CONNECT` (RFC 9110, 9.3.6). It forwards the requests to
//! any other origin (RFC 9112, 3.2.2), because most proxies allow `CONNECT` to port 443 only.

use std::io;

use bytes::BytesMut;
use mainstay_core::{
    config::{NetworkSettings, Secret},
    proxy::{self, ChosenProxy, Place, ProxyVariables},
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{
    connect_error,
    head::{self, Head, SPEAKS_TLS},
};

/// The maximum number of a proxy's authentication schemes in an error, and the maximum length of a scheme's
/// name.
const MAX_SCHEMES: usize = 8;
const LONGEST_SCHEME: usize = 32;

/// The route to an origin.
#[derive(Debug)]
pub enum Route {
    Direct,
    Proxied(Box<ProxyRoute>),
    /// The configured proxy cannot be used. The text is the reason.
    Unusable(String),
}

/// The route through a proxy.
#[derive(Debug)]
pub struct ProxyRoute {
    pub chosen: ChosenProxy,
    /// The proxy's name, if the connection to it has TLS.
    pub tls: Option<ServerName<'static>>,
    /// The origin, with its port.
    target: String,
}

/// The parts to add to each request if a proxy forwards the requests. Empty without such a proxy.
#[derive(Debug)]
pub struct ForwardedParts {
    /// The beginning of the request's target: scheme and authority of the origin.
    pub start: Box<str>,
    /// The header lines for the proxy: its credentials, and `connection: close`. Some proxies close a
    /// connection without announcing it, and a request in flight is then lost.
    pub lines: Secret,
}

impl Route {
    pub fn new(network: &NetworkSettings, variables: &ProxyVariables, place: Place<'_>) -> Self {
        let chosen = match proxy::choose(&network.proxy, variables, place) {
            Ok(None) => return Self::Direct,
            Ok(Some(chosen)) => chosen,
            Err(error) => return Self::Unusable(error.to_string()),
        };
        let tls = chosen
            .proxy
            .is_encrypted
            .then(|| ServerName::try_from(chosen.proxy.host.clone()))
            .transpose();
        let Ok(tls) = tls else {
            let proxy = &chosen.proxy;
            return Self::Unusable(format!("the host of the proxy {proxy} is no name"));
        };
        let (host, port) = (place.host, place.port);
        let target = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        Self::Proxied(Box::new(ProxyRoute {
            chosen,
            tls,
            target,
        }))
    }

    /// The parts that a proxy needs in each request to this authority. Empty for an encrypted origin, whose
    /// requests are not forwarded.
    pub fn forwarded_parts(&self, is_encrypted: bool, authority: &str) -> ForwardedParts {
        let route = match self {
            Self::Proxied(route) if !is_encrypted => route,
            Self::Proxied(_) | Self::Direct | Self::Unusable(_) => {
                return ForwardedParts {
                    start: Box::default(),
                    lines: Secret::new(""),
                };
            }
        };
        ForwardedParts {
            start: format!("http://{authority}").into(),
            lines: Secret::new(route.credentials() + "connection: close\r\n"),
        }
    }
}

impl ProxyRoute {
    /// The header line with the credentials for the proxy. Empty without credentials.
    fn credentials(&self) -> String {
        let value = self.chosen.proxy.authorization();
        value.map_or_else(String::new, |value| {
            format!("proxy-authorization: {value}\r\n")
        })
    }

    /// Requests a tunnel to the origin, on an open connection to the proxy.
    pub async fn open_tunnel(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let (target, credentials) = (&self.target, self.credentials());
        let version = env!("CARGO_PKG_VERSION");
        let request = format!(
            "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\nuser-agent: mainstay/{version}\r\n{credentials}\r\n"
        );
        let broken = |error: io::Error| {
            let words = format!("{} broke off the connection: {error}", self.chosen);
            io::Error::new(error.kind(), words)
        };
        stream.write_all(request.as_bytes()).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        let mut answer = BytesMut::new();
        let head = loop {
            match head::take(&mut answer, false) {
                Ok(Some(head)) => break head,
                Ok(None) => {}
                Err(reason) => return Err(self.speaks_otherwise(reason)),
            }
            if stream.read_buf(&mut answer).await.map_err(broken)? == 0 {
                let words = format!("{} closed the connection without an answer", self.chosen);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, words));
            }
        };
        if !head.is_success() {
            return Err(self.refusal(&head));
        }
        // The origin sends nothing before the client has begun the TLS handshake.
        if answer.is_empty() {
            Ok(())
        } else {
            Err(self.speaks_otherwise("it sends more than a head"))
        }
    }

    fn speaks_otherwise(&self, reason: &str) -> io::Error {
        let name = &self.chosen;
        let words = if reason == SPEAKS_TLS {
            let source = self.chosen.source;
            format!("{name} speaks TLS; write https:// in {source}")
        } else {
            format!("{name} gives no answer of an HTTP proxy: {reason}")
        };
        io::Error::new(io::ErrorKind::InvalidData, words)
    }

    /// The text for an answer of the proxy that is not a success.
    fn refusal(&self, head: &Head) -> io::Error {
        let (name, target, status) = (&self.chosen, &self.target, head.status);
        let words = match status {
            // tinyproxy answers 401 to a wrong password.
            401 | 407 => return self.unauthorized(head),
            403 => format!("{name} does not allow connections to {target} (HTTP 403)"),
            500 | 502..=504 => format!("{name} cannot reach {target} (HTTP {status})"),
            _ => format!("{name} refuses a connection to {target} (HTTP {status})"),
        };
        io::Error::new(io::ErrorKind::ConnectionRefused, words)
    }

    /// The text for an answer of the proxy with status 407.
    pub fn unauthorized(&self, head: &Head) -> io::Error {
        let (name, source) = (&self.chosen, self.chosen.source);
        let challenges = head.all("proxy-authenticate");
        let schemes: Vec<_> = challenges
            .iter()
            .filter_map(|challenge| challenge.split_whitespace().next())
            .filter(|scheme| scheme.len() <= LONGEST_SCHEME)
            .take(MAX_SCHEMES)
            .collect();
        let takes_basic = schemes
            .iter()
            .any(|scheme| scheme.eq_ignore_ascii_case("basic"));
        let words = if !schemes.is_empty() && !takes_basic {
            let schemes = schemes.join(", ");
            format!("{name} asks for the authentication {schemes}, and Mainstay can only do Basic")
        } else if self.chosen.proxy.authorization().is_some() {
            format!("{name} does not accept the user and password in {source}")
        } else {
            format!("{name} asks for a user and password; put them into {source}, before the host")
        };
        io::Error::new(io::ErrorKind::PermissionDenied, words)
    }

    /// The text for a failed connection to the proxy itself.
    pub fn unreachable(&self, error: &io::Error) -> io::Error {
        let words = format!("{} cannot be reached: {error}", self.chosen);
        io::Error::new(error.kind(), words)
    }

    /// The text for a failed TLS handshake with the proxy.
    pub fn unencrypted(&self, error: &io::Error) -> io::Error {
        let proxy = &self.chosen.proxy;
        let authority = format!("{}:{}", proxy.host, proxy.port);
        let source = self.chosen.source.to_string();
        self.unreachable(&connect_error::unencrypted_proxy(
            &proxy.host,
            &authority,
            &source,
            error,
        ))
    }

    /// The words that name the proxy in the text of a failure behind it.
    pub fn through(&self) -> String {
        format!("through {}", self.chosen)
    }
}
