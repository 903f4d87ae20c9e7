//! `mainstay export`: converts the servers, or an entry of Mainstay itself, to the form of a client's file.
//! Prints the result, or writes it to that file.

use std::path::PathBuf;

use clap::Args;
use mainstay_client_files::{
    ClientFile, ClientKind, DEFAULT_URL, EditError, EntryChange, ImportNote, OwnEntry, Section,
    apply, back_up, block, entry_for, files_of, left_out_by_list, point_at_mainstay, read_file,
    value, write,
};
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    screen::complain,
};
use mainstay_config::{Syntax, edit::Document};
use mainstay_platform::environment::ConfigurationSource;
use serde_json::{Value, json};

use super::{import, own_entry};

const EXAMPLES: &str = "\
Examples:
  mainstay export --for codex            your servers, in the words of Codex
  mainstay export --for zed --write      put them into the file of Zed
  mainstay export --for vscode --http    the entry with the daemon's URL
  mainstay export --for cursor --connect --write --replace
                                         have Cursor use Mainstay alone

Without --connect and --http the servers themselves are exported, each as the
client would start it: the client then does without Mainstay. What is printed
holds the secrets of the configuration.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// The client, such as claude-desktop or codex; `mainstay import --help` lists them
    #[arg(long = "for", value_name = "CLIENT")]
    client: String,
    /// Export one entry that starts `mainstay connect`, instead of the servers
    #[arg(long, conflicts_with = "http")]
    connect: bool,
    /// Export one entry with the URL of Mainstay, instead of the servers
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = DEFAULT_URL)]
    http: Option<String>,
    /// Put it into the client's file, which is backed up, instead of printing it
    #[arg(long)]
    write: bool,
    /// Take the client's own servers out of its file
    #[arg(long, requires = "write")]
    replace: bool,
    /// The client's file [default: its usual place]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The configuration whose servers are exported [default: the one that `mainstay serve` would read]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what was done as JSON on stdout, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
}

/// The client's file after the export.
struct Edited {
    text: String,
    /// The client's own servers that were removed.
    removed: Vec<String>,
    notes: Vec<(String, ImportNote)>,
}

/// The changes to the client's file.
struct Exported {
    changes: Vec<EntryChange>,
    /// Settings that the client does not support, each with its server.
    notes: Vec<(String, ImportNote)>,
}

impl RunCommand for Export {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::printing(self.json)
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let client: ClientKind = self
            .client
            .parse()
            .map_err(|_| import::unknown(&self.client))?;
        let file = self.client_file(client)?;
        let text = match read_file(file.clone()) {
            Some(found) => found
                .text
                .map_err(|error| refused(&file, &error.to_string()))?,
            None => String::new(),
        };
        let own_entry = self.own_entry(client)?;
        if !self.write {
            return self.print(&file, &text, own_entry.as_ref());
        }
        let edited = match &own_entry {
            Some(own_entry) => {
                let pointed = point_at_mainstay(&file, &text, own_entry, |_| self.replace);
                pointed.map(|pointed| Edited {
                    text: pointed.text,
                    removed: pointed.removed,
                    notes: pointed
                        .left_out
                        .map(|note| (pointed.label, note))
                        .into_iter()
                        .collect(),
                })
            }
            None => self.with_servers(&file, &text)?,
        };
        let Edited {
            text: new,
            removed,
            notes,
        } = match edited {
            Ok(edited) => edited,
            Err(EditError::Unwritable {
                reason,
                block,
                remove,
            }) => {
                return self.paste(&file, &reason, &block, &remove);
            }
            Err(error) => return Err(refused(&file, &error.to_string())),
        };
        let is_changed = new != text;
        let backup = if is_changed {
            let failed = |source| CommandError::Read {
                path: file.path.display().to_string(),
                source,
            };
            let backup = back_up(&file.path).map_err(failed)?;
            write(&file.path, &new).map_err(failed)?;
            backup
        } else {
            None
        };
        if self.json {
            output::json(&json!({
                "client": client.id(),
                "file": file.path,
                "written": is_changed,
                "backup": backup,
                "removed": removed,
                "notes": notes_as_json(&notes),
            }))?;
            return Ok(Exit::DONE);
        }
        print_notes(&notes);
        let path = file.path.display();
        if !is_changed {
            output::line(&format!("{path} has it already"))?;
            return Ok(Exit::DONE);
        }
        output::line(&format!("{path} was written"))?;
        if let Some(backup) = backup {
            output::line(&format!("what it was is in {}", backup.display()))?;
        }
        if !removed.is_empty() {
            output::line(&format!("taken out: {}", removed.join(", ")))?;
        }
        Ok(Exit::DONE)
    }
}

