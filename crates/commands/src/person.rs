//! Asks a person at the terminal for answers that the command line does not have.

use std::io::{self, IsTerminal as _};

use mainstay_command_line::{
    CommandError, output,
    screen::{ask, complain, stderr_is_terminal},
    signals::Signals,
};
use mainstay_install::question::{self, Answers, Format, Question};

/// The number of attempts to get a valid answer to a question.
const TRIES: usize = 3;

/// The maximum number of choices to print.
const MAX_CHOICES: usize = 20;

/// The person at the terminal.
pub struct Person {
    pub signals: Signals,
    /// True if stdin and stderr are terminals.
    is_there: bool,
}

impl Person {
    pub fn new() -> Result<Self, CommandError> {
        Ok(Self {
            signals: Signals::listen().map_err(CommandError::Signals)?,
            is_there: io::stdin().is_terminal() && stderr_is_terminal(),
        })
    }

    /// True if the person can be asked.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// Asks a question, and returns the typed line, or `None` at the end of the input.
    pub async fn ask(&mut self, question: &str) -> Result<Option<String>, CommandError> {
        self.line(question, Echo::Shown).await
    }

    /// Asks for a secret, without echo, and returns the typed line, or `None` at the end of the input. Stdin has to
    /// be a terminal.
    pub async fn ask_hidden(&mut self, question: &str) -> Result<Option<String>, CommandError> {
        if cfg!(unix) {
            return self.line(question, Echo::Hidden).await;
        }
        Err(CommandError::Usage {
            message: "this terminal would show the secret".to_owned(),
            hint: Some("give it by --from-file PATH, or on stdin".to_owned()),
        })
    }

    /// Asks for permission, and fails if the person declines. Without a terminal the command itself is the
    /// permission.
    pub async fn confirm(&mut self, question: &str, yes: bool) -> Result<(), CommandError> {
        if yes || !self.is_there {
            return Ok(());
        }
        let answer = self.line(&format!("{question} [y/N]"), Echo::Shown).await?;
        let answer = answer.unwrap_or_default();
        if ["y", "yes"]
            .iter()
            .any(|yes| answer.trim().eq_ignore_ascii_case(yes))
        {
            return Ok(());
        }
        Err(CommandError::Declined)
    }

    /// Completes the answers: asks for the missing ones, or fails with their names.
    pub async fn complete(
        &mut self,
        questions: &[Question],
        answers: &mut Answers,
    ) -> Result<(), CommandError> {
        question::check(questions, answers).map_err(|error| bad_answer(questions, &error))?;
        self.answer(questions, answers).await?;
        let missing = question::open(questions, answers);
        if missing.is_empty() {
            return Ok(());
        }
        let lines = missing.iter().map(|question| {
            let about = question.described();
            let separator = if about.is_empty() { "" } else { ": " };
            format!("{}{separator}{about}", question.key)
        });
        let settings = missing
            .iter()
            .map(|question| format!("--set {}=…", question.key));
        Err(CommandError::Missing {
            lines: lines.collect(),
            hint: format!(
                "give {}, or run it on a terminal to be asked",
                settings.collect::<Vec<_>>().join(" ")
            ),
        })
    }

    /// Asks the questions that have no answer, if the person can be asked.
    pub async fn answer(
        &mut self,
        questions: &[Question],
        answers: &mut Answers,
    ) -> Result<(), CommandError> {
        for question in questions {
            let is_open = question.is_open(answers);
            if !self.is_there
                || answers.contains_key(&question.key)
                || !is_askable(question, is_open)
            {
                continue;
            }
            let values = self.values(question, is_open).await?;
            if !values.is_empty() {
                answers.insert(question.key.clone(), values);
            }
        }
        Ok(())
    }

    /// The values that a person types. Empty if the person chooses the default.
    async fn values(
        &mut self,
        question: &Question,
        is_needed: bool,
    ) -> Result<Vec<String>, CommandError> {
        let echo = if question.secret {
            Echo::Hidden
        } else {
            Echo::Shown
        };
        let about = question.described();
        if !about.is_empty() {
            complain(&format!("  {about}"));
        }
        if !question.choices.is_empty() {
            let choices: Vec<_> = question
                .choices
                .iter()
                .take(MAX_CHOICES)
                .map(String::as_str)
                .collect();
            complain(&format!("  one of: {}", choices.join(", ")));
        }
        let default = match (question.default.as_slice(), question.secret) {
            ([], _) if is_needed => String::new(),
            ([], _) => " (optional)".to_owned(),
            (_, true) => " [***]".to_owned(),
            (values, false) => format!(" [{}]", values.join(" ")),
        };
        for _ in 0..TRIES {
            let line = self
                .line(&format!("{}{default}:", question.key), echo)
                .await?;
            let Some(line) = line else {
                break;
            };
            let values = parse_values(question, &line);
            if values.is_empty() && !is_needed {
                return Ok(values);
            }
            match question.check(&values) {
                Ok(()) if values.is_empty() => complain("  a value is needed"),
                Ok(()) => return Ok(values),
                Err(error) => complain(&format!("  {error}")),
            }
        }
        Ok(Vec::new())
    }

