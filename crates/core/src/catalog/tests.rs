//! Merging: names, addresses, and what profiles make of them.

use super::*;
use crate::ids::ProfileName;

fn part(server: &str, tools: &[&str], resources: &[&str], templates: &[&str]) -> Part {
    let list = |kind: ListKind, keys: &[&str]| {
        let items: Vec<String> = keys
            .iter()
            .map(|key| format!(r#"{{"x":1e3,"{}":"{key}","z":null}}"#, kind.key()))
            .collect();
        page(
            kind,
            &format!(r#"{{"{}":[{}]}}"#, kind.member(), items.join(",")),
            keys.len(),
        )
        .expect("a list")
        .items
    };
    let mut catalog = ServerCatalog::default();
    catalog.set(ListKind::Tools, list(ListKind::Tools, tools));
    catalog.set(ListKind::Resources, list(ListKind::Resources, resources));
    catalog.set(ListKind::Templates, list(ListKind::Templates, templates));
    Part {
        server: ServerName::new(server).expect("a legal name"),
        catalog: Arc::new(catalog),
        withheld: Withheld::default(),
        cuts_results: false,
    }
}

fn merged(parts: Vec<Part>) -> Catalog {
    let everything = Profile::everything(ProfileName::default());
    Catalog::merge(parts, &everything, Naming::DoubleUnderscore, 48)
}

/// J4: the same tool name on two servers: both present. Invariant 5: only the name changes.
#[test]
fn tools_are_listed_under_their_exposed_names_and_are_otherwise_untouched() {
    let catalog = merged(vec![
        part("a", &["t"], &[], &[]),
        part("b", &["t"], &[], &[]),
    ]);
    assert_eq!(
        catalog
            .items(ListKind::Tools)
            .iter()
            .map(|item| &**item)
            .collect::<Vec<_>>(),
        [
            r#"{"x":1e3,"name":"a__t","z":null}"#,
            r#"{"x":1e3,"name":"b__t","z":null}"#
        ]
    );
    assert_eq!(catalog.tool("b__t").expect("known").server.as_str(), "b");
}

#[test]
fn disabled_tools_are_neither_listed_nor_callable() {
    let mut part = part("a", &["open", "shut"], &[], &[]);
    part.withheld.disabled = Arc::new(["shut".to_owned()]);
    let catalog = merged(vec![part]);
    assert_eq!(catalog.items(ListKind::Tools).len(), 1);
    assert_eq!(catalog.tool("a__shut"), Err(Unresolved::Unknown));
}

/// J12, Y4: no spelling reaches what its name keeps from clients.
#[test]
fn tools_of_loose_names_are_neither_listed_nor_callable_where_names_are_strict() {
    let mut part = part("a", &["open", "not open"], &["x://1"], &[]);
    let loose = merged(vec![part.clone()]);
    assert_eq!(loose.items(ListKind::Tools).len(), 2);
    assert!(loose.tool("a/not open").is_ok());
    part.withheld.strict_names = true;
    let strict = merged(vec![part.clone()]);
    assert_eq!(strict.items(ListKind::Tools).len(), 1);
    for spelling in ["a/not open", "a__not open", loose.tool_names.exposed(1)] {
        assert_eq!(
            strict.tool(spelling),
            Err(Unresolved::Unknown),
            "{spelling}"
        );
    }
    let reported: Vec<_> = part.refused_names().collect();
    assert_eq!(reported, ["not open"]);
    assert_eq!(strict.items(ListKind::Resources).len(), 1, "tools alone");
}

/// Design section 7: the first by configuration order answers, an address reaches each.
#[test]
fn a_uri_of_two_servers_leads_to_the_first_and_each_is_addressable() {
    let catalog = merged(vec![
        part("a", &[], &["x://1"], &[]),
        part("b", &[], &["x://1"], &[]),
    ]);
    let server = |uri: &str| {
        catalog
            .resource(uri)
            .map(|target| target.server.to_string())
    };
    assert_eq!(server("x://1").as_deref(), Some("a"));
    assert_eq!(server("mainstay+b:x://1").as_deref(), Some("b"));
    assert_eq!(
        catalog
            .resource("mainstay+a:x://other")
            .expect("addressed")
            .original
            .as_ref(),
        "x://other"
    );
    assert!(catalog.items(ListKind::Resources)[1].contains("mainstay+b:x://1"));
}

#[test]
fn templates_claim_the_uris_they_can_produce() {
    for (template, uri, expected) in [
        ("x://{id}", "x://7", true),
        ("x://{id}", "x://", false),
        ("x://{a}/b/{c}", "x://1/b/2", true),
        ("x://{a}/b/{c}", "x://1/c/2", false),
        ("x://{a}.json", "x://1.json", true),
        ("x://{a}.json", "x://1.txt", false),
        ("x://ü{a}ö{b}", "x://ü€öß", true),
        ("x://plain", "x://plain", true),
        ("x://{unclosed", "x://1", false),
    ] {
        assert_eq!(
            template_matches(template, uri),
            expected,
            "{template} against {uri}"
        );
    }
    let catalog = merged(vec![
        part("a", &[], &[], &["x://{id}"]),
        part("b", &[], &[], &["x://{id}"]),
    ]);
    assert_eq!(
        catalog
            .template("mainstay+b:x://{id}")
            .map(|target| target.server.as_str()),
        Some("b")
    );
    assert_eq!(
        catalog
            .resource("x://9")
            .expect("claimed")
            .original
            .as_ref(),
        "x://9"
    );
    assert_eq!(catalog.resource("y://9"), None);
}

#[test]
fn a_page_keeps_its_cursor_and_counts_what_nobody_could_address() {
    let found = page(
        ListKind::Tools,
        r#"{"tools":[{"name":"a"},{"title":"b"},7],"nextCursor":"c"}"#,
        9,
    )
    .expect("a list");
    assert_eq!(
        (
            found.items.len(),
            found.unusable,
            found.next_cursor.as_deref()
        ),
        (1, 2, Some("c"))
    );
    assert!(page(ListKind::Tools, r#"{"content":[]}"#, 9).is_err());
}

#[test]
fn a_page_is_read_as_far_as_is_wanted() {
    let text = r#"{"tools":[{"name":"a"},7,{"name":"b"},{"name":"c"}],"nextCursor":"d"}"#;
    for (max, keys, is_cut) in [(0, "", true), (2, "ab", true), (3, "abc", false)] {
        let found = page(ListKind::Tools, text, max).expect("a list");
        let found_keys: String = found.items.iter().map(|item| &*item.key).collect();
        assert_eq!((found_keys.as_str(), found.is_cut), (keys, is_cut), "{max}");
        assert_eq!(found.next_cursor.as_deref(), Some("d"));
    }
    // What follows is read all the same: half a list is no list.
    assert!(page(ListKind::Tools, r#"{"tools":[{"name":"a"},{"name":"#, 1).is_err());
}
