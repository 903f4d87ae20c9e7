//! References in texts that look like them, and in others.

use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    let name = "(A|B|REF|EMPTY|BIG|NONE|a|ref|empty|big|nul|device|~|~/a|key|id|)";
    let reference = prop::string::string_regex(&format!(
        "[$]{{0,2}}[{{]((env|input|file|keyring|x|):)?{name}(:-[a${{}}]{{0,3}})?[}}]?"
    ));
    let reference = reference.expect("a regular expression");
    let piece = prop_oneof![6 => reference, 1 => "[$a{}]{0,4}", 1 => "\\PC{0,4}"];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn line() -> impl Strategy<Value = String> {
    let start = prop_oneof!["e[A-C]=", "p[A-C]=", "[ep]=", Just(String::new())];
    (start, text()).prop_map(|(start, text)| start + &text)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_texts_expand_within_their_bounds(
        first in 0..4_u8,
        lines in prop::collection::vec(line(), 0..8),
    ) {
        let mut input = vec![first];
        input.extend_from_slice(lines.join("\n").as_bytes());
        fuzz::references::check(&input);
    }
}
