//! Tests of proxies from the environment and from a setting, for plain and encrypted servers.

use rustls::ALL_VERSIONS;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

/// The credentials `me:p@ss` in Base64.
const CREDENTIALS: &str = "Basic bWU6cEBzcw==";

fn heads(requests: &ProxyRequests) -> Vec<String> {
    requests.lock().expect("no panic").0.clone()
}

#[tokio::test]
async fn a_proxy_forwards_requests_that_are_not_encrypted() {
    let server = echo_server(None).await;
    let (proxy, requests) = TestProxy {
        credentials: Some(CREDENTIALS),
        ..TestProxy::default()
    }
    .start()
    .await;
    let network = through(&format!("http://me:p%40ss@127.0.0.1:{proxy}"));
    let url = format!("http://{HOST}:{server}/mcp?x=1");
    let target = target(&url, &network, &ProxyVariables::default());
    for _ in 0..2 {
        let head = server_head(&target).await.expect("an answer");
        let start = format!("POST /mcp?x=1 HTTP/1.1\r\nhost: {HOST}:{server}\r\n");
        assert!(head.starts_with(&start), "{head}");
        assert!(!head.contains("proxy-authorization"), "{head}");
    }
    let (heads, connections) = requests.lock().expect("no panic").clone();
    let start = format!("POST http://{HOST}:{server}/mcp?x=1 HTTP/1.1\r\n");
    assert_eq!(
        (heads.len(), connections),
        (2, 2),
        "a proxy may close a connection that it has used"
    );
    for head in heads {
        assert!(head.starts_with(&start), "{head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
    }
    assert!(!format!("{target:?}").contains("cEBzcw"), "{target:?}");
}

#[tokio::test]
async fn a_proxy_opens_a_tunnel_to_encrypted_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("corp");
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, authority.pem()).expect("written");
    let acceptor = authority.issue(&[HOST]).acceptor(None, ALL_VERSIONS);
    let server = echo_server(Some(acceptor)).await;
    let of_proxy = authority.issue(&["localhost"]).acceptor(None, ALL_VERSIONS);
    for tls in [None, Some(of_proxy)] {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (proxy, requests) = TestProxy {
            credentials: Some(CREDENTIALS),
            tls,
            ..TestProxy::default()
        }
        .start()
        .await;
        let variables = variables(&[(
            "HTTPS_PROXY",
            &format!("{scheme}://me:p@ss@localhost:{proxy}"),
        )]);
        let network = NetworkSettings {
            ca_file: Some(ca_file.clone()),
            ..NetworkSettings::default()
        };
        let url = format!("https://{HOST}:{server}/mcp");
        let target = target(&url, &network, &variables);
        for _ in 0..2 {
            let head = server_head(&target).await.expect("an answer");
            assert!(head.starts_with("POST /mcp HTTP/1.1\r\n"), "{head}");
            assert!(!head.contains("proxy-authorization"), "{head}");
        }
        let heads = heads(&requests);
        assert_eq!(heads.len(), 1, "{heads:?}");
        let start = format!("CONNECT {HOST}:{server} HTTP/1.1\r\nhost: {HOST}:{server}\r\n");
        assert!(heads[0].starts_with(&start), "{heads:?}");
    }
}

#[tokio::test]
async fn a_proxy_with_tls_forwards_requests_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new("corp");
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, authority.pem()).expect("written");
    let server = echo_server(None).await;
    let (proxy, requests) = TestProxy {
        tls: Some(authority.issue(&["localhost"]).acceptor(None, ALL_VERSIONS)),
        ..TestProxy::default()
    }
    .start()
    .await;
    let network = NetworkSettings {
        ca_file: Some(ca_file),
        ..through(&format!("https://localhost:{proxy}"))
    };
    let url = format!("http://{HOST}:{server}/");
    server_head(&target(&url, &network, &ProxyVariables::default()))
        .await
        .expect("an answer");
    assert_eq!(heads(&requests).len(), 1);
    let untrusted = target(
        &url,
        &through(&format!("https://localhost:{proxy}")),
        &ProxyVariables::default(),
    );
    assert_eq!(
        failure(&untrusted).await,
        format!(
            "the proxy https://localhost:{proxy} cannot be reached: the certificate of localhost is not trusted: its issuer is unknown; name a file with the issuer's certificate by `caFile`, or add it to the system's trust store"
        )
    );
}

/// Requests to a health URL go through the server's proxy, even if the URL has another origin.
#[tokio::test]
async fn a_health_url_is_asked_through_the_proxy() {
    let server = echo_server(None).await;
    let (proxy, requests) = TestProxy::default().start().await;
    let launch = HttpLaunch {
        url: "https://elsewhere.test/mcp".to_owned(),
        headers: vec![("x-key".to_owned(), Secret::new("hunter2"))],
        network: through(&format!("http://127.0.0.1:{proxy}")),
        ..HttpLaunch::default()
    };
    let url = Secret::new(format!("http://{HOST}:{server}/health"));
    let health = HealthUrl::new(&url, Some(&launch), None).expect("usable");
    let status = timeout(LIMIT, health.get()).await.expect("in time");
    assert_eq!(status.expect("an answer"), 200);
    let heads = heads(&requests);
    let start = format!("GET http://{HOST}:{server}/health HTTP/1.1\r\n");
    assert!(heads[0].starts_with(&start), "{heads:?}");
    assert!(!heads[0].contains("hunter2"), "{heads:?}");
}

