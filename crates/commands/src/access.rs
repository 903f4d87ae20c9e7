//! `mainstay access`: shows the rules of access, what each client may use, and why.

use clap::{Args, Subcommand};
use mainstay_api::{AccessOverview, PrincipalView};
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{ItemList, OutputShape, Tabular},
    stderr::complain,
    table::Column,
};
use serde_json::Value;

use crate::token::limit_words;

const EXAMPLES: &str = "\
Examples:
  mainstay access
  mainstay access rules
  mainstay access explain ci github/delete_file
  mainstay access explain anonymous docs --profile build";

pub(super) const COLUMNS: [Column; 4] = [
    Column::new("CLIENT").cut_to(20),
    Column::new("GROUPS").rank(2),
    Column::new("TOKEN").rank(1),
    Column::new("SERVERS").cut_to(20),
];

pub(super) const RULE_COLUMNS: [Column; 4] = [
    Column::new("RULE").cut_to(20),
    Column::new("WHO").cut_to(20),
    Column::new("WHAT").cut_to(20),
    Column::new("DECIDES"),
];

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AccessCommand {
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
    #[command(subcommand)]
    action: Option<AccessAction>,
}

#[derive(Debug, Subcommand)]
enum AccessAction {
    /// List the servers that each client sees (the default)
    List,
    /// List the rules of the configuration, in order
    Rules,
    /// Say whether a client may use a server or a tool, and why
    Explain {
        /// The name of a client's token, `anonymous` or `operator`
        client: String,
        /// A server, or one of its tools
        #[arg(value_name = "SERVER[/TOOL]")]
        target: String,
        /// Explain the prompt of this name
        #[arg(long, conflicts_with = "resource")]
        prompt: Option<String>,
        /// Explain the resource with this URI
        #[arg(long, value_name = "URI")]
        resource: Option<String>,
        /// The profile at whose endpoint the client asks [default: the endpoint of the server]
        #[arg(long)]
        profile: Option<String>,
    },
}

impl RunCommand for AccessCommand {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        match &self.action {
            Some(AccessAction::Explain {
                client,
                target,
                prompt,
                resource,
                profile,
            }) => {
                let mut query = vec![("principal", client.as_str())];
                match target.split_once('/') {
                    Some((server, tool)) => query.extend([("server", server), ("tool", tool)]),
                    None => query.push(("server", target.as_str())),
                }
                let others = [
                    ("prompt", prompt),
                    ("resource", resource),
                    ("profile", profile),
                ];
                query.extend(
                    others
                        .into_iter()
                        .filter_map(|(name, value)| Some((name, value.as_deref()?))),
                );
                self.explain(host, client, target, &query).await?;
            }
            Some(AccessAction::Rules) => self.rules(host).await?,
            Some(AccessAction::List) | None => self.list(host).await?,
        }
        Ok(Exit::DONE)
    }
}

impl AccessCommand {
    async fn overview(&self, host: &dyn Host) -> Result<AccessOverview, CommandError> {
        self.daemon
            .with(host, async |client| Ok(client.access().await?))
            .await
    }

    async fn list(&self, host: &dyn Host) -> Result<(), CommandError> {
        let overview = self.overview(host).await?;
        let found = ItemList::list::<PrincipalView>(&overview, &["principals"], &["principal"]);
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &found)? else {
            return Ok(());
        };
        if overview.access.is_none() {
            complain("the configuration has no rules of access: only tokens limit clients");
        }
        let row = |view: &PrincipalView| {
            let name = view.principal.strip_prefix("client:");
            let servers = match &view.servers[..] {
                _ if view.unlimited => "everything".to_owned(),
                [] => "nothing".to_owned(),
                servers => servers.join(", "),
            };
            [
                name.unwrap_or(&view.principal).to_owned(),
                view.groups.join(", "),
                limit_words(&view.limits),
                servers,
            ]
        };
        output::rows_of(&COLUMNS, overview.principals.iter().map(row), wide)
    }

    async fn rules(&self, host: &dyn Host) -> Result<(), CommandError> {
        let overview = self.overview(host).await?;
        let found = ItemList {
            whole: &overview,
            items: &["access", "rules"],
            names: &["name"],
            fields: RULE_FIELDS.map(str::to_owned).to_vec(),
        };
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &found)? else {
            return Ok(());
        };
        let Some(access) = &overview.access else {
            complain("the configuration has no rules of access: every client may use everything");
            return Ok(());
        };
        let rules = access["rules"].as_array();
        let rows = rules.into_iter().flatten().map(rule_row);
        let rest = [
            "(default)".to_owned(),
            "*".to_owned(),
            "everything else".to_owned(),
            access["default"].as_str().unwrap_or_default().to_owned(),
        ];
        output::rows_of(&RULE_COLUMNS, rows.chain([rest]), wide)
    }

    async fn explain(
        &self,
        host: &dyn Host,
        client: &str,
        target: &str,
        query: &[(&str, &str)],
    ) -> Result<(), CommandError> {
        let is_json = self.shape.only_json(self.daemon.json)?;
        let explanation = self
            .daemon
            .with(host, async |daemon| {
                Ok(daemon.explain_access(query).await?)
            })
            .await?;
        if is_json {
            return output::json(&explanation);
        }
        let may = if explanation.allowed {
            "may"
        } else {
            "may not"
        };
        let effect = explanation.effect.as_deref();
        let effect = effect.map_or_else(String::new, |effect| format!(" ({effect})"));
        let reason = &explanation.reason;
        output::line(&format!("{client} {may} use {target}{effect}: {reason}"))
    }
}

/// The members of a rule, as the configuration has them.
const RULE_FIELDS: [&str; 10] = [
    "name",
    "who",
    "profiles",
    "servers",
    "tools",
    "prompts",
    "resources",
    "allow",
    "readOnly",
    "destructive",
];

/// A rule of the configuration as a row of the table.
fn rule_row(rule: &Value) -> [String; 4] {
    let texts = |key: &str| {
        let texts = rule[key].as_array().into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    };
    let mut parts = vec![texts("servers").unwrap_or_else(|| "all servers".to_owned())];
    for key in ["tools", "prompts", "resources"] {
        parts.extend(texts(key).map(|names| format!("{key} {names}")));
    }
    let mut subjects = texts("who").unwrap_or_else(|| "*".to_owned());
    if let Some(profiles) = texts("profiles") {
        subjects = format!("{subjects} at {profiles}");
    }
    let verdict = if rule["allow"] == false {
        "deny"
    } else if rule["readOnly"] == true {
        "read-only"
    } else if rule["destructive"] == "deny" {
        "not destructive"
    } else {
        "allow"
    };
    let name = rule["name"].as_str().unwrap_or_default();
    [
        name.to_owned(),
        subjects,
        parts.join("; "),
        verdict.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_is_one_row() {
        for (rule, row) in [
            (
                json!({"name": "rules[0]", "allow": true}),
                ["rules[0]", "*", "all servers", "allow"],
            ),
            (
                json!({"name": "no drops", "servers": ["db"], "tools": ["drop_*", "x"], "allow": false}),
                ["no drops", "*", "db; tools drop_*, x", "deny"],
            ),
            (
                json!({"name": "r", "who": ["group:a"], "profiles": ["p"], "allow": true, "readOnly": true}),
                ["r", "group:a at p", "all servers", "read-only"],
            ),
            (
                json!({"name": "r", "allow": true, "destructive": "deny"}),
                ["r", "*", "all servers", "not destructive"],
            ),
        ] {
            assert_eq!(rule_row(&rule), row.map(str::to_owned));
        }
    }
}
