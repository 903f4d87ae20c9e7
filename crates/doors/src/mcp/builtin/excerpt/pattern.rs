//! A regular expression that a client wrote, looked for line by line.
//!
//! The `regex` crate searches a line in one go, and a costly pattern takes hours for a long one. Here its
//! automaton takes one byte after the other, and the budget is looked at on the way.

use regex::{Regex, RegexBuilder};
use regex_automata::{
    Input,
    hybrid::dfa::{Cache, DFA},
    nfa::thompson,
};

use super::{Unreadable, budget::Budget};

/// Bytes of a compiled expression: one that a model writes needs less.
const MAX_COMPILED: usize = 1 << 20;

/// The same for one that asks for letters of all languages at a `\b`: where they occur, a line is searched in
/// one go.
const MAX_COMPILED_WITH_BOUNDARY: usize = 1 << 16;

/// Bytes of a line that is searched in one go.
const MAX_IN_ONE_GO: usize = 1 << 16;

/// Bytes between two looks at the budget.
const STEP: usize = 256;

pub struct Pattern {
    automaton: DFA,
    cache: Cache,
    whole: Regex,
}

impl Pattern {
    pub fn new(pattern: &str) -> Result<Self, Unreadable> {
        let sized = |size| RegexBuilder::new(pattern).size_limit(size).build();
        let mut whole = sized(MAX_COMPILED)?;
        let automaton = DFA::builder()
            .configure(
                DFA::config()
                    .unicode_word_boundary(true)
                    .skip_cache_capacity_check(true),
            )
            .thompson(thompson::Config::new().nfa_size_limit(Some(2 * MAX_COMPILED)))
            .build(pattern)
            .map_err(|error| Unreadable::Automaton(error.to_string()))?;
        if automaton.get_nfa().look_set_any().contains_word_unicode() {
            whole = sized(MAX_COMPILED_WITH_BOUNDARY)?;
        }
        Ok(Self {
            cache: automaton.create_cache(),
            automaton,
            whole,
        })
    }

    pub fn is_in(&mut self, line: &str, budget: &Budget) -> Result<bool, Unreadable> {
        match self.search(line, budget)? {
            Some(is_found) => Ok(is_found),
            None if line.len() <= MAX_IN_ONE_GO => Ok(self.whole.is_match(line)),
            None => Err(Unreadable::Boundary(MAX_IN_ONE_GO)),
        }
    }

    /// `None` if the automaton cannot tell: a `\b` met a letter beyond ASCII.
    fn search(&mut self, line: &str, budget: &Budget) -> Result<Option<bool>, Unreadable> {
        let Self {
            automaton, cache, ..
        } = self;
        let full = |error: &dyn std::error::Error| Unreadable::Automaton(error.to_string());
        let mut state = automaton
            .start_state_forward(cache, &Input::new(line))
            .map_err(|error| full(&error))?;
        for bytes in line.as_bytes().chunks(STEP) {
            budget.check()?;
            for byte in bytes {
                state = automaton
                    .next_state(cache, state, *byte)
                    .map_err(|error| full(&error))?;
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
            .map_err(|error| full(&error))?;
        Ok(Some(end.is_match()))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::budget::{Budget, Reader},
        *,
    };

    /// The automaton finds what the `regex` crate finds.
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
            let mut own = Pattern::new(pattern).expect(pattern);
            for line in lines {
                let found = own.is_in(line, &reader.budget()).expect(line);
                assert_eq!(found, expected.is_match(line), "{pattern} in {line}");
            }
        }
    }

    #[test]
    fn a_costly_pattern_ends_with_its_budget() {
        let line: String = (0..2_000_000_u32)
            .map(|at| {
                if at.wrapping_mul(2_654_435_761) >> 31 == 0 {
                    'a'
                } else {
                    'b'
                }
            })
            .collect();
        let mut costly = Pattern::new("[ab]*a[ab]{12000}c").expect("a pattern");
        let slow = costly.is_in(&line, &Budget::spent());
        assert!(matches!(slow, Err(Unreadable::Slow(_))), "{slow:?}");
        let reader = Reader::new();
        let budget = reader.budget();
        drop(reader);
        let unwanted = costly.is_in(&line, &budget);
        assert!(
            matches!(unwanted, Err(Unreadable::Unwanted)),
            "{unwanted:?}"
        );
    }

    #[test]
    fn what_cannot_be_searched_in_steps_is_short() {
        let reader = Reader::new();
        let mut word = Pattern::new(r"\berror\b").expect("a pattern");
        let long = format!("{}é", "x ".repeat(MAX_IN_ONE_GO));
        let refused = word.is_in(&long, &reader.budget());
        assert!(
            matches!(refused, Err(Unreadable::Boundary(_))),
            "{refused:?}"
        );
        assert!(Pattern::new(r"\b[ab]{3000}\b").is_err());
        assert!(Pattern::new("(a{1000}){1000}").is_err());
    }
}
