//! Every attack on a token, and its answer.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use mainstay_core::config::{SignatureAlgorithm, TrustedIssuer};
use mainstay_issuers::MAX_TOKEN;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{
    issuer_server::IssuerServer,
    signer::{Signer, encode},
    world::{KEYS, World, publish},
};

/// Fetches the keys, so that each token is decided at once.
async fn with_keys(world: World) -> World {
    assert_eq!(world.word(world.good_token()).await, "good");
    world
}

fn hs256(secret: &[u8], header: &Value, claims: &Value) -> String {
    let signed = format!(
        "{}.{}",
        encode(header.to_string()),
        encode(claims.to_string())
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length");
    mac.update(signed.as_bytes());
    format!("{signed}.{}", encode(mac.finalize().into_bytes()))
}

#[tokio::test]
async fn each_algorithm_is_checked_with_its_key() {
    for signer in [
        Signer::ed25519(),
        Signer::p256(),
        Signer::rsa("RS256"),
        Signer::rsa("PS256"),
    ] {
        let algorithm = signer.algorithm();
        let world = with_keys(World::with(signer, |_| {}).await).await;
        let good = world.good_token();
        let (signed, signature) = good.rsplit_once('.').expect("three parts");
        let flipped = |at: usize| {
            let mut bytes = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
            bytes[at] ^= 1;
            format!("{signed}.{}", encode(bytes))
        };
        for bad in [
            format!("{signed}."),
            format!("{signed}.{}", encode(b"short")),
            format!("{signed}.{}", encode([0; 64])),
            format!("{signed}.{}", encode([0xff; 256])),
            flipped(0),
            flipped(33),
        ] {
            assert_eq!(world.word_now(&bad), "signature", "{algorithm}");
        }
        // Another payload under the same signature.
        let other = Signer::ed25519().token(&world.header(), &json!({"iss": world.server.url}));
        let claims = other.split('.').nth(1).expect("claims");
        let header = good.split('.').next().expect("a header");
        let forged = format!("{header}.{claims}.{signature}");
        assert_eq!(world.word_now(&forged), "missing_claim", "{algorithm}");
    }
}

/// A key of another curve is not among the default algorithms.
#[tokio::test]
async fn an_algorithm_that_is_not_pinned_is_refused() {
    let world = World::with(Signer::p384(), |_| {}).await;
    assert_eq!(world.word(world.good_token()).await, "algorithm");
    let world = World::with(Signer::p384(), |issuer| {
        issuer.algorithms = vec![SignatureAlgorithm::Es384];
    })
    .await;
    assert_eq!(world.word(world.good_token()).await, "good");
    let world = World::with(Signer::ed25519(), |issuer| {
        issuer.algorithms = vec![SignatureAlgorithm::Rs256];
    })
    .await;
    assert_eq!(world.word(world.good_token()).await, "algorithm");
    assert!(
        world.server.requests().is_empty(),
        "nothing is fetched for it"
    );
}

#[tokio::test]
async fn a_token_without_a_signature_of_the_issuer_is_refused() {
    let world = with_keys(World::with(Signer::rsa("RS256"), |_| {}).await).await;
    let claims = world.claims();
    let with_algorithm = |name: &str| json!({"alg": name, "kid": "k1", "typ": "JWT"});
    for name in [
        "none", "None", "NONE", "nOnE", "", "HS256", "HS512", "RS256 ", "rs256",
    ] {
        let unsigned = world.signer.token(&with_algorithm(name), &claims);
        let (signed, _) = unsigned.rsplit_once('.').expect("three parts");
        assert_eq!(world.word_now(format!("{signed}.")), "algorithm", "{name}");
        assert_eq!(world.word_now(&unsigned), "algorithm", "{name}");
    }
    // The public key as a shared secret, in each of its forms.
    let public = world.signer.public_bytes();
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(&public)
    );
    let jwk = world.signer.jwk("k1").to_string();
    for secret in [&public[..], pem.as_bytes(), jwk.as_bytes(), b""] {
        for name in ["HS256", "RS256"] {
            let token = hs256(secret, &with_algorithm(name), &claims);
            let expected = if name == "HS256" {
                "algorithm"
            } else {
                "signature"
            };
            assert_eq!(world.word_now(&token), expected);
        }
    }
    // The key of somebody else, under the id of the issuer's key; and that of another type.
    let other = Signer::ed25519();
    let token = other.token(&with_algorithm("EdDSA"), &claims);
    assert_eq!(world.word(token).await, "unknown_key");
    let token = other.token(&with_algorithm("RS256"), &claims);
    assert_eq!(world.word_now(token), "signature");
    let token = world.signer.token(&with_algorithm("PS256"), &claims);
    assert_eq!(world.word_now(token), "signature", "the other padding");
}

