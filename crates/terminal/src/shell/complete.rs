//! Computes completions at a position of a line from a snapshot of names. Pure.

use mainstay_command_line::completion_names::{Argument, CompletionNames, CompletionTarget};

use super::{
    commands::{self, COMMANDS, Name, Value},
    line::as_word,
};

/// A completion for the typed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The start of the replaced part of the line, in bytes.
    pub from: usize,
    pub until: usize,
    /// The text to insert.
    pub text: String,
    pub about: String,
    /// True if a blank is inserted after the text.
    pub is_whole: bool,
}

/// The word before the cursor, and its offset.
struct Typed<'l> {
    from: usize,
    /// The word with its quotes.
    raw: &'l str,
    /// The word without quotes.
    text: String,
}

/// A name and its description.
type Choice<'k> = (&'k str, &'k str);

/// The completions at an offset of the line, in bytes. Empty inside JSON.
pub fn complete(line: &str, place: usize, names: &CompletionNames) -> Vec<Candidate> {
    let Some(text) = line.get(..place) else {
        return Vec::new();
    };
    let Some(typed) = typed(text) else {
        return Vec::new();
    };
    let Some((last, before)) = typed.split_last() else {
        return Vec::new();
    };
    let Some((command, words)) = before.split_first() else {
        let words = COMMANDS.iter().map(|command| (command.word, command.about));
        let typed = last.text.strip_prefix('/').unwrap_or(&last.text);
        return fitting(typed, words)
            .map(|(word, about)| last.becomes(format!("/{word}"), about, true))
            .collect();
    };
    let command = command.text.strip_prefix('/').unwrap_or_default();
    let Some(command) = commands::find(command) else {
        return Vec::new();
    };
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    of_command(command.name, &words, last, names)
}

/// The completions of an argument of a command, after these words.
fn of_command(
    name: Name,
    words: &[&str],
    last: &Typed<'_>,
    names: &CompletionNames,
) -> Vec<Candidate> {
    let options = commands::options(name);
    let option_value = words.last().and_then(|word| {
        let option = options.iter().find(|(option, _)| option == word)?;
        option.1
    });
    match option_value {
        Some(Value::Server) => return last.choices(servers(names)),
        Some(Value::Free) => return Vec::new(),
        None => {}
    }
    if last.text.starts_with('-') {
        return last.choices(options.iter().map(|(option, _)| (*option, "")));
    }
    match (name, words) {
        (Name::Health | Name::Log | Name::History, []) => last.choices(servers(names)),
        (Name::Server, []) => last.choices(commands::ACTIONS.iter().map(|action| (*action, ""))),
        (Name::Server, [_, ..]) => {
            let others = servers(names).filter(|(server, _)| !words[1..].contains(server));
            last.choices(others)
        }
        (Name::Tools, []) => last.choices(servers(names).chain(target_names(&names.tools))),
        (Name::Call, []) => last.choices(target_names(&names.tools)),
        (Name::Call, [tool, pairs @ ..]) => last.arguments(&names.tools, tool, pairs),
        (Name::Prompt, []) => last.choices(target_names(&names.prompts)),
        (Name::Prompt, [prompt, pairs @ ..]) => last.arguments(&names.prompts, prompt, pairs),
        (Name::Read, []) => {
            let choices = names.resources.iter();
            last.choices(choices.map(|(uri, name)| (uri.as_str(), name.as_str())))
        }
        (Name::Help, []) => {
            last.choices(COMMANDS.iter().map(|command| (command.word, command.about)))
        }
        _ => Vec::new(),
    }
}

fn servers(names: &CompletionNames) -> impl Iterator<Item = Choice<'_>> {
    names.servers.iter().map(|server| (server.as_str(), ""))
}

fn target_names(offers: &[CompletionTarget]) -> impl Iterator<Item = Choice<'_>> {
    let names = offers.iter();
    names.map(|offer| (offer.name.as_str(), offer.about.as_str()))
}

/// The choices that begin with the typed text. If there are none, the choices that contain it.
fn fitting<'k>(
    typed: &str,
    choices: impl Iterator<Item = Choice<'k>>,
) -> impl Iterator<Item = Choice<'k>> {
    let typed = typed.to_lowercase();
    let choices: Vec<Choice<'k>> = choices.collect();
    let is_prefix = |choice: &Choice<'_>| choice.0.to_lowercase().starts_with(&typed);
    let any_begins = choices.iter().any(is_prefix);
    choices.into_iter().filter(move |choice| {
        let name = choice.0.to_lowercase();
        if any_begins {
            name.starts_with(&typed)
        } else {
            name.contains(&typed)
        }
    })
}

impl Typed<'_> {
    fn becomes(&self, text: String, about: &str, is_whole: bool) -> Candidate {
        Candidate {
            from: self.from,
            until: self.from + self.raw.len(),
            text,
            about: about.to_owned(),
            is_whole,
        }
    }

    fn choices<'k>(&self, choices: impl Iterator<Item = Choice<'k>>) -> Vec<Candidate> {
        fitting(&self.text, choices)
            .map(|(name, about)| self.becomes(as_word(name), about, true))
            .collect()
    }

    /// The names of missing arguments, or the values of the argument before the cursor.
    fn arguments(&self, offers: &[CompletionTarget], name: &str, pairs: &[&str]) -> Vec<Candidate> {
        let Some(offer) = offers.iter().find(|offer| offer.name == name) else {
            return Vec::new();
        };
        if let Some((key, value)) = self.text.split_once('=') {
            let argument = offer.arguments.iter().find(|argument| argument.name == key);
            let values = argument.map_or(&[][..], |argument| &argument.values);
            let choices = values.iter().map(|value| (value.as_str(), ""));
            return fitting(value, choices)
                .map(|(value, about)| {
                    self.becomes(format!("{}={}", as_word(key), as_word(value)), about, true)
                })
                .collect();
        }
        let is_given = |argument: &&Argument| {
            let key_of = |word: &&str| word.split_once('=').map(|(key, _)| key.to_owned());
            !pairs
                .iter()
                .filter_map(key_of)
                .any(|key| key == argument.name)
        };
        let missing = offer.arguments.iter().filter(is_given);
        let choices = missing.map(|argument| (argument.name.as_str(), argument.about.as_str()));
        fitting(&self.text, choices)
            .map(|(name, about)| self.becomes(format!("{}=", as_word(name)), about, false))
            .collect()
    }
}

