//! Tests of `profiles`: the servers and tools of each endpoint.

use insta::assert_snapshot;
use mainstay_config::ReloadPlan;
use mainstay_core::{
    builtin::OwnToolGroup,
    config::{Expose, Naming, ProfileConfig},
    ids::{ProfileName, ServerName},
};

use crate::world::{findings, read};

fn text(settings: &str) -> String {
    let servers = r#""mcpServers": {"fs": {"command": "x"}, "git": {"command": "x"}}"#;
    let comma = if settings.is_empty() { "" } else { "," };
    format!("{{{servers}{comma}\n{settings}}}")
}

/// The profiles of a file without findings.
fn profiles(settings: &str) -> Vec<ProfileConfig> {
    assert_eq!(findings(&text(settings)), "", "{settings}");
    read("c.json", &text(settings)).unwrap().config.profiles
}

fn names(profiles: &[ProfileConfig]) -> Vec<&str> {
    profiles
        .iter()
        .map(|profile| profile.name.as_str())
        .collect()
}

fn server(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

/// Issue 5, "Profiles": the profile at `/mcp`, and `meta`.
#[test]
fn two_are_there_without_a_word() {
    let found = profiles("");
    assert_eq!(found, ProfileConfig::built_in());
    let [default, meta] = &found[..] else {
        panic!("two profiles")
    };
    assert!(default.name.is_default() && meta.name.as_str() == ProfileName::META);
    assert_eq!(
        (default.expose, meta.expose),
        (Expose::Direct, Expose::Meta)
    );
    assert_eq!(default.own_tools, []);
    assert_eq!(meta.own_tools, [OwnToolGroup::Meta]);
    for profile in &found {
        assert!(profile.has_server(&server("fs")));
        assert!(profile.has_tool(&server("fs"), "read"));
    }
}

#[test]
fn everything_can_be_said() {
    let found = profiles(
        r#""naming": "slash", "ownTools": ["external", "activity", "external"], "profiles": {
        "review": {
            "servers": ["git", "docs-*"],
            "tools": {"allow": ["git/*"], "deny": ["*/push*"]},
            "rename": {"git/log/all": "history"},
            "descriptions": {"git/log/all": "What happened.", "git/diff": "What differs."},
            "naming": "none",
            "ownTools": []
        },
        "few": {"expose": "meta", "servers": []}
    }"#,
    );
    assert_eq!(names(&found), ["default", "meta", "review", "few"]);
    assert_eq!(
        found[0].own_tools,
        [OwnToolGroup::External, OwnToolGroup::Activity]
    );
    let review = &found[2];
    assert_eq!(review.naming, Some(Naming::None));
    let (git, fs) = (server("git"), server("fs"));
    assert!(review.has_server(&git) && review.has_server(&server("docs-1")));
    assert!(!review.has_server(&fs));
    assert!(review.has_tool(&git, "log/all"));
    assert!(!review.has_tool(&git, "push_force") && !review.has_tool(&fs, "read"));
    let edit = review.edit(&git, "log/all").unwrap();
    assert_eq!(edit.name.as_deref(), Some("history"));
    assert_eq!(edit.description.as_deref(), Some("What happened."));
    assert_eq!(review.edit(&git, "diff").unwrap().name, None);
    assert_eq!(review.edit(&fs, "diff"), None);
    let few = &found[3];
    assert!(!few.has_server(&git), "an empty list is none");
    assert_eq!(
        few.own_tools,
        [OwnToolGroup::Meta],
        "else nothing would be shown"
    );
}

#[test]
fn those_that_are_built_in_can_be_said_otherwise() {
    let found = profiles(
        r#""ownTools": ["external"], "profiles": {
        "meta": {"servers": ["git"]},
        "default": {"tools": {"deny": ["fs/*"]}}
    }"#,
    );
    assert_eq!(names(&found), ["default", "meta"]);
    assert_eq!(found[0].own_tools, [OwnToolGroup::External]);
    assert!(!found[0].has_tool(&server("fs"), "read"));
    assert_eq!(found[1].expose, Expose::Meta);
    assert!(!found[1].has_server(&server("fs")));
}

