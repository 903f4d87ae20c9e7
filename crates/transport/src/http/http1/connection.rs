//! One TCP connection to an origin, with TLS if the URL is encrypted, and through a proxy if one is
//! configured.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use http::Uri;
use mainstay_core::{
    config::NetworkSettings,
    proxy::{Place, ProxyVariables},
};
use mainstay_platform::{
    descriptors::{self, Descriptors},
    dial, scratch,
};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    connect_error,
    error::UnusableUrl,
    head::Head,
    route::{ForwardedParts, ProxyRoute, Route},
    tls::CertificateFiles,
};
use crate::http::public_address::is_public;

/// The time limit for the TCP connection and the TLS handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The keepalive settings: the silence before the first probe, the time between two probes, and the number of
/// probes.
#[cfg(target_os = "linux")]
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
#[cfg(target_os = "linux")]
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
#[cfg(target_os = "linux")]
const KEEPALIVE_COUNT: u32 = 3;

/// The time limit for the acknowledgement of sent data.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_LIMIT_MS: u32 = 30_000;

/// The origin of the connections, and the way to it.
#[derive(Debug)]
pub struct HttpOrigin {
    host: String,
    port: u16,
    tls: Option<ServerName<'static>>,
    route: Route,
    /// The certificates for connections to the origin.
    certificates: CertificateFiles,
    /// The certificates for connections to the proxy.
    certificates_of_proxy: CertificateFiles,
    /// True if connections to a private address are refused.
    pub is_only_public: AtomicBool,
    /// The address of the last successful connection. With a proxy, it is the proxy's address.
    worked: Mutex<Option<SocketAddr>>,
    /// The host, with the port unless it is the scheme's default.
    pub authority: String,
    /// The parts of each request that a proxy forwards.
    pub forwarded: ForwardedParts,
}

