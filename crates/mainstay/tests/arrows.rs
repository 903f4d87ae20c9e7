//! Checks the dependencies between packages in their manifests (ARCHITECTURE.md, "Code map").
//! `tests/structure/cycles` checks the files inside each package.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

/// The packages and their dependencies, including dev-dependencies. A package may depend only on
/// packages below it in this table.
const PACKAGES: &str = "
    mainstay-bench      -> mainstay-api mainstay-core mainstay-journal mainstay-journal-store fake-server
    chaos               -> fake-server
    fuzz                -> mainstay-config mainstay-core mainstay-issuers mainstay-platform mainstay-transport

    mainstay            -> mainstay-api mainstay-client-files mainstay-command-line mainstay-commands mainstay-config mainstay-core mainstay-doors mainstay-doorway mainstay-front mainstay-gateway mainstay-install mainstay-journal mainstay-journal-store mainstay-login mainstay-page mainstay-platform mainstay-rest mainstay-terminal mainstay-testkit mainstay-tokens mainstay-transport fake-server
    mainstay-terminal   -> mainstay-api mainstay-command-line mainstay-core mainstay-platform
    mainstay-front      -> mainstay-command-line mainstay-core mainstay-platform mainstay-transport
    mainstay-commands   -> mainstay-api mainstay-client-files mainstay-command-line mainstay-config mainstay-core mainstay-doorway mainstay-gateway mainstay-install mainstay-journal mainstay-platform mainstay-tokens mainstay-transport
    mainstay-command-line -> mainstay-api mainstay-config mainstay-core mainstay-install mainstay-platform mainstay-testkit mainstay-tokens mainstay-transport
    mainstay-doors      -> mainstay-api mainstay-config mainstay-core mainstay-doorway mainstay-gateway mainstay-journal mainstay-platform mainstay-testkit mainstay-transport
    mainstay-rest       -> mainstay-api mainstay-client-files mainstay-config mainstay-core mainstay-doorway mainstay-gateway mainstay-journal mainstay-login mainstay-platform mainstay-tokens mainstay-transport
    mainstay-page       ->
    mainstay-doorway    -> mainstay-api mainstay-config mainstay-core mainstay-gateway mainstay-journal mainstay-platform mainstay-tokens mainstay-transport
    mainstay-gateway    -> mainstay-config mainstay-core mainstay-journal mainstay-platform mainstay-transport
    mainstay-login      -> mainstay-core mainstay-platform mainstay-transport
    mainstay-issuers    -> mainstay-core mainstay-testkit mainstay-transport
    mainstay-transport  -> mainstay-config mainstay-core mainstay-platform mainstay-testkit
    mainstay-journal-store -> mainstay-core mainstay-journal mainstay-platform mainstay-testkit
    mainstay-journal    -> mainstay-core mainstay-platform
    mainstay-tokens     -> mainstay-api mainstay-core mainstay-platform
    mainstay-api        -> mainstay-config mainstay-core mainstay-platform
    mainstay-client-files -> mainstay-config mainstay-core mainstay-platform
    mainstay-platform   -> mainstay-config mainstay-core mainstay-testkit
    mainstay-config     -> mainstay-core
    mainstay-core       ->
    mainstay-install    -> mainstay-testkit

    mainstay-testkit    ->
    conformance-server  ->
    fake-server         ->
";

/// Allowed dependencies of the core. None of them waits or does I/O.
const CORE_DEPENDENCIES: &str = "
    normal  -> base64 cid foldhash memchr regex serde serde_json sha2 thiserror
    dev     -> insta proptest
";

/// Allowed dependencies of the configuration.
const CONFIG_DEPENDENCIES: &str = "
    normal  -> mainstay-core jsonc-parser regex serde serde_json sha2 thiserror
    dev     -> insta proptest
";

#[test]
fn packages_know_packages_further_down_only() {
    let order: Vec<&str> = lines(PACKAGES).map(|(from, _)| from).collect();
    let place = |package: &str| order.iter().position(|name| *name == package);
    for (from, callee) in arrows(&table(PACKAGES)) {
        let callee_place = place(&callee).unwrap_or_else(|| panic!("{callee} has no line"));
        assert!(
            place(&from) < Some(callee_place),
            "{from} -> {callee} points up"
        );
    }
}

#[test]
fn packages_need_what_the_table_says_and_no_more() {
    let packages = packages();
    let found: Table = packages
        .iter()
        .map(|(name, dependencies)| {
            let needed_packages = dependencies.values().flatten().cloned();
            let own_packages =
                needed_packages.filter(|needed_packages| packages.contains_key(needed_packages));
            (name.clone(), own_packages.collect())
        })
        .collect();
    assert_eq!(found, table(PACKAGES));
}

#[test]
fn the_core_and_the_configuration_need_nothing_that_waits_or_reaches_outside() {
    let packages = packages();
    assert_eq!(packages["mainstay-core"], table(CORE_DEPENDENCIES));
    assert_eq!(packages["mainstay-config"], table(CONFIG_DEPENDENCIES));
}

type Table = BTreeMap<String, BTreeSet<String>>;

/// The lines of a table: `FROM -> TO TO // why`.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| line.split_once("->").expect("FROM -> TO"))
        .map(|(from, callees)| (from.trim(), callees))
}

fn table(text: &str) -> Table {
    lines(text)
        .map(|(from, callees)| {
            (
                from.to_owned(),
                callees.split_whitespace().map(str::to_owned).collect(),
            )
        })
        .collect()
}

fn arrows(table: &Table) -> impl Iterator<Item = (String, String)> {
    table.iter().flat_map(|(from, callees)| {
        callees
            .iter()
            .map(|callees| (from.clone(), callees.clone()))
    })
}

/// The packages of the workspace, with the dependencies in their manifests by kind.
fn packages() -> BTreeMap<String, Table> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .arg("--manifest-path")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let dependencies = |package: &Value| {
        let mut table = Table::new();
        for dependency in list(&package["dependencies"]) {
            let kind = dependency["kind"].as_str().unwrap_or("normal").to_owned();
            let names = table.entry(kind).or_default();
            names.insert(text(&dependency["name"]));
        }
        table
    };
    list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["name"]), dependencies(package)))
        .collect()
}
