//! Tests of certificates: trusted ones, those of the client, and files that cannot be used.

use std::{fs, path::PathBuf};

use rustls::{
    ALL_VERSIONS, SupportedProtocolVersion,
    version::{TLS12, TLS13},
};

use super::*;

/// The files of a client.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }
}

fn target_of(port: u16, network: &NetworkSettings) -> HttpTarget {
    let url = format!("https://localhost:{port}/");
    target(&url, network, &ProxyVariables::default())
}

/// Starts a server that requires certificates of an authority. Returns its port, and the settings of a client
/// that trusts the server.
async fn mutual_server(
    files: &Files,
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
) -> (u16, NetworkSettings) {
    let server = authority.issue(&["localhost"]);
    let port = echo_server(Some(server.acceptor(Some(authority), versions))).await;
    let network = NetworkSettings {
        ca_file: Some(files.write("ca.pem", &authority.pem())),
        ..NetworkSettings::default()
    };
    (port, network)
}

fn with_identity(files: &Files, network: &NetworkSettings, identity: &Identity) -> NetworkSettings {
    let text = identity.certificate_pem() + &identity.key_pem();
    NetworkSettings {
        client_cert: Some(files.write("me.pem", &text)),
        ..network.clone()
    }
}

#[tokio::test]
async fn an_authority_of_a_file_is_trusted_and_no_other() {
    let (files, authority) = (Files::new(), Authority::new("corp"));
    let server = authority.issue(&["localhost"]);
    let port = echo_server(Some(server.acceptor(None, ALL_VERSIONS))).await;
    let other = Authority::new("other");
    let network = |authorities: &str| NetworkSettings {
        ca_file: Some(files.write("ca.pem", authorities)),
        ..NetworkSettings::default()
    };
    let both = format!("# ours\n{}{}", other.pem(), authority.pem());
    server_head(&target_of(port, &network(&both)))
        .await
        .expect("an answer");
    let expected = "the certificate of localhost is not trusted: its issuer is unknown; name a file with the issuer's certificate by `caFile`, or add it to the system's trust store";
    for network in [NetworkSettings::default(), network(&other.pem())] {
        assert_eq!(failure(&target_of(port, &network)).await, expected);
    }
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    for versions in [&[&TLS12][..], &[&TLS13]] {
        let (files, authority) = (Files::new(), Authority::new("corp"));
        let (port, network) = mutual_server(&files, &authority, versions).await;
        let me = authority.issue(&["me"]);
        let in_one_file = with_identity(&files, &network, &me);
        let in_two = NetworkSettings {
            client_cert: Some(files.write("cert.pem", &me.certificate_pem())),
            client_key: Some(files.write("key.pem", &me.key_pem())),
            ..network
        };
        for network in [in_one_file, in_two] {
            server_head(&target_of(port, &network))
                .await
                .expect("an answer");
        }
    }
}

#[tokio::test]
async fn a_server_that_wants_another_certificate_is_named() {
    for versions in [&[&TLS12][..], &[&TLS13]] {
        let (files, authority) = (Files::new(), Authority::new("corp"));
        let (port, network) = mutual_server(&files, &authority, versions).await;
        assert_eq!(
            failure(&target_of(port, &network)).await,
            format!(
                "localhost:{port} asks for a client certificate; name one by `clientCert` and its key by `clientKey`"
            )
        );
        let stranger = Authority::new("elsewhere").issue(&["me"]);
        let network = with_identity(&files, &network, &stranger);
        let text = failure(&target_of(port, &network)).await;
        let start = format!("localhost:{port} does not accept the certificate in `clientCert`");
        assert!(text.starts_with(&start), "{text}");
    }
}

#[tokio::test]
async fn a_file_that_has_changed_is_read_for_the_next_connection() {
    let (files, authority) = (Files::new(), Authority::new("corp"));
    let (port, network) = mutual_server(&files, &authority, ALL_VERSIONS).await;
    let stranger = Authority::new("elsewhere").issue(&["me"]);
    let network = with_identity(&files, &network, &stranger);
    let target = target_of(port, &network);
    failure(&target).await;
    with_identity(&files, &network, &authority.issue(&["me"]));
    server_head(&target).await.expect("an answer");
    // An open connection stays in use.
    files.write("me.pem", "");
    server_head(&target).await.expect("an answer");
    target.forget_connections();
    assert!(
        failure(&target)
            .await
            .ends_with("me.pem: the file is empty")
    );
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let (files, authority) = (Files::new(), Authority::new("corp"));
    let (port, network) = mutual_server(&files, &authority, ALL_VERSIONS).await;
    let (me, other) = (authority.issue(&["me"]), authority.issue(&["other"]));
    let certificate = me.certificate_pem();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let missing = files.folder.path().join("missing.pem");
    let ca = |path: PathBuf| NetworkSettings {
        ca_file: Some(path),
        ..NetworkSettings::default()
    };
    let client = |certificate: &str, key: Option<&str>| NetworkSettings {
        client_cert: Some(files.write("me.pem", certificate)),
        client_key: key.map(|key| files.write("key.pem", key)),
        ..network.clone()
    };
    let cases: [(&dyn Fn() -> NetworkSettings, &str); 11] = [
        (
            &|| ca(missing.clone()),
            "`caFile` DIR/missing.pem: there is no such file (create it, or correct the path)",
        ),
        (
            &|| ca(files.folder.path().to_owned()),
            "`caFile` DIR: it is a folder, not a regular file (name a regular file)",
        ),
        (
            &|| ca(files.write("own.pem", " \n")),
            "`caFile` DIR/own.pem: the file is empty",
        ),
        (
            &|| ca(files.write("own.pem", "hello")),
            "`caFile` DIR/own.pem: it has no certificate in PEM (lines from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----)",
        ),
        (
            &|| ca(files.write("own.pem", &me.key_pem())),
            "`caFile` DIR/own.pem: it has no certificate in PEM (lines from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----)",
        ),
        (
            &|| ca(files.write("own.pem", broken)),
            "`caFile` DIR/own.pem: a certificate in it cannot be read",
        ),
        (
            &|| client(&certificate, None),
            "`clientCert` DIR/me.pem: it has no private key in PEM; name the file of the key by `clientKey`",
        ),
        (
            &|| client(&certificate, Some(encrypted)),
            "`clientKey` DIR/key.pem: the key has a passphrase; write it without one: openssl pkey -in KEY -out PLAIN",
        ),
        (
            &|| client(&certificate, Some(&other.key_pem())),
            "the key of `clientKey` DIR/key.pem does not fit the certificate of `clientCert` DIR/me.pem",
        ),
        (
            &|| client(&(certificate.clone() + &other.key_pem()), None),
            "the key of `clientCert` DIR/me.pem does not fit the certificate of `clientCert` DIR/me.pem",
        ),
        (
            &|| client(broken, Some(&me.key_pem())),
            "`clientCert` DIR/me.pem: a certificate in it cannot be read",
        ),
    ];
    for (network, expected) in cases {
        let folder = files.folder.path().display().to_string();
        let text = failure(&target_of(port, &network())).await;
        assert_eq!(text.replace(&folder, "DIR"), expected);
    }
}
