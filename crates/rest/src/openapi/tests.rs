use std::{fs, path::Path};

use super::*;

fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// With `MAINSTAY_WRITE_DOCS=1`, the test writes the document.
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

/// The first argument of each `.route(` call in the sources below `folder`.
fn route_calls(folder: &Path) -> Vec<String> {
    let mut calls = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            calls.extend(route_calls(&path));
        } else if path.file_name().is_none_or(|name| name != "tests.rs") {
            let text = fs::read_to_string(&path).expect("a text");
            let arguments = text.split(".route(").skip(1);
            let arguments = arguments.filter_map(|rest| rest.split(',').next());
            calls.extend(arguments.map(|argument| argument.trim().to_owned()));
        }
    }
    calls
}

/// The router gets its routes from the rows. The test lists the only routes that have no row.
#[test]
fn every_route_is_a_row() {
    let mut calls = route_calls(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    calls.sort_unstable();
    let expected = [
        "\"/api\"",
        "\"/api/{*rest}\"",
        "\"/healthz\"",
        "\"/metrics\"",
        "\"/readyz\"",
        // An authorization server redirects browsers here.
        "api::LOGIN_CALLBACK",
        // The operations of a server that is named `try`.
        "api::TRY",
        "operation.path",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn no_operation_stands_there_twice() {
    let operations = routes::operations();
    let rows: Vec<_> = operations
        .iter()
        .map(|operation| (operation.path, operation.method))
        .collect();
    let once: BTreeSet<_> = rows.iter().collect();
    assert_eq!(once.len(), rows.len(), "{rows:?}");
    assert!(once.len() > 30, "{rows:?}");
}

/// The table in docs/rest.md, "Errors", has each status with its codes.
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
    let errors: BTreeSet<(u16, String)> = errors(&routes::operations())
        .into_iter()
        .map(|(status, word)| (status, word.to_owned()))
        .collect();
    assert_eq!(documented, errors);
}

#[test]
fn what_is_referred_to_is_there() {
    let document: Value = serde_json::from_str(&DOCUMENT).expect("JSON");
    for reference in DOCUMENT.split("\"$ref\": \"#").skip(1) {
        let pointer = reference.split('"').next().unwrap_or_default();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}
