//! Arguments of a call. They come from the command line, files, stdin, and questions to a person.

use std::{fs, io, io::Read as _};

use mainstay_api::{self as api, Raw};
use mainstay_command_line::{CommandError, screen, suggest};
use mainstay_core::{display, message::foreign};
use mainstay_install::question::{Answers, Format, Question};
use serde_json::{Map, Value, value::RawValue};

use crate::{
    pairs::{self, Pair},
    person::Person,
};

/// The maximum number of argument names in a hint.
const MAX_NAMES: usize = 20;

/// Arguments on the command line.
#[derive(Debug)]
pub enum CallArguments {
    /// All arguments as one JSON object, which is sent unchanged.
    Whole(Raw),
    /// Pairs of a key and a value.
    Pairs(Vec<String>),
}

/// The owner of stdin. Only the owner reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentInput {
    /// The command owns stdin. It reads stdin for `-`, and asks a person there.
    Own,
    /// The shell owns stdin.
    Shells,
}

impl CallArguments {
    /// Reads the arguments: `--args JSON`, `--args @FILE`, `@FILE` or `-` alone, or pairs.
    pub fn read(
        args: Option<&str>,
        words: &[String],
        input: ArgumentInput,
    ) -> Result<Self, CommandError> {
        let mut reader = ArgumentReader {
            input,
            is_read: false,
        };
        let whole = match (args, words) {
            (Some(args), _) => match args.strip_prefix('@') {
                Some(path) => Some(reader.text(path)?),
                None => Some(args.to_owned()),
            },
            (None, [word]) if word == "-" => Some(reader.text("-")?),
            (None, [word]) => match word.strip_prefix('@') {
                Some(path) => Some(reader.text(path)?),
                None => None,
            },
            (None, _) => None,
        };
        if let Some(text) = whole {
            return Ok(Self::Whole(object(&text)?));
        }
        let pairs = words.iter().map(|word| reader.value(word));
        Ok(Self::Pairs(pairs.collect::<Result<_, _>>()?))
    }

    /// True if the tool's schema is needed to complete the arguments.
    pub fn needs_schema(&self) -> bool {
        matches!(self, Self::Pairs(_))
    }

    /// Completes the arguments by the tool's schema. Asks for missing required arguments on a terminal, and
    /// fails elsewhere. An argument that the tool does not have is reported first. Returns `None` if there
    /// are no arguments.
    pub async fn complete(
        self,
        tool: Option<&api::Tool>,
        input: ArgumentInput,
        may_ask: bool,
    ) -> Result<Option<Raw>, CommandError> {
        let words = match self {
            Self::Whole(arguments) => return Ok(Some(arguments)),
            Self::Pairs(words) => words,
        };
        let pairs_on_line = pairs::split(&words)?;
        let schema = tool.map(|tool| tool.input_schema.get());
        let parsed = schema.and_then(|schema| foreign::read(schema).ok());
        let parsed = parsed.unwrap_or_default();
        let missing = missing(&parsed, &pairs_on_line);
        if let (Some(tool), Some(unknown)) = (tool, unknown(&parsed, &pairs_on_line)) {
            let is_refused = !missing.is_empty() || parsed["additionalProperties"] == false;
            if is_refused {
                return Err(not_known(&tool.name, unknown, &parsed));
            }
        }
        let answers = if missing.is_empty() {
            Vec::new()
        } else {
            ask(&missing, input, may_ask).await?
        };
        let answered = answers.iter().map(|(key, value)| (&**key, &**value));
        let pairs: Vec<Pair<'_>> = pairs_on_line.into_iter().chain(answered).collect();
        Ok((!pairs.is_empty()).then(|| pairs::typed(&pairs, schema)))
    }
}

/// Reads files, and stdin at most once.
struct ArgumentReader {
    input: ArgumentInput,
    is_read: bool,
}

impl ArgumentReader {
    /// The text of a file, or of stdin for `-`.
    fn text(&mut self, path: &str) -> Result<String, CommandError> {
        let unreadable = |source| CommandError::Read {
            path: if path == "-" { "stdin" } else { path }.to_owned(),
            source,
        };
        if path != "-" {
            return fs::read_to_string(path).map_err(unreadable);
        }
        let refused = |message: &str, hint: &str| CommandError::Usage {
            message: message.to_owned(),
            hint: Some(hint.to_owned()),
        };
        if self.input == ArgumentInput::Shells {
            return Err(refused(
                "stdin is the shell's own",
                "name a file: @FILE, or KEY=@FILE",
            ));
        }
        if std::mem::replace(&mut self.is_read, true) {
            return Err(refused(
                "stdin can be read once only",
                "put the other value into a file: KEY=@FILE",
            ));
        }
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(unreadable)?;
        Ok(text)
    }