impl Export {
    fn client_file(&self, client: ClientKind) -> Result<ClientFile, CommandError> {
        let machine =
            import::this_machine().ok_or_else(|| import::no_home("the files of clients"))?;
        if let Some(path) = &self.file {
            return Ok(ClientFile::of_client(
                client,
                &import::absolute(path)?,
                &machine,
            ));
        }
        let mut files = files_of(client, &machine);
        let there = files
            .iter()
            .position(|file| file.is_main && file.path.exists());
        Ok(files.swap_remove(there.unwrap_or(0)))
    }

    /// The entry of Mainstay for the client, if Mainstay itself is exported.
    fn own_entry(&self, client: ClientKind) -> Result<Option<OwnEntry>, CommandError> {
        if let Some(url) = &self.http {
            if !client.speaks_http() {
                return Err(CommandError::Usage {
                    message: format!("{client} has no servers with a URL in its file"),
                    hint: Some(format!("mainstay export --for {} --connect", client.id())),
                });
            }
            return Ok(Some(OwnEntry::Http { url: url.clone() }));
        }
        if !self.connect {
            return Ok(None);
        }
        own_entry::connect().map(Some)
    }

    /// The file as a value, and the section of its servers.
    fn section(file: &ClientFile, text: &str) -> Result<(Value, Section), CommandError> {
        let whole = value(file.format, text).map_err(|error| refused(file, &error.to_string()))?;
        let mut sections = file.sections(&whole);
        let section = sections.swap_remove(0);
        Ok((whole, section))
    }

    /// The changes that add the configuration's servers, translated for the client.
    fn exported(
        &self,
        file: &ClientFile,
        whole: &Value,
        section: &Section,
    ) -> Result<Exported, CommandError> {
        let origin = ConfigurationSource {
            flag: self.config.clone(),
            ..ConfigurationSource::default()
        };
        let path = origin
            .path()
            .ok_or_else(|| import::no_home("the configuration"))?;
        let text = origin.text()?;
        let is_there = text.is_some();
        let text = text.unwrap_or_default();
        let entries = if text.is_empty() {
            Vec::new()
        } else {
            let document = Document::read(&text, Syntax::of_path(&path));
            let document = document.map_err(|error| CommandError::Usage {
                message: format!("{}: {error}", path.display()),
                hint: None,
            })?;
            document.entries()
        };
        if entries.is_empty() {
            let path = path.display();
            let reason = if is_there {
                format!("{path} has none")
            } else {
                format!("{path} does not exist")
            };
            return Err(CommandError::Nothing {
                message: format!("there is no server to export: {reason}"),
                hint:
                    "`mainstay add` adds the first server, `mainstay import` those of other clients"
                        .to_owned(),
            });
        }
        let mut exported = Exported {
            changes: Vec::new(),
            notes: Vec::new(),
        };
        for (name, entry) in entries {
            let written = entry_for(file.client, name.as_str(), &entry, section);
            let left_out = written
                .entry
                .as_ref()
                .and_then(|_| left_out_by_list(file, whole, section, name.as_str()));
            let all_notes = written.notes.into_iter().chain(left_out);
            exported
                .notes
                .extend(all_notes.map(|note| (name.to_string(), note)));
            exported
                .changes
                .extend(written.entry.map(|entry| EntryChange::Put {
                    section: section.clone(),
                    label: name.to_string(),
                    entry,
                }));
        }
        Ok(exported)
    }

