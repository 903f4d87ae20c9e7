//! TLS of the listener: handshakes, and a certificate that is replaced when its files change.

use std::{
    io,
    net::IpAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use mainstay_core::{certificate::CertificateAge, config::ListenerTls, event::EventKind};
use mainstay_gateway::events::EventRing;
use mainstay_platform::{
    blocking::off_the_runtime,
    listener_tls::{TlsDigest, TlsTexts, UnusableTls, UsableTls},
    utc,
};
use mainstay_transport::logs::Throttle;
use parking_lot::Mutex;
use rustls::{AlertDescription, CertificateError, Error as TlsError};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::client_stream::ClientStream;

/// Interval of the looks at the files. Tools that renew certificates replace links and folders, of which the
/// system would tell nothing reliably.
pub const LOOK: Duration = Duration::from_secs(5);

/// Time limit of a handshake, from the first byte that is awaited. A handshake takes two round trips.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The first byte of a TLS connection: a record of a handshake (RFC 8446, section 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Maximum size of a plain request that is read before its refusal. A connection that is closed with unread
/// bytes is reset, and the client may never see the answer.
const MAX_PLAIN_REQUEST: u64 = 64 * 1024;

/// Time limit for a plain request and its refusal.
const REFUSAL_LIMIT: Duration = Duration::from_secs(2);

const SPEAKS_HTTPS: &str =
    "this port speaks HTTPS: use https:// in place of http:// at the beginning of the address\n";

/// The TLS of one listener. New connections get the certificate in use; open connections keep theirs.
#[derive(Debug)]
pub struct ServerTls {
    files: ListenerTls,
    current: ArcSwap<UsableTls>,
    digest: TlsDigest,
    /// Locked to count, never across an await.
    refusals: Mutex<Throttle>,
}

impl ServerTls {
    /// `usable` was made of these files, whose content has this digest.
    pub fn new(files: ListenerTls, usable: UsableTls, digest: TlsDigest) -> Arc<Self> {
        Arc::new(Self {
            files,
            current: ArcSwap::from_pointee(usable),
            digest,
            refusals: Mutex::default(),
        })
    }

    /// Encrypts a connection. `None` if there is no handshake within [`HANDSHAKE_LIMIT`] or `limit`. A client that speaks plain HTTP gets an
    /// answer that says so.
    pub(crate) async fn open(
        &self,
        stream: TcpStream,
        peer: IpAddr,
        limit: Duration,
    ) -> Option<ClientStream> {
        let limit = limit.min(HANDSHAKE_LIMIT);
        match timeout(limit, self.handshake(stream)).await {
            Ok(Ok(Some(stream))) => return Some(stream),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => self.report(peer, &error),
            Err(_) => tracing::debug!(%peer, "a handshake was not done in time"),
        }
        None
    }

    async fn handshake(&self, stream: TcpStream) -> io::Result<Option<ClientStream>> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Ok(None);
        }
        if first[0] != HANDSHAKE_RECORD && first[0].is_ascii_alphabetic() {
            // A client that leaves early needs no answer.
            timeout(REFUSAL_LIMIT, refuse_plain(stream)).await.ok();
            return Ok(None);
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.current.load().config));
        let stream = acceptor.accept(stream).await?;
        Ok(Some(ClientStream::Tls(Box::new(stream))))
    }

    /// Logs a failed handshake. A refused certificate of a client is news for the operator.
    fn report(&self, peer: IpAddr, error: &io::Error) {
        match refusal(error) {
            Some(reason) => {
                let times = self.refusals.lock().again();
                if let Some(times) = times {
                    tracing::warn!(%peer, times, "a client was refused: {reason}");
                }
            }
            None => tracing::debug!(%peer, %error, "a handshake failed"),
        }
    }

    /// Looks at the files until `stop`, every `pause` and whenever `requests` changes. Takes a new certificate
    /// into use, and publishes what people need to know of the certificate.
    pub async fn keep(
        &self,
        pause: Duration,
        mut requests: watch::Receiver<u64>,
        events: EventRing,
        stop: CancellationToken,
    ) {
        let mut keeper = Keeper::new(self.digest);
        loop {
            self.report_age(&mut keeper, &events);
            let is_requested = tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(pause) => false,
                // Without a configuration file nobody requests anything.
                Ok(()) = requests.changed() => true,
            };
            let (files, in_use) = (self.files.clone(), keeper.in_use);
            let content = off_the_runtime(move || FileContent::read(&files, in_use)).await;
            match keeper.look(content, is_requested) {
                Look::Nothing => {}
                Look::Replace(usable) => {
                    let expires_at = utc::rfc3339(usable.facts.not_after);
                    let path = display_path(&self.files.certificate);
                    tracing::info!(%path, %expires_at, "a new certificate is in use");
                    self.current.store(Arc::new(usable));
                    events.publish(None, EventKind::CertificateReplaced { path, expires_at });
                }
                Look::Restored => {
                    let expires_at = utc::rfc3339(self.current.load().facts.not_after);
                    let path = display_path(&self.files.certificate);
                    tracing::info!(%path, "the files are those of the certificate in use again");
                    events.publish(None, EventKind::CertificateReplaced { path, expires_at });
                }
                Look::Reject(error) => {
                    let reason = format!("{} ({})", error.fault, error.fault.hint());
                    let path = display_path(&error.path);
                    tracing::warn!(%path, %reason, "the new certificate cannot be used; the old one stays in use");
                    events.publish(None, EventKind::CertificateRejected { path, reason });
                }
            }
        }
    }

    /// Reports that the certificate in use ends soon, or has expired. Each step is reported once.
    fn report_age(&self, keeper: &mut Keeper, events: &EventRing) {
        let now = SystemTime::now();
        let current = self.current.load();
        let Some(age) = keeper.older(current.facts.age(now)) else {
            return;
        };
        let path = display_path(&self.files.certificate);
        let expires_at = utc::rfc3339(current.facts.not_after);
        if age == CertificateAge::Expired {
            tracing::error!(%path, %expires_at, "the certificate has expired");
            events.publish(None, EventKind::CertificateExpired { path, expires_at });
            return;
        }
        let days_left = current.facts.days_left(now);
        tracing::warn!(%path, %expires_at, days_left, "the certificate expires soon");
        let kind = EventKind::CertificateExpiring {
            path,
            expires_at,
            days_left,
        };
        events.publish(None, kind);
    }
}

