//! `mainstay search`: asks the MCP registry for servers.

use clap::Args;
use mainstay_command_line::{
    CommandError, Exit,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape, Tabular},
    stderr::complain,
    table::Column,
};
use mainstay_install::{
    listing::{ListedServer, ListingStatus},
    offer::{Offer, offers},
};
use mainstay_platform::environment::ConfigurationSource;
use serde_json::{Value, json};

use super::{add::registry::RegistryClient, resolve::is_here};

/// The maximum number of servers in a page.
const MAX_LIMIT: i64 = 100;

/// The maximum length of a registry's text in a column, in characters.
const MAX_TEXT: usize = 200;

const EXAMPLES: &str = "\
Examples:
  mainstay search github
  mainstay search --limit 50 --json filesystem
  mainstay add io.github.someone/thing           add one of them

The registry looks for the word in the names of its servers.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Search {
    /// A part of the name
    word: String,
    /// Servers of one page
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=MAX_LIMIT as u64))]
    limit: u64,
    /// The page behind this cursor, which the page before names
    #[arg(long)]
    cursor: Option<String>,
    /// The MCP registry [default: registryUrl of the configuration, or the official one]
    #[arg(long, value_name = "URL", env = "MAINSTAY_REGISTRY")]
    registry: Option<String>,
    /// Print raw JSON on stdout, and errors as JSON on stderr
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub shape: OutputShape,
}

/// The fields of a server in JSON.
const FIELDS: [&str; 8] = [
    "name",
    "title",
    "version",
    "description",
    "status",
    "repository",
    "published",
    "packages",
];

impl RunCommand for Search {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts {
            under_way: Some("asking the registry"),
            ..CommandFacts::printing(self.json).shaped(&self.shape)
        }
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        let registry =
            RegistryClient::locate(self.registry.as_deref(), &ConfigurationSource::default())?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let mut page = registry
            .search(&self.word, limit, self.cursor.as_deref())
            .await?;
        // A registry may send more servers than the limit.
        page.servers.truncate(limit);
        page.servers
            .retain(|listed| listed.status != ListingStatus::Deleted);
        let servers: Vec<_> = page.servers.iter().map(as_json).collect();
        let whole = json!({"servers": servers, "nextCursor": page.next});
        let found = ItemList {
            whole: &whole,
            items: &["servers"],
            names: &["name"],
            fields: FIELDS.map(str::to_owned).to_vec(),
        };
        let Some(Tabular { wide }) = self.shape.print(self.json, &found)? else {
            return Ok(Exit::DONE);
        };
        if page.unreadable > 0 {
            let count = output::count(page.unreadable, "server");
            complain(&format!("warning: {count} of the registry cannot be read"));
        }
        if page.servers.is_empty() {
            complain(&format!(
                "no server of the registry has {:?} in its name",
                self.word
            ));
            return Ok(Exit::DONE);
        }
        output::rows_of(&COLUMNS, page.servers.iter().map(row), wide)?;
        if let Some(cursor) = &page.next {
            let cursor = mainstay_core::display::word(cursor);
            complain(&format!(
                "there are more: mainstay search {} --cursor {cursor}",
                mainstay_core::display::word(&self.word)
            ));
        }
        Ok(Exit::DONE)
    }
}

pub(super) const COLUMNS: [Column; 4] = [
    Column::new("NAME"),
    Column::new("VERSION").cut_to(20),
    Column::new("RUNS").cut_to(20),
    Column::new("WHAT").cut_to(20),
];

fn best(listed: &ListedServer) -> Option<Offer> {
    offers(&listed.server, is_here).0.into_iter().next()
}

/// A summary of how the offer runs, or a note that its program is not installed.
fn runs(offer: &Offer) -> String {
    if offer.can_run {
        offer.summary()
    } else {
        format!("{} is not installed", offer.runtime)
    }
}

fn shortened(text: &str) -> String {
    let line = output::headline(text);
    match line.char_indices().nth(MAX_TEXT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.into_owned(),
    }
}

fn row(listed: &ListedServer) -> [String; 4] {
    let server = &listed.server;
    let description = shortened(&server.description);
    [
        server.name.clone(),
        shortened(&server.version),
        best(listed).map_or_else(|| "-".to_owned(), |offer| shortened(&runs(&offer))),
        match listed.status {
            ListingStatus::Active => description,
            status => format!("{}: {description}", status.word()),
        },
    ]
}

fn as_json(listed: &ListedServer) -> Value {
    let (offers, _) = offers(&listed.server, is_here);
    let packages = offers.iter().map(|offer| {
        json!({
            "kind": offer.kind.word(),
            "runs": offer.summary(),
            "canRun": offer.can_run,
            "asks": offer.questions.iter().filter(|question| question.required).map(|question| &question.key).collect::<Vec<_>>(),
        })
    });
    json!({
        "name": listed.server.name,
        "title": listed.server.title,
        "version": listed.server.version,
        "description": listed.server.description,
        "status": listed.status.word(),
        "repository": listed.server.repository.as_ref().map(|repository| &repository.url),
        "published": listed.published,
        "packages": packages.collect::<Vec<_>>(),
    })
}