    /// Replaces the value of `KEY=@FILE` by the file's text. `KEY=@@text` is a text that begins with `@`.
    fn value(&mut self, word: &str) -> Result<String, CommandError> {
        let Some((key, value)) = word.split_once('=') else {
            return Ok(word.to_owned());
        };
        match value.strip_prefix('@') {
            None | Some("") => Ok(word.to_owned()),
            Some(text) if text.starts_with('@') => Ok(format!("{key}={text}")),
            Some(path) => Ok(format!("{key}={}", self.text(path)?)),
        }
    }
}

fn object(text: &str) -> Result<Raw, CommandError> {
    let wrong = |reason: String| CommandError::Usage {
        message: format!("the arguments are no JSON object: {reason}"),
        hint: Some("such as --args '{\"text\": \"hello\"}'".to_owned()),
    };
    let arguments =
        RawValue::from_string(text.trim().to_owned()).map_err(|error| wrong(error.to_string()))?;
    if arguments.get().starts_with('{') {
        Ok(arguments)
    } else {
        Err(wrong("it is another kind of JSON".to_owned()))
    }
}

/// Questions for required arguments of a schema that have neither a value nor a default.
fn missing(schema: &Value, pairs: &[Pair<'_>]) -> Vec<Question> {
    let required = schema["required"].as_array().into_iter().flatten();
    let names = required.filter_map(Value::as_str);
    let open = names.filter(|name| !pairs.iter().any(|(key, _)| key == name));
    let open = open.filter(|name| schema["properties"][name].get("default").is_none());
    let questions = open.map(|name| question(name, &schema["properties"][name]));
    questions.collect()
}

/// The first argument that a schema does not have. `None` if the schema does not list all its properties.
fn unknown<'g>(schema: &Value, pairs: &[Pair<'g>]) -> Option<&'g str> {
    const ELSEWHERE: [&str; 9] = [
        "$ref",
        "$dynamicRef",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "dependentSchemas",
        "patternProperties",
        "additionalProperties",
    ];
    let properties = schema["properties"].as_object()?;
    let may_stand_elsewhere = |key: &&str| {
        schema
            .get(*key)
            .is_some_and(|value| *key != "additionalProperties" || value != false)
    };
    if ELSEWHERE.iter().any(may_stand_elsewhere) {
        return None;
    }
    let mut keys = pairs.iter().map(|(key, _)| *key);
    keys.find(|key| !properties.contains_key(*key))
}

fn not_known(tool: &str, argument: &str, schema: &Value) -> CommandError {
    let properties = schema["properties"].as_object();
    let names = properties
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str);
    let near = suggest::nearest(argument, names.clone());
    let listed: Vec<String> = names.take(MAX_NAMES).map(display::word).collect();
    CommandError::Usage {
        message: format!("{tool} has no argument {argument:?}"),
        hint: Some(match (near, &*listed) {
            (Some(near), _) => format!("did you mean {}=…?", display::word(near)),
            (None, []) => "it takes none".to_owned(),
            (None, listed) => format!("it has {}", listed.join(", ")),
        }),
    }
}

