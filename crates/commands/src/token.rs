//! `mainstay token`: manages clients' tokens and rotates the control token. Uses the running daemon. Without
//! a daemon it changes the state directory, so that tokens can be added before the first `serve`.

use std::time::Duration;

use clap::{Args, Subcommand};
use mainstay_api::{
    AddToken, Client, ClientError, ClientToken, ClientTokens, RemovedToken, RotatedToken,
    TokenLimits,
};
use mainstay_command_line::{
    CommandError, Exit, connect,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape, Tabular},
    stderr::complain,
    suggest,
    table::Column,
    time,
};
use mainstay_core::config::Secret;
use mainstay_platform::{
    environment::Process,
    state::{Ownership, StateDir},
};
use mainstay_tokens::{self as tokens, Tokens};

pub(super) const COLUMNS: [Column; 4] = [
    Column::new("NAME").cut_to(20),
    Column::new("CREATED").rank(1),
    Column::new("EXPIRES"),
    Column::new("LIMITS").cut_to(20),
];

const EXAMPLES: &str = "\
Examples:
  mainstay token add laptop --expires 90d
  mainstay token add ci --profile build --read-only
  mainstay token list
  mainstay token remove laptop
  mainstay token rotate         a new control token, for /api and these commands";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Token {
    #[command(subcommand)]
    action: TokenAction,
    /// Ask the daemon at this URL [default: $MAINSTAY_URL, or the one of the state directory]. Its
    /// token is taken from $MAINSTAY_TOKEN
    #[arg(long, value_name = "URL", global = true)]
    url: Option<String>,
    /// Print raw JSON on stdout, and errors as JSON on stderr
    #[arg(long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub shape: OutputShape,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Make a token with which a client may use the MCP addresses; it is printed once
    Add {
        name: String,
        /// Lifetime of the token: 30m, 12h, 90d, 8w [default: until it is removed]
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        expires: Option<Duration>,
        /// Let the token open only the endpoint of this profile; can be repeated
        #[arg(long, value_name = "PROFILE")]
        profile: Vec<String>,
        /// Allow only tools that their servers mark as read-only
        #[arg(long)]
        read_only: bool,
    },
    /// Show the clients that have one
    List,
    /// Have a client's token open nothing any more
    Remove { name: String },
    /// Replace the control token; the old one opens nothing any more
    Rotate,
}

#[derive(Debug, thiserror::Error)]
#[error("expected a number and a unit (s, m, h, d, w), such as 90d")]
struct BadLifetime;

fn lifetime(text: &str) -> Result<Duration, BadLifetime> {
    const UNITS: [(char, u64); 5] = [
        ('s', 1),
        ('m', 60),
        ('h', 60 * 60),
        ('d', 24 * 60 * 60),
        ('w', 7 * 24 * 60 * 60),
    ];
    let seconds = UNITS.into_iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(seconds)
    });
    seconds.map(Duration::from_secs).ok_or(BadLifetime)
}

/// The owner of the tokens, which makes changes.
enum TokenOwner {
    Daemon(Client),
    /// The state directory, without a daemon. This process owns the directory while it runs.
    Directory(Ownership),
}

impl TokenOwner {
    fn tokens(owner: &Ownership) -> Result<Tokens, CommandError> {
        Ok(Tokens::open(owner.dir().clone(), &owner.token)?)
    }
}

impl RunCommand for Token {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::printing(self.json).shaped(&self.shape)
    }

    async fn run(self, _: &dyn Host) -> Result<Exit, CommandError> {
        if !matches!(self.action, TokenAction::List) {
            self.shape.only_json(self.json)?;
        }
        match &self.action {
            TokenAction::Add {
                name,
                expires,
                profile,
                read_only,
            } => {
                let limits = TokenLimits {
                    profiles: profile.clone(),
                    read_only: *read_only,
                };
                self.add(name, *expires, limits).await?;
            }
            TokenAction::List => self.list().await?,
            TokenAction::Remove { name } => self.remove(name).await?,
            TokenAction::Rotate => self.rotate().await?,
        }
        Ok(Exit::DONE)
    }
}

impl Token {
    /// The daemon, if one runs or is named.
    fn daemon(&self) -> Result<Option<Client>, CommandError> {
        match connect::running(self.url.clone()) {
            Err(CommandError::Client(ClientError::NotRunning { .. })) => Ok(None),
            found => found.map(Some),
        }
    }

