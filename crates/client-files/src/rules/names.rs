//! Matches patterns with tools of a server, in the forms of names that clients use for tools.

use std::collections::BTreeSet;

use super::Tools;

pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// The tools that a text refers to. The text is the part after the server's name.
pub(super) fn tools(rest: &str) -> Tools {
    if rest.chars().all(|c| c == '*') {
        Tools::All
    } else if is_pattern(rest) {
        Tools::Pattern(rest.to_owned())
    } else {
        Tools::One(rest.to_owned())
    }
}

/// The tools that the pattern matches in a server whose tool names have this prefix. `None` if it
/// matches none.
pub(super) fn behind_prefix(pattern: &str, prefix: &str) -> Option<Tools> {
    let pattern: Vec<char> = pattern.chars().collect();
    let rest = reached(&pattern, prefix).into_iter();
    let rest = rest.map(|at| pattern[at..].iter().collect());
    let rest: Vec<String> = rest.filter(|rest: &String| !rest.is_empty()).collect();
    let mut found: Vec<Tools> = rest.iter().map(|rest| tools(rest)).collect();
    if found.contains(&Tools::All) {
        return Some(Tools::All);
    }
    // Take the longest remaining pattern, which matches the most.
    (!found.is_empty()).then(|| found.swap_remove(0))
}

/// True if the pattern matches the whole text.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    with_stars(&pattern, &reached(&pattern, text)).contains(&pattern.len())
}

/// The positions in the pattern after matching this text.
fn reached(pattern: &[char], text: &str) -> BTreeSet<usize> {
    let mut states = BTreeSet::from([0]);
    for c in text.chars() {
        let mut next = BTreeSet::new();
        for at in with_stars(pattern, &states) {
            match pattern.get(at) {
                Some('*') => {
                    next.insert(at);
                }
                Some(expected) if *expected == c || *expected == '?' => {
                    next.insert(at + 1);
                }
                _ => {}
            }
        }
        states = next;
    }
    states
}

/// Adds the positions after stars that match no characters.
fn with_stars(pattern: &[char], states: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut reached = states.clone();
    for &state in states {
        let mut at = state;
        while pattern.get(at) == Some(&'*') {
            at += 1;
            reached.insert(at);
        }
    }
    reached
}

/// Replaces characters of a name as clients do in the names of tools.
pub(super) fn plain(label: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    label
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_is_left_of_it_behind_the_prefix() {
        let one = |name: &str| Some(Tools::One(name.to_owned()));
        let some = |pattern: &str| Some(Tools::Pattern(pattern.to_owned()));
        for (pattern, expected) in [
            ("git_push", one("push")),
            ("git_*", Some(Tools::All)),
            ("git*", Some(Tools::All)),
            ("*", Some(Tools::All)),
            ("g?t_*", Some(Tools::All)),
            ("git_delete_*", some("delete_*")),
            ("*_delete_*", some("*_delete_*")),
            ("gi*h", some("*h")),
            ("git_", None),
            ("github_push", None),
            ("bash", None),
        ] {
            assert_eq!(behind_prefix(pattern, "git_"), expected, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_fits_the_whole_text() {
        for (pattern, text, expected) in [
            ("git", "git", true),
            ("*", "git", true),
            ("g*", "git", true),
            ("*t", "git", true),
            ("git", "github", false),
            ("github", "git", false),
            ("g?t", "git", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
