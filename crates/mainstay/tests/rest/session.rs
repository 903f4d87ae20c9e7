//! The browser session of the web page: signing in, signing out, and access by the cookie.

use std::fs;

use http::{Method, StatusCode};
use mainstay_core::config::Config;
use serde_json::{Value, json};

use crate::browser::{Browser, BrowserDaemon, until_end};

const INVALID_CODE: (u16, &str) = (401, "invalid_code");
const UNAUTHORIZED: (u16, &str) = (401, "unauthorized");
const NOT_OUR_PAGE: (u16, &str) = (403, "not_our_page");

fn world() -> (tempfile::TempDir, BrowserDaemon) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let world = BrowserDaemon::new(folder.path(), &Config::default());
    (folder, world)
}

/// True if the browser's cookie opens the API.
async fn is_signed_in(browser: &Browser) -> bool {
    let (session, servers) = (
        browser.get("/api/session").await,
        browser.get("/api/servers").await,
    );
    assert_eq!(session.status, servers.status);
    assert!(matches!(session.status.as_u16(), 200 | 401));
    session.status == StatusCode::OK
}

fn assert_refused(answer: &crate::browser::BrowserAnswer, expected: (u16, &str), reason: &str) {
    let (status, code) = answer.refused();
    assert_eq!(
        (status, code.as_str()),
        expected,
        "{reason}: {}",
        answer.text
    );
}

/// A stranger cannot fill the memory with bodies.
#[tokio::test]
async fn a_sign_in_has_a_short_body() {
    let (_folder, world) = world();
    let mut browser = world.browser();
    let code = "x".repeat(16 << 10);
    let answer = browser.sign_in(&json!({"code": code})).await;
    assert_refused(&answer, (413, "request_too_large"), "a long body");
    let code = world.code().await;
    let answer = browser.sign_in(&json!({"code": code})).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
}

#[tokio::test]
async fn a_browser_signs_in_works_and_signs_out() {
    let (_folder, world) = world();
    let mut browser = world.browser();
    assert!(!is_signed_in(&browser).await);
    let code = world.code().await;
    let answer = browser.sign_in(&json!({"code": code})).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let cookie = answer.header("set-cookie").expect("a cookie");
    let port = world.address.port();
    assert!(cookie.starts_with(&format!("mainstay-{port}=")), "{cookie}");
    let attributes = "; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000";
    assert!(cookie.ends_with(attributes), "{cookie}");

    let session = browser.get("/api/session").await.json();
    assert_eq!(session["signedIn"], true);
    assert_eq!(session["pageKey"], Value::Null, "it is told once");
    assert_eq!(session["expiresAt"], answer.json()["expiresAt"]);
    assert_eq!(session["version"], env!("CARGO_PKG_VERSION"));
    let body = json!({"name": "laptop"});
    let answer = browser.change(Method::POST, "/api/tokens", &body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    // A browser that is signed in can create a link for another one.
    let link = browser
        .change(Method::POST, "/api/session/links", &Value::Null)
        .await
        .json();
    let mut other_client = world.browser();
    let answer = other_client.sign_in(&json!({"code": link["code"]})).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);

    let (stream, other_events) = (browser.events().await, other_client.events().await);
    let sign_out_response = browser
        .change(Method::DELETE, "/api/session", &Value::Null)
        .await;
    assert_eq!(sign_out_response.json(), json!({"signedIn": false}));
    let cookie = sign_out_response.header("set-cookie").expect("a cookie");
    assert!(
        cookie.starts_with(&format!("mainstay-{port}=; ")),
        "{cookie}"
    );
    assert!(cookie.contains("; Max-Age=0"), "{cookie}");
    // The old cookie is refused after the sign-out.
    assert!(!is_signed_in(&browser).await);
    until_end(stream).await;
    assert!(is_signed_in(&other_client).await);
    drop(other_events);
    world.end().await;
}

