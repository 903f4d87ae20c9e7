//! Chooses the next revision after a server refused the revision of `initialize`.
//!
//! A server should answer an unsupported revision with a supported one (specification 2025-11-25,
//! "Lifecycle"). Some servers refuse `initialize` instead: with an error, with a text, or by
//! exiting.

use super::{Revision, code};
use crate::message::{self, Span};

/// Returns the revision to try after the server refused `tried_revisions`. `refusal` is the text of
/// the last refusal. `None` if the text is not about the revision, or all revisions were tried.
pub fn next_revision(tried_revisions: &[Revision], refusal: &str) -> Option<Revision> {
    let is_open = |revision: &Revision| !tried_revisions.contains(revision);
    let is_named = |revision: &Revision| refusal.contains(revision.as_str());
    let mut newest_first = Revision::LEGACY.into_iter().rev().filter(is_open);
    if let Some(revision) = newest_first.clone().find(is_named) {
        return Some(revision);
    }
    let names_modern = refusal.contains(Revision::LATEST.as_str());
    let lower_refusal = refusal.to_ascii_lowercase();
    let is_about_revision = ["protocol", "version", "revision"]
        .iter()
        .filter(|keyword| lower_refusal.contains(*keyword))
        .count()
        >= 2
        || refusal.contains(&format!(r#""code":{}"#, code::INVALID_PARAMS))
        || tried_revisions.iter().any(is_named);
    if names_modern || !is_about_revision {
        return None;
    }
    newest_first.next()
}

/// Returns the revision in the params of `initialize` (JSON text), or the latest one if the text
/// names an unknown revision. `None` if the params have no revision.
pub fn requested_revision(params: &str) -> Option<Revision> {
    let version = message::text_member(params, "protocolVersion")?;
    Some(Revision::parse(&version).unwrap_or(Revision::LATEST))
}

/// Replaces the revision in the params of `initialize` (JSON text).
pub fn with_revision(params: &str, revision: Revision) -> String {
    let version = message::quote(revision.as_str());
    match message::locate(params, Span::whole(params), &["protocolVersion"]) {
        Some(span) => message::splice(params, &mut [(span, &version)]),
        None => params.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_revision_of_a_refusal_is_tried() {
        let latest = [Revision::LATEST_LEGACY];
        for (refusal, expected) in [
            (
                r#"{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05","2025-03-26"],"requested":"2025-11-25"}}"#,
                Some(Revision::V2025_03_26),
            ),
            (
                "Bad Request: Unsupported protocol version (supported versions: 2024-11-05)",
                Some(Revision::V2024_11_05),
            ),
            (
                "Unsupported protocol version: 2025-11-25",
                Some(Revision::V2025_06_18),
            ),
            ("bad version of the protocol", Some(Revision::V2025_06_18)),
            ("2025-11-25 is not supported", Some(Revision::V2025_06_18)),
            (
                r#"{"code":-32602,"message":"Invalid params"}"#,
                Some(Revision::V2025_06_18),
            ),
            // A server that supports only modern revisions.
            (
                r#"{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}"#,
                None,
            ),
            ("a newer version of node is needed", None),
            ("unauthorized", None),
            ("", None),
        ] {
            assert_eq!(next_revision(&latest, refusal), expected, "{refusal}");
        }
    }

    #[test]
    fn the_known_revisions_are_tried_newest_first_and_once() {
        let mut tried_revisions = vec![Revision::LATEST_LEGACY];
        while let Some(revision) = next_revision(&tried_revisions, "unsupported protocol version") {
            tried_revisions.push(revision);
        }
        let newest_first: Vec<_> = Revision::LEGACY.into_iter().rev().collect();
        assert_eq!(tried_revisions, newest_first);
        assert_eq!(
            next_revision(&tried_revisions, "supported: 2024-11-05"),
            None
        );
    }

    #[test]
    fn only_the_revision_of_the_parameters_changes() {
        let params = r#"{"protocolVersion": "2025-11-25","capabilities":{"x":1.0}}"#;
        let changed_params = with_revision(params, Revision::V2024_11_05);
        assert_eq!(changed_params, params.replace("2025-11-25", "2024-11-05"));
        assert_eq!(
            requested_revision(&changed_params),
            Some(Revision::V2024_11_05)
        );
        assert_eq!(with_revision("{}", Revision::V2024_11_05), "{}");
    }
}
