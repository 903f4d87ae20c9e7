//! Tests of finding the configuration (A5–A8).

use std::path::{Path, PathBuf};

use mainstay_config::{Location, locate, locate_clients};

use crate::world::ConfigWorld;

#[test]
fn a5_the_first_that_is_named_wins() {
    type Vars<'a> = &'a [(&'static str, &'static str)];
    let check = |flag: Option<&str>, vars: Vars, expected: Location| {
        let world = ConfigWorld {
            vars: vars.iter().copied().collect(),
            home: Some("/home/me"),
            ..ConfigWorld::default()
        };
        assert_eq!(
            locate(flag.map(Path::new), &world),
            Some(expected),
            "{flag:?} {vars:?}"
        );
    };
    let named = |path: &str| Location::Named(PathBuf::from(path));
    let usual = |path: &str| Location::Usual(PathBuf::from(path));
    let config = ("MAINSTAY_CONFIG", "/c.json");
    let home = ("MAINSTAY_HOME", "/m");
    let xdg = ("XDG_CONFIG_HOME", "/xdg");

    check(Some("mine.json"), &[config, home], named("mine.json"));
    check(None, &[config, home], named("/c.json"));
    check(None, &[home, xdg], usual("/m/config.json"));
    check(None, &[xdg], usual("/xdg/mainstay/config.json"));
    check(None, &[], usual("/home/me/.config/mainstay/config.json"));
    // An empty variable counts as unset, and a relative folder would be in the current folder.
    check(
        None,
        &[("MAINSTAY_CONFIG", ""), ("MAINSTAY_HOME", "")],
        usual("/home/me/.config/mainstay/config.json"),
    );
    check(
        None,
        &[("XDG_CONFIG_HOME", "xdg")],
        usual("/home/me/.config/mainstay/config.json"),
    );
}

#[test]
fn a5_without_a_home_there_is_no_usual_place() {
    assert_eq!(locate(None, &ConfigWorld::default()), None);
}

/// Document 002's t81–t83: the file of `--mcp-clients` has other default paths.
#[test]
fn a5_the_clients_file_has_places_of_its_own() {
    let check = |vars: &[(&'static str, &'static str)], expected: Location| {
        let world = ConfigWorld {
            vars: vars.iter().copied().collect(),
            home: Some("/home/me"),
            ..ConfigWorld::default()
        };
        assert_eq!(locate_clients(&world), Some(expected), "{vars:?}");
    };
    let usual = |path: &str| Location::Usual(PathBuf::from(path));
    let home = ("CIDELDILL_HOME", "/c");
    check(&[], usual("/home/me/.cideldill/mcp_clients.json"));
    check(&[home], usual("/c/mcp_clients.json"));
    check(
        &[home, ("CIDELDILL_MCP_CLIENTS_CONFIG", "/x.json")],
        Location::Named(PathBuf::from("/x.json")),
    );
    assert_eq!(locate_clients(&ConfigWorld::default()), None);
}