impl HttpOrigin {
    /// `variables` holds the proxies of the environment.
    pub fn new(
        uri: &Uri,
        network: &NetworkSettings,
        variables: &ProxyVariables,
    ) -> Result<Self, UnusableUrl> {
        let encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(UnusableUrl("the URL's scheme must be http or https")),
        };
        let authority = uri.authority().ok_or(UnusableUrl("the URL has no host"))?;
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let tls = if encrypted {
            let name = ServerName::try_from(host.clone());
            Some(name.map_err(|_| UnusableUrl("the URL's host is no name"))?)
        } else {
            None
        };
        let port = authority
            .port_u16()
            .unwrap_or(if encrypted { 443 } else { 80 });
        // Credentials in a URL are not sent, and `Host` must not contain them.
        let without_credentials = authority
            .as_str()
            .rsplit_once('@')
            .map_or(authority.as_str(), |(_, host)| host);
        let place = Place {
            is_encrypted: encrypted,
            host: &host,
            port,
        };
        let route = Route::new(network, variables, place);
        Ok(Self {
            forwarded: route.forwarded_parts(encrypted, without_credentials),
            route,
            certificates: CertificateFiles::of_server(network),
            certificates_of_proxy: CertificateFiles::of_proxy(network),
            host,
            port,
            tls,
            is_only_public: AtomicBool::new(false),
            worked: Mutex::default(),
            authority: without_credentials.to_owned(),
        })
    }

    pub async fn connect(&self) -> io::Result<Connection> {
        let descriptor = descriptors::take(1)?;
        let stream = timeout(CONNECT_LIMIT, self.open())
            .await
            .unwrap_or_else(|_| {
                *self.worked.lock() = None;
                let way = match &self.route {
                    Route::Proxied(route) => Some(route.through()),
                    Route::Direct | Route::Unusable(_) => None,
                };
                Err(connect_error::too_late(
                    &self.authority,
                    way.as_deref(),
                    CONNECT_LIMIT,
                ))
            })?;
        Ok(Connection {
            stream,
            buffer: BytesMut::new(),
            is_fresh: true,
            _descriptor: descriptor,
        })
    }

    async fn open(&self) -> io::Result<Stream> {
        let route = match &self.route {
            Route::Direct => {
                let tcp = self.dial(&self.host, self.port, &self.authority).await?;
                return match &self.tls {
                    None => Ok(Stream::Plain(tcp)),
                    Some(name) => Ok(Stream::Tls(Box::new(self.encrypted(name, tcp).await?))),
                };
            }
            Route::Unusable(reason) => return Err(io::Error::other(reason.clone())),
            Route::Proxied(route) => route,
        };
        let proxy = &route.chosen.proxy;
        let authority = format!("{}:{}", proxy.host, proxy.port);
        let mut tcp = self
            .dial(&proxy.host, proxy.port, &authority)
            .await
            .map_err(|error| route.unreachable(&error))?;
        match (&route.tls, &self.tls) {
            (None, None) => Ok(Stream::Plain(tcp)),
            (None, Some(name)) => {
                route.open_tunnel(&mut tcp).await?;
                Ok(Stream::Tls(Box::new(self.encrypted(name, tcp).await?)))
            }
            (Some(of_proxy), None) => {
                let outer = self.encrypted_to_proxy(route, of_proxy, tcp).await?;
                Ok(Stream::Tls(Box::new(outer)))
            }
            (Some(of_proxy), Some(name)) => {
                let mut outer = self.encrypted_to_proxy(route, of_proxy, tcp).await?;
                route.open_tunnel(&mut outer).await?;
                let inner = self.encrypted(name, outer).await?;
                Ok(Stream::TlsInTls(Box::new(inner)))
            }
        }
    }

    /// Opens a TCP connection to the origin or the proxy.
    async fn dial(&self, host: &str, port: u16, authority: &str) -> io::Result<TcpStream> {
        let addresses: Vec<_> = lookup_host((host, port))
            .await
            .map_err(|error| connect_error::unresolved(host, &error))?
            .collect();
        let is_refused = |address: &&SocketAddr| !is_public(address.ip());
        if matches!(self.route, Route::Direct)
            && self.is_only_public.load(Ordering::Relaxed)
            && let Some(address) = addresses.iter().find(is_refused)
        {
            return Err(connect_error::private(authority, address.ip()));
        }
        let worked = *self.worked.lock();
        let (tcp, address) = dial::connect(&addresses, worked)
            .await
            .map_err(|error| connect_error::unconnected(authority, &error))?;
        *self.worked.lock() = Some(address);
        tcp.set_nodelay(true)?;
        watch(&tcp);
        Ok(tcp)
    }

    /// Performs the TLS handshake with the origin.
    async fn encrypted<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        name: &ServerName<'static>,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let tls = TlsConnector::from(self.certificates.config().await?);
        let connecting = tls.connect(name.clone(), stream);
        let shows_certificate = self.certificates.has_client_certificate();
        connecting.await.map_err(|error| {
            connect_error::unencrypted(&self.host, &self.authority, &error, shows_certificate)
        })
    }

    /// Performs the TLS handshake with the proxy.
    async fn encrypted_to_proxy(
        &self,
        route: &ProxyRoute,
        name: &ServerName<'static>,
        tcp: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let tls = TlsConnector::from(self.certificates_of_proxy.config().await?);
        let connecting = tls.connect(name.clone(), tcp);
        connecting.await.map_err(|error| route.unencrypted(&error))
    }

    /// Returns a clearer error if `error` shows that the server refused the TLS handshake because of the
    /// client's certificate. With TLS 1.3, the client only detects the refusal when it reads. The request has
    /// not run.
    pub fn refused_certificate(
        &self,
        connection: &Connection,
        error: &io::Error,
    ) -> Option<io::Error> {
        if !connection.is_fresh {
            return None;
        }
        let shows_certificate = self.certificates.has_client_certificate();
        connect_error::refused_certificate(&self.authority, error, shows_certificate)
    }

    /// True if a proxy forwards the requests.
    pub fn is_forwarded(&self) -> bool {
        !self.forwarded.start.is_empty()
    }

    /// The text that names the proxy which forwards the requests. `None` for an encrypted connection, because
    /// a proxy only tunnels it.
    pub fn forwarding_proxy(&self) -> Option<String> {
        match &self.route {
            Route::Proxied(route) if self.tls.is_none() => Some(route.through()),
            Route::Proxied(_) | Route::Direct | Route::Unusable(_) => None,
        }
    }

    /// The error if a proxy answered that it requires credentials. The proxy has not forwarded the request.
    pub fn refused_by_proxy(&self, head: &Head) -> Option<io::Error> {
        match &self.route {
            Route::Proxied(route) if self.tls.is_none() => Some(route.unauthorized(head)),
            Route::Proxied(_) | Route::Direct | Route::Unusable(_) => None,
        }
    }
}

