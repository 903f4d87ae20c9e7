//! Tokens that are no JWT: the issuer is asked.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mainstay_core::config::{IntrospectionSettings, Secret};
use mainstay_issuers::{Checked, INACTIVE_BURST, Standing};
use mainstay_testkit::{limits::IN_PROCESS, soon, until};
use serde_json::{Value, json};

use crate::{
    clock::START,
    issuer_server::Reply,
    signer::Signer,
    world::{AUDIENCE, METADATA, World},
};

const INTROSPECT: &str = "/introspect";

async fn world() -> World {
    let world = World::with(Signer::ed25519(), |issuer| {
        issuer.introspection = Some(IntrospectionSettings {
            endpoint: None,
            client_id: "main stay".to_owned(),
            client_secret: Secret::new("s:ecret"),
        });
        issuer.required_scopes = vec!["call".to_owned()];
        issuer.token_version_claim = Some("ver".to_owned());
    })
    .await;
    answer(&world, &active());
    world
}

fn active() -> Value {
    json!({
        "active": true,
        "aud": AUDIENCE,
        "sub": "ada",
        "scope": "read call",
        "exp": START + 3600,
        "client_id": "laptop",
        "ver": 3,
    })
}

fn answer(world: &World, answer: &Value) {
    world.server.set(INTROSPECT, Reply::json(answer));
}

#[tokio::test]
async fn an_active_token_is_asked_about_once_a_minute() {
    let world = world().await;
    let verified = world.check("opaque/+~=").await.expect("good");
    assert_eq!(&*verified.subject, "ada");
    assert_eq!(verified.client_id.as_deref(), Some("laptop"));
    let requests = world.server.requests();
    let request = requests.last().expect("a request");
    assert_eq!(
        request.body,
        "token=opaque%2F%2B%7E%3D&token_type_hint=access_token"
    );
    let credentials = STANDARD.encode("main%20stay:s%3Aecret");
    assert!(
        request.head.contains(&format!("Basic {credentials}")),
        "{}",
        request.head
    );
    world.clock.advance(59);
    assert_eq!(world.word_now("opaque/+~="), "good");
    assert_eq!(
        world.issuers.standing(&verified, world.clock.now()),
        Standing::Good
    );
    world.clock.advance(1);
    assert_eq!(
        world.issuers.standing(&verified, world.clock.now()),
        Standing::Unproven
    );
    // The issuer has revoked it meanwhile.
    answer(&world, &json!({"active": false}));
    assert_eq!(world.word("opaque/+~=").await, "inactive");
    assert_eq!(world.server.count(INTROSPECT), 2);
    assert_eq!(world.server.count(METADATA), 1);
}

#[tokio::test]
async fn many_requests_with_one_token_ask_once() {
    let world = world().await;
    let waiting: Vec<_> = (0..100)
        .map(
            |_| match world.issuers.check_now(b"same", world.clock.now()) {
                Checked::Pending(pending) => pending,
                other => panic!("{other:?}"),
            },
        )
        .collect();
    for pending in waiting {
        let verified = soon(IN_PROCESS, "a result", pending.wait()).await;
        verified.expect("good");
    }
    assert_eq!(world.server.count(INTROSPECT), 1);
}

#[tokio::test]
async fn each_answer_has_its_result() {
    for (name, value, expected) in [
        ("active", json!(true), "good"),
        ("active", json!(false), "inactive"),
        ("active", json!("true"), "unavailable"),
        ("aud", json!(["x", AUDIENCE]), "good"),
        ("aud", json!("x"), "audience"),
        ("aud", Value::Null, "missing_claim"),
        ("iss", json!("https://other.example"), "unknown_issuer"),
        ("exp", json!(START - 60), "expired"),
        ("exp", Value::Null, "missing_claim"),
        ("sub", json!("a\u{7}"), "bad_claim"),
        ("scope", json!("read"), "insufficient_scope"),
        ("cnf", json!({"x5t#S256": "x"}), "bound"),
    ] {
        let world = world().await;
        let mut claims = active();
        claims[name] = value.clone();
        answer(&world, &claims);
        assert_eq!(world.word("token").await, expected, "{name}: {value}");
        // The answer is used again.
        assert_eq!(world.word_now("token"), expected, "{name}: {value}");
        assert_eq!(world.server.count(INTROSPECT), 1, "{name}: {value}");
    }
}