/// No proxy answers here, so each request that gets an answer was direct.
#[tokio::test]
async fn servers_that_need_no_proxy_are_reached_directly() {
    let server = echo_server(None).await;
    let nowhere = ("ALL_PROXY", "http://127.0.0.1:1");
    let direct = NetworkSettings {
        proxy: ProxyChoice::None,
        ..NetworkSettings::default()
    };
    let url = format!("http://127.0.0.1:{server}/");
    for (network, set) in [
        (NetworkSettings::default(), &[nowhere][..]),
        (NetworkSettings::default(), &[nowhere, ("NO_PROXY", "*")]),
        (direct, &[nowhere]),
    ] {
        let head = server_head(&target(&url, &network, &variables(set))).await;
        assert!(head.expect("an answer").starts_with("POST / HTTP/1.1\r\n"));
    }
    let far = target(
        &format!("http://{HOST}:{server}/"),
        &NetworkSettings::default(),
        &variables(&[nowhere, ("NO_PROXY", ".test")]),
    );
    let text = failure(&far).await;
    let start = format!("the host name {HOST} cannot be resolved");
    assert!(text.starts_with(&start), "{text}");
}

const BASIC: &str = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Negotiate\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n";
const NTLM: &str = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Negotiate\r\nProxy-Authenticate: NTLM\r\n\r\n";

#[tokio::test]
async fn refusals_of_a_proxy_are_named_in_words() {
    for (answer, credentials, expected) in [
        (
            BASIC,
            "",
            "asks for a user and password; put them into `proxy`, before the host",
        ),
        (
            BASIC,
            "me:hunter2@",
            "does not accept the user and password in `proxy`",
        ),
        (
            "HTTP/1.0 401 Unauthorized\r\n\r\n",
            "me:hunter2@",
            "does not accept the user and password in `proxy`",
        ),
        (
            NTLM,
            "me:hunter2@",
            "asks for the authentication Negotiate, NTLM, and Mainstay can only do Basic",
        ),
        (
            "HTTP/1.1 403 Forbidden\r\n\r\n",
            "",
            "does not allow connections to server.test:443 (HTTP 403)",
        ),
        (
            "HTTP/1.0 502 Bad Gateway\r\n\r\nno",
            "",
            "cannot reach server.test:443 (HTTP 502)",
        ),
        (
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "",
            "cannot reach server.test:443 (HTTP 503)",
        ),
        (
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "",
            "refuses a connection to server.test:443 (HTTP 400)",
        ),
        ("", "", "closed the connection without an answer"),
        (
            "220 mail.test ESMTP\r\n",
            "",
            "gives no answer of an HTTP proxy: its head cannot be parsed",
        ),
        (
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "",
            "gives no answer of an HTTP proxy: it sends more than a head",
        ),
    ] {
        let (proxy, requests) = TestProxy {
            answer: Some(answer),
            ..TestProxy::default()
        }
        .start()
        .await;
        let network = through(&format!("http://{credentials}127.0.0.1:{proxy}"));
        let ask =
            async |url: &str| failure(&target(url, &network, &ProxyVariables::default())).await;
        let expected = format!("the proxy http://127.0.0.1:{proxy} {expected}");
        assert_eq!(ask("https://server.test/").await, expected, "{answer}");
        if answer.contains("407") {
            assert_eq!(ask("http://server.test/").await, expected, "{answer}");
        }
        assert!(!heads(&requests).is_empty());
    }
}

#[tokio::test]
async fn a_proxy_that_cannot_be_reached_is_named_with_its_variable() {
    let tls = Authority::new("corp").issue(&["localhost"]);
    let with_tls = TestProxy {
        tls: Some(tls.acceptor(None, ALL_VERSIONS)),
        ..TestProxy::default()
    };
    let (with_tls, _) = with_tls.start().await;
    let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let plain_port = plain.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut tcp, _) = plain.accept().await.expect("a connection");
        let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        tcp.write_all(answer).await.expect("written");
        // The client closes the connection first.
        tcp.read_to_end(&mut Vec::new()).await.ok();
    });
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed_port = closed.local_addr().expect("an address").port();
    drop(closed);
    for (value, expected) in [
        (
            format!("me:hunter2@127.0.0.1:{closed_port}"),
            format!(
                "the proxy http://127.0.0.1:{closed_port} (HTTPS_PROXY) cannot be reached: nothing listens at 127.0.0.1:{closed_port} (connection refused)"
            ),
        ),
        (
            "http://proxy.invalid:3128".to_owned(),
            "the proxy http://proxy.invalid:3128 (HTTPS_PROXY) cannot be reached: the host name proxy.invalid cannot be resolved".to_owned(),
        ),
        (
            format!("http://localhost:{with_tls}"),
            format!("the proxy http://localhost:{with_tls} (HTTPS_PROXY) speaks TLS; write https:// in HTTPS_PROXY"),
        ),
        (
            format!("https://localhost:{plain_port}"),
            format!(
                "the proxy https://localhost:{plain_port} (HTTPS_PROXY) cannot be reached: it speaks plain HTTP; write http:// in HTTPS_PROXY"
            ),
        ),
        (
            "socks5://me:hunter2@localhost:1080".to_owned(),
            "HTTPS_PROXY names a proxy that cannot be used: Mainstay speaks no SOCKS".to_owned(),
        ),
    ] {
        let variables = variables(&[("HTTPS_PROXY", &value)]);
        let target = target("https://server.test/", &NetworkSettings::default(), &variables);
        let text = failure(&target).await;
        assert!(text.starts_with(&expected), "{value}: {text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(!format!("{target:?}").contains("hunter2"), "{target:?}");
    }
}
