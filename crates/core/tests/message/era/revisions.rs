//! The features of each revision, one row each. Source: the specification's changelogs.

use mainstay_core::era::{Capabilities, Era, Greeting, InvalidGreeting, Revision};

/// A feature, and the revisions that have it.
type Ability = (&'static str, fn(Revision) -> bool, &'static [Revision]);

#[test]
fn every_revision_has_its_features() {
    use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};
    const REVISIONS_SINCE_MARCH: &[Revision] =
        &[V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28];
    const REVISIONS_SINCE_JUNE: &[Revision] = &[V2025_06_18, V2025_11_25, V2026_07_28];
    const REVISIONS_SINCE_NOVEMBER: &[Revision] = &[V2025_11_25, V2026_07_28];
    let table: [Ability; 12] = [
        (
            "modern",
            |revision| revision.era() == Era::Modern,
            &[V2026_07_28],
        ),
        ("batches", Revision::accepts_batches, &[V2025_03_26]),
        (
            "header",
            Revision::sends_version_header,
            REVISIONS_SINCE_JUNE,
        ),
        ("resumption", Revision::resumes_streams, &[V2025_11_25]),
        ("forms", Revision::has_elicitation, REVISIONS_SINCE_JUNE),
        (
            "urls",
            Revision::has_url_elicitation,
            REVISIONS_SINCE_NOVEMBER,
        ),
        (
            "sampling",
            Revision::has_sampling_tools,
            REVISIONS_SINCE_NOVEMBER,
        ),
        ("audio", Revision::has_audio, REVISIONS_SINCE_MARCH),
        ("link", Revision::has_resource_link, REVISIONS_SINCE_JUNE),
        (
            "structure",
            Revision::has_structured_content,
            REVISIONS_SINCE_JUNE,
        ),
        (
            "completion",
            Revision::has_completions_capability,
            REVISIONS_SINCE_MARCH,
        ),
        (
            "handshake",
            |revision| Revision::negotiate(revision.as_str()) == revision,
            &[V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25],
        ),
    ];
    for (name, ability, able) in table {
        for revision in Revision::ALL {
            assert_eq!(
                ability(revision),
                able.contains(&revision),
                "{name} {revision}"
            );
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
        }
    }
    let legacy_revisions = Revision::ALL
        .into_iter()
        .filter(|revision| revision.era() == Era::Legacy);
    assert!(legacy_revisions.eq(Revision::LEGACY));
    assert_eq!(Revision::LEGACY.last(), Some(&Revision::LATEST_LEGACY));
    assert_eq!(Revision::ALL.last(), Some(&Revision::LATEST));
}

#[test]
fn initialize_opens_nothing_modern() {
    assert_eq!(
        Greeting::read(r#"{"protocolVersion":"2026-07-28","capabilities":{}}"#),
        Err(InvalidGreeting::Revision("2026-07-28".to_owned()))
    );
}

#[test]
fn a_discovery_contains_revisions_and_server_info() {
    let greeting = Greeting::discovered(
        r#"{"resultType":"complete","supportedVersions":["2025-11-25","2026-07-28","2027-01-01"],
            "capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},
                            "extensions":{"io.modelcontextprotocol/tasks":{}}},
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x","version":"1"}},
            "instructions":"be kind","ttlMs":0,"cacheScope":"public"}"#,
    )
    .expect("a greeting");
    assert_eq!(greeting.revision, Revision::V2026_07_28);
    assert_eq!(
        greeting.supported,
        [Revision::V2025_11_25, Revision::V2026_07_28]
    );
    assert_eq!(greeting.server_info, Some(("x".to_owned(), "1".to_owned())));
    assert_eq!(greeting.instructions.as_deref(), Some("be kind"));
    assert_eq!(
        greeting.capabilities,
        Capabilities {
            tools: true,
            tools_changed: true,
            prompts: true,
            resources: true,
            subscribe: true,
            tasks: true,
            ..Capabilities::default()
        }
    );
}

#[test]
fn an_invalid_discovery_differs_from_an_unsupported_one() {
    for answer in ["{}", "[]", "", r#"{"supportedVersions":"2026-07-28"}"#] {
        assert_eq!(
            Greeting::discovered(answer),
            Err(InvalidGreeting::NotDiscovered),
            "{answer}"
        );
    }
    assert_eq!(
        Greeting::discovered(r#"{"supportedVersions":["1.0",7]}"#),
        Err(InvalidGreeting::Revision("1.0".to_owned()))
    );
    let legacy_greeting = Greeting::discovered(r#"{"supportedVersions":["2025-06-18"]}"#);
    assert_eq!(
        legacy_greeting.expect("a greeting").revision.era(),
        Era::Legacy
    );
}

/// A catalog that an earlier release stored can still be read.
#[test]
fn capabilities_without_the_later_flags_are_read() {
    let stored_text = r#"{"tools":true,"prompts":false,"resources":false,"subscribe":false,"logging":false,"completions":false}"#;
    let capabilities: Capabilities = serde_json::from_str(stored_text).expect("capabilities");
    assert!(capabilities.tools && !capabilities.tools_changed);
}
