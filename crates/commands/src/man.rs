//! `mainstay man`: writes the manual pages.

use std::{fs, io, path::PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use mainstay_command_line::{CommandError, Exit, output};
use serde_json::json;

/// The footer of a page.
const SOURCE: &str = concat!("mainstay ", env!("CARGO_PKG_VERSION"));

const EXAMPLES: &str = "\
Examples:
  mainstay man | man -l -
  mainstay man --dir ~/.local/share/man/man1     then: man mainstay-call";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ManPages {
    /// Write a page of every command to this folder, instead of printing the first one
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print the files that were written as JSON on stdout
    #[arg(long, requires = "dir")]
    pub json: bool,
}

impl ManPages {
    /// Writes the page of this command, or with `--dir` the pages of all its subcommands, too.
    pub fn run(self, command: Command) -> Result<Exit, CommandError> {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        let Some(dir) = self.dir else {
            let (_, page) = page(&command).map_err(CommandError::Output)?;
            output::data(&page)?;
            return Ok(Exit::DONE);
        };
        let failed = |source| CommandError::Write {
            path: dir.display().to_string(),
            source,
        };
        fs::create_dir_all(&dir).map_err(failed)?;
        let mut pages = Vec::new();
        let mut save = |command: &Command| {
            let (name, page) = page(command)?;
            fs::write(dir.join(&name), page)?;
            pages.push(name);
            Ok(())
        };
        each(&command, &mut save).map_err(failed)?;
        if self.json {
            output::json(&json!({"dir": dir, "pages": pages}))?;
        } else {
            let count = output::count(pages.len(), "page");
            output::line(&format!("{count} written to {}", dir.display()))?;
        }
        Ok(Exit::DONE)
    }
}

/// Calls `save` for a command and its subcommands.
fn each(command: &Command, save: &mut impl FnMut(&Command) -> io::Result<()>) -> io::Result<()> {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        each(subcommand, save)?;
    }
    save(command)
}

/// The file name of a page, and its text.
fn page(command: &Command) -> io::Result<(String, String)> {
    let page = Man::new(command.clone()).source(SOURCE);
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok((page.get_filename(), with_examples(&text)))
}

/// Prints examples unchanged and without an indent, because they are as wide as a terminal.
fn with_examples(page: &str) -> String {
    const EXTRA: &str = ".SH EXTRA\n";
    let Some((before, extra)) = page.split_once(EXTRA) else {
        return page.to_owned();
    };
    let end = extra.find("\n.SH ").map_or(extra.len(), |at| at + 1);
    let (extra, after) = extra.split_at(end);
    // The section's title replaces the first line.
    let extra = extra.strip_prefix("Examples:\n").unwrap_or(extra);
    format!("{before}.SH EXAMPLES\n.in 0\n.nf\n{extra}.fi\n{after}")
}
