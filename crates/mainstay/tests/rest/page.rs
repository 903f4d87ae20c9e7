//! The web page as browsers load it.

use http::{Method, StatusCode};
use mainstay_core::config::Config;

use crate::browser::BrowserDaemon;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    font-src 'self'; connect-src 'self'; media-src 'self' data: blob:; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'";

#[tokio::test]
async fn the_page_is_loaded_by_everybody_and_framed_by_nobody() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let world = BrowserDaemon::new(folder.path(), &Config::default());
    // With a client token, MCP paths demand a token. The page does not.
    world.tokens.add("laptop", None).expect("added");
    let browser = world.browser();
    let index = browser.get("/").await;
    assert_eq!(index.status, StatusCode::OK);
    assert!(index.text.starts_with("<!doctype html>"), "{}", index.text);
    assert!(!index.text.contains("<script>") && !index.text.contains(" style="));
    let expected = [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-cache"),
    ];
    for (name, value) in expected {
        assert_eq!(index.header(name), Some(value));
    }
    let head = browser.send(Method::HEAD, "/", &[], "").await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
    let length = index.text.len().to_string();
    assert_eq!(head.header("content-length"), Some(length.as_str()));

    let tag = index.header("etag").expect("a tag");
    let condition = [("if-none-match", tag)];
    let same_response = browser.send(Method::GET, "/", &condition, "").await;
    assert_eq!(
        (same_response.status.as_u16(), same_response.text.as_str()),
        (304, "")
    );
    let takes_gzip = [("accept-encoding", "gzip, deflate, br")];
    let small_response = browser.send(Method::GET, "/", &takes_gzip, "").await;
    assert_eq!(small_response.header("content-encoding"), Some("gzip"));

    let unknown_response = browser.get("/assets/none-12345678.js").await;
    assert_eq!(unknown_response.refused(), (404, "not_found".to_owned()));
    let posted_response = browser.send(Method::POST, "/", &[], "").await;
    assert_eq!(
        posted_response.refused(),
        (405, "method_not_allowed".to_owned())
    );
    assert_eq!(posted_response.header("allow"), Some("GET, HEAD"));
    for answer in [
        &index,
        &head,
        &same_response,
        &small_response,
        &unknown_response,
        &posted_response,
    ] {
        for (name, value) in [
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{}", answer.status);
        }
        let policy = answer.header("permissions-policy").expect("a policy");
        assert!(policy.contains("camera=()") && !policy.contains('*'));
    }
    // The page's `Content-Security-Policy` is not sent for other paths.
    for path in ["/api/servers", "/healthz", "/no-such-page", "/index.html"] {
        let answer = browser.get(path).await;
        assert_eq!(answer.header("content-security-policy"), None, "{path}");
        assert_eq!(
            answer.header("x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
    }
    let foreign_origin = [("origin", "http://evil.example")];
    let answer = browser.send(Method::GET, "/", &foreign_origin, "").await;
    assert_eq!(answer.refused(), (403, "forbidden".to_owned()));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    world.end().await;
}
