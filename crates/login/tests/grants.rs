//! Tests of requests to a token endpoint as an authorization server receives them, and of answers as JSON and as
//! form bodies.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, SystemTime},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use mainstay_core::config::Secret;
use mainstay_login::{
    discovery::IssuerMetadata,
    grant_answer::GrantError,
    grants::TokenEndpoint,
    identity::{AuthMethod, ClientIdentity},
    scopes::Scopes,
    tokens::Tokens,
    web::{PendingResponse, Web, WebError, WebRequest},
};
use oauth2::url::{Url, form_urlencoded};

/// Status, content type and body of an answer, or the error of the request.
type FakeAnswer = Result<(u16, &'static str, String), WebError>;

/// An authorization server that sends prepared answers, and repeats the last one.
#[derive(Debug)]
struct FakeIssuer {
    answers: Mutex<Vec<FakeAnswer>>,
    /// Further headers of each answer.
    headers: Vec<(&'static str, &'static str)>,
    requests: Mutex<Vec<WebRequest>>,
}

impl FakeIssuer {
    fn new(answers: Vec<FakeAnswer>) -> Self {
        Self {
            answers: Mutex::new(answers),
            headers: Vec::new(),
            requests: Mutex::default(),
        }
    }

    fn answering(status: u16, content_type: &'static str, body: &str) -> Self {
        Self::new(vec![Ok((status, content_type, body.to_owned()))])
    }

    /// The members of the last request's form body.
    fn form(&self) -> HashMap<String, String> {
        let requests = self.requests.lock().expect("a lock");
        let body = requests.last().expect("a request").body();
        form_urlencoded::parse(body).into_owned().collect()
    }

    fn header(&self, name: &str) -> Option<String> {
        let requests = self.requests.lock().expect("a lock");
        let value = requests.last().expect("a request").headers().get(name)?;
        Some(value.to_str().expect("text").to_owned())
    }
}

impl Web for FakeIssuer {
    fn send(&self, request: WebRequest) -> PendingResponse<'_> {
        self.requests.lock().expect("a lock").push(request);
        let mut answers = self.answers.lock().expect("a lock");
        let answer = if answers.len() > 1 {
            answers.remove(0)
        } else {
            answers[0].clone()
        };
        let headers = self.headers.clone();
        Box::pin(async move {
            let (status, content_type, body) = answer?;
            let mut response = http::Response::builder()
                .status(status)
                .header("content-type", content_type);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            Ok(response.body(body.into_bytes()).expect("a response"))
        })
    }
}

fn issuer() -> IssuerMetadata {
    let mut issuer = IssuerMetadata::legacy_endpoints(&Url::parse("https://a").expect("a URL"));
    issuer.device_authorization_endpoint = Some(Url::parse("https://a/device").expect("a URL"));
    issuer
}

fn client(auth_method: AuthMethod) -> ClientIdentity {
    let has_secret = matches!(
        auth_method,
        AuthMethod::ClientSecretBasic | AuthMethod::ClientSecretPost
    );
    ClientIdentity {
        id: "an id:".to_owned(),
        secret: has_secret.then(|| Secret::new("p%w")),
        auth_method,
    }
}

fn endpoint<'a>(
    web: &'a FakeIssuer,
    issuer: &'a IssuerMetadata,
    client: &'a ClientIdentity,
) -> TokenEndpoint<'a> {
    TokenEndpoint {
        web,
        issuer,
        client,
        private_key: None,
        resource: "https://h/mcp",
        now: SystemTime::UNIX_EPOCH,
    }
}

const TOKENS: &str =
    r#"{"access_token": "t", "token_type": "Bearer", "expires_in": 60, "refresh_token": "r2"}"#;

async fn refresh(web: &FakeIssuer) -> Result<Tokens, GrantError> {
    let (issuer, client) = (issuer(), client(AuthMethod::None));
    let scopes = Scopes::parse("a");
    endpoint(web, &issuer, &client)
        .refresh(&Secret::new("r1"), &scopes)
        .await
}