    /// The client's file with the configuration's servers added. The inner error is an error of the edit.
    fn with_servers(
        &self,
        file: &ClientFile,
        text: &str,
    ) -> Result<Result<Edited, EditError>, CommandError> {
        let (whole, section) = Self::section(file, text)?;
        let Exported { mut changes, notes } = self.exported(file, &whole, &section)?;
        let mut removed = Vec::new();
        if self.replace {
            let servers = mainstay_client_files::servers(file, text);
            let servers = servers.map_err(|error| refused(file, &error.to_string()))?;
            for server in servers
                .into_iter()
                .filter(|server| server.left_out.is_none())
            {
                let is_replaced = changes.iter().any(|change| {
                    matches!(change, EntryChange::Put { label, section, .. } if *label == server.label && section.keys == server.section.keys)
                });
                if !is_replaced {
                    removed.push(server.label.clone());
                    changes.push(EntryChange::Remove {
                        section: server.section,
                        label: server.label,
                    });
                }
            }
        }
        Ok(apply(file, text, &changes).map(|text| Edited {
            text,
            removed,
            notes,
        }))
    }

    /// Prints the content of a new file for the client.
    fn print(
        &self,
        file: &ClientFile,
        text: &str,
        own_entry: Option<&OwnEntry>,
    ) -> Result<Exit, CommandError> {
        let (whole, section) = Self::section(file, text)?;
        let exported = match own_entry {
            Some(own_entry) => {
                let label = mainstay_client_files::LABEL;
                let left_out = left_out_by_list(file, &whole, &section, label);
                let written =
                    entry_for(file.client, label, &own_entry.entry(file.client), &section);
                Exported {
                    changes: written
                        .entry
                        .map(|entry| EntryChange::Put {
                            section,
                            label: label.to_owned(),
                            entry,
                        })
                        .into_iter()
                        .collect(),
                    notes: left_out
                        .map(|note| (label.to_owned(), note))
                        .into_iter()
                        .collect(),
                }
            }
            None => self.exported(file, &whole, &section)?,
        };
        let text = block(file.format, &exported.changes);
        if self.json {
            output::json(&json!({
                "client": file.client.id(),
                "file": file.path,
                "text": text,
                "notes": notes_as_json(&exported.notes),
            }))?;
        } else {
            output::data(&text)?;
            print_notes(&exported.notes);
        }
        Ok(Exit::DONE)
    }

    /// Prints the entries for a file that cannot be changed, and fails with a hint to paste them.
    fn paste(
        &self,
        file: &ClientFile,
        reason: &str,
        block: &str,
        remove: &[String],
    ) -> Result<Exit, CommandError> {
        if !self.json {
            output::data(block)?;
        }
        let take_out = if remove.is_empty() {
            String::new()
        } else {
            format!(", and take out {}", remove.join(", "))
        };
        Err(CommandError::Usage {
            message: format!("{} was not written: {reason}", file.path.display()),
            hint: Some(if self.json {
                format!("put this into it{take_out}: {block}")
            } else {
                format!("put what stands above into it{take_out}")
            }),
        })
    }
}

fn refused(file: &ClientFile, reason: &str) -> CommandError {
    CommandError::Usage {
        message: format!("cannot read {}: {reason}", file.path.display()),
        hint: Some("correct it, or name another with --file".to_owned()),
    }
}

fn print_notes(notes: &[(String, ImportNote)]) {
    for (server, note) in notes {
        complain(&format!("note: {server}: {}: {}", note.key, note.text));
    }
}

fn notes_as_json(notes: &[(String, ImportNote)]) -> Value {
    notes
        .iter()
        .map(|(server, note)| json!({"server": server, "key": note.key, "text": note.text}))
        .collect()
}
