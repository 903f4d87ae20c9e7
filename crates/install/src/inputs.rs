//! Turns the inputs of server.json into questions, and the answers into texts.
//!
//! An input with a `value` is fixed, except for the variables in the value. Any other input becomes a
//! question.

use std::collections::BTreeMap;

use crate::{
    listing::{Input, Package, Transport},
    literal::literal,
    question::{Answers, Format, Question},
    recipe::Text,
};

/// The maximum number of inputs of one package or remote.
const MAX_INPUTS: usize = 200;

/// The maximum length of an input's name.
const MAX_KEY: usize = 200;

/// The reason that an input cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadInput {
    #[error("it has more than {MAX_INPUTS} inputs")]
    TooMany,
    #[error("an input has no name")]
    Nameless,
    #[error("the name {0:?} cannot be that of {1}")]
    Name(String, &'static str),
    #[error("the argument {0:?} is neither named nor positional")]
    Argument(String),
}

/// The form of an argument on the command line.
enum Shape {
    /// The name alone. Present if the switch is on.
    Switch,
    /// The name and a value.
    Named,
    Positional,
}

pub fn of_package(package: &Package) -> Result<Vec<Question>, BadInput> {
    let arguments = package
        .runtime_arguments
        .iter()
        .chain(&package.package_arguments);
    let mut questions = Questions::default();
    for argument in arguments {
        questions.argument(argument)?;
    }
    for variable in &package.environment_variables {
        let name = variable.name.as_deref().unwrap_or_default();
        if !is_variable(name) {
            return Err(BadInput::Name(name.to_owned(), "an environment variable"));
        }
        questions.input(name, variable)?;
    }
    Ok(questions.0)
}

pub fn of_remote(transport: &Transport) -> Result<Vec<Question>, BadInput> {
    let mut questions = Questions::default();
    for (name, variable) in &transport.variables {
        if in_braces(transport.url.as_deref().unwrap_or_default(), name) {
            questions.input(name, variable)?;
        }
    }
    for header in &transport.headers {
        let name = header.name.as_deref().unwrap_or_default();
        if !is_header(name) {
            return Err(BadInput::Name(name.to_owned(), "a header"));
        }
        questions.input(name, header)?;
    }
    Ok(questions.0)
}

#[derive(Default)]
struct Questions(Vec<Question>);

impl Questions {
    fn argument(&mut self, argument: &Input) -> Result<(), BadInput> {
        let shape = shape(argument)?;
        let key = key(argument);
        if key.is_empty() && argument.value.is_none() {
            return Err(BadInput::Nameless);
        }
        match shape {
            // A required switch needs no question.
            Shape::Switch if argument.is_required || argument.value.is_some() => Ok(()),
            Shape::Switch => self.ask(Question {
                format: Format::Boolean,
                ..question(&key, argument)
            }),
            Shape::Named | Shape::Positional => self.input(&key, argument),
        }
    }

    /// Adds a question for an input, or for each variable in its value.
    fn input(&mut self, key: &str, input: &Input) -> Result<(), BadInput> {
        let Some(value) = &input.value else {
            return self.ask(question(key, input));
        };
        for (name, variable) in &input.variables {
            if !in_braces(value, name) {
                continue;
            }
            let question = question(name, variable);
            self.ask(Question {
                repeated: input.is_repeated,
                secret: question.secret || input.is_secret,
                ..question
            })?;
        }
        Ok(())
    }

    /// Adds a question. Inputs with the same name share one answer.
    fn ask(&mut self, question: Question) -> Result<(), BadInput> {
        if question.key.is_empty() || question.key.len() > MAX_KEY {
            return Err(BadInput::Nameless);
        }
        if let Some(earlier) = self
            .0
            .iter_mut()
            .find(|earlier| earlier.key == question.key)
        {
            earlier.required |= question.required;
            earlier.secret |= question.secret;
            earlier.repeated |= question.repeated;
            return Ok(());
        }
        if self.0.len() >= MAX_INPUTS {
            return Err(BadInput::TooMany);
        }
        self.0.push(question);
        Ok(())
    }
}

fn question(key: &str, input: &Input) -> Question {
    let fixed = input.value.iter().chain(&input.default);
    Question {
        key: key.to_owned(),
        description: input.description.clone().unwrap_or_default(),
        required: input.is_required,
        secret: input.is_secret,
        // Escape the default: a publisher's text must not contain references.
        default: fixed.take(1).map(|value| literal(value)).collect(),
        choices: input.choices.clone(),
        placeholder: input.placeholder.clone().unwrap_or_default(),
        format: match input.format.as_deref() {
            Some("number") => Format::Number,
            Some("boolean") => Format::Boolean,
            Some("filepath") => Format::Path,
            _ => Format::Text,
        },
        repeated: input.is_repeated,
        ..Question::default()
    }
}