/// Makes the operating system end a connection whose peer has vanished: a machine that was cut off sends no
/// reset. If an option cannot be set, the system's own limits apply.
#[cfg(target_os = "linux")]
fn watch(tcp: &TcpStream) {
    use rustix::net::sockopt;
    let watched = sockopt::set_socket_keepalive(tcp, true)
        .and_then(|()| sockopt::set_tcp_keepidle(tcp, KEEPALIVE_IDLE))
        .and_then(|()| sockopt::set_tcp_keepintvl(tcp, KEEPALIVE_INTERVAL))
        .and_then(|()| sockopt::set_tcp_keepcnt(tcp, KEEPALIVE_COUNT))
        .and_then(|()| sockopt::set_tcp_user_timeout(tcp, UNACKNOWLEDGED_LIMIT_MS));
    if let Err(error) = watched {
        tracing::debug!(%error, "a connection is not watched");
    }
}

#[cfg(not(target_os = "linux"))]
fn watch(_tcp: &TcpStream) {}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// TLS with a server, within TLS with a proxy.
    TlsInTls(Box<TlsStream<TlsStream<TcpStream>>>),
}

#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// Bytes that have arrived but have not been read.
    pub buffer: BytesMut,
    /// True until the server has answered a request.
    pub is_fresh: bool,
    _descriptor: Descriptors,
}

impl Connection {
    /// True if an idle connection can be used: the peer has sent neither data nor the end.
    pub fn is_quiet(&self) -> bool {
        let mut probe = [0];
        matches!(self.tcp().try_read(&mut probe), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
            Stream::TlsInTls(tls) => tls.get_ref().0.get_ref().0,
        }
    }

    /// Returns the kind of end after the end has been read. The operating system sends a reset if the peer
    /// closed its connection before it had read everything. If the peer first shuts down its writing side and
    /// closes the connection later, the end arrives before the reset. `reset_wait` is the time to wait for
    /// that reset.
    pub async fn end(self, reset_wait: Duration) -> io::ErrorKind {
        if !self.buffer.is_empty() {
            return io::ErrorKind::UnexpectedEof;
        }
        let is_reset = async {
            let tcp = self.tcp();
            // The socket stays ready for `Interest::ERROR` even after the error has been taken.
            matches!(tcp.take_error(), Ok(Some(_))) || tcp.ready(Interest::ERROR).await.is_ok()
        };
        match timeout(reset_wait, is_reset).await {
            Ok(true) => io::ErrorKind::ConnectionReset,
            Ok(false) | Err(_) => io::ErrorKind::UnexpectedEof,
        }
    }

    pub fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let buffer = &mut self.buffer;
        let take = |piece: &[u8]| {
            buffer.extend_from_slice(piece);
            piece.len()
        };
        match &mut self.stream {
            Stream::Plain(tcp) => scratch::poll_read(tcp, context, take),
            Stream::Tls(tls) => scratch::poll_read(tls.as_mut(), context, take),
            Stream::TlsInTls(tls) => scratch::poll_read(tls.as_mut(), context, take),
        }
    }

    pub fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(context, data),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_write(context, data),
            Stream::TlsInTls(tls) => Pin::new(tls.as_mut()).poll_write(context, data),
        }
    }

    /// Shuts down the writing side.
    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(context),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(context),
            Stream::TlsInTls(tls) => Pin::new(tls.as_mut()).poll_shutdown(context),
        }
    }

    /// Writes out all buffered data.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(context),
            Stream::TlsInTls(tls) => Pin::new(tls.as_mut()).poll_flush(context),
        }
    }
}