#[test]
fn a_browser_is_sent_with_pkce_resource_state_and_scopes() {
    let (web, issuer, client) = (
        FakeIssuer::new(Vec::new()),
        issuer(),
        client(AuthMethod::None),
    );
    let redirect = Url::parse("http://127.0.0.1:1/callback").expect("a URL");
    let request = endpoint(&web, &issuer, &client)
        .authorization_request(&redirect, &Scopes::parse("a b"))
        .expect("a request");
    let query: HashMap<String, String> = request.url.query_pairs().into_owned().collect();
    assert_eq!(query["response_type"], "code");
    assert_eq!(query["client_id"], "an id:");
    assert_eq!(query["redirect_uri"], redirect.as_str());
    assert_eq!(query["scope"], "a b");
    assert_eq!(query["resource"], "https://h/mcp");
    assert_eq!(query["code_challenge_method"], "S256");
    assert_eq!(query["state"], request.state.expose());
    assert!(query["code_challenge"].len() >= 43);
    assert!(!request.url.as_str().contains(request.verifier.expose()));
}

#[tokio::test]
async fn a_code_is_redeemed_with_its_verifier() {
    let web = FakeIssuer::answering(200, "application/json", TOKENS);
    let (issuer, client) = (issuer(), client(AuthMethod::None));
    let redirect = Url::parse("http://127.0.0.1:1/callback").expect("a URL");
    let tokens = endpoint(&web, &issuer, &client)
        .redeem_code(
            &Secret::new("code"),
            &Secret::new("verifier"),
            &redirect,
            &Scopes::parse("a"),
        )
        .await
        .expect("tokens");
    assert_eq!(tokens.access.expose(), "t");
    assert_eq!(
        tokens.expires_at,
        Some(SystemTime::UNIX_EPOCH + Duration::from_mins(1))
    );
    let form = web.form();
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "code"),
        ("code_verifier", "verifier"),
        ("redirect_uri", "http://127.0.0.1:1/callback"),
        ("client_id", "an id:"),
        ("resource", "https://h/mcp"),
    ] {
        assert_eq!(form[name], value);
    }
}

#[tokio::test]
async fn a_client_authenticates_itself_in_each_way() {
    let issuer = issuer();
    for auth_method in [
        AuthMethod::None,
        AuthMethod::ClientSecretPost,
        AuthMethod::ClientSecretBasic,
    ] {
        let web = FakeIssuer::answering(200, "application/json", TOKENS);
        let client = client(auth_method);
        let scopes = Scopes::parse("a b");
        endpoint(&web, &issuer, &client)
            .client_credentials(&scopes)
            .await
            .expect("tokens");
        let form = web.form();
        assert_eq!(form["grant_type"], "client_credentials");
        assert_eq!(form["scope"], "a b");
        let secret = form.get("client_secret").map(String::as_str);
        match auth_method {
            // Both parts are encoded before they are joined (RFC 6749, 2.3.1).
            AuthMethod::ClientSecretBasic => {
                let credentials = STANDARD.encode("an+id%3A:p%25w");
                assert_eq!(
                    web.header("authorization"),
                    Some(format!("Basic {credentials}"))
                );
                assert_eq!(secret, None);
            }
            AuthMethod::ClientSecretPost => assert_eq!(secret, Some("p%w")),
            AuthMethod::None | AuthMethod::PrivateKeyJwt => {
                assert_eq!(form["client_id"], "an id:");
                assert_eq!((secret, web.header("authorization")), (None, None));
            }
        }
    }
}

