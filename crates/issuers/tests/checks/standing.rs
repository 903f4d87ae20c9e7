//! The standing of tokens that were found good.

use mainstay_core::config::TrustedIssuer;
use mainstay_issuers::{Issuers, MAX_RAISED_SUBJECTS, Standing, VersionError};
use serde_json::json;

use crate::{
    signer::Signer,
    world::{AUDIENCE, KEYS, World},
};

async fn versioned() -> World {
    World::with(Signer::ed25519(), |issuer| {
        issuer.token_version_claim = Some("tokenVersion".to_owned());
    })
    .await
}

#[tokio::test]
async fn a_token_ends_at_its_end_and_its_leeway() {
    let world = World::new().await;
    let token = world.good_token();
    let verified = world.check(&token).await.expect("good");
    world.clock.advance(3600 + 59);
    assert_eq!(
        world.issuers.standing(&verified, world.clock.now()),
        Standing::Good
    );
    assert_eq!(world.word_now(&token), "good");
    world.clock.advance(1);
    assert_eq!(verified.expires_at, world.clock.now());
    assert_eq!(
        world.issuers.standing(&verified, world.clock.now()),
        Standing::Ended
    );
    assert_eq!(world.word_now(&token), "expired");
}

#[tokio::test]
async fn a_raised_version_ends_older_tokens_at_once() {
    let world = versioned().await;
    let url = world.server.url.clone();
    let [old, new] = [3, 4].map(|version| world.token_with("tokenVersion", json!(version)));
    let without = world.good_token();
    let verified = world.check(&old).await.expect("good");
    assert_eq!(verified.token_version, Some(3));
    assert_eq!(world.word_now(&without), "good");
    let changes = world.issuers.changes();
    assert_eq!(world.issuers.raise_token_version(&url, "ada", 4), Ok(true));
    assert!(changes.has_changed().expect("the sender is there"));
    assert_eq!(
        world.issuers.standing(&verified, world.clock.now()),
        Standing::Ended
    );
    for (token, expected) in [(&old, "ended"), (&without, "ended"), (&new, "good")] {
        assert_eq!(world.word_now(token), expected);
    }
    // A version never falls.
    assert_eq!(world.issuers.raise_token_version(&url, "ada", 2), Ok(false));
    assert_eq!(world.word_now(&old), "ended");
    // A forged token does not learn that the subject has ended.
    let forged = Signer::ed25519().token(&world.header(), &world.claims());
    assert_eq!(world.word_now(forged), "signature");
}

#[tokio::test]
async fn versions_are_bounded_and_need_their_claim() {
    let world = versioned().await;
    let url = world.server.url.clone();
    for number in 0..MAX_RAISED_SUBJECTS {
        let raised = world
            .issuers
            .raise_token_version(&url, &number.to_string(), 1);
        assert_eq!(raised, Ok(true));
    }
    let raise = |issuer: &str, subject| world.issuers.raise_token_version(issuer, subject, 2);
    assert_eq!(raise(&url, "one more"), Err(VersionError::TooMany));
    assert_eq!(raise(&url, "7"), Ok(true));
    let unknown = VersionError::UnknownIssuer("https://x".to_owned());
    assert_eq!(raise("https://x", "7"), Err(unknown));
    let plain = World::new().await;
    let url = &plain.server.url;
    assert_eq!(
        plain.issuers.raise_token_version(url, "ada", 1),
        Err(VersionError::NoVersions(url.clone()))
    );
}

/// Another configuration may demand more of the same token.
#[tokio::test]
async fn a_token_of_another_configuration_is_checked_again() {
    let world = World::new().await;
    let token = world.good_token();
    let verified = world.check(&token).await.expect("good");
    let settings = TrustedIssuer {
        required_scopes: vec!["more".to_owned()],
        ..TrustedIssuer::new(&world.server.url, AUDIENCE)
    };
    let issuers = Issuers::new(vec![settings], world.clock.wall_clock()).expect("valid");
    assert_eq!(
        issuers.standing(&verified, world.clock.now()),
        Standing::Unproven
    );
    let world = World { issuers, ..world };
    assert_eq!(world.word(&token).await, "insufficient_scope");
}

/// The keys are fetched again though every request has a token that is known.
#[tokio::test]
async fn a_known_token_keeps_the_keys_fresh() {
    let world = World::new().await;
    let verified = world.check(world.good_token()).await.expect("good");
    world.clock.advance(3600);
    assert_eq!(
        world.issuers.standing(&verified, world.clock.now()),
        Standing::Good
    );
    let limit = mainstay_testkit::limits::IN_PROCESS;
    mainstay_testkit::until(limit, "another fetch", || world.server.count(KEYS) == 2).await;
}

#[tokio::test]
async fn settings_are_checked() {
    let bad = TrustedIssuer::new("http://a.example", AUDIENCE);
    let clock = crate::clock::TestClock::new();
    let issuers = vec![TrustedIssuer::new("https://a.example", AUDIENCE), bad];
    let (index, fault) = Issuers::new(issuers, clock.wall_clock()).expect_err("not encrypted");
    assert_eq!((index, fault.key()), (1, Some("issuer")));
}