/// A key in the token is no key, wherever it is said to be.
#[tokio::test]
async fn keys_in_the_token_are_not_used() {
    let world = with_keys(World::new().await).await;
    let (attacker, attackers_server) = (Signer::ed25519(), IssuerServer::start().await);
    publish(&attackers_server, &[attacker.jwk("k1")]);
    let keys_url = format!("{}{KEYS}", attackers_server.url);
    for (name, value) in [
        ("jwk", attacker.jwk("k1")),
        ("jku", json!(keys_url)),
        ("x5u", json!(keys_url)),
        ("x5c", json!([encode(attacker.public_bytes())])),
    ] {
        let mut header = world.header();
        header[name] = value.clone();
        let token = attacker.token(&header, &world.claims());
        assert_eq!(world.word_now(token), "signature", "{name}");
        header["kid"] = value;
        let token = attacker.token(&header, &world.claims());
        let refusal = world.check(token).await.expect_err(name).word();
        assert!(
            ["bad_claim", "unknown_key"].contains(&refusal),
            "{name}: {refusal}"
        );
    }
    assert!(attackers_server.requests().is_empty());
}

#[tokio::test]
async fn each_header_has_its_answer() {
    let world = with_keys(World::new().await).await;
    for (name, value, expected) in [
        ("typ", json!("JWT"), "good"),
        ("typ", json!("application/at+jwt"), "good"),
        ("typ", json!("dpop+jwt"), "type"),
        ("typ", json!("id_token"), "type"),
        ("crit", json!(["exp"]), "extensions"),
        ("crit", json!([]), "extensions"),
        ("b64", json!(false), "good"),
        ("kid", json!("../../../etc/passwd"), "unknown_key"),
        ("kid", json!("k1' OR '1'='1"), "unknown_key"),
        ("kid", json!("k1\u{0}"), "unknown_key"),
        ("kid", json!("K1"), "unknown_key"),
        ("kid", json!(""), "unknown_key"),
        ("kid", json!("k".repeat(10_000)), "bad_claim"),
        ("kid", json!(["k1"]), "bad_claim"),
        ("kid", Value::Null, "bad_claim"),
        ("alg", json!(["EdDSA"]), "missing_claim"),
        ("alg", json!("Ed25519"), "good"),
        ("zip", json!("DEF"), "good"),
    ] {
        let mut header = world.header();
        header[name] = value;
        let token = world.signer.token(&header, &world.claims());
        assert_eq!(world.word(token).await, expected, "{header}");
    }
    assert_eq!(
        world.server.count(KEYS),
        1,
        "within half a minute of the first"
    );
}

/// Each is signed by the issuer's key, so that only the claim decides.
#[tokio::test]
async fn each_claim_has_its_answer() {
    let world = with_keys(World::new().await).await;
    let now = world.clock.seconds();
    let url = &world.server.url;
    let other_case = url.replace("http", "HTTP");
    for (name, value, expected) in [
        ("iss", json!(format!("{url}/")), "unknown_issuer"),
        (
            "iss",
            json!(format!("{url}.evil.example")),
            "unknown_issuer",
        ),
        (
            "iss",
            json!(format!("{url}@evil.example")),
            "unknown_issuer",
        ),
        ("iss", json!(other_case), "unknown_issuer"),
        ("iss", json!([url]), "unknown_issuer"),
        ("iss", Value::Null, "unknown_issuer"),
        ("aud", json!("https://mcp.example"), "audience"),
        ("aud", json!("https://mcp.example/mcp/"), "audience"),
        ("aud", json!(["https://other.example"]), "audience"),
        (
            "aud",
            json!(["https://other.example", "https://mcp.example/mcp"]),
            "good",
        ),
        ("aud", Value::Null, "missing_claim"),
        ("exp", json!(now - 60), "expired"),
        ("exp", Value::Null, "missing_claim"),
        ("exp", json!((now + 60).to_string()), "bad_claim"),
        ("exp", json!(9e18), "bad_claim"),
        ("exp", json!(1e308), "bad_claim"),
        ("exp", json!(u64::MAX), "bad_claim"),
        ("exp", json!(i64::MIN), "bad_claim"),
        ("nbf", json!(now + 61), "not_yet_valid"),
        ("nbf", json!(now + 60), "good"),
        ("iat", json!(now + 61), "not_yet_valid"),
        ("sub", Value::Null, "missing_claim"),
        ("sub", json!("ada\r\nSet-Cookie: x"), "bad_claim"),
        ("sub", json!("a".repeat(4000)), "bad_claim"),
        ("groups", json!([["a"]]), "bad_claim"),
        ("cnf", json!({"jkt": "x"}), "bound"),
        ("act", json!({"sub": "agent"}), "good"),
    ] {
        let token = world.token_with(name, value.clone());
        assert_eq!(world.word_now(token), expected, "{name}: {value}");
    }
}

