//! `mainstay config show`: prints the configuration as Mainstay understands it.

use clap::{Args, ValueEnum};
use mainstay_command_line::{CommandError, output, screen::complain, yaml};
use mainstay_config::{
    Defaults, Syntax,
    edit::{self, Document},
    file_view,
};
use mainstay_platform::environment::ConfigurationSource;

use super::super::import;

#[derive(Debug, Args)]
pub struct Show {
    /// Print settings that the file leaves alone, too
    #[arg(long)]
    defaults: bool,
    /// Print json (one line, as --json) or yaml [default: JSON on many lines]
    #[arg(
        short,
        long,
        value_name = "FORM",
        conflicts_with = "json",
        hide_possible_values = true
    )]
    output: Option<Form>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Json,
    Yaml,
}

impl Show {
    pub fn is_json(&self) -> bool {
        self.output == Some(Form::Json)
    }

    pub fn run(&self, origin: &ConfigurationSource, json: bool) -> Result<(), CommandError> {
        let path = origin
            .path()
            .ok_or_else(|| import::no_home("the configuration"))?;
        let text = origin.text()?;
        if text.is_none() && !json {
            let path = path.display();
            complain(&format!("there is no {path} yet, and so no servers"));
        }
        let text = text.unwrap_or_else(|| edit::EMPTY.to_owned());
        let loaded = origin.parse_kept(&text)?;
        let document = Document::read(&text, Syntax::of_path(&path));
        let document = document.map_err(|error| import::unusable(&path, &error))?;
        let defaults = if self.defaults {
            Defaults::Shown
        } else {
            Defaults::LeftOut
        };
        let settings = file_view(&loaded.config, &document, defaults);
        match self.output {
            Some(Form::Yaml) => output::data(&yaml::document(&settings)),
            Some(Form::Json) => output::json(&settings),
            None if json => output::json(&settings),
            None => output::pretty(&settings),
        }
    }
}
