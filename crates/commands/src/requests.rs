//! `mainstay requests`: lists open requests of servers, and answers those that wait for the operator.

use clap::{Args, Subcommand};
use mainstay_api as api;
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape, Tabular},
    stderr::complain,
    table::Column,
    time, trouble,
};
use mainstay_core::message::foreign;
use serde_json::{Value, value::RawValue};

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
    #[command(flatten)]
    pub shape: OutputShape,
    #[command(subcommand)]
    action: Option<RequestsAction>,
}

#[derive(Debug, Subcommand)]
enum RequestsAction {
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

impl RunCommand for Requests {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        match &self.action {
            Some(RequestsAction::Answer { id, result }) => {
                let result: Box<RawValue> =
                    serde_json::from_str(result).map_err(|error| CommandError::Usage {
                        message: format!("the answer is no JSON: {error}"),
                        hint: None,
                    })?;
                let reply = api::Reply {
                    result: Some(result),
                    error: None,
                };
                self.reply(host, *id, &reply).await?;
            }
            Some(RequestsAction::Refuse { id, reason }) => {
                let reply = api::Reply {
                    result: None,
                    error: Some(reason.join(" ")),
                };
                self.reply(host, *id, &reply).await?;
            }
            Some(RequestsAction::List) | None => self.list(host).await?,
        }
        Ok(Exit::DONE)
    }
}

impl Requests {
    async fn reply(
        &self,
        host: &dyn Host,
        id: u64,
        reply: &api::Reply,
    ) -> Result<(), CommandError> {
        let is_json = self.shape.only_json(self.daemon.json)?;
        let replied = self
            .daemon
            .with(host, async |client| Ok(client.reply(id, reply).await?))
            .await?;
        if is_json {
            return output::json(&replied);
        }
        output::line(&format!("request {id} was answered"))
    }

    async fn list(&self, host: &dyn Host) -> Result<(), CommandError> {
        let waiting = self
            .daemon
            .with(host, async |client| Ok(client.server_requests().await?))
            .await?;
        let found = ItemList::list::<api::ServerRequest>(&waiting, &["requests"], &["id"]);
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &found)? else {
            return Ok(());
        };
        if waiting.requests.is_empty() && waiting.clients.is_empty() {
            complain("nothing waits; servers with \"serverRequests\": \"queue\" may ask here");
            return Ok(());
        }
        let row = |request: &api::ServerRequest| {
            [
                request.id.to_string(),
                request.server.clone(),
                request.method.clone(),
                time::local(&request.asked_at),
                "you".to_owned(),
                gist(&request.params),
            ]
        };
        let client_row = |question: &api::OpenQuestion| {
            [
                "-".to_owned(),
                question.server.clone(),
                question.method.clone(),
                time::local(&question.asked_at),
                trouble::waiting_client(question),
                String::new(),
            ]
        };
        let by_hand = waiting.requests.iter().map(row);
        let rows = by_hand.chain(waiting.clients.iter().map(client_row));
        output::rows_of(&COLUMNS, rows, wide)
    }
}

pub(super) const COLUMNS: [Column; 6] = [
    Column::new("ID"),
    Column::new("SERVER").cut_to(10),
    Column::new("METHOD").rank(1),
    Column::new("ASKED AT").rank(2),
    Column::new("WAITS FOR").cut_to(16).rank(3),
    Column::new("WHAT").cut_to(20),
];

/// The request's message. Without a message, the request's parameters.
fn gist(params: &RawValue) -> String {
    let value: Value = foreign::read(params.get()).unwrap_or_default();
    match value["message"].as_str() {
        Some(message) => message.to_owned(),
        None => params.get().to_owned(),
    }
}
