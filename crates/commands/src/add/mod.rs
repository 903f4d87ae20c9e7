//! `mainstay add`: starts a server once, and then saves it in the configuration. With `--ephemeral` it adds
//! the server to the running daemon only.

pub mod bundle;
mod from_client;
mod prepared;
mod preview;
pub mod registry;
mod trial;

use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_api::{BeginLogin, Client, LoginName};
use mainstay_client_files::ClientKind;
use mainstay_command_line::{
    CommandError, Exit,
    connect::{ChangeArgs, ServerSource},
    host::Host,
    output,
    run_command::{CommandFacts, Guard, RunCommand},
    stderr::complain,
};
use mainstay_config::{
    References, Syntax,
    edit::{Document, Entry},
};
use mainstay_core::{
    config::{ConfigError, ServerConfig},
    display::word,
    ids::ServerName,
};
use mainstay_gateway::{
    registry::duplicate,
    reload::{FileChange, OnDuplicate, change_file},
};
use mainstay_install::{listing, offer::OfferKind, question::Answers};
use mainstay_platform::{environment::ConfigurationSource, lineage::Lineage};
use serde_json::{Map, Value, json};

use self::{
    prepared::Prepared, preview::LaunchPreview, registry::RegistryClient, trial::TrialResult,
};
use super::{auth, import, operate, person::Person};

const EXAMPLES: &str = "\
Examples:
  mainstay add files -- npx -y @modelcontextprotocol/server-filesystem ~/docs
  mainstay add -e API_KEY='${API_KEY}' search -- uvx search-server
  mainstay add --header 'X-Key: ${KEY}' tracker https://tracker.example.com/mcp
  mainstay add io.github.someone/thing              a server of the MCP registry
  mainstay add --package oci thing io.github.someone/thing@1.2.0
  mainstay add --set folder=/home/me/projects ./thing.mcpb
  mainstay add --from cursor github                 a server of another client";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "mainstay add [OPTIONS] NAME URL\n       mainstay add [OPTIONS] NAME -- COMMAND [ARG]...\n       mainstay add [OPTIONS] [NAME] REGISTRY_NAME[@VERSION]\n       mainstay add [OPTIONS] [NAME] FILE.mcpb\n       mainstay add [OPTIONS] --from CLIENT [NAME] NAME_THERE"
)]
pub struct Add {
    /// Name of the server: letters, digits, `-` and `_`
    #[arg(value_name = "NAME")]
    name: String,
    /// URL of the server, its name in the MCP registry, or the file of a bundle
    #[arg(value_name = "URL", conflicts_with = "command")]
    source: Option<String>,
    /// A variable that is set for its process
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Take the server of that name from the files of another MCP client, such as cursor
    #[arg(long, value_name = "CLIENT", conflicts_with = "command", value_parser = import::client)]
    from: Option<ClientKind>,
    /// A value that a server of the registry or a bundle asks for; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    set: Vec<(String, String)>,
    /// The folder that its process starts in
    #[arg(long, value_name = "DIR", requires = "command")]
    cwd: Option<PathBuf>,
    /// A header that is sent with every request
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Use this transport instead of detecting it
    #[arg(long, value_parser = ["stdio", "http", "sse"])]
    transport: Option<String>,
    /// Run a server of the registry as this kind of package
    #[arg(long, value_name = "KIND", value_parser = ["npm", "pypi", "oci", "nuget", "mcpb", "remote"])]
    package: Option<String>,
    /// The MCP registry [default: registryUrl of the configuration, or the official one]
    #[arg(long, value_name = "URL", env = "MAINSTAY_REGISTRY")]
    registry: Option<String>,
    /// Save it without starting it
    #[arg(long)]
    no_check: bool,
    /// Start the server without asking
    #[arg(long, short)]
    yes: bool,
    /// Add the server to the running daemon only, until the daemon stops
    #[arg(long)]
    ephemeral: bool,
    /// Save the server in the configuration (the default)
    #[arg(long, conflicts_with = "ephemeral")]
    persist: bool,
    /// Replace the entry of a server with that name
    #[arg(long)]
    replace: bool,
    /// The program and its arguments
    #[arg(last = true)]
    command: Vec<String>,
    #[command(flatten)]
    pub daemon: ChangeArgs,
}

#[derive(Debug, thiserror::Error)]
enum BadPair {
    #[error("expected KEY=VALUE")]
    Variable,
    #[error("expected `NAME: VALUE`")]
    Header,
}

fn variable(text: &str) -> Result<(String, String), BadPair> {
    let (key, value) = text.split_once('=').ok_or(BadPair::Variable)?;
    Ok((key.to_owned(), value.to_owned()))
}

