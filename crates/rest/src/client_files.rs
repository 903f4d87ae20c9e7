//! `GET /api/client-files` and `POST /api/client-files/import`. Lists the servers in the files of
//! other MCP clients of this user, shows how to connect these clients to Mainstay, and imports
//! their servers. Files are read only for a request, on blocking threads.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf};

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_client_files::{
    ClientFile, ClientKind, EntryChange, FileFormat, FoundFile, FoundServer, LABEL, LeftOut,
    Machine, MergeStatus, Merged, OwnEntry, System, block, entry_for, files_of, merge, read_file,
    servers, value,
};
use mainstay_config::{ServerStanding as Keeping, edit::Entry};
use mainstay_core::{failure::FailureKind, ids::ServerName};
use mainstay_doorway::authenticator::Demand;
use mainstay_gateway::{
    registry::NewServer,
    reload::{ChangedBy, FileChange},
};
use mainstay_platform::{blocking::off_the_runtime, environment::Process, loopback};
use serde_json::{Map, Value};

use crate::{
    RestDoor,
    body::Body,
    entries::{self, reloader},
    refusal::Refusal,
    trial,
    via::Author,
};

/// The placeholder for a token in an own entry.
const TOKEN_PLACE: &str = "mst_TOKEN";

/// Maximum number of attempts at an import while another program changes the file.
const ATTEMPTS: u32 = 3;

/// The MCP endpoint of this listener, and whether it requires a token.
#[derive(Clone, Copy, Debug)]
pub struct McpEndpoint {
    pub address: SocketAddr,
    /// True if the endpoint speaks HTTPS.
    pub is_tls: bool,
    pub demand: Demand,
}

/// The own entries for clients on this machine.
struct OwnEntries {
    connect: OwnEntry,
    /// `None` if the URL needs a token.
    http: Option<OwnEntry>,
    /// The URL, also if it needs a token.
    url: Option<String>,
}

impl OwnEntries {
    fn new(door: &RestDoor) -> Self {
        // Clients start the `mainstay` in the PATH, unless the daemon sets another one.
        let connect = door.connect.clone().unwrap_or_else(|| OwnEntry::Connect {
            program: PathBuf::from(LABEL),
            is_on_path: true,
            home: None,
        });
        let url = door.endpoint.map(|endpoint| {
            let scheme = if endpoint.is_tls { "https" } else { "http" };
            format!("{scheme}://{}/mcp", loopback::reachable(endpoint.address))
        });
        let is_open = door.endpoint.is_some_and(|endpoint| match endpoint.demand {
            // The client may not trust the certificate, or need one of its own.
            _ if endpoint.is_tls => false,
            Demand::Never => true,
            Demand::WithTokens => door.tokens.clients().is_empty(),
            Demand::Always => false,
        });
        Self {
            connect,
            http: url
                .clone()
                .filter(|_| is_open)
                .map(|url| OwnEntry::Http { url }),
            url,
        }
    }

    fn for_client(&self, client: ClientKind) -> &OwnEntry {
        let http = self.http.as_ref().filter(|_| client.speaks_http());
        http.unwrap_or(&self.connect)
    }
}

pub async fn list(State(door): State<RestDoor>) -> Json<api::ClientFiles> {
    let own_entries = OwnEntries::new(&door);
    let clients = off_the_runtime(move || {
        // Without a home folder, no client has files.
        let machine = Machine::from_environment(&Process);
        let is_known = machine.is_some();
        let machine = machine.unwrap_or_else(|| Machine::new(System::current(), "~"));
        let machine = machine.with_daemon(own_entries.url.as_deref());
        let clients = ClientKind::ALL.into_iter();
        clients
            .map(|client| on_machine(client, &machine, is_known, &own_entries))
            .collect()
    });
    Json(api::ClientFiles {
        clients: clients.await,
    })
}

fn on_machine(
    client: ClientKind,
    machine: &Machine,
    is_known: bool,
    own_entries: &OwnEntries,
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
                let is_mainstay = |server: &FoundServer| server.left_out == Some(LeftOut::Mainstay);
                leads_here |= servers.iter().any(is_mainstay);
                let imported = servers
                    .into_iter()
                    .filter(|server| server.left_out.is_none());
                entries.extend(imported.map(entry));
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
        snippet: snippet(client, place, text.unwrap_or_default(), own_entries),
    }
}

/// A server in a client's file, without secrets.
fn entry(server: FoundServer) -> api::ClientFileEntry {
    let api::ShownTarget { command, url, .. } = trial::masked_target(&server.entry);
    let mut words = command.into_iter();
    let command = words.next();
    api::ClientFileEntry {
        name: server.label,
        args: command.is_some().then(|| words.collect()),
        command,
        url,
    }
}