fn display_path(path: &Path) -> String {
    path.display().to_string()
}

/// Answers a client that speaks plain HTTP.
async fn refuse_plain(mut stream: TcpStream) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{SPEAKS_HTTPS}",
        SPEAKS_HTTPS.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut unread = stream.take(MAX_PLAIN_REQUEST);
    tokio::io::copy(&mut unread, &mut tokio::io::sink()).await?;
    Ok(())
}

/// The reason that a client was refused for its certificate. `None` for other failures.
fn refusal(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<TlsError>()?;
    match error {
        TlsError::NoCertificatesPresented => Some("it has shown no certificate".to_owned()),
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => {
            Some("its certificate is not issued by an authority of `clientCa`".to_owned())
        }
        TlsError::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => Some("its certificate has expired".to_owned()),
        TlsError::InvalidCertificate(reason) => {
            Some(format!("its certificate is not valid: {reason}"))
        }
        TlsError::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired,
        ) => Some("it does not trust the certificate in use".to_owned()),
        _ => None,
    }
}

/// The content of the files at one look.
struct FileContent {
    digest: TlsDigest,
    /// `None` if the content is that of the certificate in use.
    result: Option<Result<UsableTls, UnusableTls>>,
}

impl FileContent {
    /// Blocks while it reads.
    fn read(files: &ListenerTls, in_use: TlsDigest) -> Self {
        let texts = TlsTexts::read(files);
        let digest = texts.digest();
        Self {
            digest,
            result: (digest != in_use).then(|| texts.usable(SystemTime::now())),
        }
    }
}