/// The token may be good: the client must not throw it away.
#[tokio::test]
async fn an_issuer_without_an_answer_is_unavailable() {
    let huge = format!("{{\"active\":true,\"x\":\"{}\"}}", "x".repeat(64 * 1024));
    for (reply, reason) in [
        (Reply::answer(500, "", ""), "answered 500"),
        (Reply::answer(401, "", ""), "does not accept `clientId`"),
        (Reply::answer(302, "location: /x\r\n", ""), "answered 302"),
        (Reply::json("<html>"), "is not readable"),
        (Reply::json(huge), "more than 65536 bytes"),
        (Reply::Close, "gave no answer"),
    ] {
        let world = world().await;
        world.server.set(INTROSPECT, reply);
        let refusal = world.check("token").await.expect_err(reason);
        assert_eq!(
            (refusal.word(), refusal.status(), refusal.error()),
            ("unavailable", 503, None)
        );
        assert!(refusal.to_string().contains(reason), "{refusal}");
        assert!(!refusal.to_string().contains("s:ecret"), "{refusal}");
        let error = world.issuers.statuses().remove(0).introspection_error;
        assert!(error.is_some_and(|error| error.contains(reason)));
        // It is left alone for a second, and then it is asked again.
        let count = world.server.count(INTROSPECT);
        assert_eq!(world.word_now("other"), "unavailable");
        assert_eq!(world.server.count(INTROSPECT), count);
        answer(&world, &active());
        world.clock.advance(1);
        assert_eq!(world.word("token").await, "good");
    }
}

#[tokio::test]
async fn a_slow_issuer_is_not_waited_for() {
    let world = world().await;
    world.server.set(INTROSPECT, Reply::Silence);
    let Checked::Pending(pending) = world.issuers.check_now(b"token", world.clock.now()) else {
        panic!("nothing to wait for");
    };
    until(IN_PROCESS, "the request", || {
        world.server.count(INTROSPECT) == 1
    })
    .await;
    tokio::time::pause();
    let refusal = pending.wait().await.expect_err("slow");
    assert_eq!(refusal.word(), "unavailable");
}

/// Anybody can invent tokens.
#[tokio::test]
async fn a_thousand_invented_tokens_cost_a_hundred_requests() {
    let world = world().await;
    world.server.handle(INTROSPECT, |request| {
        let is_good = request.body.contains("token=good");
        Reply::json(if is_good {
            active()
        } else {
            json!({"active": false})
        })
    });
    let mut words = BTreeMap::new();
    let checks: Vec<_> = (0..1000)
        .map(|number| {
            let token = format!("bad{number}");
            world.issuers.check_now(token.as_bytes(), world.clock.now())
        })
        .collect();
    for check in checks {
        let verdict = match check {
            Checked::Pending(pending) => soon(IN_PROCESS, "a result", pending.wait()).await,
            Checked::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        };
        let refusal = verdict.expect_err("invented");
        *words.entry(refusal.word()).or_insert(0) += 1;
    }
    let burst = INACTIVE_BURST as usize;
    assert_eq!(world.server.count(INTROSPECT), burst);
    assert_eq!(words["inactive"], burst);
    assert_eq!(words["unavailable"], 1000 - burst);
    // A good token is asked about again a fifth of a second later, as one of five in a second.
    world.clock.advance(1);
    assert_eq!(world.word("good").await, "good");
    for number in 0..1000 {
        world.word(format!("worse{number}")).await;
    }
    assert_eq!(world.server.count(INTROSPECT), burst + 1 + 5);
    assert_eq!(
        world.word_now("good"),
        "good",
        "what is known is not in the way"
    );
}

#[tokio::test]
async fn a_raised_version_ends_an_opaque_token() {
    let world = world().await;
    let verified = world.check("token").await.expect("good");
    let url = &world.server.url;
    assert_eq!(world.issuers.raise_token_version(url, "ada", 4), Ok(true));
    assert_eq!(
        world.issuers.standing(&verified, world.clock.now()),
        Standing::Ended
    );
    assert_eq!(world.word_now("token"), "ended");
}

/// Only an issuer with an introspection is shown tokens.
#[tokio::test]
async fn without_an_introspection_a_token_is_nobodys() {
    let world = World::new().await;
    assert_eq!(world.word_now("opaque"), "not_ours");
    assert!(world.server.requests().is_empty());
    let world = self::world().await;
    for token in ["", "a b", "a\"b", "ä"] {
        assert_eq!(world.word_now(token), "not_ours", "{token}");
    }
    // A JWT is checked with the keys.
    let mut claims = world.claims();
    claims["scope"] = json!("call");
    let token = world.signer.token(&world.header(), &claims);
    assert_eq!(world.word(token).await, "good");
    assert_eq!(world.server.count(INTROSPECT), 0);
}
