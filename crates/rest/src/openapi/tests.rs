use std::{fs, path::Path};

use super::*;

fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// `MAINSTAY_WRITE_DOCS=1` writes it.
#[test]
fn the_committed_document_is_the_one_that_is_served() {
    let file = "../../docs/openapi.json";
    if std::env::var_os("MAINSTAY_WRITE_DOCS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        fs::write(path, DOCUMENT.as_str()).expect("written");
    }
    let advice = "run this test with MAINSTAY_WRITE_DOCS=1 in its environment";
    assert!(
        source(file) == *DOCUMENT,
        "docs/openapi.json is out of date: {advice}"
    );
}

/// What a source declares by `pub const NAME: &str = "…";`
fn constant(sources: &str, name: &str) -> String {
    let declared = format!("pub const {name}: &str = \"");
    let value = sources
        .split_once(&declared)
        .and_then(|(_, rest)| rest.split_once('"'));
    value.unwrap_or_else(|| panic!("no {name}")).0.to_owned()
}

/// The routes of the router, read from its source: `.route(api::NAME, get(…).merge(put(…)))`.
fn routed() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/src");
    let files = fs::read_dir(folder).expect("the wire types");
    let files = files.map(|file| file.expect("a file").path());
    let constants: String = files
        .map(|file| fs::read_to_string(file).expect("a text"))
        .collect();
    let router = source("src/lib.rs");
    let mut found = BTreeSet::new();
    for route in router.split(".route(").skip(1) {
        let Some((name, rest)) = route.trim_start().split_once(',') else {
            continue;
        };
        let Some(name) = name.strip_prefix("api::") else {
            continue;
        };
        let path = constant(&constants, name);
        // Up to the next call on the router itself.
        let handlers = rest.split("\n        .").next().unwrap_or_default();
        for method in ["get", "post", "put", "delete", "patch"] {
            let called = |before| handlers.contains(&format!("{before}{method}("));
            if [" ", "(", "::"].into_iter().any(called) {
                found.insert(format!("{method} {path}"));
            }
        }
    }
    found
}

#[test]
fn the_document_and_the_router_have_the_same_operations() {
    let documented = operations().into_iter();
    let documented: Vec<String> = documented
        .map(|it| format!("{} {}", it.method, it.path))
        .collect();
    let once: BTreeSet<String> = documented.iter().cloned().collect();
    assert_eq!(
        once.len(),
        documented.len(),
        "an operation stands there twice"
    );
    assert_eq!(routed(), once);
    assert!(once.len() > 30, "the source was not understood: {once:?}");
}

/// docs/rest.md, "Errors": a row for each status, with the words that go with it.
#[test]
fn every_error_is_documented() {
    let page = source("../../docs/rest.md");
    let table = page.split_once("\n## Errors\n").expect("a section").1;
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    let rows = rows.filter_map(|row| {
        let (status, rest) = row.split_once(" | ")?;
        let words = rest.split(" |").next()?;
        Some((status.parse::<u16>().ok()?, words.to_owned()))
    });
    let documented: BTreeSet<(u16, String)> = rows
        .flat_map(|(status, words)| {
            let words = words.split('`').skip(1).step_by(2);
            let words: Vec<_> = words.map(|word| (status, word.to_owned())).collect();
            words
        })
        .collect();
    let given = errors(&operations()).into_iter();
    let given: BTreeSet<(u16, String)> = given
        .map(|(status, word)| (status, word.to_owned()))
        .collect();
    assert_eq!(documented, given);
}

#[test]
fn what_is_referred_to_is_there() {
    let document: Value = serde_json::from_str(&DOCUMENT).expect("JSON");
    for reference in DOCUMENT.split("\"$ref\": \"#").skip(1) {
        let pointer = reference.split('"').next().unwrap_or_default();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}