#[tokio::test]
async fn a_refresh_keeps_the_old_token_where_there_is_no_new_one() {
    let web = FakeIssuer::answering(200, "application/json", TOKENS);
    let tokens = refresh(&web).await.expect("tokens");
    assert_eq!(tokens.refresh.expect("a token").expose(), "r2");
    assert_eq!(web.form()["refresh_token"], "r1");
    assert_eq!(web.form()["resource"], "https://h/mcp");
    let web = FakeIssuer::answering(200, "application/json", r#"{"access_token": "t"}"#);
    let tokens = refresh(&web).await.expect("tokens");
    assert_eq!(tokens.refresh.expect("a token").expose(), "r1");
    assert_eq!(tokens.scopes, Scopes::parse("a"));
}

#[tokio::test]
async fn an_answer_in_a_form_is_read() {
    let web = FakeIssuer::answering(
        200,
        "application/x-www-form-urlencoded; charset=utf-8",
        "access_token=t&token_type=bearer&expires_in=60",
    );
    let tokens = refresh(&web).await.expect("tokens");
    assert_eq!(tokens.access.expose(), "t");
    assert_eq!(
        tokens.expires_at,
        Some(SystemTime::UNIX_EPOCH + Duration::from_mins(1))
    );
}

#[tokio::test]
async fn a_refusal_is_read_wherever_it_stands() {
    let json = "application/json";
    let form = "application/x-www-form-urlencoded";
    for (status, content_type, body) in [
        (
            400,
            json,
            r#"{"error": "invalid_grant", "error_description": "gone"}"#,
        ),
        (
            401,
            json,
            r#"{"error": "invalid_grant", "error_description": "gone"}"#,
        ),
        (
            200,
            json,
            r#"{"error": "invalid_grant", "error_description": "gone"}"#,
        ),
        (200, form, "error=invalid_grant&error_description=gone"),
        (
            400,
            "text/plain",
            r#"{"error": {"code": "invalid_grant"}, "error_description": "gone"}"#,
        ),
    ] {
        let error = refresh(&FakeIssuer::answering(status, content_type, body)).await;
        let error = error.expect_err(body);
        assert_eq!(
            error.to_string(),
            "the authorization server says invalid_grant: gone",
            "{body}"
        );
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn what_says_neither_yes_nor_no_is_tried_again() {
    let html = "text/html";
    let json = "application/json";
    for (status, content_type, body, reason) in [
        (
            503,
            html,
            "<html>down</html>",
            "the authorization server answers HTTP 503",
        ),
        (
            502,
            "text/plain",
            "bad gateway\nx",
            "the authorization server answers HTTP 502: bad gateway",
        ),
        (
            500,
            json,
            r#"{"error": "invalid_grant"}"#,
            "the authorization server says invalid_grant",
        ),
        (
            429,
            json,
            r#"{"error": "slow_down"}"#,
            "the authorization server says slow_down",
        ),
        (
            400,
            json,
            r#"{"error": "temporarily_unavailable"}"#,
            "the authorization server says temporarily_unavailable",
        ),
        (
            200,
            html,
            "<html>log in to the hotel</html>",
            "the authorization server answers HTTP 200",
        ),
        (
            404,
            html,
            "<html>",
            "the authorization server answers HTTP 404",
        ),
        // A gateway in front of the authorization server may send its own JSON.
        (
            403,
            json,
            r#"{"error": "Forbidden"}"#,
            "the authorization server says Forbidden",
        ),
        (
            404,
            json,
            r#"{"error": "no healthy upstream"}"#,
            "the authorization server says no healthy upstream",
        ),
        (401, json, "", "the authorization server answers HTTP 401"),
        (302, html, "", "the authorization server answers HTTP 302"),
    ] {
        let error = refresh(&FakeIssuer::answering(status, content_type, body)).await;
        let error = error.expect_err(body);
        assert_eq!(error.to_string(), reason, "{status} {body}");
        assert!(error.is_transient(), "{status} {body}");
    }
    let error = refresh(&FakeIssuer::answering(200, json, r#"{"token": 1}"#))
        .await
        .expect_err("an error");
    assert!(error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_request_that_was_not_sent_is_told_from_a_lost_answer() {
    for (lost, was_sent) in [
        (WebError::NotSent("no route".to_owned()), false),
        (WebError::AnswerLost("cut off".to_owned()), true),
        (WebError::Unusable("too long".to_owned()), true),
    ] {
        let error = refresh(&FakeIssuer::new(vec![Err(lost.clone())])).await;
        assert_eq!(
            error,
            Err(GrantError::Unavailable {
                reason: lost.to_string(),
                is_sent: was_sent,
            })
        );
    }
}

/// An authorization server may quote the request. No error contains the request's refresh token.
#[tokio::test]
async fn errors_do_not_quote_the_secrets_of_a_request() {
    let (issuer, client) = (issuer(), client(AuthMethod::ClientSecretPost));
    let scopes = Scopes::default();
    for (status, body) in [
        (
            400,
            r#"{"error": "invalid_grant", "error_description": "refresh-secret of s3cret is used"}"#,
        ),
        (400, r#"{"error": "refresh-secret"}"#),
        (502, "bad request: refresh_token=refresh-secret"),
    ] {
        let web = FakeIssuer::answering(status, "application/json", body);
        let refreshed = endpoint(&web, &issuer, &client)
            .refresh(&Secret::new("refresh-secret"), &scopes)
            .await;
        let error = refreshed.expect_err(body).to_string();
        assert!(error.contains("[redacted]"), "{error}");
        assert!(!error.contains("refresh-secret"), "{error}");
    }
    let long = format!(r#"{{"error": "{}"}}"#, "x".repeat(10_000));
    let web = FakeIssuer::answering(400, "application/json", &long);
    let error = refresh(&web).await.expect_err("an error").to_string();
    assert!(error.len() < 200, "{error}");
}

#[tokio::test]
async fn times_of_a_device_have_limits() {
    let codes = r#"{"device_code": "d", "user_code": "ABCD", "verification_uri": "https://a/go", "expires_in": 18446744073709551615, "interval": 0}"#;
    let web = FakeIssuer::answering(200, "application/json", codes);
    let (issuer, client) = (issuer(), client(AuthMethod::None));
    let codes = endpoint(&web, &issuer, &client)
        .device_codes(&Scopes::default())
        .await
        .expect("codes");
    assert_eq!(codes.lifetime(), Duration::from_hours(1));
}

#[tokio::test]
async fn a_device_waits_for_its_person() {
    let codes = r#"{"device_code": "d", "user_code": "ABCD", "verification_uri": "https://a/go", "expires_in": 600, "interval": 1}"#;
    let json = "application/json";
    let answer = |status, body: &str| Ok((status, json, body.to_owned()));
    let web = FakeIssuer::new(vec![
        answer(200, codes),
        answer(400, r#"{"error": "authorization_pending"}"#),
        answer(400, r#"{"error": "slow_down"}"#),
        answer(200, TOKENS),
    ]);
    let (issuer, client) = (issuer(), client(AuthMethod::None));
    let endpoint = endpoint(&web, &issuer, &client);
    let scopes = Scopes::parse("a");
    let codes = endpoint.device_codes(&scopes).await.expect("codes");
    assert_eq!(
        (codes.user_code(), codes.verification_uri()),
        ("ABCD", "https://a/go")
    );
    let waits = Mutex::new(Vec::new());
    let sleep = |wait: Duration| {
        waits.lock().expect("a lock").push(wait.as_secs());
        async {}
    };
    let tokens = endpoint
        .await_device(&codes, &scopes, sleep)
        .await
        .expect("tokens");
    assert_eq!(tokens.access.expose(), "t");
    assert_eq!(*waits.lock().expect("a lock"), [1, 6]);
    assert_eq!(web.form()["device_code"], "d");
    assert_eq!(web.form()["resource"], "https://h/mcp");

    let refused = FakeIssuer::answering(400, json, r#"{"error": "access_denied"}"#);
    let endpoint = TokenEndpoint {
        web: &refused,
        ..endpoint
    };
    let error = endpoint.await_device(&codes, &scopes, |_| async {}).await;
    assert_eq!(
        error.expect_err("an error").to_string(),
        "the authorization server says access_denied"
    );
}

#[tokio::test]
async fn an_issuer_may_ask_for_a_pause() {
    for (status, body) in [
        (503, "<html>busy</html>"),
        (429, r#"{"error": "slow_down"}"#),
    ] {
        let mut web = FakeIssuer::answering(status, "application/json", body);
        web.headers = vec![("retry-after", "120")];
        let error = refresh(&web).await.expect_err("an error");
        assert!(error.is_transient(), "{error}");
        assert_eq!(error.pause(), Some(Duration::from_mins(2)), "{status}");
    }
}

fn private_key() -> Secret {
    let random = ring::rand::SystemRandom::new();
    let algorithm = &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    let key = ring::signature::EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    let text = STANDARD.encode(key.as_ref());
    Secret::new(format!(
        "-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"
    ))
}

#[tokio::test]
async fn a_wrong_clock_is_named_where_an_assertion_is_refused() {
    let refused = r#"{"error": "invalid_client", "error_description": "too old"}"#;
    let mut web = FakeIssuer::answering(401, "application/json", refused);
    let (issuer, client) = (issuer(), client(AuthMethod::PrivateKeyJwt));
    let key = private_key();
    for (date, hint) in [
        (
            "Thu, 01 Jan 1970 00:10:00 GMT",
            "; this machine's clock is 10 minutes behind the authorization server's",
        ),
        ("Thu, 01 Jan 1970 00:00:30 GMT", ""),
    ] {
        web.headers = vec![("date", date)];
        let endpoint = TokenEndpoint {
            private_key: Some(&key),
            ..endpoint(&web, &issuer, &client)
        };
        let error = endpoint.client_credentials(&Scopes::default()).await;
        assert_eq!(
            error.expect_err("an error").to_string(),
            format!("the authorization server says invalid_client: too old{hint}")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_of_a_device_has_an_assertion_of_its_own() {
    let codes = r#"{"device_code": "d", "user_code": "ABCD", "verification_uri": "https://a/go", "expires_in": 1800, "interval": 60}"#;
    let json = "application/json";
    let answer = |status, body: &str| Ok((status, json, body.to_owned()));
    let pending = r#"{"error": "authorization_pending"}"#;
    let mut answers = vec![answer(200, codes)];
    answers.extend((0..10).map(|_| answer(400, pending)));
    answers.push(answer(200, TOKENS));
    let web = FakeIssuer::new(answers);
    let (issuer, client) = (issuer(), client(AuthMethod::PrivateKeyJwt));
    let key = private_key();
    let endpoint = TokenEndpoint {
        private_key: Some(&key),
        ..endpoint(&web, &issuer, &client)
    };
    let scopes = Scopes::default();
    let codes = endpoint.device_codes(&scopes).await.expect("codes");
    let tokens = endpoint
        .await_device(&codes, &scopes, tokio::time::sleep)
        .await;
    tokens.expect("tokens");
    let requests = web.requests.lock().expect("a lock");
    let assertions: Vec<String> = requests
        .iter()
        .map(|request| {
            let mut form = form_urlencoded::parse(request.body());
            let assertion = form.find(|(name, _)| name == "client_assertion");
            assertion.expect("an assertion").1.into_owned()
        })
        .collect();
    let distinct: std::collections::HashSet<_> = assertions.iter().collect();
    assert_eq!((assertions.len(), distinct.len()), (12, 12));
    let claims = assertions[11].split('.').nth(1).expect("claims");
    let claims = URL_SAFE_NO_PAD.decode(claims).expect("base64");
    let claims: serde_json::Value = serde_json::from_slice(&claims).expect("JSON");
    assert!(claims["iat"].as_u64() >= Some(600), "{claims}");
}
