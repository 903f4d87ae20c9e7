//! `mainstay requests`: lists requests of servers that wait for an answer by hand, and answers them.

use clap::{Args, Subcommand};
use mainstay_api as api;
use serde_json::{Value, value::RawValue};

use super::{CommandError, Exit, connect::DaemonArgs, output, stderr::complain, time};

const EXAMPLES: &str = "\
Examples:
  mainstay requests
  mainstay requests answer 3 '{\"action\": \"accept\", \"content\": {\"name\": \"Ada\"}}'
  mainstay requests refuse 3 not today";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Requests {
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List what waits (the default)
    List,
    /// Answer one with a result
    Answer {
        id: u64,
        /// The result, as the specification has it for the method
        #[arg(value_name = "JSON")]
        result: String,
    },
    /// Refuse one
    Refuse {
        id: u64,
        #[arg(value_name = "WHY", default_value = "refused by hand")]
        reason: Vec<String>,
    },
}

impl Requests {
    pub async fn run(self) -> Result<Exit, CommandError> {
        match &self.action {
            Some(Action::Answer { id, result }) => {
                let result: Box<RawValue> =
                    serde_json::from_str(result).map_err(|error| CommandError::Usage {
                        message: format!("the answer is no JSON: {error}"),
                        hint: None,
                    })?;
                let reply = api::Reply {
                    result: Some(result),
                    error: None,
                };
                self.reply(*id, &reply).await?;
            }
            Some(Action::Refuse { id, reason }) => {
                let reply = api::Reply {
                    result: None,
                    error: Some(reason.join(" ")),
                };
                self.reply(*id, &reply).await?;
            }
            Some(Action::List) | None => self.list().await?,
        }
        Ok(Exit::DONE)
    }

    async fn reply(&self, id: u64, reply: &api::Reply) -> Result<(), CommandError> {
        let replied = self
            .daemon
            .with(async |client| Ok(client.reply(id, reply).await?))
            .await?;
        if self.daemon.json {
            return output::json(&replied);
        }
        output::line(&format!("request {id} was answered"))
    }

    async fn list(&self) -> Result<(), CommandError> {
        let waiting = self
            .daemon
            .with(async |client| Ok(client.server_requests().await?))
            .await?;
        if self.daemon.json {
            return output::json(&waiting);
        }
        if waiting.requests.is_empty() {
            complain("nothing waits; servers with \"serverRequests\": \"queue\" may ask here");
            return Ok(());
        }
        let row = |it: &api::ServerRequest| {
            [
                it.id.to_string(),
                it.server.clone(),
                it.method.clone(),
                time::local(&it.asked_at),
                gist(&it.params),
            ]
        };
        output::table(
            ["ID", "SERVER", "METHOD", "ASKED AT", "WHAT"],
            waiting.requests.iter().map(row),
        )
    }
}

/// What a person must know of a request: its message, else all of it.
fn gist(params: &RawValue) -> String {
    let value: Value = serde_json::from_str(params.get()).unwrap_or_default();
    match value["message"].as_str() {
        Some(message) => message.to_owned(),
        None => params.get().to_owned(),
    }
}
