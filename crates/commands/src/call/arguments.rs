//! Arguments of a call: as they are typed, from files and stdin, and asked for where a schema needs them.

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

/// Names of arguments that a hint lists.
const SHOWN_NAMES: usize = 20;

/// What was given on the command line.
#[derive(Debug)]
pub enum Given {
    /// All arguments as they are to be sent.
    Whole(Raw),
    /// Keys, and values as they are typed.
    Pairs(Vec<String>),
}

/// Where arguments may come from beside the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Stdin is the command's own: it is read where `-` says so, and a person is asked at it.
    Own,
    /// Stdin is the shell's.
    Shells,
}

impl Given {
    /// Reads what is named: `--args JSON`, `--args @FILE`, `@FILE` or `-` alone, or pairs.
    pub fn read(args: Option<&str>, words: &[String], input: Input) -> Result<Self, CommandError> {
        let mut source = Source {
            input,
            is_read: false,
        };
        let whole = match (args, words) {
            (Some(args), _) => match args.strip_prefix('@') {
                Some(path) => Some(source.text(path)?),
                None => Some(args.to_owned()),
            },
            (None, [word]) if word == "-" => Some(source.text("-")?),
            (None, [word]) => match word.strip_prefix('@') {
                Some(path) => Some(source.text(path)?),
                None => None,
            },
            (None, _) => None,
        };
        if let Some(text) = whole {
            return Ok(Self::Whole(object(&text)?));
        }
        let pairs = words.iter().map(|word| source.value(word));
        Ok(Self::Pairs(pairs.collect::<Result<_, _>>()?))
    }

    /// Whether the tool's schema must be known.
    pub fn needs_schema(&self) -> bool {
        matches!(self, Self::Pairs(_))
    }

    /// The arguments by the tool's schema. What it needs and is not there is asked for on a terminal, and named
    /// elsewhere; a name that it does not have is named first. `None` where there are none.
    pub async fn complete(
        self,
        tool: Option<&api::Tool>,
        input: Input,
        asks: bool,
    ) -> Result<Option<Raw>, CommandError> {
        let words = match self {
            Self::Whole(arguments) => return Ok(Some(arguments)),
            Self::Pairs(words) => words,
        };
        let given = pairs::split(&words)?;
        let schema = tool.map(|tool| tool.input_schema.get());
        let parsed = schema.and_then(|schema| foreign::read(schema).ok());
        let parsed = parsed.unwrap_or_default();
        let missing = missing(&parsed, &given);
        if let (Some(tool), Some(unknown)) = (tool, unknown(&parsed, &given)) {
            let is_refused = !missing.is_empty() || parsed["additionalProperties"] == false;
            if is_refused {
                return Err(not_known(&tool.name, unknown, &parsed));
            }
        }
        let answers = if missing.is_empty() {
            Vec::new()
        } else {
            ask(&missing, input, asks).await?
        };
        let answers = answers.iter().map(|(key, value)| (&**key, &**value));
        let pairs: Vec<Pair<'_>> = given.into_iter().chain(answers).collect();
        Ok((!pairs.is_empty()).then(|| pairs::typed(&pairs, schema)))
    }
}

/// Reads files, and stdin once.
struct Source {
    input: Input,
    is_read: bool,
}

impl Source {
    /// The text of a file, or of stdin, which is `-`.
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
        if self.input == Input::Shells {
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

    /// `KEY=@FILE` with the file's text in its place; `KEY=@@text` is a text with one `@`.
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

/// The arguments that a schema needs and that are not given.
fn missing(schema: &Value, given: &[Pair<'_>]) -> Vec<Question> {
    let required = schema["required"].as_array().into_iter().flatten();
    let names = required.filter_map(Value::as_str);
    let open = names.filter(|name| !given.iter().any(|(key, _)| key == name));
    let open = open.filter(|name| schema["properties"][name].get("default").is_none());
    let questions = open.map(|name| question(name, &schema["properties"][name]));
    questions.collect()
}

/// The first given argument that a schema does not have, where it says which there are.
fn unknown<'g>(schema: &Value, given: &[Pair<'g>]) -> Option<&'g str> {
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
            .is_some_and(|it| *key != "additionalProperties" || it != false)
    };
    if ELSEWHERE.iter().any(may_stand_elsewhere) {
        return None;
    }
    let mut keys = given.iter().map(|(key, _)| *key);
    keys.find(|key| !properties.contains_key(*key))
}