#[tokio::test]
async fn each_unreadable_token_has_its_answer() {
    let world = with_keys(World::new().await).await;
    let header = world.header().to_string();
    let claims = world.claims().to_string();
    let of_claims = |claims: &[u8]| world.signer.token_of_texts(&header, claims);
    let twice = claims.replacen('{', "{\"sub\":\"root\",", 1);
    let nested = claims.replacen(
        '{',
        &format!("{{\"x\":{}1{},", "[".repeat(1000), "]".repeat(1000)),
        1,
    );
    let huge_number = claims.replacen('{', "{\"x\":1e999,", 1);
    let not_utf8 = [b"{\"x\":\"\xff\xfe\",", &claims.as_bytes()[1..]].concat();
    let good = world.good_token();
    for (token, expected) in [
        (of_claims(twice.as_bytes()), "unreadable"),
        (of_claims(nested.as_bytes()), "unreadable"),
        (of_claims(huge_number.as_bytes()), "unreadable"),
        (of_claims(&not_utf8), "unreadable"),
        (of_claims(b"[]"), "unreadable"),
        (of_claims(b"null"), "unreadable"),
        (of_claims(b""), "unreadable"),
        (of_claims(format!("{claims} x").as_bytes()), "unreadable"),
        (
            world.signer.token_of_texts(
                &header.replacen('{', "{\"alg\":\"none\",", 1),
                claims.as_bytes(),
            ),
            "unreadable",
        ),
        (format!("{good}="), "unreadable"),
        (format!("{good}\n"), "not_ours"),
        (format!(" {good}"), "not_ours"),
        (format!("Bearer {good}"), "not_ours"),
        (good.replace('.', ".."), "not_ours"),
        (
            good.rsplit_once('.').expect("parts").0.to_owned(),
            "not_ours",
        ),
        (format!("{good}.{good}"), "not_ours"),
        ("a.b.c.d.e".to_owned(), "not_ours"),
        ("..".to_owned(), "not_ours"),
        (String::new(), "not_ours"),
        ("opaque".to_owned(), "not_ours"),
        ("x".repeat(MAX_TOKEN + 1), "too_large"),
        ("x".repeat(1_000_000), "too_large"),
        (
            of_claims(format!("{claims}{}", " ".repeat(MAX_TOKEN)).as_bytes()),
            "too_large",
        ),
    ] {
        let start: String = token.chars().take(80).collect();
        assert_eq!(world.word_now(&token), expected, "{start}");
    }
    assert_eq!(world.word_now(b"\xff\xfe.\x00.x"), "not_ours");
}

/// Two issuers: a token of one is never checked with the keys of the other.
#[tokio::test]
async fn a_token_is_checked_with_the_keys_of_its_issuer_only() {
    let world = World::new().await;
    let other = World::new().await;
    let settings = [&world, &other].map(|world| {
        let issuer = &world.server.url;
        TrustedIssuer::new(issuer, crate::world::AUDIENCE)
    });
    let issuers = mainstay_issuers::Issuers::new(settings.to_vec(), world.clock.wall_clock());
    let both = World {
        issuers: issuers.expect("valid settings"),
        ..World::new().await
    };
    // The other's key has signed, with the id of the other's key.
    let forged = other.signer.token(&world.header(), &world.claims());
    assert_eq!(both.word(forged).await, "signature");
    assert_eq!(world.server.count(KEYS), 1);
    assert!(
        other.server.requests().is_empty(),
        "the other issuer is not asked"
    );
    assert_eq!(both.word(other.good_token()).await, "good");
    assert_eq!(both.word(world.good_token()).await, "good");
    // The issuer of one, and the audience of nobody: no keys are looked at.
    let token = other.token_with("aud", json!("x"));
    assert_eq!(both.word_now(token), "audience");
}

#[tokio::test]
async fn scopes_groups_and_the_client_are_read() {
    let world = World::with(Signer::ed25519(), |issuer| {
        issuer.required_scopes = vec!["mcp:read".to_owned(), "mcp:call".to_owned()];
        issuer.groups_claim = "realm_access.roles".to_owned();
    })
    .await;
    let mut claims = world.claims();
    claims["scope"] = json!("mcp:read openid");
    claims["realm_access"] = json!({"roles": ["staff", "admin"]});
    claims["client_id"] = json!("laptop");
    let token = world.signer.token(&world.header(), &claims);
    let refusal = world.check(&token).await.expect_err("a scope is missing");
    assert_eq!(refusal.to_string(), "the token lacks the scopes: mcp:call");
    assert_eq!(refusal.scope().as_deref(), Some("mcp:read mcp:call"));
    assert_eq!(refusal.status(), 403);
    // Nobody else learns the scopes from a forged token.
    let forged = Signer::ed25519().token(&world.header(), &claims);
    assert_eq!(world.word_now(forged), "signature");
    claims["scope"] = json!("mcp:read mcp:call");
    let token = world.signer.token(&world.header(), &claims);
    let verified = world.check(&token).await.expect("good");
    assert_eq!(&*verified.subject, "ada");
    assert_eq!(&*verified.issuer, world.server.url);
    let words = |words: &[std::sync::Arc<str>]| words.join(" ");
    assert_eq!(words(&verified.groups), "staff admin");
    assert_eq!(words(&verified.scopes), "mcp:read mcp:call");
    assert_eq!(verified.client_id.as_deref(), Some("laptop"));
    let debug_text = format!("{verified:?} {:?}", world.issuers);
    assert!(!debug_text.contains(&token), "{debug_text}");
}
