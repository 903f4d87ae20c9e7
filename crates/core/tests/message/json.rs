//! Random JSON values with unusual numbers.

use mainstay_core::message;
use proptest::prelude::*;

/// Generates any JSON value, with numbers in unusual notations.
pub fn value() -> impl Strategy<Value = String> {
    let number = prop::sample::select(vec![
        "0",
        "-0",
        "1.0",
        "1e3",
        "12345678901234567890123",
        "1e400",
        "-7.25E-2",
    ]);
    let leaf = prop_oneof![
        number.prop_map(str::to_owned),
        Just("null".to_owned()),
        Just(r#""\ud800 \u00e4 \/ \n""#.to_owned()),
        "\\PC{0,12}".prop_map(|text| message::quote(&text)),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let space = prop::sample::select(vec!["", " ", "\n", "\r\n\t"]);
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), space.clone()).prop_map(
                |(items, space)| format!("[{space}{}]", items.join(&format!(",{space}")))
            ),
            (prop::collection::vec(("[a-z]{1,6}", inner), 0..5), space).prop_map(
                |(members, space)| {
                    let members: Vec<String> = members
                        .into_iter()
                        .enumerate()
                        .map(|(index, (key, value))| format!(r#""{key}{index}"{space}:{value}"#))
                        .collect();
                    format!("{{{space}{}}}", members.join(&format!("{space},")))
                }
            ),
        ]
    })
}
