//! Answers for the questions of a server.

use mainstay_install::question::Answers;

/// Builds answers. Several values of one key keep their order.
pub fn answers(pairs: &[(&str, &str)]) -> Answers {
    let mut answers = Answers::new();
    for (key, value) in pairs {
        let values = answers.entry((*key).to_owned()).or_default();
        values.push((*value).to_owned());
    }
    answers
}