#[tokio::test]
async fn a_code_signs_one_browser_in() {
    let (_folder, world) = world();
    let code = world.code().await;
    let mut browser = world.browser();
    for wrong_code in ["", "wrong", &code[1..], &world.control()] {
        let answer = browser.sign_in(&json!({"code": wrong_code})).await;
        assert_refused(&answer, INVALID_CODE, wrong_code);
        assert!(answer.text.contains("`mainstay ui`"), "{}", answer.text);
        assert_eq!(answer.header("set-cookie"), None);
    }
    let answer = browser.sign_in(&json!({"code": code})).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let mut thief_client = world.browser();
    let answer = thief_client.sign_in(&json!({"code": code})).await;
    assert_refused(&answer, INVALID_CODE, "used");
    // If a browser signs in again, its old session ends.
    let former_browser = browser.clone();
    let code = world.code().await;
    browser.sign_in(&json!({"code": code})).await;
    assert!(is_signed_in(&browser).await && !is_signed_in(&former_browser).await);
    world.end().await;
}

#[tokio::test]
async fn the_control_token_signs_in_and_no_other() {
    let (_folder, world) = world();
    let mut browser = world.browser();
    let token = world.control();
    let answer = browser.sign_in(&json!({"token": &token[1..]})).await;
    assert_refused(&answer, UNAUTHORIZED, "a wrong token");
    let (client, _) = world.tokens.add("laptop", None).expect("added");
    let answer = browser.sign_in(&json!({"token": client.expose()})).await;
    assert_refused(&answer, (403, "forbidden"), "a client's token");
    let answer = browser.sign_in(&json!({})).await;
    assert_refused(&answer, (400, "missing_parameter"), "nothing");
    assert!(!is_signed_in(&browser).await);
    let answer = browser
        .sign_in(&json!({"token": format!(" {token}\n")}))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    assert!(is_signed_in(&browser).await);
    world.end().await;
}

/// Pages of other origins cannot sign a browser in, not even by a form.
#[tokio::test]
async fn no_other_page_signs_a_browser_in() {
    let (_folder, world) = world();
    let browser = world.browser();
    let code = world.code().await;
    let body = json!({"code": code}).to_string();
    let send = |headers: Vec<(&'static str, String)>| {
        let (browser, body) = (browser.clone(), body.clone());
        async move {
            let headers: Vec<_> = headers
                .iter()
                .map(|(name, text)| (*name, text.as_str()))
                .collect();
            browser
                .send(Method::POST, "/api/session", &headers, body)
                .await
        }
    };
    let json = || ("content-type", "application/json".to_owned());
    let answer = send(vec![("content-type", "text/plain".to_owned())]).await;
    assert_refused(&answer, (415, "unsupported_media_type"), "a form");
    for origin in ["http://127.0.0.1:1", "http://localhost:1"] {
        let answer = send(vec![json(), ("origin", origin.to_owned())]).await;
        assert_refused(&answer, NOT_OUR_PAGE, origin);
    }
    let answer = send(vec![json(), ("sec-fetch-site", "same-site".to_owned())]).await;
    assert_refused(&answer, NOT_OUR_PAGE, "another port");
    // The refused requests have not used up the code.
    let answer = send(vec![json(), ("origin", browser.origin())]).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    world.end().await;
}

#[tokio::test]
async fn every_request_needs_the_page_key_of_its_session() {
    let (_folder, world) = world();
    let (browser, other_browser) = (world.signed_in().await, world.signed_in().await);
    let own_key = browser.page_key.clone().expect("a key");
    let (origin, body) = (browser.origin(), json!({"name": "forged"}).to_string());
    let foreign_key = other_browser.page_key.clone().expect("a key");
    let bearer = format!("Bearer {}", world.control());
    for (method, path) in [
        (Method::POST, "/api/tokens"),
        (Method::POST, "/api/session/links"),
        (Method::DELETE, "/api/session"),
        (Method::PUT, "/api/config"),
        (Method::POST, "/api/no-such-route"),
        (Method::GET, "/api/session"),
        (Method::GET, "/api/servers"),
        (Method::GET, "/api/events"),
    ] {
        for forged_key in [
            None,
            Some(""),
            Some(&own_key[1..]),
            Some(foreign_key.as_str()),
        ] {
            let mut headers = vec![("content-type", "application/json"), ("origin", &origin)];
            headers.extend(forged_key.map(|forged_key| ("x-page-key", forged_key)));
            let answer = browser
                .send(method.clone(), path, &headers, body.clone())
                .await;
            assert_refused(
                &answer,
                NOT_OUR_PAGE,
                &format!("{method} {path} {forged_key:?}"),
            );
            assert!(answer.text.contains("X-Page-Key"), "{}", answer.text);
        }
    }
    assert!(world.tokens.clients().is_empty() && is_signed_in(&browser).await);
    // A bearer token needs no page key. If a bearer token is invalid, the cookie does not help.
    let mut headers = vec![
        ("content-type", "application/json"),
        ("authorization", &bearer),
    ];
    let answer = browser
        .send(Method::POST, "/api/tokens", &headers, body.clone())
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    headers[1].1 = "Bearer wrong";
    headers.push(("x-page-key", &own_key));
    let answer = browser
        .send(Method::POST, "/api/tokens", &headers, body)
        .await;
    assert_refused(&answer, UNAUTHORIZED, "a bad bearer");
    // A request with a bearer token has no browser session.
    let headers = [("authorization", bearer.as_str())];
    let answer = browser
        .send(Method::GET, "/api/session", &headers, "")
        .await;
    assert_refused(&answer, UNAUTHORIZED, "a bearer");
    world.end().await;
}

