//! Every input that was found, or is typical, keeps its promise.

use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut count = 0;
    for file in corpus.read_dir().expect("the corpus is there") {
        let path = file.expect("listed").path();
        let input = std::fs::read(&path).expect("read");
        let name = path.display();
        std::panic::catch_unwind(|| check(&input)).unwrap_or_else(|_| panic!("{name} fails"));
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn framing() {
    replay("framing", fuzz::framing::check);
}

#[test]
fn events() {
    replay("events", fuzz::events::check);
}

#[test]
fn display() {
    replay("display", fuzz::display::check);
}

#[test]
fn references() {
    replay("references", fuzz::references::check);
}

#[test]
fn names() {
    replay("names", fuzz::names::check);
}

#[test]
fn tokens() {
    replay("tokens", fuzz::tokens::check);
}

#[test]
fn keys() {
    replay("keys", fuzz::keys::check);
}
