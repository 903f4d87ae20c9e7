//! Tests of merged catalogs: names, addresses, and the effect of profiles.

use super::{resources::template_matches, *};
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

fn merged_catalog(parts: Vec<Part>) -> Catalog {
    merged_by(parts, &Arc::default())
}

fn merged_by(parts: Vec<Part>, claims: &Arc<Claims>) -> Catalog {
    let profile = ProfileConfig::everything(ProfileName::default());
    Catalog::merge(parts, &profile, Naming::DoubleUnderscore, 48, claims)
}

/// Returns the owner of a resource as text. `None` for [`Owner::Unlisted`].
fn owner(catalog: &Catalog, uri: &str) -> Option<String> {
    match catalog.resource(uri) {
        Owner::Server(ItemTarget {
            server, original, ..
        }) => Some(format!("{server} {original}")),
        Owner::Absent(server) => Some(format!(
            "absent {}",
            server.map_or_else(String::new, |name| name.to_string())
        )),
        Owner::Shared(servers) => {
            let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
            Some(format!("shared {}", servers.join(" ")))
        }
        Owner::Unlisted => None,
    }
}

/// Adds a tool to a part.
fn with_tool(mut part: Part, tool: &str) -> Part {
    let tools = page(ListKind::Tools, &format!(r#"{{"tools":[{tool}]}}"#), 1).expect("a list");
    let catalog = Arc::make_mut(&mut part.catalog);
    catalog.set(ListKind::Tools, tools.items);
    part
}

/// A URI that is a page of two servers belongs to neither. Each page has its address.
#[test]
fn a_page_of_two_servers_has_no_owner() {
    let page = "ui://app/main";
    let catalog = merged_catalog(vec![
        part("a", &[], &[page, "ui://app/own"], &[]),
        part("b", &[], &[page, "x://b"], &[]),
    ]);
    assert_eq!(owner(&catalog, page).as_deref(), Some("shared a b"));
    assert_eq!(
        owner(&catalog, "ui://app/own").as_deref(),
        Some("a ui://app/own")
    );
    for server in ["a", "b"] {
        let address = format!("mainstay+{server}:{page}");
        let expected = format!("{server} {page}");
        assert_eq!(owner(&catalog, &address), Some(expected));
        let listed = catalog.items(ListKind::Resources).iter();
        assert_eq!(listed.filter(|item| item.contains(&address)).count(), 1);
    }
}

/// A tool may refer to a page that is in no list.
#[test]
fn a_page_belongs_to_the_server_whose_tools_refer_to_it() {
    for meta in [
        r#""ui":{"resourceUri":"ui://app/main"}"#,
        r#""ui/resourceUri":"ui://app/main""#,
        r#""openai/outputTemplate":"ui://app/main""#,
    ] {
        let tool = format!(r#"{{"name":"show","_meta":{{{meta}}}}}"#);
        let part_with_tool = |server| with_tool(part(server, &[], &[], &[]), &tool);
        let unlisted_page = merged_catalog(vec![part("a", &[], &[], &[]), part_with_tool("b")]);
        assert_eq!(
            owner(&unlisted_page, "ui://app/main").as_deref(),
            Some("b ui://app/main")
        );
        let page_catalog = merged_catalog(vec![
            part("a", &[], &["ui://app/main"], &[]),
            part_with_tool("b"),
        ]);
        assert_eq!(
            owner(&page_catalog, "ui://app/main").as_deref(),
            Some("shared a b")
        );
        // A tool's reference takes precedence over a template.
        let template = "ui://{app}/main";
        let template = merged_catalog(vec![part("a", &[], &[], &[template]), part_with_tool("b")]);
        assert_eq!(
            owner(&template, "ui://app/main").as_deref(),
            Some("b ui://app/main")
        );
        assert_eq!(
            owner(&template, "ui://other/main").as_deref(),
            Some("a ui://other/main")
        );
        assert_eq!(owner(&template, "ui://other"), None);
    }
    let templates = ["ui://{app}/main", "ui://app/{page}"];
    let page_catalog = merged_catalog(vec![
        part("a", &[], &[], &templates[..1]),
        part("b", &[], &[], &templates[1..]),
    ]);
    assert_eq!(
        owner(&page_catalog, "ui://app/main").as_deref(),
        Some("shared b a")
    );
}

/// J4: both of two tools with the same name are listed. Invariant 5: only the name changes.
#[test]
fn tools_are_listed_under_their_exposed_names_and_are_otherwise_untouched() {
    let catalog = merged_catalog(vec![
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
    let catalog = merged_catalog(vec![part]);
    assert_eq!(catalog.items(ListKind::Tools).len(), 1);
    assert_eq!(catalog.tool("a__shut"), Err(Unresolved::Unknown));
}

/// J12, Y4: no spelling of its name reaches a hidden tool.
#[test]
fn strict_names_hide_tools_with_other_names() {
    let mut part = part("a", &["open", "not open"], &["x://1"], &[]);
    let loose_catalog = merged_catalog(vec![part.clone()]);
    assert_eq!(loose_catalog.items(ListKind::Tools).len(), 2);
    assert!(loose_catalog.tool("a/not open").is_ok());
    part.withheld.strict_names = true;
    let strict_catalog = merged_catalog(vec![part.clone()]);
    assert_eq!(strict_catalog.items(ListKind::Tools).len(), 1);
    for spelling in [
        "a/not open",
        "a__not open",
        loose_catalog.tool_names.exposed(1),
    ] {
        assert_eq!(
            strict_catalog.tool(spelling),
            Err(Unresolved::Unknown),
            "{spelling}"
        );
    }
    let refused_names: Vec<_> = part.refused_names().collect();
    assert_eq!(refused_names, ["not open"]);
    assert_eq!(
        strict_catalog.items(ListKind::Resources).len(),
        1,
        "tools alone"
    );
}

/// The first server in the file owns the URI. Each server's resource has an address.
#[test]
fn a_uri_of_two_servers_leads_to_the_first_and_each_is_addressable() {
    let catalog = merged_catalog(vec![
        part("a", &[], &["x://1"], &[]),
        part("b", &[], &["x://1"], &[]),
    ]);
    for (uri, expected) in [
        ("x://1", Some("a x://1")),
        ("mainstay+b:x://1", Some("b x://1")),
        ("mainstay+a:x://other", Some("a x://other")),
        ("x://other", None),
    ] {
        assert_eq!(owner(&catalog, uri).as_deref(), expected, "{uri}");
    }
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
    let catalog = merged_catalog(vec![
        part("a", &[], &[], &["x://{id}"]),
        part("b", &[], &[], &["x://{id}"]),
    ]);
    assert_eq!(
        catalog
            .template("mainstay+b:x://{id}")
            .map(|target| target.server.as_str()),
        Some("b")
    );
    assert_eq!(owner(&catalog, "x://9").as_deref(), Some("a x://9"));
    assert_eq!(owner(&catalog, "y://9"), None);
}

/// A URI of one server never leads to another server, whatever that server lists.
#[test]
fn a_uri_of_a_removed_server_leads_to_no_other_server() {
    let greedy_part = part(
        "evil",
        &[],
        &[
            "x://1",
            "mainstay+victim:x://1",
            "Mainstay+victim:x://2",
            " mainstay+victim:x://3",
        ],
        &["{+anything}", "x://{id}", "mainstay+victim:{+uri}"],
    );
    let name = |name: &str| ServerName::new(name).expect("a legal name");
    let (victim, parts) = (
        part("victim", &[], &["x://1"], &["x://{id}"]),
        vec![greedy_part.clone()],
    );
    let before = [victim.clone(), greedy_part.clone()];
    let configured = vec![name("victim"), name("evil")];
    let claims = Claims::default()
        .updated(configured.clone(), &[], &before)
        .expect("changed");
    let claims_after_stop = claims
        .updated(configured, &before, &parts)
        .expect("changed");
    let claims_after_removal = claims
        .updated(vec![name("evil")], &before, &parts)
        .expect("changed");
    for claims in [claims_after_stop, claims_after_removal] {
        let catalog = merged_by(parts.clone(), &Arc::new(claims));
        for (uri, expected) in [
            ("x://1", "absent victim"),
            ("x://2", "absent victim"),
            ("x://{id}", "absent victim"),
            ("y://1", "evil y://1"),
            ("mainstay+victim:x://1", "absent victim"),
            ("mainstay+victim:x://2", "absent victim"),
            ("Mainstay+victim:x://2", "absent "),
            ("mainstay+nobody:x://2", "absent "),
            ("mainstay:x://2", "absent "),
            ("mainstay+evil:x://1", "evil x://1"),
            (
                "mainstay+evil:mainstay+victim:x://1",
                "evil mainstay+victim:x://1",
            ),
        ] {
            assert_eq!(owner(&catalog, uri).as_deref(), Some(expected), "{uri}");
        }
        for kind in [ListKind::Resources, ListKind::Templates] {
            let own_uris = catalog.items(kind).iter();
            let own_uris = own_uris.filter(|item| !item.contains("\"mainstay+evil:"));
            assert_eq!(
                own_uris.count(),
                usize::from(kind == ListKind::Templates),
                "{kind:?}"
            );
        }
        assert_eq!(catalog.template("mainstay+victim:{+uri}"), None);
        assert_eq!(catalog.template("x://{id}"), None);
    }
    // A server earlier in the file keeps its URIs, even if a later server offered them before.
    let parts = vec![victim];
    let configured = vec![name("victim"), name("evil")];
    let claims = claims_after(&configured, &before, &parts);
    let catalog = merged_by(parts, &claims);
    assert_eq!(owner(&catalog, "x://1").as_deref(), Some("victim x://1"));
    assert_eq!(owner(&catalog, "x://2").as_deref(), Some("victim x://2"));
    assert_eq!(owner(&catalog, "y://1").as_deref(), Some("absent evil"));
}

fn claims_after(configured: &[ServerName], before: &[Part], now: &[Part]) -> Arc<Claims> {
    let claims = Claims::default().updated(configured.to_vec(), &[], before);
    let claims = claims.expect("changed");
    Arc::new(
        claims
            .updated(configured.to_vec(), before, now)
            .unwrap_or(claims),
    )
}

#[test]
fn claims_are_bounded() {
    let name = |number: usize| ServerName::new(&format!("s{number}")).expect("a legal name");
    let mut claims = Claims::new(vec![name(0)], Vec::new());
    for number in 1..MAX_FORMER + 3 {
        claims = claims
            .updated(vec![name(number)], &[], &[])
            .expect("changed");
    }
    let is_known = |number| claims.named_by(&format!("s{number}__x")).is_some();
    assert!(!is_known(1) && is_known(2) && is_known(MAX_FORMER + 2));

    let long_suffix = "x".repeat(3 << 19);
    let parts = ["a", "b"].map(|prefix| {
        vec![part(
            "s",
            &[&format!("{prefix}{long_suffix}"), prefix],
            &[],
            &[],
        )]
    });
    let configured = vec![ServerName::new("s").expect("a legal name")];
    let claims = claims_after(&configured, &parts[0], &parts[1]);
    let claims = claims
        .updated(configured.clone(), &parts[1], &[])
        .expect("changed");
    let dropped_counts = |claims: &Claims| -> Vec<usize> {
        claims
            .dropped_keys(ListKind::Tools)
            .map(|(_, name)| name.len())
            .collect()
    };
    assert_eq!(
        dropped_counts(&claims),
        [1, long_suffix.len() + 1, 1],
        "the oldest was dropped"
    );
    let claims = claims
        .updated(configured.clone(), &[], &parts[1])
        .expect("changed");
    assert_eq!(dropped_counts(&claims), [1], "what is back is not gone");
    assert_eq!(claims.updated(configured, &parts[1], &parts[1]), None);
}

#[test]
fn a_page_keeps_its_cursor_and_counts_unaddressable_items() {
    let list_page = page(
        ListKind::Tools,
        r#"{"tools":[{"name":"a"},{"title":"b"},7],"nextCursor":"c"}"#,
        9,
    )
    .expect("a list");
    assert_eq!(
        (
            list_page.items.len(),
            list_page.unusable,
            list_page.next_cursor.as_deref()
        ),
        (1, 2, Some(r#""c""#))
    );
    assert!(page(ListKind::Tools, r#"{"content":[]}"#, 9).is_err());
}

#[test]
fn a_cursor_is_unchanged() {
    for (member, expected) in [
        (r#","nextCursor":3"#, Some("3")),
        (r#","nextCursor":"""#, Some(r#""""#)),
        (r#","nextCursor":"\u00fc""#, Some(r#""\u00fc""#)),
        (r#","nextCursor":null"#, None),
        ("", None),
    ] {
        let text = format!(r#"{{"tools":[]{member}}}"#);
        let list_page = page(ListKind::Tools, &text, 9).expect("a list");
        assert_eq!(list_page.next_cursor.as_deref(), expected, "{member}");
    }
}

#[test]
fn a_page_is_read_up_to_the_limit() {
    let text = r#"{"tools":[{"name":"a"},7,{"name":"b"},{"name":"c"}],"nextCursor":"d"}"#;
    for (max, keys, is_cut) in [(0, "", true), (2, "ab", true), (3, "abc", false)] {
        let list_page = page(ListKind::Tools, text, max).expect("a list");
        let found_keys: String = list_page.items.iter().map(|item| &*item.key).collect();
        assert_eq!(
            (found_keys.as_str(), list_page.is_cut),
            (keys, is_cut),
            "{max}"
        );
        assert_eq!(list_page.next_cursor.as_deref(), Some(r#""d""#));
    }
    // The whole text is parsed: an incomplete list is an error, even after `max` items.
    assert!(page(ListKind::Tools, r#"{"tools":[{"name":"a"},{"name":"#, 1).is_err());
}