fn question(name: &str, property: &Value) -> Question {
    let types = pairs::types(property);
    let is_all =
        |kinds: &[&str]| !types.is_empty() && types.iter().all(|name| kinds.contains(name));
    let text_of = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let choices = property["enum"].as_array().into_iter().flatten();
    Question {
        key: name.to_owned(),
        description: property["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        required: true,
        secret: property["format"] == "password" || property["writeOnly"] == true,
        choices: choices.map(text_of).collect(),
        format: if is_all(&["integer", "number"]) {
            Format::Number
        } else if is_all(&["boolean"]) {
            Format::Boolean
        } else {
            Format::Text
        },
        min: property["minimum"].as_f64(),
        max: property["maximum"].as_f64(),
        // The placeholder appears in the line about a missing argument.
        placeholder: if types.is_empty() {
            "any type".to_owned()
        } else {
            types.join(" or ")
        },
        ..Question::default()
    }
}

/// A person's answers by key. Fails for questions that nobody answers.
async fn ask(
    questions: &[Question],
    input: ArgumentInput,
    may_ask: bool,
) -> Result<Vec<(String, String)>, CommandError> {
    let mut answers = Answers::new();
    if may_ask && screen::stderr_is_terminal() {
        let described: Vec<Question> = questions.iter().map(with_type).collect();
        Person::new()?.answer(&described, &mut answers).await?;
    }
    let open = questions
        .iter()
        .filter(|question| question.is_open(&answers));
    let lines: Vec<String> = open.map(line).collect();
    if lines.is_empty() {
        return Ok(answers
            .into_iter()
            .map(|(key, values)| (key, values.join(" ")))
            .collect());
    }
    let keys = questions
        .iter()
        .map(|question| format!("{}=…", question.key));
    Err(CommandError::Missing {
        lines,
        hint: format!(
            "give {}{}",
            keys.collect::<Vec<_>>().join(" "),
            match input {
                ArgumentInput::Own =>
                    ", all of them by --args, or run it on a terminal to be asked",
                ArgumentInput::Shells => ", or all of them by --args",
            }
        ),
    })
}

/// Adds the type to the description, unless the question shows it elsewhere.
fn with_type(question: &Question) -> Question {
    let mut question = question.clone();
    let names_type = !question.choices.is_empty() || question.placeholder == "string";
    if !names_type {
        let blank = if question.description.is_empty() {
            ""
        } else {
            " "
        };
        question.description = format!("{}{blank}({})", question.description, question.placeholder);
    }
    question
}

/// `text (string)`, `mode (one of: fast, slow)`
fn line(question: &Question) -> String {
    if question.choices.is_empty() {
        return format!("{} ({})", question.key, question.placeholder);
    }
    format!("{} (one of: {})", question.key, question.choices.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_type() {
        let schema = json!({
            "required": ["text", "mode", "count", "flag", "free", "either", "kept", "given"],
            "properties": {
                "text": {"type": "string", "description": "What to say"},
                "mode": {"enum": ["fast", 2]},
                "count": {"type": "integer", "minimum": 1},
                "flag": {"type": "boolean"},
                "either": {"type": ["string", "null"]},
                "kept": {"type": "string", "default": "x"},
                "given": {"type": "string"},
            },
        });
        let missing = missing(&schema, &[("given", "x"), ("other", "1")]);
        let lines: Vec<String> = missing.iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "text (string)",
                "mode (one of: fast, 2)",
                "count (integer)",
                "flag (boolean)",
                "free (any type)",
                "either (string or null)",
            ]
        );
        assert_eq!(missing[2].format, Format::Number);
        assert!(missing[2].check(&["0".to_owned()]).is_err());
        assert_eq!(with_type(&missing[0]).description, "What to say");
        assert_eq!(with_type(&missing[3]).description, "(boolean)");
        for schema in [
            json!(null),
            json!({"required": 7}),
            json!({"required": [7]}),
        ] {
            assert!(super::missing(&schema, &[]).is_empty());
        }
    }

    #[test]
    fn an_argument_that_the_tool_has_not_is_named() {
        let schema = json!({
            "required": ["text"],
            "properties": {"text": {"type": "string"}, "mode": {"type": "string"}},
        });
        let refusal = |schema: &Value, pairs: &[Pair<'static>]| {
            let error = not_known("files/echo", unknown(schema, pairs)?, schema);
            match error {
                CommandError::Usage { message, hint } => Some((message, hint.unwrap_or_default())),
                other => panic!("{other}"),
            }
        };
        let refused = |message: &str, hint: &str| Some((message.to_owned(), hint.to_owned()));
        assert_eq!(
            refusal(&schema, &[("mode", "x"), ("txt", "1")]),
            refused("files/echo has no argument \"txt\"", "did you mean text=…?")
        );
        assert_eq!(
            refusal(&schema, &[("colour", "1")]),
            refused("files/echo has no argument \"colour\"", "it has text, mode")
        );
        assert_eq!(
            refusal(&json!({"properties": {}}), &[("a", "1")]),
            refused("files/echo has no argument \"a\"", "it takes none")
        );
        assert_eq!(unknown(&schema, &[("text", "1")]), None);
        // A schema that allows further properties makes no argument unknown.
        for (key, value) in [
            ("additionalProperties", json!(true)),
            ("additionalProperties", json!({"type": "string"})),
            ("patternProperties", json!({"^t": {}})),
            ("allOf", json!([{}])),
        ] {
            let mut schema = schema.clone();
            schema[key] = value;
            assert_eq!(unknown(&schema, &[("txt", "1")]), None, "{key}");
        }
        assert_eq!(unknown(&json!({"type": "object"}), &[("txt", "1")]), None);
    }

    #[test]
    fn values_come_from_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("text");
        fs::write(&path, "a\nb").expect("written");
        let path = path.to_str().expect("UTF-8");
        let read = |args: Option<&str>, words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            CallArguments::read(args, &words, ArgumentInput::Shells)
        };
        let pairs = read(None, &[&format!("a=@{path}"), "b=@@x", "c=@", "d=x@y", "e"]);
        let Ok(CallArguments::Pairs(pairs)) = pairs else {
            panic!("{pairs:?}")
        };
        assert_eq!(pairs, ["a=a\nb", "b=@x", "c=@", "d=x@y", "e"]);
        fs::write(path, " {\"a\": 1.0} ").expect("written");
        for arguments in [
            read(None, &[&format!("@{path}")]),
            read(Some(&format!("@{path}")), &[]),
            read(Some("{\"a\": 1.0}"), &[]),
        ] {
            let Ok(CallArguments::Whole(whole)) = arguments else {
                panic!("{arguments:?}")
            };
            assert_eq!(whole.get(), "{\"a\": 1.0}");
        }
        for (args, words) in [
            (None, &["-"][..]),
            (None, &["a=@-"]),
            (Some("@-"), &[]),
            (Some("[1]"), &[]),
            (Some("{"), &[]),
            (None, &["@/no/such/file"]),
        ] {
            read(args, words).expect_err("refused");
        }
    }
}
