//! Makes valid server names from the names in files.

use std::fmt::Write as _;

use mainstay_core::ids::{InvalidServerName, ServerName};
use sha2::{Digest as _, Sha256};

/// Returns the valid name of a server. If that differs from the file's spelling, also returns the fault of
/// the spelling.
///
/// Only an empty name is an error. Files are shared with clients that have other rules, so any other
/// illegal name becomes a slug.
pub fn adopt(written: &str) -> Result<(ServerName, Option<InvalidServerName>), InvalidServerName> {
    match ServerName::new(written) {
        Ok(name) => Ok((name, None)),
        Err(InvalidServerName::Empty) => Err(InvalidServerName::Empty),
        Err(_) if written.trim().is_empty() => Err(InvalidServerName::Empty),
        Err(fault) => Ok((ServerName::new(&slug(written))?, Some(fault))),
    }
}

/// Makes a legal name. A run of illegal characters becomes one `-`, and a run of `_` becomes one `_`. Both
/// are removed at the ends. A name without any legal character becomes a hash.
fn slug(written: &str) -> String {
    let mut slug = String::with_capacity(written.len());
    for character in written.chars() {
        let replacement = match character {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => c,
            _ => '-',
        };
        if !(matches!(replacement, '_' | '-') && slug.ends_with(replacement)) {
            slug.push(replacement);
        }
    }
    let slug = slug.trim_matches(['_', '-']);
    if !slug.is_empty() {
        return slug.to_owned();
    }
    Sha256::digest(written)
        .iter()
        .take(4)
        .fold("server-".to_owned(), |mut name, byte| {
            let _ = write!(name, "{byte:02x}"); // writing to a String cannot fail
            name
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(written: &str, expected: &str) {
        let name = adopt(written).map(|(name, _)| name.to_string());
        assert_eq!(name.as_deref(), Ok(expected), "{written:?}");
    }

    #[test]
    fn a25_illegal_names_get_a_slug() {
        check("fs", "fs");
        check("my-fs_2", "my-fs_2");
        check("My Server", "My-Server");
        check("@scope/server-everything", "scope-server-everything");
        check("a__b", "a__b");
        check("_private_", "_private_");
        check("Zürich", "Z-rich");
        check("a / b", "a-b");
        check("文件", "server-39932f24");
        check("___", "___");
        check("_ä_", "server-f0e0abde");
    }

    #[test]
    fn a25_an_empty_name_is_refused() {
        assert_eq!(adopt(""), Err(InvalidServerName::Empty));
        assert_eq!(adopt(" \t"), Err(InvalidServerName::Empty));
    }

    proptest! {
        #[test]
        fn every_other_name_is_adopted(written in ".*[^\\s].*") {
            let (name, fault) = adopt(&written).map_err(|fault| TestCaseError::fail(fault.to_string()))?;
            prop_assert_eq!(fault.is_none(), name.as_str() == written);
        }
    }
}