/// The snippet for a client: the output of `mainstay export --for CLIENT --connect`, or with
/// `--http` if the client can use the URL.
fn snippet(
    client: ClientKind,
    file: Option<&ClientFile>,
    text: &str,
    own_entries: &OwnEntries,
) -> api::ClientSnippet {
    let Some(file) = file else {
        unreachable!("every client has a usual file")
    };
    let whole = value(file.format, text).unwrap_or_else(|_| Value::Object(Map::new()));
    let text = |own_entry: &OwnEntry| {
        let section = file.sections(&whole).into_iter().next();
        let change = section.and_then(|section| {
            let entry = entry_for(client, LABEL, &own_entry.entry(client), &section).entry?;
            Some(EntryChange::Put {
                section,
                label: LABEL.to_owned(),
                entry,
            })
        });
        block(file.format, &Vec::from_iter(change))
    };
    let with_token = |url: &String| OwnEntry::HttpWithToken {
        url: url.clone(),
        token: TOKEN_PLACE.to_owned(),
    };
    api::ClientSnippet {
        language: match file.format {
            FileFormat::Json => api::SnippetLanguage::Json,
            FileFormat::Toml => api::SnippetLanguage::Toml,
            FileFormat::Yaml => api::SnippetLanguage::Yaml,
        },
        text: text(own_entries.for_client(client)),
        place: file.path.display().to_string(),
        with_token: own_entries
            .url
            .as_ref()
            .filter(|_| client.speaks_http())
            .map(|url| text(&with_token(url))),
    }
}

pub async fn import(
    State(door): State<RestDoor>,
    Author(by): Author,
    Body(selection): Body<api::ImportFromClient>,
) -> Result<Json<api::ImportedFromClient>, Refusal> {
    let client: ClientKind = selection.client.parse().map_err(|error| {
        let client_ids = ClientKind::ALL.map(ClientKind::id).join(", ");
        Refusal::Malformed(format!("{error}; known are {client_ids}"))
    })?;
    let own_entries = OwnEntries::new(&door);
    let found = off_the_runtime(move || servers_of_client(client, &own_entries)).await?;
    let mut answer = api::ImportedFromClient {
        added: Vec::new(),
        skipped: Vec::new(),
        notes: Vec::new(),
    };
    let chosen = chosen(client, found, selection.servers, &mut answer);
    let merged = if selection.persist {
        saved(&door, &chosen, by).await?
    } else {
        let (existing, _) = existing_entries(&door).await?;
        merge(&chosen, &existing)
    };
    for server in merged {
        let label = server.sources.first().map(|source| source.label.clone());
        let label = label.unwrap_or_else(|| server.name.to_string());
        let skipped = if server.standing == MergeStatus::Present {
            Some(format!("{} is the same and is there already", server.name))
        } else if selection.persist {
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

/// The servers in all files of one client. An unreadable file is an error, because the user asked
/// for this client.
fn servers_of_client(
    client: ClientKind,
    own_entries: &OwnEntries,
) -> Result<Vec<FoundServer>, Refusal> {
    let machine = Machine::from_environment(&Process)
        .map(|machine| machine.with_daemon(own_entries.url.as_deref()));
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

/// Selects the servers to import. Adds the others to the skipped servers of the answer.
fn chosen(
    client: ClientKind,
    found: Vec<FoundServer>,
    requested: Option<Vec<String>>,
    answer: &mut api::ImportedFromClient,
) -> Vec<FoundServer> {
    let requested: Option<BTreeSet<String>> = requested.map(|names| names.into_iter().collect());
    let is_requested = |server: &FoundServer| {
        requested
            .as_ref()
            .is_none_or(|names| names.contains(&server.label))
    };
    let labels: BTreeSet<&str> = found.iter().map(|server| server.label.as_str()).collect();
    let unknown = requested
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
    for server in found.into_iter().filter(is_requested) {
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

/// Writes new servers into the configuration file. Reads the file again if it has changed
/// meanwhile.
async fn saved(
    door: &RestDoor,
    chosen: &[FoundServer],
    by: ChangedBy,
) -> Result<Vec<Merged>, Refusal> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let (existing, digest) = existing_entries(door).await?;
        let merged = merge(chosen, &existing);
        let new = merged
            .iter()
            .filter(|server| server.standing == MergeStatus::New);
        let new: Vec<(ServerName, Entry)> = new
            .map(|server| (server.name.clone(), server.entry.clone()))
            .collect();
        if new.is_empty() {
            return Ok(merged);
        }
        let change = FileChange::Import(new);
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

/// Adds a server that is removed at the end of this run.
async fn added_for_now(door: &RestDoor, server: &Merged) -> Result<(), Refusal> {
    let new = entries::read(door, server.name.as_str(), &server.entry).await?;
    let NewServer { runtime, .. } = new;
    door.gateway.registry.add(runtime).await?;
    Ok(())
}

/// The entries of all servers, also of those outside of the file, and the digest of the file.
async fn existing_entries(
    door: &RestDoor,
) -> Result<(Vec<(ServerName, Entry)>, Option<String>), Refusal> {
    let (mut all, digest) = match &door.gateway.reloader {
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
            // Entries of the file are already in `all`. For another configured server, the name
            // suffices.
            Keeping::Configured => Entry::new(),
        };
        if !all.iter().any(|(name, _)| *name == server.name) {
            all.push((server.name.clone(), entry));
        }
    }
    Ok((all, digest))
}

/// Notes for the user about an imported server.
fn notes(server: &Merged) -> impl Iterator<Item = String> {
    let reports = server.sources.iter().take(1).flat_map(FoundServer::reports);
    let all = server.notes.iter().chain(reports);
    let also = server.sources.len() > 1;
    let also = also.then(|| format!("{}: the same stands there more than once", server.name));
    all.map(|note| format!("{}: {}: {}", server.name, note.key, note.text))
        .chain(also)
}
