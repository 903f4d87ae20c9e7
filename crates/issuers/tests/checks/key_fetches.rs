//! The keys of an issuer, fetched from a real socket.

use mainstay_issuers::{Checked, Issuers};
use mainstay_testkit::{limits::IN_PROCESS, soon, until};
use serde_json::json;

use crate::{
    issuer_server::{IssuerServer, Reply},
    signer::Signer,
    world::{KEYS, METADATA, World, publish, publish_metadata},
};

fn error(issuers: &Issuers) -> String {
    let status = issuers.statuses().remove(0);
    status.keys.error.unwrap_or_default()
}

#[tokio::test]
async fn many_requests_wait_for_one_fetch() {
    let world = World::new().await;
    let waiting: Vec<_> = (0..50)
        .map(|number| {
            let token = world.token_with("jti", json!(number));
            match world.issuers.check_now(token.as_bytes(), world.clock.now()) {
                Checked::Pending(pending) => pending,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert!(!format!("{waiting:?}").contains("eyJ"), "a token is shown");
    for pending in waiting {
        let verified = soon(IN_PROCESS, "a result", pending.wait()).await;
        assert_eq!(&*verified.expect("good").subject, "ada");
    }
    assert_eq!(
        (world.server.count(METADATA), world.server.count(KEYS)),
        (1, 1)
    );
    // From now on nothing is waited for.
    assert_eq!(world.word_now(world.good_token()), "good");
    let status = world.issuers.statuses().remove(0);
    assert_eq!((status.keys.keys, status.keys.skipped), (1, 0));
    assert_eq!(status.keys.fetched_at, Some(world.clock.now()));
    assert_eq!(status.keys.error, None);
}

#[tokio::test]
async fn keys_are_fetched_before_the_first_request() {
    let world = World::new().await;
    world.issuers.prefetch();
    world.issuers.prefetch();
    until(IN_PROCESS, "the keys", || {
        world.issuers.statuses()[0].keys.keys == 1
    })
    .await;
    assert_eq!(world.word_now(world.good_token()), "good");
    assert_eq!(world.server.count(KEYS), 1);
}

/// Anybody can invent key ids.
#[tokio::test]
async fn unknown_key_ids_cost_one_fetch_in_half_a_minute() {
    let world = World::new().await;
    assert_eq!(world.word(world.good_token()).await, "good");
    for second in 0..60 {
        for number in 0..20 {
            let mut header = world.header();
            header["kid"] = json!(format!("{second}-{number}"));
            let token = world.signer.token(&header, &world.claims());
            assert_eq!(world.word(token).await, "unknown_key");
        }
        world.clock.advance(1);
    }
    assert_eq!(world.server.count(KEYS), 2);
}

#[tokio::test]
async fn a_rotated_key_is_found_and_the_removed_one_ends() {
    let world = World::new().await;
    let old_token = world.good_token();
    let old = world.check(&old_token).await.expect("good");
    let new = Signer::ed25519();
    publish(&world.server, &[world.signer.jwk("k1"), new.jwk("k2")]);
    world.clock.advance(30);
    let header = json!({"alg": "EdDSA", "kid": "k2"});
    let new_token = new.token(&header, &world.claims());
    assert_eq!(world.word(&new_token).await, "good");
    assert_eq!(world.word_now(&old_token), "good", "both keys are good");

    let mut changes = world.issuers.changes();
    publish(&world.server, &[new.jwk("k2")]);
    world.clock.advance(3600);
    // The stale keys answer, and are fetched behind this answer.
    let _ = world.word_now(world.good_token());
    let change = soon(IN_PROCESS, "the removed key", changes.changed()).await;
    change.expect("the sender is there");
    let standing = world.issuers.standing(&old, world.clock.now());
    assert_eq!(standing, mainstay_issuers::Standing::Ended);
    assert_eq!(world.word_now(world.good_token()), "unknown_key");
}

/// Some issuers replace a key and keep its id, or have no ids.
#[tokio::test]
async fn a_key_that_was_replaced_under_its_id_is_found() {
    let world = World::new().await;
    assert_eq!(world.word(world.good_token()).await, "good");
    let new = Signer::ed25519();
    publish(&world.server, &[new.jwk("k1")]);
    let token = new.token(&world.header(), &world.claims());
    assert_eq!(world.word_now(&token), "signature", "too early for a fetch");
    world.clock.advance(30);
    assert_eq!(world.word(&token).await, "good");
    // Forged tokens cost no more fetches than unknown ids.
    for _ in 0..60 {
        for _ in 0..5 {
            let token = Signer::ed25519().token(&world.header(), &world.claims());
            assert_eq!(world.word(token).await, "signature");
        }
        world.clock.advance(1);
    }
    assert_eq!(world.server.count(KEYS), 3);
}

#[tokio::test]
async fn keys_with_the_same_id_are_all_tried() {
    let world = World::new().await;
    let other = Signer::ed25519();
    publish(&world.server, &[other.jwk("k1"), world.signer.jwk("k1")]);
    assert_eq!(world.word(world.good_token()).await, "good");
    let token = other.token(&world.header(), &world.claims());
    assert_eq!(world.word_now(token), "good");
    let token = Signer::ed25519().token(&world.header(), &world.claims());
    assert_eq!(world.word_now(token), "signature");
}

#[tokio::test]
async fn a_token_without_a_key_id_is_checked_with_the_few_keys_that_fit() {
    let world = World::new().await;
    let header = json!({"alg": "EdDSA"});
    let token = world.signer.token(&header, &world.claims());
    assert_eq!(world.word(&token).await, "good");
    let many: Vec<_> = (0..5)
        .map(|number| Signer::ed25519().jwk(&number.to_string()))
        .collect();
    publish(&world.server, &many);
    let crowded = World::new().await;
    publish(&crowded.server, &many);
    let token = crowded.signer.token(&header, &crowded.claims());
    assert_eq!(crowded.word(token).await, "many_keys");
}

#[tokio::test]
async fn an_issuer_that_was_down_is_asked_again_after_a_pause() {
    let world = World::new().await;
    world.server.set(METADATA, Reply::Close);
    let refusal = world.check(world.good_token()).await.expect_err("down");
    assert_eq!((refusal.word(), refusal.status()), ("unavailable", 503));
    assert_eq!(refusal.retry_after_seconds(), Some(1));
    publish_metadata(&world.server);
    assert_eq!(world.word_now(world.good_token()), "unavailable");
    assert_eq!(world.server.count(METADATA), 1, "the pause is kept");
    world.clock.advance(1);
    assert_eq!(world.word(world.good_token()).await, "good");
    assert_eq!(error(&world.issuers), "");
}

/// The known keys go on for a day.
#[tokio::test]
async fn keys_outlive_an_issuer_that_is_down() {
    let world = World::new().await;
    assert_eq!(world.word(world.good_token()).await, "good");
    for hour in 1..24 {
        // The status tells which fetch has failed.
        let status = 500 + hour;
        for path in [KEYS, METADATA] {
            world.server.set(path, Reply::answer(status, "", "down"));
        }
        world.clock.advance(3600);
        assert_eq!(world.word_now(world.good_token()), "good", "hour {hour}");
        let expected = format!("answered {status}");
        until(IN_PROCESS, &expected, || {
            error(&world.issuers).contains(&expected)
        })
        .await;
    }
    world.clock.advance(3600);
    assert_eq!(world.word(world.good_token()).await, "unavailable");
}

/// Each of these keeps the keys that are known.
#[tokio::test]
async fn a_set_that_cannot_be_used_keeps_the_former_keys() {
    let small = {
        let modulus = crate::signer::encode([0xa5; 64]);
        json!({"kty": "RSA", "kid": "k1", "n": modulus, "e": "AQAB"})
    };
    let million = format!("{{\"keys\":[{}{{}}]}}", "{},".repeat(1_000_000));
    let many = json!({"keys": vec![small.clone(); 101]});
    let html = Reply::answer(200, "content-type: text/html\r\n", "<html>log in</html>");
    let elsewhere = IssuerServer::start().await;
    publish(&elsewhere, &[Signer::ed25519().jwk("k1")]);
    let location = format!("location: {}{KEYS}\r\n", elsewhere.url);
    for (reply, expected) in [
        (Reply::json(json!({"keys": []})), "no key for signatures"),
        (Reply::json(json!({"keys": [small]})), "1 keys were skipped"),
        (Reply::json(json!({})), "it is no set of keys"),
        (Reply::json(many), "more than 100 keys"),
        (
            Reply::json(million),
            "answered with more than 1048576 bytes",
        ),
        (html, "it is no object of JSON"),
        (Reply::answer(302, &location, ""), "which is not followed"),
        (
            Reply::answer(301, "location: /keys2\r\n", ""),
            "which is not followed",
        ),
        (Reply::answer(304, "", ""), "answered 304"),
        (Reply::answer(404, "", ""), "answered 404"),
        (Reply::answer(500, "", "oops"), "answered 500"),
        (Reply::Close, "gave no answer"),
    ] {
        let world = World::new().await;
        assert_eq!(world.word(world.good_token()).await, "good");
        world.server.set(KEYS, reply);
        world.clock.advance(3600);
        assert_eq!(world.word_now(world.good_token()), "good");
        until(IN_PROCESS, expected, || {
            error(&world.issuers).contains(expected)
        })
        .await;
        assert_eq!(world.word_now(world.good_token()), "good", "{expected}");
        world.issuers.close().await;
    }
    assert!(elsewhere.requests().is_empty());
}

/// The first fetch fails, so that there is no key at all.
#[tokio::test]
async fn metadata_that_cannot_be_used_is_told() {
    let other =
        json!({"issuer": "https://other.example", "jwks_uri": "https://other.example/keys"});
    for (reply, expected) in [
        (
            Reply::json(other),
            "is about the issuer \"https://other.example\"",
        ),
        (Reply::json("<html>"), "answered with no metadata"),
        (
            Reply::answer(302, "location: /x\r\n", ""),
            "which is not followed",
        ),
        (Reply::answer(404, "", ""), "answered 404"),
    ] {
        let world = World::new().await;
        world.server.set(METADATA, reply);
        let refusal = world.check(world.good_token()).await.expect_err(expected);
        assert_eq!(refusal.word(), "unavailable");
        assert!(
            error(&world.issuers).contains(expected),
            "{}",
            error(&world.issuers)
        );
        assert_eq!(world.server.count(KEYS), 0);
    }
    let world = World::new().await;
    for (member, url, expected) in [
        ("jwks_uri", "http://192.0.2.1/keys", "is no https URL"),
        ("jwks_uri", "file:///etc/passwd", "is no https URL"),
        ("other", "", "has no `jwks_uri`"),
    ] {
        let metadata = json!({"issuer": world.server.url, member: url});
        world.server.set(METADATA, Reply::json(metadata));
        assert_eq!(world.word(world.good_token()).await, "unavailable");
        assert!(
            error(&world.issuers).contains(expected),
            "{}",
            error(&world.issuers)
        );
        world.clock.advance(60);
    }
}

/// The second place of the specification's list.
#[tokio::test]
async fn metadata_is_looked_for_at_each_place() {
    let world = World::new().await;
    let metadata =
        json!({"issuer": world.server.url, "jwks_uri": format!("{}{KEYS}", world.server.url)});
    world.server.set(METADATA, Reply::answer(404, "", ""));
    world
        .server
        .set("/.well-known/openid-configuration", Reply::json(metadata));
    assert_eq!(world.word(world.good_token()).await, "good");
}

#[tokio::test]
async fn a_configured_url_of_the_keys_needs_no_metadata() {
    let elsewhere = IssuerServer::start().await;
    let url = format!("{}{KEYS}", elsewhere.url);
    let world = World::with(Signer::p256(), |issuer| issuer.jwks_uri = Some(url)).await;
    publish(&elsewhere, &[world.signer.jwk("k1")]);
    assert_eq!(world.word(world.good_token()).await, "good");
    assert!(world.server.requests().is_empty());
}

#[tokio::test]
async fn freshness_is_the_issuers_choice() {
    let world = World::new().await;
    let keys = json!({"keys": [world.signer.jwk("k1")]});
    let fresh = "cache-control: public, max-age=600\r\n";
    world.server.set(KEYS, Reply::answer(200, fresh, keys));
    assert_eq!(world.word(world.good_token()).await, "good");
    world.clock.advance(599);
    assert_eq!(world.word_now(world.good_token()), "good");
    assert_eq!(world.server.count(KEYS), 1);
    world.clock.advance(1);
    assert_eq!(world.word_now(world.good_token()), "good");
    until(IN_PROCESS, "another fetch", || {
        world.server.count(KEYS) == 2
    })
    .await;
}

/// The wait has a limit, and so has the fetch. The time is stopped once the server has the request.
#[tokio::test]
async fn a_slow_issuer_is_not_waited_for() {
    let world = World::new().await;
    world.server.set(KEYS, Reply::Silence);
    let token = world.good_token();
    let Checked::Pending(pending) = world.issuers.check_now(token.as_bytes(), world.clock.now())
    else {
        panic!("nothing to wait for");
    };
    until(IN_PROCESS, "the request", || world.server.count(KEYS) == 1).await;
    tokio::time::pause();
    let started_at = tokio::time::Instant::now();
    let refusal = pending.wait().await.expect_err("slow");
    assert_eq!(refusal.word(), "unavailable");
    assert!(
        started_at.elapsed() <= mainstay_issuers::WAIT_LIMIT,
        "{:?}",
        started_at.elapsed()
    );
    assert!(
        error(&world.issuers).contains("did not answer within"),
        "{}",
        error(&world.issuers)
    );
}

/// Waiting requests are refused at once, and no task is left.
#[tokio::test]
async fn closing_ends_the_fetches() {
    let world = World::new().await;
    world.server.set(METADATA, Reply::Silence);
    let token = world.good_token();
    let Checked::Pending(pending) = world.issuers.check_now(token.as_bytes(), world.clock.now())
    else {
        panic!("nothing to wait for");
    };
    until(IN_PROCESS, "the request", || {
        world.server.count(METADATA) == 1
    })
    .await;
    let (waited, ()) = soon(IN_PROCESS, "the end", async {
        tokio::join!(pending.wait(), world.issuers.close())
    })
    .await;
    let refusal = waited.expect_err("closed");
    assert!(
        refusal.to_string().contains("Mainstay is stopping"),
        "{refusal}"
    );
}