/// A file with a bad profile is not used, because a tool that the profile should deny must not be
/// listed.
#[test]
fn what_is_wrong_is_said_with_its_place() {
    let errors = text(
        r#""ownTools": ["meat"], "profiles": {
        "a b": {},
        "one": {"tools": {"deny": ["fs", 7, ""]}, "expose": "some", "naming": "colon"},
        "two": {"rename": {"fs/a": "x y", "fs/b": "same", "git/b": "same", "log": "l", "f s/x": "y"}},
        "two": {},
        "three": ["fs"],
        "four": {"descriptions": {"fs/a": 1}, "servers": "fs", "tools": []}
    }"#,
    );
    assert_snapshot!(findings(&errors), @r#"
    error config.json:2:14: ownTools[0]: expected "meta", "external", "activity", "records" or "control", found "meat"
    error config.json:3:9: profiles["a b"]: profile name "a b" must be letters, digits, '_' and '-', without "__" and without '_' at either end
    error config.json:4:36: profiles.one.tools.deny[0]: a pattern of tools has the form "server/tool" ("fs/*" matches every tool of a server "fs")
    error config.json:4:42: profiles.one.tools.deny[1]: expected a string, found a number
    error config.json:4:45: profiles.one.tools.deny[2]: a pattern of tools has the form "server/tool" (`*` matches every tool)
    error config.json:4:61: profiles.one.expose: expected "direct" or "meta", found "some"
    error config.json:4:79: profiles.one.naming: expected "double_underscore", "slash", "none" or "mcp_prefix", found "colon"
    error config.json:5:36: profiles.two.rename["fs/a"]: a tool's name has 1 to 48 characters (maxNameLength): letters, digits, '_' and '-'
    error config.json:5:68: profiles.two.rename["git/b"]: another tool is renamed to "same" already
    error config.json:5:76: profiles.two.rename.log: a tool is named "server/tool", as its server calls it
    error config.json:5:88: profiles.two.rename["f s/x"]: a tool is named "server/tool", as its server calls it
    error config.json:6:9: profiles.two: duplicate key
    error config.json:7:18: profiles.three: expected an object, found an array
    error config.json:8:43: profiles.four.descriptions["fs/a"]: expected a string, found a number
    error config.json:8:58: profiles.four.servers: expected an array, found a string
    error config.json:8:73: profiles.four.tools: expected an object, found an array
    "#);
    let warnings = text(
        r#""profiles": {
        "one": {"servers": ["gti", "later-*"], "rename": {"f/read": "x"}, "expo": "meta", "tools": {"denny": []}}
    }"#,
    );
    assert_snapshot!(findings(&warnings), @r#"
    warning config.json:3:29: profiles.one.servers[0]: there is no server "gti" in this file
    warning config.json:3:69: profiles.one.rename["f/read"]: there is no server "f" in this file
    warning config.json:3:75: profiles.one.expo: unknown key (did you mean `expose`?)
    warning config.json:3:101: profiles.one.tools.denny: unknown key (did you mean `deny`?)
    "#);
}

/// A new name in the namespace of another server has no effect, because its calls go to that
/// server.
#[test]
fn a_given_name_that_names_another_server_is_warned_of() {
    let found = text(
        r#""profiles": {
        "one": {"rename": {"fs/a": "git__log", "fs/b": "fs__c", "git/d": "mcp__fs__d"}}
    }"#,
    );
    assert_snapshot!(findings(&found), @r#"
    warning config.json:3:36: profiles.one.rename["fs/a"]: "git__log" names a tool of server "git" (the tool is called as without `rename`; give it a name without that prefix)
    warning config.json:3:74: profiles.one.rename["git/d"]: "mcp__fs__d" names a tool of server "fs" (the tool is called as without `rename`; give it a name without that prefix)
    "#);
}

/// A28: a change of a profile needs no restart.
#[test]
fn a_reload_carries_profiles_out() {
    let config = |settings: &str| read("c.json", &text(settings)).unwrap().config;
    let plan = |old: &str, new: &str| ReloadPlan::between(&config(old), &config(new)).to_string();
    assert_snapshot!(plan("", r#""profiles": {"one": {}}"#), @"
    = 2 unchanged
    settings that change: profiles
    ");
    assert_snapshot!(plan(r#""ownTools": []"#, r#""ownTools": ["meta"], "naming": "none""#), @"
    = 2 unchanged
    settings that change: naming, profiles
    ");
    assert_snapshot!(plan(r#""ownTools": []"#, r#""profiles": {"default": {}}"#), @"nothing changes");
}