    /// Reads a line of a person, or `None` at the end of the input.
    async fn line(&mut self, question: &str, echo: Echo) -> Result<Option<String>, CommandError> {
        // Dropping this turns the echo on again.
        let _quiet = (echo == Echo::Hidden).then(echo::turn_off).flatten();
        ask(question);
        let reading = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            let read = io::stdin().read_line(&mut line)?;
            Ok::<_, io::Error>((read > 0).then_some(line))
        });
        let line = tokio::select! {
            line = reading => line,
            signal = self.signals.next() => {
                complain("");
                return Err(CommandError::Interrupted { name: signal.name, exit: signal.exit_code() });
            }
        };
        let line = line.map_err(io::Error::from).and_then(|read| read);
        let line = line.map_err(|source| CommandError::Read {
            path: "the terminal".to_owned(),
            source,
        })?;
        Ok(line.map(|line| line.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Echo {
    Shown,
    Hidden,
}

/// True if the question may be asked. A secret must not be asked for if the terminal would show it.
fn is_askable(question: &Question, is_open: bool) -> bool {
    let can_be_hidden = cfg!(unix) || !question.secret;
    // Ask about a setting with a default only if `is_open`.
    can_be_hidden && (is_open || question.default.is_empty())
}

/// Parses the values in a line: several words for a repeated setting, and yes or no for a boolean.
fn parse_values(question: &Question, line: &str) -> Vec<String> {
    let line = if question.secret { line } else { line.trim() };
    if line.is_empty() {
        return Vec::new();
    }
    if question.format == Format::Boolean {
        return vec![
            match line.to_ascii_lowercase().as_str() {
                "y" | "yes" => "true",
                "n" | "no" => "false",
                _ => line,
            }
            .to_owned(),
        ];
    }
    if question.repeated {
        return line.split_whitespace().map(str::to_owned).collect();
    }
    vec![line.to_owned()]
}

/// The error about an invalid value on the command line.
fn bad_answer(questions: &[Question], error: &question::BadAnswer) -> CommandError {
    let keys: Vec<_> = questions
        .iter()
        .map(|question| question.key.as_str())
        .collect();
    let hint = match error {
        question::BadAnswer::Unknown(_) if keys.is_empty() => "nothing is asked for".to_owned(),
        question::BadAnswer::Unknown(_) => format!("asked for are {}", keys.join(", ")),
        _ => String::new(),
    };
    CommandError::Usage {
        message: output::one_line(&error.to_string()).into_owned(),
        hint: Some(hint).filter(|hint| !hint.is_empty()),
    }
}

#[cfg(unix)]
mod echo {
    //! Turns the echo of the terminal off.

    use std::io;

    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

    /// The terminal's modes before the change. Dropping this value restores them.
    pub struct Quiet(Termios);

    pub fn turn_off() -> Option<Quiet> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        quiet.local_modes.insert(LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Flush, &quiet).ok()?;
        Some(Quiet(before))
    }

    impl Drop for Quiet {
        fn drop(&mut self) {
            // Ignore the error: a closed terminal needs no echo.
            tcsetattr(io::stdin(), OptionalActions::Now, &self.0).ok();
        }
    }
}

#[cfg(not(unix))]
mod echo {
    pub struct Quiet;

    pub fn turn_off() -> Option<Quiet> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_values() {
        let question = |format, repeated, secret| Question {
            format,
            repeated,
            secret,
            ..Question::default()
        };
        let text = question(Format::Text, false, false);
        assert_eq!(parse_values(&text, " a b "), ["a b"]);
        assert!(parse_values(&text, "  ").is_empty());
        assert_eq!(
            parse_values(&question(Format::Path, true, false), "/a  /b"),
            ["/a", "/b"]
        );
        assert_eq!(
            parse_values(&question(Format::Boolean, false, false), "YES"),
            ["true"]
        );
        assert_eq!(
            parse_values(&question(Format::Text, false, true), " s "),
            [" s "]
        );
    }
}
