//! What a person answers, for the tests of several files.

use mainstay_install::question::Answers;

/// Several values of one key are given in their order.
pub fn answers(given: &[(&str, &str)]) -> Answers {
    let mut answers = Answers::new();
    for (key, value) in given {
        let values = answers.entry((*key).to_owned()).or_default();
        values.push((*value).to_owned());
    }
    answers
}
