//! Searches lines for a client's regular expression. The `regex` crate searches a line in one call.
//! An expensive pattern can take hours for that. This automaton reads a line in steps, and checks
//! the budget before each step.

use regex::{Regex, RegexBuilder};
use regex_automata::{
    Input,
    hybrid::dfa::{Cache, DFA},
    nfa::thompson,
};

use super::{ExcerptError, budget::Budget};

/// Maximum size of a compiled expression, in bytes.
const MAX_COMPILED: usize = 1 << 20;

/// Maximum size of a compiled expression with a Unicode `\b`, in bytes. For such an expression, the
/// `regex` crate searches non-ASCII lines, in one call.
const MAX_COMPILED_WITH_BOUNDARY: usize = 1 << 16;

/// Maximum length of a line that the `regex` crate searches, in bytes.
const MAX_LINE: usize = 1 << 16;

/// Bytes between two checks of the budget.
const STEP: usize = 256;

pub struct Pattern {
    automaton: DFA,
    cache: Cache,
    whole: Regex,
}

impl Pattern {
    pub fn new(pattern: &str) -> Result<Self, ExcerptError> {
        let sized_regex = |size| RegexBuilder::new(pattern).size_limit(size).build();
        let mut regex = sized_regex(MAX_COMPILED)?;
        let automaton = DFA::builder()
            .configure(
                DFA::config()
                    .unicode_word_boundary(true)
                    .skip_cache_capacity_check(true),
            )
            .thompson(thompson::Config::new().nfa_size_limit(Some(2 * MAX_COMPILED)))
            .build(pattern)
            .map_err(|error| ExcerptError::Automaton(error.to_string()))?;
        if automaton.get_nfa().look_set_any().contains_word_unicode() {
            regex = sized_regex(MAX_COMPILED_WITH_BOUNDARY)?;
        }
        Ok(Self {
            cache: automaton.create_cache(),
            automaton,
            whole: regex,
        })
    }

    pub fn is_in(&mut self, line: &str, budget: &Budget) -> Result<bool, ExcerptError> {
        match self.search(line, budget)? {
            Some(is_found) => Ok(is_found),
            None if line.len() <= MAX_LINE => Ok(self.whole.is_match(line)),
            None => Err(ExcerptError::Boundary(MAX_LINE)),
        }
    }

    /// Searches a line; `None` if a Unicode `\b` met a non-ASCII letter, which the automaton cannot
    /// decide.
    fn search(&mut self, line: &str, budget: &Budget) -> Result<Option<bool>, ExcerptError> {
        let Self {
            automaton, cache, ..
        } = self;
        let cache_error =
            |error: &dyn std::error::Error| ExcerptError::Automaton(error.to_string());
        let mut state = automaton
            .start_state_forward(cache, &Input::new(line))
            .map_err(|error| cache_error(&error))?;
        for bytes in line.as_bytes().chunks(STEP) {
            budget.check()?;
            for byte in bytes {
                state = automaton
                    .next_state(cache, state, *byte)
                    .map_err(|error| cache_error(&error))?;
                if state.is_tagged() {
                    if state.is_match() || state.is_dead() {
                        return Ok(Some(state.is_match()));
                    }
                    if state.is_quit() {
                        return Ok(None);
                    }
                }
            }
        }
        let end = automaton
            .next_eoi_state(cache, state)
            .map_err(|error| cache_error(&error))?;
        Ok(Some(end.is_match()))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::budget::{Budget, Reader},
        *,
    };

    /// The automaton finds the same lines as the `regex` crate.
    #[test]
    fn lines_match_as_everywhere() {
        let reader = Reader::new();
        let lines = [
            "",
            "a",
            "error: x",
            "an ERROR",
            "naïve error",
            "Ärger",
            "érror",
            "aaab",
            "日本 42",
            "a b",
            "x-1",
        ];
        for pattern in [
            "",
            "^$",
            "a",
            "^a",
            "b$",
            "(?i)error",
            r"\berror\b",
            r"\bÄ",
            r"\w+\d",
            r"\d{2}$",
            "^a{3}b",
            r"\Berror",
            "(?-u:\\b)rror",
            "[^a]$",
            "x-?1",
            ".",
        ] {
            let expected = Regex::new(pattern).expect(pattern);
            let mut pattern_automaton = Pattern::new(pattern).expect(pattern);
            for line in lines {
                let is_matching = pattern_automaton.is_in(line, &reader.budget()).expect(line);
                assert_eq!(is_matching, expected.is_match(line), "{pattern} in {line}");
            }
        }
    }

    #[test]
    fn a_costly_pattern_ends_with_its_budget() {
        let line: String = (0..2_000_000_u32)
            .map(|index| {
                if index.wrapping_mul(2_654_435_761) >> 31 == 0 {
                    'a'
                } else {
                    'b'
                }
            })
            .collect();
        let mut costly_pattern = Pattern::new("[ab]*a[ab]{12000}c").expect("a pattern");
        let spent_result = costly_pattern.is_in(&line, &Budget::spent());
        assert!(
            matches!(spent_result, Err(ExcerptError::Slow(_))),
            "{spent_result:?}"
        );
        let reader = Reader::new();
        let budget = reader.budget();
        drop(reader);
        let abandoned_search = costly_pattern.is_in(&line, &budget);
        assert!(
            matches!(abandoned_search, Err(ExcerptError::Abandoned)),
            "{abandoned_search:?}"
        );
    }

    #[test]
    fn a_pattern_without_steps_is_limited() {
        let reader = Reader::new();
        let mut word_pattern = Pattern::new(r"\berror\b").expect("a pattern");
        let long_line = format!("{}é", "x ".repeat(MAX_LINE));
        let result = word_pattern.is_in(&long_line, &reader.budget());
        assert!(
            matches!(result, Err(ExcerptError::Boundary(_))),
            "{result:?}"
        );
        assert!(Pattern::new(r"\b[ab]{3000}\b").is_err());
        assert!(Pattern::new("(a{1000}){1000}").is_err());
    }
}