/// The key of the question for an argument.
fn key(argument: &Input) -> String {
    let name = argument
        .name
        .as_deref()
        .filter(|_| argument.kind.as_deref() == Some("named"));
    let hint = argument.value_hint.as_deref().or(argument.name.as_deref());
    let name = name.or(hint).unwrap_or_default();
    name.trim_start_matches('-').to_owned()
}

fn shape(argument: &Input) -> Result<Shape, BadInput> {
    let name = argument.name.as_deref().unwrap_or_default();
    match argument.kind.as_deref() {
        Some("positional") => Ok(Shape::Positional),
        Some("named") if !name.starts_with('-') || name.contains(char::is_whitespace) => {
            Err(BadInput::Name(name.to_owned(), "an option"))
        }
        Some("named") => {
            let says_nothing = argument.value.as_deref().unwrap_or_default().is_empty()
                && argument.default.is_none()
                && argument.choices.is_empty()
                && argument.placeholder.is_none()
                && argument.value_hint.is_none()
                && argument.format.is_none();
            let is_flag = argument.value.is_none() && argument.format.as_deref() == Some("boolean");
            Ok(if says_nothing || is_flag {
                Shape::Switch
            } else {
                Shape::Named
            })
        }
        _ => Err(BadInput::Argument(name.to_owned())),
    }
}

/// The words of an argument on a command line.
pub fn words(argument: &Input, answers: &Answers) -> Result<Vec<Text>, BadInput> {
    let shape = shape(argument)?;
    let name = || Text::literal(argument.name.as_deref().unwrap_or_default());
    let texts = texts(&key(argument), argument, answers);
    Ok(match shape {
        Shape::Switch => {
            let always =
                argument.format.is_none() && (argument.is_required || argument.value.is_some());
            let is_on = texts.first().is_some_and(|text| text.value == "true");
            if always || is_on {
                vec![name()]
            } else {
                Vec::new()
            }
        }
        Shape::Named => texts.into_iter().flat_map(|text| [name(), text]).collect(),
        Shape::Positional => texts,
    })
}

/// The values of an input. None if the input is unset, several if it is repeated.
pub fn texts(key: &str, input: &Input, answers: &Answers) -> Vec<Text> {
    let Some(value) = &input.value else {
        let question = question(key, input);
        let values = question.values(answers).iter();
        let text = |value: &String| Text {
            value: value.clone(),
            is_secret: input.is_secret,
        };
        return values.map(text).collect();
    };
    let mut variables = BTreeMap::new();
    for (name, variable) in &input.variables {
        if in_braces(value, name) {
            let question = question(name, variable);
            let values = question.values(answers).to_vec();
            if values.is_empty() {
                // Omit a text with an unset variable.
                return Vec::new();
            }
            variables.insert(
                name.as_str(),
                (values, variable.is_secret || input.is_secret),
            );
        }
    }
    let times = variables
        .values()
        .map(|(values, _)| values.len())
        .max()
        .unwrap_or(1);
    let nth = |n: usize| {
        filled(value, |name| {
            let (values, is_secret) = variables.get(name)?;
            Some(Text {
                value: values.get(n).or(values.last())?.clone(),
                is_secret: *is_secret,
            })
        })
    };
    let mut texts: Vec<Text> = (0..times).map(nth).collect();
    for text in &mut texts {
        text.is_secret |= input.is_secret;
    }
    texts
}

/// A header or an environment variable.
pub struct Named<'i> {
    pub name: &'i str,
    pub input: &'i Input,
}

pub fn named(inputs: &[Input]) -> Vec<Named<'_>> {
    let named = inputs.iter().filter_map(|input| {
        let name = input.name.as_deref()?;
        Some(Named { name, input })
    });
    named.collect()
}

/// The URL of a remote.
pub fn url(transport: &Transport, answers: &Answers) -> Text {
    let template = transport.url.as_deref().unwrap_or_default();
    filled(template, |name| {
        let variable = transport.variables.get(name)?;
        Some(Text {
            value: question(name, variable).values(answers).first()?.clone(),
            is_secret: variable.is_secret,
        })
    })
}

/// Replaces the variables in a publisher's text. Unknown variables stay unchanged.
fn filled(template: &str, value: impl Fn(&str) -> Option<Text>) -> Text {
    let mut out = Text::default();
    let mut rest = template;
    while let Some((before, from)) = rest.split_once('{') {
        out.push_literal(before);
        let found = from
            .split_once('}')
            .and_then(|(name, after)| Some((value(name)?, after)));
        if let Some((text, after)) = found {
            out.push(&text);
            rest = after;
        } else {
            out.push_literal("{");
            rest = from;
        }
    }
    out.push_literal(rest);
    out
}

fn in_braces(text: &str, name: &str) -> bool {
    text.contains(&format!("{{{name}}}"))
}

fn is_variable(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= MAX_KEY
        && name
            .bytes()
            .next()
            .is_some_and(|byte| !byte.is_ascii_digit())
        && name.bytes().all(is_good)
}

/// True for a valid name of a header: a token (RFC 9110, 5.6.2).
fn is_header(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= MAX_KEY && name.bytes().all(is_good)
}
