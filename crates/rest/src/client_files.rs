//! `GET /api/client-files` and `POST /api/client-files/import`: what other MCP clients of this user have in
//! their files, how they are pointed here, and their servers taken over. The files are read on request only,
//! on threads that may block.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_client_files::{
    Client, ClientFile, EntryChange as FileChange, FileFormat, FoundFile, FoundServer, Front,
    LABEL, LeftOut, Machine, MergeStatus, Merged, System, block, entry_for, files_of, merge,
    read_file, servers, value,
};
use mainstay_config::{ServerStanding as Keeping, edit::Entry};
use mainstay_core::{failure::FailureKind, ids::ServerName};
use mainstay_doorway::authenticator::Demand;
use mainstay_gateway::{
    registry::NewServer,
    reload::{Change, ChangedBy},
};
use mainstay_platform::{blocking::off_the_runtime, environment::Process};
use serde_json::{Map, Value};

use crate::{
    RestDoor,
    body::Body,
    entries::{self, reloader},
    refusal::Refusal,
    trial,
    via::Author,
};

/// Stands in an entry in the place of a token.
const TOKEN_PLACE: &str = "mst_TOKEN";

/// How often an import is made anew of a file that somebody else changes meanwhile.
const ATTEMPTS: u32 = 3;

/// Where this listener serves MCP, and when it asks for a token there.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    pub address: SocketAddr,
    pub demand: Demand,
}

/// How clients of this machine reach this Mainstay.
struct Fronts {
    connect: Front,
    /// `None` where the URL alone lets nobody in.
    http: Option<Front>,
    /// The URL, whether it lets anybody in or not.
    url: Option<String>,
}

impl Fronts {
    fn of(door: &RestDoor) -> Self {
        // Where nothing is said of this program, it is the one in the PATH.
        let connect = door.connect.clone().unwrap_or_else(|| Front::Connect {
            program: PathBuf::from(LABEL),
            is_on_path: true,
            home: None,
        });
        let url = door.endpoint.map(|endpoint| {
            let address = endpoint.address;
            // A client on this machine reaches every address of it by loopback.
            let ip = match address.ip() {
                ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
                ip => ip,
            };
            format!("http://{}/mcp", SocketAddr::new(ip, address.port()))
        });
        let is_open = door.endpoint.is_some_and(|endpoint| match endpoint.demand {
            Demand::Never => true,
            Demand::WithTokens => door.tokens.clients().is_empty(),
            Demand::Always => false,
        });
        Self {
            connect,
            http: url
                .clone()
                .filter(|_| is_open)
                .map(|url| Front::Http { url }),
            url,
        }
    }

    fn of_client(&self, client: Client) -> &Front {
        let http = self.http.as_ref().filter(|_| client.speaks_http());
        http.unwrap_or(&self.connect)
    }
}

pub async fn list(State(door): State<RestDoor>) -> Json<api::ClientFiles> {
    let fronts = Fronts::of(&door);
    let clients = off_the_runtime(move || {
        // Without a home folder there are no files.
        let machine = Machine::from_environment(&Process);
        let is_known = machine.is_some();
        let machine = machine.unwrap_or_else(|| Machine::new(System::current(), "~"));
        let machine = machine.with_daemon(fronts.url.as_deref());
        let clients = Client::ALL.into_iter();
        clients
            .map(|client| on_machine(client, &machine, is_known, &fronts))
            .collect()
    });
    Json(api::ClientFiles {
        clients: clients.await,
    })
}

fn on_machine(
    client: Client,
    machine: &Machine,
    is_known: bool,
    fronts: &Fronts,
) -> api::ClientOnMachine {
    let files = files_of(client, machine);
    let usual = files.first().cloned();
    let found: Vec<FoundFile> = if is_known {
        files.into_iter().filter_map(read_file).collect()
    } else {
        Vec::new()
    };
    let (mut entries, mut error, mut leads_here) = (Vec::new(), None, false);
    for file in &found {
        let path = file.file.path.display();
        let read = match &file.text {
            Ok(text) => servers(&file.file, text).map_err(|error| format!("{path}: {error}")),
            Err(error) => Err(format!("{path}: {error}")),
        };
        match read {
            Ok(servers) => {
                let is_mainstay = |it: &FoundServer| it.left_out == Some(LeftOut::Mainstay);
                leads_here |= servers.iter().any(is_mainstay);
                let own = servers.into_iter();
                let own = own.filter(|it| it.left_out.is_none());
                entries.extend(own.map(entry));
            }
            Err(reason) => {
                error.get_or_insert(reason);
            }
        }
    }
    let main = found
        .iter()
        .find(|file| file.file.is_main)
        .or(found.first());
    let place = main.map(|file| &file.file).or(usual.as_ref());
    let text = main.and_then(|file| file.text.as_deref().ok());
    api::ClientOnMachine {
        id: client.id().to_owned(),
        title: client.name().to_owned(),
        installed: !found.is_empty(),
        file: main.map(|file| file.file.path.display().to_string()),
        servers: (!found.is_empty())
            .then(|| entries.iter().map(|entry| entry.name.clone()).collect()),
        entries: (!found.is_empty()).then_some(entries),
        mainstay: leads_here,
        error: error.or_else(|| {
            (!is_known).then(|| "no home folder is known: set HOME for Mainstay".to_owned())
        }),
        snippet: snippet(client, place, text.unwrap_or_default(), fronts),
    }
}