/// The consequence of a look at the files.
#[derive(Debug)]
enum Look {
    Nothing,
    /// After a rejection, the files are those of the certificate in use again.
    Restored,
    Replace(UsableTls),
    Reject(UnusableTls),
}

/// Decides about new files, and what people learn of the certificate.
#[derive(Debug)]
struct Keeper {
    in_use: TlsDigest,
    /// Unusable content of the last look. It may be half of a change: tools replace the certificate and the key
    /// one after the other.
    suspect: Option<TlsDigest>,
    /// Unusable content that was reported.
    rejected: Option<TlsDigest>,
    /// The age that was reported last.
    age: CertificateAge,
}

impl Keeper {
    fn new(in_use: TlsDigest) -> Self {
        Self {
            in_use,
            suspect: None,
            rejected: None,
            age: CertificateAge::Fresh,
        }
    }

    fn look(&mut self, content: FileContent, is_requested: bool) -> Look {
        let FileContent { digest, result } = content;
        match result {
            None => {
                self.suspect = None;
                match self.rejected.take() {
                    Some(_) => Look::Restored,
                    None => Look::Nothing,
                }
            }
            Some(Ok(usable)) => {
                *self = Self::new(digest);
                Look::Replace(usable)
            }
            Some(Err(error)) => {
                let is_settled = self.suspect == Some(digest);
                let is_reported = self.rejected == Some(digest);
                self.suspect = Some(digest);
                if is_requested || is_settled && !is_reported {
                    self.rejected = Some(digest);
                    return Look::Reject(error);
                }
                Look::Nothing
            }
        }
    }

    /// The age of the certificate in use, if it is a later step than the one that was reported.
    fn older(&mut self, age: CertificateAge) -> Option<CertificateAge> {
        if age <= self.age {
            return None;
        }
        self.age = age;
        Some(age)
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, path::PathBuf, pin::Pin, task::Poll};

