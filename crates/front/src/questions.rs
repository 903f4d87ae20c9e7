//! Requests of servers to the client that wait for an answer. Pure. The client sees a new id for
//! each, because a restarted daemon reuses ids.

use std::collections::BTreeMap;

/// Maximum number of open questions. A further question drops the oldest one.
const MAX_OPEN: usize = 1024;

/// The open questions. `D` identifies the daemon that asked.
#[derive(Debug)]
pub struct ForwardedQuestions<D> {
    next: u64,
    open: BTreeMap<u64, ForwardedQuestion<D>>,
}

/// A question as the daemon sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedQuestion<D> {
    /// The daemon's id of the question (JSON text).
    pub id: String,
    pub from: D,
}

impl<D> Default for ForwardedQuestions<D> {
    fn default() -> Self {
        Self {
            next: 0,
            open: BTreeMap::new(),
        }
    }
}

impl<D> ForwardedQuestions<D> {
    /// Adds a question. Returns the id that the client gets.
    pub fn ask(&mut self, id: &str, from: D) -> u64 {
        self.next += 1;
        if self.open.len() >= MAX_OPEN {
            self.open.pop_first();
        }
        let id = id.to_owned();
        self.open.insert(self.next, ForwardedQuestion { id, from });
        self.next
    }

    /// Removes and returns the question that the client knows by this id (JSON text).
    pub fn answered(&mut self, id: &str) -> Option<ForwardedQuestion<D>> {
        self.open.remove(&id.parse().ok()?)
    }

    /// Removes a question that the daemon has cancelled. Returns the id that the client knows.
    pub fn taken_back(&mut self, id: &str, is_from: impl Fn(&D) -> bool) -> Option<u64> {
        let matching_question = self.open.iter();
        let matching_question = matching_question
            .rev()
            .find(|(_, question)| question.id == id && is_from(&question.from))
            .map(|(number, _)| *number)?;
        self.open.remove(&matching_question);
        Some(matching_question)
    }

    /// Removes and returns all questions.
    pub fn close(&mut self) -> Vec<ForwardedQuestion<D>> {
        std::mem::take(&mut self.open).into_values().collect()
    }

    /// Removes the questions of lost daemons. Returns the ids that the client knows.
    pub fn forget(&mut self, is_gone: impl Fn(&D) -> bool) -> Vec<u64> {
        let removed_questions = self
            .open
            .iter()
            .filter(|(_, question)| is_gone(&question.from));
        let removed_questions: Vec<u64> = removed_questions.map(|(number, _)| *number).collect();
        for number in &removed_questions {
            self.open.remove(number);
        }
        removed_questions
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// An answer reaches the daemon that asked, with the daemon's id, or is dropped.
        #[test]
        fn no_answer_reaches_another_question(
            steps in prop::collection::vec((0..4u8, 0..3u8), 0..60)
        ) {
            let mut questions = ForwardedQuestions::default();
            let (mut run, mut open_questions) = (0u32, Vec::new());
            for (step, number) in steps {
                match step {
                    // Every run of the daemon uses the same ids.
                    0 | 1 => {
                        let id = number.to_string();
                        let own_id = questions.ask(&id, run);
                        open_questions.push((own_id, id, run));
                    }
                    2 => {
                        run += 1;
                        questions.forget(|from| *from < run);
                    }
                    _ => {
                        let Some((own_id, id, from)) = open_questions.pop() else { continue };
                        let question = questions.answered(&own_id.to_string());
                        let expected = (from == run).then_some(ForwardedQuestion { id, from });
                        prop_assert_eq!(question, expected);
                        prop_assert_eq!(questions.answered(&own_id.to_string()), None);
                    }
                }
            }
        }
    }

    #[test]
    fn a_question_that_is_taken_back_is_named_by_our_id() {
        let mut questions = ForwardedQuestions::default();
        questions.ask("7", 1);
        let second_id = questions.ask("7", 2);
        assert_eq!(
            questions.taken_back("7", |from| *from == 2),
            Some(second_id)
        );
        assert_eq!(questions.taken_back("7", |from| *from == 2), None);
    }

    #[test]
    fn a_bounded_number_is_kept() {
        let mut questions = ForwardedQuestions::default();
        for _ in 0..=MAX_OPEN {
            questions.ask("1", ());
        }
        assert_eq!(questions.answered("1"), None);
        assert!(questions.answered("2").is_some());
    }
}