/// A download link contains a ticket for one use, because it cannot contain the page key.
#[tokio::test]
async fn a_download_has_a_ticket() {
    let (_folder, world) = world();
    let browser = world.signed_in().await;
    let path = "/api/call-records/export?format=csv";
    let body = json!({"path": path});
    let ticket = browser
        .change(Method::POST, "/api/session/downloads", &body)
        .await;
    assert_eq!(ticket.status, StatusCode::OK, "{}", ticket.text);
    let address = ticket.json()["path"].as_str().expect("a path").to_owned();
    assert!(address.starts_with(&format!("{path}&ticket=")), "{address}");
    // Without the page key, a browser gets no ticket. A ticket works only in its own session.
    let headers = [("content-type", "application/json")];
    let refused_response = browser.send(
        Method::POST,
        "/api/session/downloads",
        &headers,
        body.to_string(),
    );
    assert_refused(&refused_response.await, NOT_OUR_PAGE, "by the cookie alone");
    let thief_client = world.signed_in().await;
    let answer = thief_client.send(Method::GET, &address, &[], "").await;
    assert_refused(&answer, NOT_OUR_PAGE, "another session");
    let navigation = [("sec-fetch-site", "same-origin")];
    let first = browser.send(Method::GET, &address, &navigation, "").await;
    assert_ne!(first.status, StatusCode::FORBIDDEN, "{}", first.text);
    let repeated_response = browser.send(Method::GET, &address, &navigation, "").await;
    assert_refused(&repeated_response, NOT_OUR_PAGE, "used");
    let missing_response = browser
        .change(Method::POST, "/api/session/downloads", &json!({}))
        .await;
    assert_refused(&missing_response, (400, "missing_parameter"), "nothing");
    world.end().await;
}