fn not_known(tool: &str, argument: &str, schema: &Value) -> CommandError {
    let properties = schema["properties"].as_object();
    let names = properties
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str);
    let meant = suggest::nearest(argument, names.clone());
    let known: Vec<String> = names.take(SHOWN_NAMES).map(display::word).collect();
    CommandError::Usage {
        message: format!("{tool} has no argument {argument:?}"),
        hint: Some(match (meant, &*known) {
            (Some(meant), _) => format!("did you mean {}=…?", display::word(meant)),
            (None, []) => "it takes none".to_owned(),
            (None, known) => format!("it has {}", known.join(", ")),
        }),
    }
}

fn question(name: &str, property: &Value) -> Question {
    let types = pairs::types(property);
    let is_all = |kinds: &[&str]| !types.is_empty() && types.iter().all(|it| kinds.contains(it));
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
        // Shown where it is missing.
        placeholder: if types.is_empty() {
            "any type".to_owned()
        } else {
            types.join(" or ")
        },
        ..Question::default()
    }
}

/// The answers of a person by their keys, where a person is there.
async fn ask(
    questions: &[Question],
    input: Input,
    asks: bool,
) -> Result<Vec<(String, String)>, CommandError> {
    let mut answers = Answers::new();
    if asks && screen::stderr_is_terminal() {
        let described: Vec<Question> = questions.iter().map(with_type).collect();
        Person::new()?.answer(&described, &mut answers).await?;
    }
    let open = questions.iter().filter(|it| it.is_open(&answers));
    let lines: Vec<String> = open.map(line).collect();
    if lines.is_empty() {
        let answers = answers.into_iter();
        return Ok(answers
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
                Input::Own => ", all of them by --args, or run it on a terminal to be asked",
                Input::Shells => ", or all of them by --args",
            }
        ),
    })
}

/// Says the type where nothing else does.
fn with_type(question: &Question) -> Question {
    let mut question = question.clone();
    let is_said = !question.choices.is_empty() || question.placeholder == "string";
    if !is_said {
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
        let refusal = |schema: &Value, given: &[Pair<'static>]| {
            let error = not_known("files/echo", unknown(schema, given)?, schema);
            match error {
                CommandError::Usage { message, hint } => Some((message, hint.unwrap_or_default())),
                other => panic!("{other}"),
            }
        };
        let said = |message: &str, hint: &str| Some((message.to_owned(), hint.to_owned()));
        assert_eq!(
            refusal(&schema, &[("mode", "x"), ("txt", "1")]),
            said("files/echo has no argument \"txt\"", "did you mean text=…?")
        );
        assert_eq!(
            refusal(&schema, &[("colour", "1")]),
            said("files/echo has no argument \"colour\"", "it has text, mode")
        );
        assert_eq!(
            refusal(&json!({"properties": {}}), &[("a", "1")]),
            said("files/echo has no argument \"a\"", "it takes none")
        );
        assert_eq!(unknown(&schema, &[("text", "1")]), None);
        // Where others may stand, none is unknown.
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
            Given::read(args, &words, Input::Shells)
        };
        let pairs = read(None, &[&format!("a=@{path}"), "b=@@x", "c=@", "d=x@y", "e"]);
        let Ok(Given::Pairs(pairs)) = pairs else {
            panic!("{pairs:?}")
        };
        assert_eq!(pairs, ["a=a\nb", "b=@x", "c=@", "d=x@y", "e"]);
        fs::write(path, " {\"a\": 1.0} ").expect("written");
        for given in [
            read(None, &[&format!("@{path}")]),
            read(Some(&format!("@{path}")), &[]),
            read(Some("{\"a\": 1.0}"), &[]),
        ] {
            let Ok(Given::Whole(whole)) = given else {
                panic!("{given:?}")
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
