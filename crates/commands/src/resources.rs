//! `mainstay resources`: lists resources and templates.

use clap::Args;
use mainstay_api as api;
use mainstay_command_line::{
    CommandError, Exit,
    connect::DaemonArgs,
    host::Host,
    output,
    run_command::{CommandFacts, RunCommand},
    shape::{Found, Shape, Tabular},
    stderr::complain,
    table::Column,
};
use serde::Serialize;

#[derive(Debug, Args)]
pub struct Resources {
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: Shape,
}

pub(super) const COLUMNS: [Column; 4] = [
    Column::new("URI").cut_to(24),
    Column::new("SERVER").cut_to(10).rank(2),
    Column::new("TYPE").rank(3),
    Column::new("NAME").cut_to(10).rank(1),
];

#[derive(Serialize)]
struct Both {
    resources: Vec<api::Resource>,
    resource_templates: Vec<api::Template>,
}

impl RunCommand for Resources {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::asking(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let all = self
            .daemon
            .with(host, async |client| {
                Ok(Both {
                    resources: client.resources().await?.resources,
                    resource_templates: client.templates().await?.resource_templates,
                })
            })
            .await?;
        let found = Found::list::<api::Resource>(
            &all,
            &["resources", "resource_templates"],
            &["uri", "uriTemplate"],
        );
        let Some(Tabular { wide }) = self.shape.print(self.daemon.json, &found)? else {
            return Ok(Exit::DONE);
        };
        if all.resources.is_empty() && all.resource_templates.is_empty() {
            complain("no resources; `mainstay list` shows how the servers are");
        } else {
            // Templates stand among the resources: they show by their braces.
            let resources = all.resources.iter().map(|it| {
                [
                    it.uri.clone(),
                    it.server.clone(),
                    it.mime_type.clone().unwrap_or_default(),
                    it.name.clone(),
                ]
            });
            let templates = all.resource_templates.iter().map(|it| {
                [
                    it.uri_template.clone(),
                    it.server.clone(),
                    it.mime_type.clone().unwrap_or_default(),
                    it.name.clone(),
                ]
            });
            output::rows_of(&COLUMNS, resources.chain(templates), wide)?;
        }
        Ok(Exit::DONE)
    }
}
