//! Properties of all bytes: nothing panics, and no changed token is good.

use proptest::prelude::*;
use tokio::runtime::Runtime;

use crate::world::World;

/// A world whose keys are known.
fn world(runtime: &Runtime) -> (World, String) {
    runtime.block_on(async {
        let world = World::new().await;
        let token = world.good_token();
        assert_eq!(world.word(&token).await, "good");
        (world, token)
    })
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

#[test]
fn no_changed_token_is_good() {
    let runtime = runtime();
    let (world, token) = world(&runtime);
    let strategy = (any::<prop::sample::Index>(), any::<u8>(), 0..3_u8);
    proptest!(|(edits in prop::collection::vec(strategy, 1..4))| {
        let mut changed = token.clone().into_bytes();
        for (index, byte, edit) in edits {
            let at = index.index(changed.len());
            match edit {
                0 => changed[at] = byte,
                1 => changed.insert(at, byte),
                _remove => { changed.remove(at); }
            }
        }
        if changed != token.as_bytes() {
            prop_assert_ne!(world.word_now(&changed), "good");
        }
    });
}

#[test]
fn no_bytes_panic() {
    let runtime = runtime();
    let (world, _) = world(&runtime);
    proptest!(|(bytes in prop::collection::vec(any::<u8>(), 0..400))| {
        prop_assert_ne!(world.word_now(&bytes), "good");
    });
    // Parts that decode.
    let json = r#"[{}\[\]",:a-z0-9e.+\\-]{0,60}"#;
    proptest!(|(header in json, claims in json)| {
        let token = world.signer.token_of_texts(&format!("{{{header}"), claims.as_bytes());
        prop_assert_ne!(world.word_now(&token), "good");
    });
}
