//! `-o` and `--format`: the output format of commands that list.

use clap::{Args, ValueEnum};
use mainstay_core::message::foreign;
use serde::Serialize;
use serde_json::Value;
use utoipa::PartialSchema;

use super::{
    CommandError, output,
    template::{self, OutputTemplate},
    yaml,
};

/// The options of commands that list or get.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputShape {
    /// Print a table, json, yaml, wide (a table with all columns, nothing cut) or name
    #[arg(
        short,
        long,
        value_name = "FORM",
        global = true,
        conflicts_with = "json",
        hide_possible_values = true
    )]
    output: Option<Form>,
    /// Print this for each item, with its fields in braces, such as '{name} {status}'; --json shows
    /// the fields
    #[arg(long, value_name = "TEMPLATE", global = true, conflicts_with_all = ["json", "output"])]
    format: Option<OutputTemplate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    Table,
    Json,
    Yaml,
    Wide,
    Name,
}

/// The options of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tabular {
    /// All columns, nothing cut.
    pub wide: bool,
}

/// A command's result, and the items in it.
pub struct ItemList<'v, T> {
    pub whole: &'v T,
    /// The members that hold arrays of items, or objects of items by name. Empty if the whole result is one
    /// item.
    pub items: &'static [&'static str],
    /// The fields that may name an item, such as `server.name`. The first existing one is used.
    pub names: &'static [&'static str],
    /// The fields that an item may have.
    pub fields: Vec<String>,
}

impl OutputShape {
    /// True if errors are JSON, too.
    pub fn is_json(&self) -> bool {
        self.output == Some(Form::Json)
    }

    /// True if the output is JSON. For results that are not a list.
    pub fn only_json(&self, json: bool) -> Result<bool, CommandError> {
        match (self.output, &self.format) {
            (Some(Form::Yaml | Form::Wide | Form::Name), _) | (_, Some(_)) => {
                Err(CommandError::Usage {
                    message: "-o and --format are for lists, and this is none".to_owned(),
                    hint: Some("-o json prints the answer as JSON".to_owned()),
                })
            }
            (form, None) => Ok(json || form == Some(Form::Json)),
        }
    }

    /// The output of `--watch`: a table, or `None` for lines of JSON.
    pub fn watched(&self, json: bool) -> Result<Option<Tabular>, CommandError> {
        match self.output.unwrap_or(Form::Table) {
            _ if json => Ok(None),
            Form::Json => Ok(None),
            Form::Table => Ok(Some(Tabular { wide: false })),
            Form::Wide => Ok(Some(Tabular { wide: true })),
            Form::Yaml | Form::Name => Err(CommandError::Usage {
                message: "--watch shows tables and JSON only".to_owned(),
                hint: Some("use -o table, -o wide or -o json with it".to_owned()),
            }),
        }
    }

    /// Checks that items can be printed one after the other.
    pub fn followed(&self) -> Result<(), CommandError> {
        if self.output != Some(Form::Yaml) {
            return Ok(());
        }
        Err(CommandError::Usage {
            message: "what is followed is no YAML document, for it has no end".to_owned(),
            hint: Some("use -o json with it, which is a line for each".to_owned()),
        })
    }

    /// True for names or lines of a template, which are printed without anything around them.
    pub fn is_of_items(&self) -> bool {
        self.format.is_some() || self.output == Some(Form::Name)
    }

    /// Prints the result, except for a table, which the caller prints.
    pub fn print<T: Serialize>(
        &self,
        json: bool,
        found: &ItemList<'_, T>,
    ) -> Result<Option<Tabular>, CommandError> {
        if let Some(template) = &self.format {
            let items = found.items()?;
            template.check(&found.fields, &items)?;
            for item in items {
                let line = template.fill(&item, |text| output::one_line(text).into_owned());
                output::text(&line)?;
            }
            return Ok(None);
        }
        match self.output.unwrap_or(Form::Table) {
            _ if json => output::json(found.whole)?,
            Form::Table => return Ok(Some(Tabular { wide: false })),
            Form::Wide => return Ok(Some(Tabular { wide: true })),
            Form::Json => output::json(found.whole)?,
            Form::Yaml => output::data(&yaml::document(&value(found.whole)?))?,
            Form::Name => {
                for item in found.items()? {
                    let name = found
                        .names
                        .iter()
                        .find_map(|name| template::field(&item, name.split('.')));
                    output::line(&name.unwrap_or_default())?;
                }
            }
        }
        Ok(None)
    }
}

impl<'v, T: Serialize> ItemList<'v, T> {
    /// A list of items of a type of the REST API in a member of the result.
    pub fn list<I: PartialSchema>(
        whole: &'v T,
        items: &'static [&'static str],
        names: &'static [&'static str],
    ) -> Self {
        Self {
            whole,
            items,
            names,
            fields: fields_of::<I>(),
        }
    }

    /// A single item.
    pub fn one(whole: &'v T, names: &'static [&'static str]) -> Self
    where
        T: PartialSchema,
    {
        Self::list::<T>(whole, &[], names)
    }

    fn items(&self) -> Result<Vec<Value>, CommandError> {
        let mut whole = value(self.whole)?;
        if self.items.is_empty() {
            return Ok(vec![whole]);
        }
        let arrays = self
            .items
            .iter()
            .filter_map(|member| whole.get_mut(member).map(Value::take));
        let items = arrays.flat_map(|array| match array {
            Value::Array(items) => items,
            Value::Object(items) => items.into_iter().map(with_name).collect(),
            _ => Vec::new(),
        });
        Ok(items.collect())
    }
}

/// An item with its name as a field.
fn with_name((name, mut item): (String, Value)) -> Value {
    if let Some(item) = item.as_object_mut() {
        item.shift_insert(0, "name".to_owned(), name.into());
    }
    item
}

/// Converts through text, because raw parts serialize to nothing else.
pub fn value(whole: &impl Serialize) -> Result<Value, CommandError> {
    let text = serde_json::to_string(whole);
    let value = text.and_then(|text| foreign::read(&text));
    value.map_err(|error| CommandError::Output(error.into()))
}

/// The fields of a type of the REST API, from its schema.
fn fields_of<T: PartialSchema>() -> Vec<String> {
    let schema = serde_json::to_value(T::schema()).unwrap_or_default();
    let mut parts = vec![&schema];
    parts.extend(schema["allOf"].as_array().into_iter().flatten());
    let fields = parts
        .iter()
        .filter_map(|part| part["properties"].as_object());
    fields.flat_map(|fields| fields.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use mainstay_api as api;

    use super::*;

    #[test]
    fn the_fields_are_those_of_the_rest_api() {
        let fields = fields_of::<api::Server>();
        for field in ["name", "status", "pid", "nextRetryMs"] {
            assert!(fields.iter().any(|listed| listed == field), "{fields:?}");
        }
        assert!(!fields_of::<api::CallRecord>().is_empty());
    }
}