fn header(text: &str) -> Result<(String, String), BadPair> {
    let (name, value) = text.split_once(':').ok_or(BadPair::Header)?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// The server to add, by the kind of source on the command line.
#[derive(Debug, PartialEq, Eq)]
enum AddSource<'a> {
    Url(&'a str),
    Command(&'a str, &'a [String]),
    /// A server of the registry by its name, optionally with a version after `@`.
    Registry(&'a str),
    Bundle(&'a Path),
    /// A server of another client, by its name in that client's file.
    Client(ClientKind, &'a str),
}

impl Add {
    /// True if the command starts the server in its own process.
    pub fn starts_servers(&self) -> bool {
        !self.no_check
    }
}

impl RunCommand for Add {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            guard: Guard::of_servers(self.starts_servers()),
            ..CommandFacts::printing(self.daemon.json)
        }
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let (name, source) = self.source()?;
        let place = self.daemon.place()?;
        if let (ServerSource::File(_), true) = (&place, self.ephemeral) {
            return Err(CommandError::Usage {
                message: "no daemon is running that could have it for now".to_owned(),
                hint: Some("without --ephemeral it goes into the configuration".to_owned()),
            });
        }
        let origin = self.daemon.origin();
        if let Some(name) = name {
            legal(name)?;
            self.refuse_duplicate(&place, name).await?;
        }
        let mut person = Person::new()?;
        let prepared = self.prepare(name, &source, &origin, &mut person).await?;
        if name.is_none() {
            legal(&prepared.name)?;
            self.refuse_duplicate(&place, &prepared.name).await?;
        }
        let name = legal(name.unwrap_or(&prepared.name))?;
        prepared.preview.print(name.as_str());
        let is_third_party = matches!(source, AddSource::Registry(_) | AddSource::Bundle(_));
        let mut needs_login = false;
        let tools = if self.no_check {
            None
        } else {
            if is_third_party {
                person.confirm("start it?", self.yes).await?;
            }
            let server = checked(&origin, &name, &prepared.entry)?;
            let lineage = Lineage::begin(origin.path().as_deref())?;
            match trial::run(server, lineage, &mut person.signals).await? {
                TrialResult::Tools(tools) => {
                    complain(&format!("it has {}", trial::tools_line(&tools)));
                    Some(tools)
                }
                TrialResult::NeedsLogin => {
                    complain("it asks for a login");
                    needs_login = true;
                    None
                }
            }
        };
        let daemon = match &place {
            ServerSource::Daemon(client) => Some(client.clone()),
            ServerSource::File(_) => None,
        };
        self.save(place, &name, prepared.entry, tools).await?;
        if needs_login {
            self.offer_login(daemon, name.as_str(), &mut person).await?;
        }
        if !self.ephemeral {
            warn_of_clear_secrets(&prepared.in_clear);
        }
        if let Some(unpacked) = prepared.unpacked {
            unpacked.keep();
        }
        Ok(Exit::DONE)
    }
}

impl Add {
    /// Logs in to a server that was just added, if a person agrees. Otherwise prints the command for it.
    async fn offer_login(
        &self,
        daemon: Option<Client>,
        name: &str,
        person: &mut Person,
    ) -> Result<(), CommandError> {
        if let Some(client) = daemon.filter(|_| person.is_there()) {
            let answer = person.ask("log in to it now? [Y/n]").await?;
            let answer = answer.unwrap_or_default();
            if answer.trim().is_empty() || answer.trim().to_ascii_lowercase().starts_with('y') {
                let request = BeginLogin::default();
                let login_name = LoginName {
                    server: name,
                    client: None,
                };
                return auth::log_in(&client, login_name, &request, true, self.daemon.json).await;
            }
        }
        complain(&format!("log in to it with `mainstay auth login {name}`"));
        Ok(())
    }

    /// The server to add, and its name if the command line gives one.
    fn source(&self) -> Result<(Option<&str>, AddSource<'_>), CommandError> {
        let name = self.name.as_str();
        if let Some((program, arguments)) = self.command.split_first() {
            Self::refuse_options(&[("--header", !self.header.is_empty())], "a program")?;
            return Ok((Some(name), AddSource::Command(program, arguments)));
        }
        let (name, target) = match &self.source {
            Some(source) => (Some(name), source.as_str()),
            None => (None, name),
        };
        if let Some(client) = self.from {
            self.refuse_http_options("a server of another client")?;
            return Ok((name, AddSource::Client(client, target)));
        }
        let registry_name = target.split_once('@').map_or(target, |(name, _)| name);
        let is_url = target.contains("://");
        let source = if bundle::is_file(target) && !is_url {
            AddSource::Bundle(Path::new(target))
        } else if listing::is_name(registry_name) {
            AddSource::Registry(target)
        } else if is_url && name.is_some() {
            Self::refuse_options(&[("--env", !self.env.is_empty())], "a URL")?;
            return Ok((name, AddSource::Url(target)));
        } else {
            return Err(CommandError::Usage {
                message: match name {
                    Some(_) => format!("{target:?} is no URL, no name of a registry and no bundle"),
                    None => format!(
                        "{target:?} says no command, no URL, no name of a registry and no bundle"
                    ),
                },
                hint: Some(match (name.map(word), word(target)) {
                    (Some(name), target) => {
                        format!("for a program: mainstay add {name} -- {target} …")
                    }
                    (None, target) if is_url => {
                        format!("give it a name: mainstay add NAME {target}")
                    }
                    (None, target) => format!("for a program: mainstay add {target} -- COMMAND …"),
                }),
            });
        };
        self.refuse_http_options("a server that says itself how it is reached")?;
        Ok((name, source))
    }

    /// Refuses `--header` and `--transport`, which are only for a server that the command line describes.
    fn refuse_http_options(&self, kind_of_server: &str) -> Result<(), CommandError> {
        let options = [
            ("--header", !self.header.is_empty()),
            ("--transport", self.transport.is_some()),
        ];
        Self::refuse_options(&options, kind_of_server)
    }

    fn refuse_options(options: &[(&str, bool)], kind_of_server: &str) -> Result<(), CommandError> {
        match options.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(CommandError::Usage {
                message: format!("{option} is not for {kind_of_server}"),
                hint: None,
            }),
        }
    }

    /// Refuses a name that is in use, before the command asks a question or starts a server.
    async fn refuse_duplicate(&self, place: &ServerSource, name: &str) -> Result<(), CommandError> {
        if self.replace {
            return Ok(());
        }
        let name = legal(name)?;
        let is_taken = match place {
            ServerSource::Daemon(client) => client.server(name.as_str()).await.is_ok(),
            ServerSource::File(origin) => has_entry(origin, &name)?,
        };
        if is_taken {
            Err(duplicate(&name).into())
        } else {
            Ok(())
        }
    }

    async fn prepare(
        &self,
        name: Option<&str>,
        source: &AddSource<'_>,
        origin: &ConfigurationSource,
        person: &mut Person,
    ) -> Result<Prepared, CommandError> {
        let mut answers = Answers::new();
        for (key, value) in &self.set {
            answers.entry(key.clone()).or_default().push(value.clone());
        }
        let bundles = bundle::Place {
            name: name.map(str::to_owned),
        };
        match source {
            AddSource::Url(_) | AddSource::Command(..) => {
                Self::refuse_options(&[("--set", !self.set.is_empty())], "what asks for nothing")?;
                let entry = self.entry(source)?;
                Ok(Prepared {
                    name: name.unwrap_or_default().to_owned(),
                    preview: LaunchPreview::from_entry(&entry),
                    entry,
                    unpacked: None,
                    in_clear: Vec::new(),
                })
            }
            AddSource::Registry(server) => {
                let registry = RegistryClient::locate(self.registry.as_deref(), origin)?;
                let request = registry::RegistryRequest {
                    server,
                    kind: self.package.as_deref().and_then(OfferKind::parse),
                    answers: &mut answers,
                    env: &self.env,
                };
                registry::prepare(&registry, request, &bundles, person).await
            }
            AddSource::Client(client, label) => {
                Self::refuse_options(&[("--set", !self.set.is_empty())], "what asks for nothing")?;
                Ok(from_client::prepare(*client, label)?.with_env(&self.env))
            }
            AddSource::Bundle(path) => bundles.prepare(path, &mut answers, &self.env, person).await,
        }
    }

    async fn save(
        &self,
        place: ServerSource,
        name: &ServerName,
        mut entry: Entry,
        tools: Option<Vec<String>>,
    ) -> Result<(), CommandError> {
        match place {
            ServerSource::Daemon(client) => {
                entry.insert("name".to_owned(), name.as_str().into());
                entry.insert("persist".to_owned(), (!self.ephemeral).into());
                entry.insert("replace".to_owned(), self.replace.into());
                operate::report(self.daemon.json, &client.add(&entry).await?)
            }
            ServerSource::File(origin) => {
                let on_duplicate = if self.replace {
                    OnDuplicate::Replace
                } else {
                    OnDuplicate::Refuse
                };
                let done = if has_entry(&origin, name)? {
                    "replaced in"
                } else {
                    "added to"
                };
                let change = FileChange::Put {
                    name: name.clone(),
                    entry,
                    on_duplicate,
                    over: None,
                };
                let loaded = change_file(&origin, change)?;
                let about = format!(".{name}.");
                let is_about = |warning: &&ConfigError| warning.path.contains(&about);
                for warning in loaded.warnings.iter().filter(is_about) {
                    complain(&format!("warning: {warning}"));
                }
                match tools.filter(|_| self.daemon.json) {
                    Some(tools) => output::json(&json!({
                        "success": true,
                        "name": name,
                        "path": loaded.path.unwrap_or_default(),
                        "tools": tools,
                    })),
                    None => report(&self.daemon, name.as_str(), done, loaded.path),
                }
            }
        }
    }

    /// Makes the entry of a URL or a command on the command line.
    fn entry(&self, source: &AddSource<'_>) -> Result<Entry, CommandError> {
        let mut entry = Entry::new();
        if let Some(transport) = &self.transport {
            entry.insert("transport".to_owned(), transport.as_str().into());
        }
        match source {
            AddSource::Url(url) => {
                entry.insert("url".to_owned(), (*url).into());
            }
            AddSource::Command(program, arguments) => {
                entry.insert("command".to_owned(), (*program).into());
                entry.insert("args".to_owned(), (*arguments).into());
            }
            AddSource::Registry(_) | AddSource::Bundle(_) | AddSource::Client(..) => {
                unreachable!("they say it themselves")
            }
        }
        for (key, pairs) in [("env", &self.env), ("headers", &self.header)] {
            if !pairs.is_empty() {
                let pairs: Map<_, _> = pairs
                    .iter()
                    .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
                    .collect();
                entry.insert(key.to_owned(), pairs.into());
            }
        }
        if let Some(cwd) = &self.cwd {
            let absolute = std::path::absolute(cwd).map_err(|source| CommandError::Read {
                path: cwd.display().to_string(),
                source,
            })?;
            entry.insert("cwd".to_owned(), absolute.to_string_lossy().into());
        }
        Ok(entry)
    }
}

/// True if the file has an entry for this server.
fn has_entry(origin: &ConfigurationSource, name: &ServerName) -> Result<bool, CommandError> {
    let Some(text) = origin.text()? else {
        return Ok(false);
    };
    let syntax = Syntax::of_path(&origin.path().unwrap_or_default());
    let document = Document::read(&text, syntax).ok();
    Ok(document.is_some_and(|document| document.entry(name).is_some()))
}

/// Warns about secrets that are saved in clear, and suggests references instead.
fn warn_of_clear_secrets(keys: &[String]) {
    let Some(first) = keys.first() else { return };
    let plural = if keys.len() == 1 { "is" } else { "are" };
    complain(&format!(
        "warning: {} {plural} saved in clear in the configuration",
        keys.join(", ")
    ));
    complain(&format!(
        "  hint: a reference keeps a secret elsewhere: add it again with --replace --set {first}='${{file:PATH}}', \
         or '${{NAME}}' for a variable of Mainstay's environment"
    ));
}

/// Parses an entry as part of the configuration file, and returns its server if the entry is valid.
fn checked(
    origin: &ConfigurationSource,
    name: &ServerName,
    entry: &Entry,
) -> Result<ServerConfig, CommandError> {
    let text = origin.text()?;
    let parsed = origin.entry(name, entry, text.as_deref(), References::Replaced)?;
    let problem = parsed
        .config
        .problems()
        .next()
        .map(|problem| CommandError::Usage {
            message: format!("the entry is not valid: {problem}"),
            hint: problem.hint.clone(),
        });
    problem.map_or(Ok(parsed.config), Err)
}

/// Parses the name of a server. An illegal name is a usage error.
pub fn legal(name: &str) -> Result<ServerName, CommandError> {
    ServerName::new(name).map_err(|error| CommandError::Usage {
        message: error.to_string(),
        hint: None,
    })
}

/// Prints the change of the file: `files was added to config.json`.
pub fn report(
    daemon: &ChangeArgs,
    name: &str,
    change: &str,
    path: Option<PathBuf>,
) -> Result<(), CommandError> {
    let path = path.unwrap_or_default();
    if daemon.json {
        return output::json(&json!({"success": true, "name": name, "path": path}));
    }
    output::line(&format!("{name} was {change} {}", path.display()))
}