/// The words of an unfinished line. The last word ends at the cursor and may be empty. `None` inside JSON.
fn typed(text: &str) -> Option<Vec<Typed<'_>>> {
    let mut words = Vec::new();
    let mut current = String::new();
    let (mut from, mut quote) = (0, None);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => current.extend(chars.next().map(|(_, c)| c)),
            (None, '\'' | '"') => quote = Some(c),
            (None, '{' | '[') if current.is_empty() || current.ends_with('=') => return None,
            (None, c) if c.is_whitespace() => {
                if at > from {
                    let raw = &text[from..at];
                    let text = std::mem::take(&mut current);
                    words.push(Typed { from, raw, text });
                }
                from = at + c.len_utf8();
            }
            (_, c) => current.push(c),
        }
    }
    words.push(Typed {
        from,
        raw: &text[from..],
        text: current,
    });
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> CompletionNames {
        let argument = |name: &str, values: &[&str]| Argument {
            name: name.to_owned(),
            about: String::new(),
            values: values.iter().map(ToString::to_string).collect(),
        };
        let offer = |name: &str, arguments| CompletionTarget {
            name: name.to_owned(),
            about: "does it".to_owned(),
            arguments,
        };
        CompletionNames {
            servers: ["files", "git", "github"].map(str::to_owned).to_vec(),
            tools: vec![
                offer(
                    "files/read_file",
                    vec![
                        argument("path", &[]),
                        argument("mode", &["fast", "very slow"]),
                    ],
                ),
                offer("git/log", Vec::new()),
                offer("git/odd name", vec![argument("path to", &[])]),
            ],
            prompts: vec![offer("git/greet", vec![argument("name", &[])])],
            resources: vec![("demo://a".to_owned(), "A".to_owned())],
        }
    }

    /// The line after each possible completion. `|` marks the cursor.
    fn after(line: &str) -> Vec<String> {
        let place = line.find('|').expect("a cursor");
        let line = line.replace('|', "");
        let candidates = complete(&line, place, &names());
        let becomes = candidates.into_iter().map(|candidate| {
            let blank = if candidate.is_whole { " " } else { "" };
            format!(
                "{}{}{blank}{}",
                &line[..candidate.from],
                candidate.text,
                &line[candidate.until..]
            )
        });
        becomes.collect()
    }

    #[test]
    fn each_place_has_its_names() {
        for (line, expected) in [
            ("/se|", &["/servers ", "/server "][..]),
            ("he|", &["/health ", "/help "]),
            (
                "/health |",
                &["/health files ", "/health git ", "/health github "],
            ),
            ("/health gi|", &["/health git ", "/health github "]),
            ("/log hub|", &["/log github "]),
            ("/server re|", &["/server reconnect ", "/server restart "]),
            ("/server restart f|", &["/server restart files "]),
            (
                "/server stop git |",
                &["/server stop git files ", "/server stop git github "],
            ),
            ("/server stop --|", &["/server stop --all "]),
            ("/call fi|", &["/call files/read_file "]),
            ("/call read|", &["/call files/read_file "]),
            ("/call odd|", &["/call 'git/odd name' "]),
            (
                "/call files/read_file |",
                &["/call files/read_file path=", "/call files/read_file mode="],
            ),
            (
                "/call files/read_file path=x m|",
                &["/call files/read_file path=x mode="],
            ),
            ("/call files/read_file path=x p|", &[]),
            (
                "/call files/read_file mode=|",
                &[
                    "/call files/read_file mode=fast ",
                    "/call files/read_file mode='very slow' ",
                ],
            ),
            (
                "/call files/read_file mode=f| path=x",
                &["/call files/read_file mode=fast  path=x"],
            ),
            (
                "/call files/read_file mode='very s|",
                &["/call files/read_file mode='very slow' "],
            ),
            (
                "/call 'git/odd name' |",
                &["/call 'git/odd name' 'path to'="],
            ),
            ("/call nobody/x |", &[]),
            ("/call files/read_file {\"pa|", &[]),
            ("/call files/read_file path=[1, |", &[]),
            (
                "/tools g|",
                &[
                    "/tools git ",
                    "/tools github ",
                    "/tools git/log ",
                    "/tools 'git/odd name' ",
                ],
            ),
            ("/prompt git/greet n|", &["/prompt git/greet name="]),
            ("/read d|", &["/read demo://a "]),
            (
                "/records --server g|",
                &["/records --server git ", "/records --server github "],
            ),
            (
                "/records --s|",
                &[
                    "/records --server ",
                    "/records --status ",
                    "/records --since ",
                ],
            ),
            ("/records --limit |", &[]),
            ("/help cal|", &["/help call "]),
            ("/nothing |", &[]),
        ] {
            assert_eq!(after(line), expected, "{line}");
        }
    }

    #[test]
    fn a_place_that_is_none_has_nothing() {
        assert!(complete("/ä", 2, &names()).is_empty());
        assert!(complete("", 5, &names()).is_empty());
        assert_eq!(complete("", 0, &names()).len(), COMMANDS.len());
    }
}