    use mainstay_testkit::certificates::Authority;
    use rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, pem::PemObject as _},
    };
    use tokio::{io::AsyncWrite as _, net::TcpListener};
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::*;
    use crate::{
        traffic::{Counted, Traffic},
        unread::{Share, UnreadAnswers},
    };

    struct Files {
        folder: tempfile::TempDir,
        tls: ListenerTls,
        authority: Authority,
    }

    impl Files {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let authority = Authority::new("corp");
            let [certificate, key] = authority.issue(&["localhost"]).write(folder.path());
            let tls = ListenerTls {
                certificate,
                key: Some(key),
                client_ca: None,
            };
            Self {
                folder,
                tls,
                authority,
            }
        }

        fn key(&self) -> PathBuf {
            self.tls.key.clone().expect("a key")
        }

        fn digest(&self) -> TlsDigest {
            TlsTexts::read(&self.tls).digest()
        }

        fn look(&self, keeper: &mut Keeper, is_requested: bool) -> &'static str {
            let content = FileContent::read(&self.tls, keeper.in_use);
            match keeper.look(content, is_requested) {
                Look::Nothing => "nothing",
                Look::Restored => "restored",
                Look::Replace(_) => "replace",
                Look::Reject(_) => "reject",
            }
        }
    }

    impl Files {
        /// Both ends of a connection.
        async fn connect(&self) -> (ClientStream, TlsStream<TcpStream>) {
            let texts = TlsTexts::read(&self.tls);
            let usable = texts.usable(SystemTime::now()).expect("usable");
            let server = ServerTls::new(self.tls.clone(), usable, texts.digest());
            let mut roots = RootCertStore::empty();
            let authority = CertificateDer::from_pem_slice(self.authority.pem().as_bytes());
            roots.add(authority.expect("PEM")).expect("a root");
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("versions")
                .with_root_certificates(roots)
                .with_no_client_auth();
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let client = async {
                let stream = TcpStream::connect(address).await.expect("a connection");
                let name = "localhost".try_into().expect("a name");
                TlsConnector::from(Arc::new(config))
                    .connect(name, stream)
                    .await
            };
            let accepted = async {
                let (stream, peer) = listener.accept().await.expect("a connection");
                server.open(stream, peer.ip(), HANDSHAKE_LIMIT).await
            };
            let (client, accepted) = tokio::join!(client, accepted);
            (accepted.expect("a handshake"), client.expect("a handshake"))
        }
    }

    /// Within TLS, written bytes may wait for a flush. The client is then the one that does not read.
    #[tokio::test]
    async fn a_flush_that_waits_is_no_trouble_once_it_is_done() {
        let (server, mut client) = Files::new().connect().await;
        let traffic = Arc::new(Traffic::default());
        let share = Share::new(UnreadAnswers::new(usize::MAX));
        let mut counted = Counted::new(server, Arc::clone(&traffic), share);
        let bytes = vec![b'x'; 64 * 1024];
        // The client reads nothing.
        poll_fn(|context| {
            while let Poll::Ready(written) = Pin::new(&mut counted).poll_write(context, &bytes) {
                written.expect("written");
            }
            Poll::Ready(())
        })
        .await;
        assert!(traffic.is_blocked());
        let total = traffic.written();
        let reading = tokio::spawn(async move {
            let mut all = (&mut client).take(total);
            tokio::io::copy(&mut all, &mut tokio::io::sink()).await
        });
        let flushed = poll_fn(|context| Pin::new(&mut counted).poll_flush(context));
        flushed.await.expect("flushed");
        assert!(!traffic.is_blocked());
        let read_bytes = reading.await.expect("no panic").expect("readable");
        assert_eq!(read_bytes, total);
    }

    #[test]
    fn a_change_of_two_files_is_no_mistake() {
        let files = Files::new();
        let mut keeper = Keeper::new(files.digest());
        assert_eq!(files.look(&mut keeper, false), "nothing");
        let next = files.authority.issue(&["localhost"]);
        std::fs::write(&files.tls.certificate, &next.certificate).expect("written");
        // The key follows a moment later.
        assert_eq!(files.look(&mut keeper, false), "nothing");
        std::fs::write(files.key(), &next.key).expect("written");
        assert_eq!(files.look(&mut keeper, false), "replace");
        assert_eq!(files.look(&mut keeper, false), "nothing");
        assert_eq!(keeper.in_use, files.digest());
    }

    #[test]
    fn unusable_files_are_reported_once_or_on_request() {
        let files = Files::new();
        let before = std::fs::read(files.key()).expect("readable");
        let mut keeper = Keeper::new(files.digest());
        std::fs::write(files.key(), "").expect("written");
        let looks: Vec<_> = [false, false, false, true, false]
            .map(|is_requested| files.look(&mut keeper, is_requested))
            .to_vec();
        assert_eq!(looks, ["nothing", "reject", "nothing", "reject", "nothing"]);
        std::fs::remove_file(files.key()).expect("removed");
        assert_eq!(files.look(&mut keeper, true), "reject");
        std::fs::write(files.key(), before).expect("written");
        assert_eq!(files.look(&mut keeper, false), "restored");
        assert_eq!(files.look(&mut keeper, false), "nothing");
        files
            .authority
            .issue(&["localhost"])
            .write(files.folder.path());
        assert_eq!(files.look(&mut keeper, false), "replace");
    }

    #[test]
    fn each_step_of_the_age_is_reported_once() {
        let mut keeper = Keeper::new(Files::new().digest());
        let ages = [
            CertificateAge::NotYetValid,
            CertificateAge::Fresh,
            CertificateAge::EndsSoon,
            CertificateAge::EndsSoon,
            CertificateAge::EndsVerySoon,
            CertificateAge::Expired,
            CertificateAge::Expired,
        ];
        let reported: Vec<_> = ages
            .into_iter()
            .filter_map(|age| keeper.older(age))
            .collect();
        assert_eq!(
            reported,
            [
                CertificateAge::EndsSoon,
                CertificateAge::EndsVerySoon,
                CertificateAge::Expired
            ]
        );
    }
}
