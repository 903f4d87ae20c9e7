//! Templates of `--format`: text with the fields of an item in braces, such as `{name}\t{pending.cwd}`.

use std::str::FromStr;

use mainstay_core::display::word;
use serde_json::Value;

use super::{CommandError, suggest};

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The path to a value.
    Field(Vec<String>),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    #[error("a `{{` has no `}}`; write `{{{{` for a brace itself")]
    Open,
    #[error("a `}}` has no `{{`; write `}}}}` for a brace itself")]
    Close,
    #[error("there is no field between `{{` and `}}`; write one such as {{name}}")]
    Empty,
    #[error("there is no field in it; write one such as {{name}}")]
    NoField,
}

impl FromStr for OutputTemplate {
    type Err = BadTemplate;

    fn from_str(template: &str) -> Result<Self, BadTemplate> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = template.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '{' | '}' if rest.next_if_eq(&c).is_some() => text.push(c),
                '}' => return Err(BadTemplate::Close),
                '{' => {
                    let mut field = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some(c) if c != '{' => field.push(c),
                            Some(_) | None => return Err(BadTemplate::Open),
                        }
                    }
                    // Templates of Go usually have a leading dot.
                    let field = field.trim().trim_start_matches('.').to_owned();
                    let path: Vec<String> = field.split('.').map(str::to_owned).collect();
                    if path.iter().any(String::is_empty) {
                        return Err(BadTemplate::Empty);
                    }
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    parts.push(Part::Field(path));
                }
                // Shells pass these on unchanged.
                '\\' if rest.next_if_eq(&'t').is_some() => text.push('\t'),
                '\\' if rest.next_if_eq(&'n').is_some() => text.push('\n'),
                c => text.push(c),
            }
        }
        if parts.is_empty() {
            return Err(BadTemplate::NoField);
        }
        parts.push(Part::Text(text));
        Ok(Self(parts))
    }
}

impl OutputTemplate {
    /// Rejects fields that neither the items' type nor any item has.
    pub fn check(&self, field_names: &[String], items: &[Value]) -> Result<(), CommandError> {
        let fields = self.0.iter().filter_map(|part| match part {
            Part::Field(path) => path.first(),
            Part::Text(_) => None,
        });
        for field in fields {
            if field_names.contains(field) || items.iter().any(|item| item.get(field).is_some()) {
                continue;
            }
            let near = suggest::nearest(field, field_names.iter().map(String::as_str));
            let question =
                near.map_or_else(String::new, |name| format!("did you mean {}? ", word(name)));
            return Err(CommandError::Usage {
                message: format!("--format names the field {field:?}, which is not there"),
                hint: Some(format!(
                    "{question}the fields are {}",
                    field_names.join(", ")
                )),
            });
        }
        Ok(())
    }

    /// The text for one item. Missing fields are empty. `escape` escapes a value for display.
    pub fn fill(&self, item: &Value, escape: impl Fn(&str) -> String) -> String {
        let filled = self.0.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Field(path) => {
                let members = path.iter().map(String::as_str);
                field(item, members).map_or_else(String::new, |text| escape(&text))
            }
        });
        filled.collect()
    }
}

/// The text of a value in an item; `None` for `null`.
pub fn field<'p>(item: &Value, mut path: impl Iterator<Item = &'p str>) -> Option<String> {
    let value = path.try_fold(item, |value, key| match value {
        Value::Array(elements) => elements.get(key.parse::<usize>().ok()?),
        value => value.get(key),
    });
    match value? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_stand_in_braces() {
        let item =
            json!({"name": "fs", "pid": 7, "up": true, "none": null, "a": {"b": ["x", "y"]}});
        for (template, expected) in [
            ("{name} {pid}", "fs 7"),
            ("{{{name}}}", "{fs}"),
            ("{.name}\\t{ up }", "fs\ttrue"),
            ("{none}|{absent}|{a.b.1}|{a.b}", r#"||y|["x","y"]"#),
        ] {
            let template: OutputTemplate = template.parse().expect("a template");
            assert_eq!(template.fill(&item, str::to_owned), expected);
        }
        for (template, expected) in [
            ("{name", BadTemplate::Open),
            ("{na{me}}", BadTemplate::Open),
            ("name}", BadTemplate::Close),
            ("{}", BadTemplate::Empty),
            ("{a..b}", BadTemplate::Empty),
            ("name", BadTemplate::NoField),
        ] {
            assert_eq!(
                template.parse::<OutputTemplate>(),
                Err(expected),
                "{template}"
            );
        }
    }

    #[test]
    fn a_field_that_is_not_there_is_refused_and_one_that_may_be_is_not() {
        let fields = ["name".to_owned(), "pid".to_owned()];
        let check = |template: &str, items: &[Value]| {
            let template: OutputTemplate = template.parse().expect("a template");
            template.check(&fields, items).map_err(|error| match error {
                CommandError::Usage { message, hint } => {
                    format!("{message}: {}", hint.unwrap_or_default())
                }
                other => other.to_string(),
            })
        };
        assert_eq!(check("{name} {pid}", &[]), Ok(()));
        assert_eq!(check("{later}", &[json!({"later": 1})]), Ok(()));
        insta::assert_snapshot!(check("{nmae}", &[]).expect_err("refused"), @r#"--format names the field "nmae", which is not there: did you mean name? the fields are name, pid"#);
    }
}