/// What a server of a client runs or asks, without secrets.
fn entry(server: FoundServer) -> api::ClientFileEntry {
    let api::ShownTarget { command, url, .. } = trial::shown(&server.entry);
    let mut words = command.into_iter();
    let command = words.next();
    api::ClientFileEntry {
        name: server.label,
        args: command.is_some().then(|| words.collect()),
        command,
        url,
    }
}

/// What `mainstay export --for CLIENT --connect` prints, or `--http` where the client can have a URL.
fn snippet(
    client: Client,
    file: Option<&ClientFile>,
    text: &str,
    fronts: &Fronts,
) -> api::ClientSnippet {
    let Some(file) = file else {
        unreachable!("every client has a usual file")
    };
    let whole = value(file.format, text).unwrap_or_else(|_| Value::Object(Map::new()));
    let text = |front: &Front| {
        let section = file.sections(&whole).into_iter().next();
        let change = section.and_then(|section| {
            let entry = entry_for(client, LABEL, &front.entry(client), &section).entry?;
            Some(FileChange::Put {
                section,
                label: LABEL.to_owned(),
                entry,
            })
        });
        block(file.format, &Vec::from_iter(change))
    };
    let with_token = |url: &String| Front::HttpWithToken {
        url: url.clone(),
        token: TOKEN_PLACE.to_owned(),
    };
    api::ClientSnippet {
        language: match file.format {
            FileFormat::Json => api::SnippetLanguage::Json,
            FileFormat::Toml => api::SnippetLanguage::Toml,
            FileFormat::Yaml => api::SnippetLanguage::Yaml,
        },
        text: text(fronts.of_client(client)),
        place: file.path.display().to_string(),
        with_token: fronts
            .url
            .as_ref()
            .filter(|_| client.speaks_http())
            .map(|url| text(&with_token(url))),
    }
}

pub async fn import(
    State(door): State<RestDoor>,
    Author(by): Author,
    Body(wish): Body<api::ImportFromClient>,
) -> Result<Json<api::ImportedFromClient>, Refusal> {
    let client: Client = wish.client.parse().map_err(|error| {
        let known = Client::ALL.map(Client::id).join(", ");
        Refusal::Malformed(format!("{error}; known are {known}"))
    })?;
    let fronts = Fronts::of(&door);
    let found = off_the_runtime(move || of_client(client, &fronts)).await?;
    let mut answer = api::ImportedFromClient {
        added: Vec::new(),
        skipped: Vec::new(),
        notes: Vec::new(),
    };
    let chosen = chosen(client, found, wish.servers, &mut answer);
    let merged = if wish.persist {
        saved(&door, &chosen, by).await?
    } else {
        let (known, _) = known(&door).await?;
        merge(&chosen, &known)
    };
    for server in merged {
        let label = server.sources.first().map(|source| source.label.clone());
        let label = label.unwrap_or_else(|| server.name.to_string());
        let skipped = if server.standing == MergeStatus::Present {
            Some(format!("{} is the same and is there already", server.name))
        } else if wish.persist {
            None
        } else {
            added_for_now(&door, &server)
                .await
                .err()
                .map(|refusal| refusal.to_string())
        };
        if let Some(reason) = skipped {
            answer.skipped.push(api::SkippedServer {
                name: label,
                reason,
            });
            continue;
        }
        answer.notes.extend(notes(&server));
        answer.added.push(server.name.to_string());
    }
    Ok(Json(answer))
}