/// Browsers also send the cookie from pages at other ports. Such a page has no page key.
#[tokio::test]
async fn pages_of_other_ports_can_do_nothing_with_the_cookie() {
    let (_folder, world) = world();
    let browser = world.signed_in().await;
    let key = browser.page_key.clone().expect("a key");
    let port = world.address.port();
    let localhost_url = format!("http://localhost:{port}");
    for header in [
        ("origin", "http://127.0.0.1:1"),
        ("origin", localhost_url.as_str()),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let headers_with_key = [header, ("x-page-key", key.as_str())];
        let answer = browser
            .send(Method::GET, "/api/session", &headers_with_key, "")
            .await;
        assert_refused(&answer, NOT_OUR_PAGE, header.1);
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        let all_text = [header, ("x-page-key", key.as_str())];
        let answer = browser
            .send(Method::DELETE, "/api/session", &all_text, "")
            .await;
        assert_refused(&answer, NOT_OUR_PAGE, header.1);
    }
    // The name of the cookie contains the port, so it works only there.
    let cookie = browser.cookie.clone().expect("a cookie");
    let mut renamed_browser = browser.clone();
    renamed_browser.cookie = Some(cookie.replace(&format!("mainstay-{port}"), "mainstay-1"));
    assert!(is_signed_in(&browser).await && !is_signed_in(&renamed_browser).await);
    // An allowed origin may not send the header of the page key.
    let preflight = [
        ("origin", "http://localhost:1"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "x-page-key"),
    ];
    for path in ["/mcp", "/api/tokens"] {
        let answer = world
            .browser()
            .send(Method::OPTIONS, path, &preflight, "")
            .await;
        let allowed_headers = answer
            .header("access-control-allow-headers")
            .unwrap_or_default();
        assert!(
            !allowed_headers.contains("page-key"),
            "{path}: {allowed_headers}"
        );
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
    world.end().await;
}

#[tokio::test]
async fn the_cookie_opens_no_mcp_path() {
    let (_folder, world) = world();
    // With a client token, MCP paths demand a token.
    world.tokens.add("laptop", None).expect("added");
    let browser = world.signed_in().await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for path in ["/mcp", "/servers/none/mcp", "/sse/message?sessionId=1"] {
        let answer = browser.change(Method::POST, path, &ping).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    assert!(is_signed_in(&browser).await);
    world.end().await;
}

#[tokio::test]
async fn sessions_outlive_the_daemon_until_the_token_is_rotated() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let world = BrowserDaemon::new(folder.path(), &Config::default());
    let (browser, address) = (world.signed_in().await, world.address);
    let (other_browser, code) = (world.signed_in().await, world.code().await);
    world.end().await;
    let path = folder.path().join("browsers.json");
    let text = fs::read_to_string(&path).expect("a file");
    let (_, secret) = browser
        .cookie
        .as_deref()
        .expect("a cookie")
        .split_once('=')
        .expect("a value");
    assert!(!text.contains(secret));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    let world = BrowserDaemon::at(address, folder.path(), &Config::default());
    assert!(is_signed_in(&browser).await);
    // A code is no longer valid after a restart of the daemon.
    let answer = world.browser().sign_in(&json!({"code": code})).await;
    assert_refused(&answer, INVALID_CODE, "of the last run");
    other_browser
        .change(Method::DELETE, "/api/session", &Value::Null)
        .await;
    let (stream, code) = (browser.events().await, world.code().await);
    let rotated_response = browser
        .change(Method::POST, "/api/token/rotate", &Value::Null)
        .await;
    assert_eq!(
        rotated_response.status,
        StatusCode::OK,
        "{}",
        rotated_response.text
    );
    until_end(stream).await;
    assert!(!is_signed_in(&browser).await);
    let answer = world.browser().sign_in(&json!({"code": code})).await;
    assert_refused(&answer, INVALID_CODE, "of the last token");
    world.end().await;

    // A session that has ended stays invalid, even if an old file is restored.
    fs::write(&path, text).expect("written");
    let world = BrowserDaemon::at(address, folder.path(), &Config::default());
    assert!(!is_signed_in(&browser).await && !is_signed_in(&other_browser).await);
    world.end().await;
}

#[tokio::test]
async fn a_session_that_has_expired_opens_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let world = BrowserDaemon::new(folder.path(), &Config::default());
    let (browser, address) = (world.signed_in().await, world.address);
    world.end().await;
    let path = folder.path().join("browsers.json");
    let text = fs::read_to_string(&path).expect("a file");
    let mut sessions: Value = serde_json::from_str(&text).expect("JSON");
    sessions["sessions"][0]["expiresUnixSeconds"] = json!(1_700_000_000);
    fs::write(&path, sessions.to_string()).expect("written");
    let world = BrowserDaemon::at(address, folder.path(), &Config::default());
    assert!(!is_signed_in(&browser).await);
    world.end().await;

    // If the file cannot be read, all browsers are signed out. They can sign in again.
    fs::write(&path, "{").expect("written");
    let world = BrowserDaemon::at(address, folder.path(), &Config::default());
    assert!(!is_signed_in(&browser).await);
    assert!(is_signed_in(&world.signed_in().await).await);
    world.end().await;
}

#[tokio::test]
async fn without_the_page_nobody_signs_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let world = BrowserDaemon::new(folder.path(), &Config::default());
    let (mut browser, address) = (world.signed_in().await, world.address);
    world.end().await;
    let config = Config {
        page: false,
        ..Config::default()
    };
    let world = BrowserDaemon::at(address, folder.path(), &config);
    assert!(!is_signed_in(&browser).await);
    assert_eq!(
        browser.get("/").await.refused(),
        (404, "not_found".to_owned())
    );
    let credentials = json!({"token": world.control()});
    assert_refused(
        &browser.sign_in(&credentials).await,
        (404, "not_found"),
        "a token",
    );
    let bearer = format!("Bearer {}", world.control());
    let headers = [("authorization", bearer.as_str())];
    let answer = browser
        .send(Method::POST, "/api/session/links", &headers, "")
        .await;
    assert_refused(&answer, (404, "not_found"), "a link");
    world.end().await;
}