    fn owner(&self) -> Result<TokenOwner, CommandError> {
        Ok(match self.daemon()? {
            Some(client) => TokenOwner::Daemon(client),
            None => TokenOwner::Directory(StateDir::locate(&Process)?.take_ownership()?),
        })
    }

    async fn add(
        &self,
        name: &str,
        expires: Option<Duration>,
        limits: TokenLimits,
    ) -> Result<(), CommandError> {
        let added = match self.owner()? {
            TokenOwner::Daemon(client) => {
                let request = AddToken {
                    name: Some(name.to_owned()),
                    expires_in_seconds: expires.map(|time| time.as_secs()),
                    limits,
                };
                client.add_token(&request).await?
            }
            TokenOwner::Directory(owner) => {
                let limits = tokens::read_limits(&limits)?;
                let tokens = TokenOwner::tokens(&owner)?;
                let (token, client) = tokens.add_limited(name, expires, limits)?;
                tokens::added(&token, &client)
            }
        };
        if self.shape.only_json(self.json)? {
            return output::json(&added);
        }
        complain(&format!(
            "the token of {}; it is not shown again:",
            added.name
        ));
        output::line(&added.token)?;
        complain("a client sends it as `Authorization: Bearer TOKEN`");
        Ok(())
    }

    async fn list(&self) -> Result<(), CommandError> {
        let list = match self.daemon()? {
            Some(client) => client.client_tokens().await?,
            None => {
                let stored = tokens::read(&StateDir::locate(&Process)?)?;
                ClientTokens {
                    tokens: stored.iter().map(ClientToken::from).collect(),
                }
            }
        };
        let found = ItemList::list::<ClientToken>(&list, &["tokens"], &["name"]);
        let Some(Tabular { wide }) = self.shape.print(self.json, &found)? else {
            return Ok(());
        };
        if list.tokens.is_empty() {
            complain("no client has a token; `mainstay token add NAME` makes one");
            return Ok(());
        }
        let row = |token: &ClientToken| {
            let expires = match &token.expires_at {
                Some(end) if token.expired => format!("{} (expired)", time::local_with_day(end)),
                Some(end) => time::local_with_day(end),
                None => "never".to_owned(),
            };
            [
                token.name.clone(),
                time::local_with_day(&token.created_at),
                expires,
                limit_words(&token.limits),
            ]
        };
        output::rows_of(&COLUMNS, list.tokens.iter().map(row), wide)
    }

    async fn remove(&self, name: &str) -> Result<(), CommandError> {
        let removed_token = match self.owner()? {
            TokenOwner::Daemon(client) => {
                let removed_token = client.remove_token(name).await;
                suggest::completed(&client, removed_token.map_err(CommandError::from)).await?
            }
            TokenOwner::Directory(owner) => {
                let client = TokenOwner::tokens(&owner)?.remove(name)?;
                RemovedToken {
                    success: true,
                    name: client.name.to_string(),
                }
            }
        };
        if self.shape.only_json(self.json)? {
            return output::json(&removed_token);
        }
        output::line(&format!(
            "the token of {} opens nothing any more",
            removed_token.name
        ))
    }

    async fn rotate(&self) -> Result<(), CommandError> {
        let rotated = match self.owner()? {
            TokenOwner::Daemon(client) => client.rotate_token().await?,
            TokenOwner::Directory(owner) => {
                let token: Secret = TokenOwner::tokens(&owner)?.rotate()?;
                RotatedToken {
                    token: token.expose().to_owned(),
                }
            }
        };
        if self.shape.only_json(self.json)? {
            return output::json(&rotated);
        }
        complain("the new control token; the old one opens nothing any more:");
        output::line(&rotated.token)
    }
}

/// The limits of a token in a table.
pub(super) fn limit_words(limits: &TokenLimits) -> String {
    let read_only = limits.read_only.then_some("read-only");
    let mut words: Vec<&str> = read_only.into_iter().collect();
    words.extend(limits.profiles.iter().map(String::as_str));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_a_unit() {
        for (text, seconds) in [
            ("90d", 7_776_000),
            ("12h", 43_200),
            ("30m", 1800),
            ("1w", 604_800),
            ("0s", 0),
        ] {
            assert_eq!(lifetime(text).expect(text), Duration::from_secs(seconds));
        }
        for text in [
            "",
            "d",
            "90",
            "-1d",
            "1.5h",
            "90 d",
            "90D",
            "1y",
            "99999999999999999999d",
            "9999999999999999999w",
        ] {
            lifetime(text).expect_err(text);
        }
    }
}