/// The servers of all files of a client. What cannot be read is an error, for the client was asked for.
fn of_client(client: Client, fronts: &Fronts) -> Result<Vec<FoundServer>, Refusal> {
    let machine =
        Machine::from_environment(&Process).map(|it| it.with_daemon(fronts.url.as_deref()));
    let machine = machine.ok_or_else(|| {
        Refusal::Malformed("no home folder is known: set HOME for Mainstay".to_owned())
    })?;
    let files = files_of(client, &machine);
    let usual = files.first().map(|file| file.path.display().to_string());
    let found: Vec<FoundFile> = files.into_iter().filter_map(read_file).collect();
    if found.is_empty() {
        let usual = usual.unwrap_or_default();
        let message = format!("{client} has no file here; it would be {usual}");
        return Err(Refusal::Malformed(message));
    }
    let mut all = Vec::new();
    for FoundFile { file, text } in found {
        let unreadable = |reason: &dyn std::fmt::Display| {
            let path = file.path.display();
            Refusal::Malformed(format!("cannot read {path}: {reason}; correct it"))
        };
        let text = text.as_ref().map_err(|error| unreadable(error))?;
        all.extend(servers(&file, text).map_err(|error| unreadable(&error))?);
    }
    Ok(all)
}

/// Those that were asked for, and can be had.
fn chosen(
    client: Client,
    found: Vec<FoundServer>,
    wanted: Option<Vec<String>>,
    answer: &mut api::ImportedFromClient,
) -> Vec<FoundServer> {
    let wanted: Option<BTreeSet<String>> = wanted.map(|names| names.into_iter().collect());
    let is_wanted = |server: &FoundServer| {
        wanted
            .as_ref()
            .is_none_or(|names| names.contains(&server.label))
    };
    let labels: BTreeSet<&str> = found.iter().map(|server| server.label.as_str()).collect();
    let unknown = wanted
        .iter()
        .flatten()
        .filter(|name| !labels.contains(name.as_str()));
    answer
        .skipped
        .extend(unknown.map(|name| api::SkippedServer {
            name: name.clone(),
            reason: format!("{client} has no server of this name"),
        }));
    let mut chosen = Vec::new();
    for server in found.into_iter().filter(is_wanted) {
        match &server.left_out {
            None => chosen.push(server),
            Some(reason) => answer.skipped.push(api::SkippedServer {
                reason: reason.to_string(),
                name: server.label,
            }),
        }
    }
    chosen
}

/// Writes what is new into the file. A file that changes meanwhile is read again.
async fn saved(
    door: &RestDoor,
    chosen: &[FoundServer],
    by: ChangedBy,
) -> Result<Vec<Merged>, Refusal> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let (known, digest) = known(door).await?;
        let merged = merge(chosen, &known);
        let new = merged
            .iter()
            .filter(|server| server.standing == MergeStatus::New);
        let new: Vec<(ServerName, Entry)> = new
            .map(|server| (server.name.clone(), server.entry.clone()))
            .collect();
        if new.is_empty() {
            return Ok(merged);
        }
        let change = Change::Import(new);
        match reloader(door)?
            .write_if_unchanged(change, digest.unwrap_or_default(), by)
            .await
        {
            Ok(_) => return Ok(merged),
            Err(failure) if failure.kind == FailureKind::ConfigChanged && attempt < ATTEMPTS => {}
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// Adds a server until the end of this run.
async fn added_for_now(door: &RestDoor, server: &Merged) -> Result<(), Refusal> {
    let new = entries::read(door, server.name.as_str(), &server.entry).await?;
    let NewServer { runtime, .. } = new;
    door.gateway.registry.add(runtime).await?;
    Ok(())
}

/// The entries that there are, those of the file and those that are not in it; and the file's digest.
async fn known(door: &RestDoor) -> Result<(Vec<(ServerName, Entry)>, Option<String>), Refusal> {
    let (mut known, digest) = match &door.gateway.reloader {
        Some(reloader) => {
            let (entries, digest) = reloader.file_entries().await?;
            (entries, Some(digest))
        }
        None => (Vec::new(), None),
    };
    let registry = &door.gateway.registry;
    for server in registry.servers() {
        let entry = match registry.standing(&server.name) {
            Keeping::Ephemeral(runtime) | Keeping::Pending(runtime) => (*runtime.entry).clone(),
            // Of the file, or of the command line: its name is taken.
            Keeping::Configured => Entry::new(),
        };
        if !known.iter().any(|(name, _)| *name == server.name) {
            known.push((server.name.clone(), entry));
        }
    }
    Ok((known, digest))
}

/// What a person has to know of a server that was added.
fn notes(server: &Merged) -> impl Iterator<Item = String> {
    let reports = server.sources.iter().take(1).flat_map(FoundServer::reports);
    let all = server.notes.iter().chain(reports);
    let also = server.sources.len() > 1;
    let also = also.then(|| format!("{}: the same stands there more than once", server.name));
    all.map(|note| format!("{}: {}: {}", server.name, note.key, note.text))
        .chain(also)
}
