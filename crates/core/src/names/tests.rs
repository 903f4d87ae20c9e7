//! Tests of exposed names, names from profiles, and other spellings.

use proptest::prelude::*;

use super::*;

fn server(name: &str) -> ServerName {
    ServerName::new(name).expect("a legal name")
}

fn origin<'a>(server: &'a ServerName, original: &'a str) -> NameOrigin<'a> {
    NameOrigin {
        server,
        original,
        renamed: None,
    }
}

fn build(origins: &[NameOrigin<'_>], naming: Naming) -> NameTable {
    let servers = ServerNames::new(origins.iter().map(|origin| origin.server));
    build_among(origins, naming, &servers)
}

/// Builds a table for these servers, including servers without items.
fn build_among(origins: &[NameOrigin<'_>], naming: Naming, servers: &ServerNames) -> NameTable {
    let rules = Rules {
        naming,
        max_length: 48,
        reserved: &|name| name == "list_servers",
        servers,
        gone: &HashMap::new(),
    };
    NameTable::build(origins, &rules)
}

fn table(naming: Naming, origins: &[(&ServerName, &str)]) -> NameTable {
    let origins: Vec<_> = origins
        .iter()
        .map(|&(server, original)| origin(server, original))
        .collect();
    build(&origins, naming)
}

#[test]
fn each_naming_exposes_its_form() {
    let fs = server("fs");
    for (naming, expected) in [
        (Naming::DoubleUnderscore, "fs__read_file"),
        (Naming::Slash, "fs/read_file"),
        (Naming::None, "read_file"),
        (Naming::McpPrefix, "mcp__fs__read_file"),
    ] {
        assert_eq!(table(naming, &[(&fs, "read_file")]).exposed(0), expected);
    }
}

/// Y4: a call accepts each unique spelling.
#[test]
fn other_spellings_lead_to_the_same_tool() {
    let (fs, git) = (server("fs"), server("git"));
    let table = table(
        Naming::DoubleUnderscore,
        &[(&fs, "read"), (&fs, "log"), (&git, "log")],
    );
    for spelling in ["fs__read", "fs/read", "mcp__fs__read", "read"] {
        assert_eq!(table.resolve(spelling), Ok(0), "{spelling}");
    }
    assert_eq!(
        table.resolve("log"),
        Err(Unresolved::Ambiguous(vec![
            "fs__log".to_owned(),
            "git__log".to_owned()
        ]))
    );
    assert_eq!(table.resolve("nothing"), Err(Unresolved::Unknown));
}

/// If two servers claim an original name, neither may use it.
#[test]
fn a_contested_name_is_prefixed_for_both_servers() {
    let (fs, git) = (server("fs"), server("git"));
    let table = table(
        Naming::None,
        &[(&fs, "status"), (&git, "status"), (&git, "log")],
    );
    assert_eq!(
        (table.exposed(0), table.exposed(1), table.exposed(2)),
        ("fs__status", "git__status", "log")
    );
    assert!(matches!(
        table.resolve("status"),
        Err(Unresolved::Ambiguous(_))
    ));
}

#[test]
fn strict_names_follow_the_specified_pattern() {
    let longest_name = "x".repeat(MAX_STRICT_LENGTH);
    for name in ["read-file", "read_file", "ReadFile123", &longest_name] {
        assert!(is_strict(name), "{name}");
    }
    let too_long_name = "x".repeat(MAX_STRICT_LENGTH + 1);
    for name in [
        "",
        "read file",
        "read/file",
        "read@file",
        "größe",
        "a\n",
        &too_long_name,
    ] {
        assert!(!is_strict(name), "{name:?}");
    }
}

/// J14: `breakpoint/tool` and `breakpoint_tool` are different tools.
#[test]
fn altered_names_never_clash() {
    let breakpoint = server("breakpoint");
    let table = table(
        Naming::DoubleUnderscore,
        &[
            (&breakpoint, "a.b"),
            (&breakpoint, "a b"),
            (&breakpoint, "a_b"),
        ],
    );
    let names: Vec<_> = (0..3).map(|index| table.exposed(index)).collect();
    assert_eq!(names[2], "breakpoint__a_b");
    assert!(names[0].starts_with("breakpoint__a_b_") && names[0] != names[1]);
}

/// A profile's name for a tool is refused if another tool has this name.
#[test]
fn a_name_from_a_profile_is_unique() {
    let (fs, git) = (server("fs"), server("git"));
    let renamed_origin = |name| NameOrigin {
        renamed: Some(name),
        ..origin(&fs, "log")
    };
    let origins = [origin(&git, "diff"), renamed_origin("history")];
    let table = build(&origins, Naming::DoubleUnderscore);
    assert_eq!(table.exposed(1), "history");
    for spelling in ["history", "fs__log", "fs/log", "log"] {
        assert_eq!(table.resolve(spelling), Ok(1), "{spelling}");
    }
    assert_eq!(table.refused_renames(), [0; 0]);
    for (name, naming, expected) in [
        ("git__log", Naming::DoubleUnderscore, "fs__log"),
        ("Git__x", Naming::McpPrefix, "mcp__fs__log"),
        ("mcp__git__x", Naming::None, "fs__log"),
        ("diff", Naming::None, "fs__log"),
        ("list_servers", Naming::Slash, "fs/log"),
    ] {
        let table = build(&[origin(&git, "diff"), renamed_origin(name)], naming);
        assert_eq!(
            (table.exposed(1), table.refused_renames()),
            (expected, &[1][..]),
            "{name}"
        );
        assert_ne!(table.resolve(name), Ok(1));
    }
    // A renamed tool does not claim its original name.
    let origins = [origin(&git, "log"), renamed_origin("history")];
    assert_eq!(build(&origins, Naming::None).exposed(0), "log");
}

/// A server's tool with the name of an own tool of Mainstay gets another name.
#[test]
fn a_reserved_name_is_exposed_for_no_server() {
    let first_server = server("one");
    let table = table(
        Naming::None,
        &[(&first_server, "list_servers"), (&first_server, "log")],
    );
    assert_eq!(
        (table.exposed(0), table.exposed(1)),
        ("one__list_servers", "log")
    );
    // The name is reserved even if the profile does not offer this own tool.
    let other_table = build(
        &[origin(&first_server, "execute_tool")],
        Naming::DoubleUnderscore,
    );
    assert_eq!(
        other_table.resolve("execute_tool"),
        Err(Unresolved::Unknown)
    );
}

/// A name that contains a server never leads to another server, even if the contained server has no
/// items in the table.
#[test]
fn a_name_with_a_server_prefix_leads_to_no_other_server() {
    let (evil, victim) = (server("evil"), server("victim"));
    let servers = ServerNames::new([&evil, &victim]);
    let tools = [
        "victim__push",
        "victim/push",
        "mcp__victim__push",
        "mcp__victim/push",
        "Victim__push",
        "victim._push",
        "victim\u{200b}_push",
        "x",
        "mcp__x__y",
    ];
    let origins: Vec<_> = tools.iter().map(|tool| origin(&evil, tool)).collect();
    for naming in [
        Naming::DoubleUnderscore,
        Naming::Slash,
        Naming::None,
        Naming::McpPrefix,
    ] {
        let table = build_among(&origins, naming, &servers);
        for (index, tool) in tools.iter().enumerate() {
            let exposed = table.exposed(index);
            assert_eq!(table.resolve(exposed), Ok(index), "{tool} as {exposed}");
            assert_eq!(table.resolve(&format!("evil/{tool}")), Ok(index), "{tool}");
            let owner = if index < 7 {
                Err(Unresolved::Unknown)
            } else {
                Ok(index)
            };
            assert_eq!(table.resolve(tool), owner, "{tool} with {naming:?}");
            assert_ne!(
                servers.named_by(exposed),
                NamedServer::Server(&victim),
                "{exposed}"
            );
        }
    }
    let single_table = build_among(&origins, Naming::None, &ServerNames::new([&evil]));
    assert_eq!(single_table.exposed(0), "victim__push", "nobody else's");
}

/// The tool `git__log` of a server `mcp` must not get calls for the tool `log` of `git`.
#[test]
fn a_server_named_mcp_gets_no_calls_for_other_servers() {
    let (mcp, git) = (server("mcp"), server("git"));
    let servers = ServerNames::new([&mcp, &git]);
    let origins = [origin(&mcp, "git__log"), origin(&mcp, "status")];
    let table = build_among(&origins, Naming::DoubleUnderscore, &servers);
    assert!(
        table.exposed(0).starts_with("mcp__git_log_"),
        "{}",
        table.exposed(0)
    );
    assert_eq!(table.exposed(1), "mcp__status");
    assert_eq!(table.resolve("mcp__git__log"), Err(Unresolved::Unknown));
    assert_eq!(table.resolve("mcp/git__log"), Ok(0));
}

/// A shortened name must not end with half a separator. No server can find a tool with the hash of
/// another server's tool.
#[test]
fn a_shortened_name_contains_no_server() {
    let (evil, victim) = (server("vic_evil-evil-evil"), server("vic"));
    let servers = ServerNames::new([&evil, &victim]);
    for max_length in 16..40 {
        let rules = Rules {
            naming: Naming::DoubleUnderscore,
            max_length,
            reserved: &|_| false,
            servers: &servers,
            gone: &HashMap::new(),
        };
        let table = NameTable::build(&[origin(&evil, "a rather long name of a tool")], &rules);
        let exposed = table.exposed(0);
        assert!(
            exposed.len() <= max_length && servers.may_lead(exposed, &evil),
            "{exposed}"
        );
    }
}

/// The original name of a removed item does not lead to another server's item.
#[test]
fn a_bare_name_outlives_its_tool() {
    let (evil, victim) = (server("evil"), server("victim"));
    let origins = [origin(&evil, "push"), origin(&evil, "pull")];
    let former_names = HashMap::from([("push", vec![&victim]), ("pull", vec![&evil])]);
    for (naming, exposed) in [(Naming::None, "evil__push"), (Naming::Slash, "evil/push")] {
        let rules = Rules {
            naming,
            max_length: 48,
            reserved: &|_| false,
            servers: &ServerNames::new([&evil, &victim]),
            gone: &former_names,
        };
        let table = NameTable::build(&origins, &rules);
        assert_eq!(table.exposed(0), exposed);
        let candidates = vec![exposed.to_owned(), "victim/push".to_owned()];
        assert_eq!(
            table.resolve("push"),
            Err(Unresolved::Ambiguous(candidates))
        );
        assert_eq!(table.resolve("pull"), Ok(1));
    }
}

/// Server names with separators stay unchanged, and the names of their tools are unambiguous.
#[test]
fn names_with_separators_stay_unambiguous() {
    let names = ["a", "a__b", "_a", "a_", "a_b"].map(server);
    let servers = ServerNames::new(&names);
    let tools = ["tool", "b__tool", "_tool", "b/tool"];
    let origins: Vec<_> = names
        .iter()
        .flat_map(|server| tools.map(|tool| origin(server, tool)))
        .collect();
    for naming in [
        Naming::DoubleUnderscore,
        Naming::Slash,
        Naming::None,
        Naming::McpPrefix,
    ] {
        let table = build_among(&origins, naming, &servers);
        for (
            index,
            NameOrigin {
                server, original, ..
            },
        ) in origins.iter().enumerate()
        {
            let exposed = table.exposed(index);
            assert_eq!(table.resolve(exposed), Ok(index), "{exposed}");
            assert!(servers.may_lead(exposed, server), "{exposed} of {server}");
            let full_name = format!("{server}/{original}");
            assert_eq!(table.resolve(&full_name), Ok(index), "{full_name}");
        }
    }
    let single_table = table(
        Naming::DoubleUnderscore,
        &[(&names[1], "tool"), (&names[2], "tool")],
    );
    assert_eq!(single_table.exposed(0), "a_b-63e5c1c4__tool");
    assert_eq!(single_table.exposed(1), "a-34fb7160__tool");
    assert_eq!(single_table.resolve("a__b__tool"), Ok(0));
    assert_eq!(single_table.resolve("_a__tool"), Ok(1));
    // The names of `a__b` lead to no other server while `a__b` has no tools.
    let evil = server("evil");
    let origins = [origin(&evil, "a__b__tool"), origin(&evil, "a__b/tool")];
    let table = build_among(
        &origins,
        Naming::None,
        &ServerNames::new([&evil, &names[1]]),
    );
    for name in ["a__b__tool", "a__b/tool", "mcp__a__b__tool"] {
        assert_eq!(table.resolve(name), Err(Unresolved::Unknown), "{name}");
    }
}

proptest! {
    /// J12: exposed names are legal and unique, and resolve, for all original names.
    #[test]
    fn exposed_names_are_legal_unique_and_resolve(
        originals in prop::collection::hash_set("\\PC{1,80}", 1..20),
        naming in prop::sample::select(vec![Naming::DoubleUnderscore, Naming::None, Naming::McpPrefix]),
    ) {
        let (first_server, second_server) = (server("one"), server("o__e_"));
        let origins: Vec<_> = originals
            .iter()
            .flat_map(|original| [origin(&first_server, original), origin(&second_server, original)])
            .collect();
        let table = build(&origins, naming);
        for index in 0..origins.len() {
            let name = table.exposed(index);
            prop_assert!(name.len() <= 48 && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')), "{name}");
            prop_assert_eq!(table.resolve(name), Ok(index));
        }
    }
}
