//! `mainstay resources`: lists resources and templates.

use clap::Args;
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
};
use serde::Serialize;

#[derive(Debug, Args)]
pub struct ResourcesCommand {
    #[command(flatten)]
    pub daemon: DaemonArgs,
    #[command(flatten)]
    pub shape: OutputShape,
}

pub(super) const COLUMNS: [Column; 4] = [
    Column::new("URI").cut_to(24),
    Column::new("SERVER").cut_to(10).rank(2),
    Column::new("TYPE").rank(3),
    Column::new("NAME").cut_to(10).rank(1),
];

#[derive(Serialize)]
struct ResourcesAndTemplates {
    resources: Vec<api::Resource>,
    resource_templates: Vec<api::Template>,
}

impl RunCommand for ResourcesCommand {
    type Host<'h> = dyn Host + 'h;

    fn facts(&self) -> CommandFacts {
        CommandFacts::rest_client(&self.daemon).shaped(&self.shape)
    }

    async fn run(self, host: &dyn Host) -> Result<Exit, CommandError> {
        let all = self
            .daemon
            .with(host, async |client| {
                Ok(ResourcesAndTemplates {
                    resources: client.resources().await?.resources,
                    resource_templates: client.templates().await?.resource_templates,
                })
            })
            .await?;
        let found = ItemList::list::<api::Resource>(
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
            // Put templates into the same table. Their braces distinguish them from resources.
            let resource_rows = all.resources.iter().map(|resource| {
                [
                    resource.uri.clone(),
                    resource.server.clone(),
                    resource.mime_type.clone().unwrap_or_default(),
                    resource.name.clone(),
                ]
            });
            let template_rows = all.resource_templates.iter().map(|template| {
                [
                    template.uri_template.clone(),
                    template.server.clone(),
                    template.mime_type.clone().unwrap_or_default(),
                    template.name.clone(),
                ]
            });
            output::rows_of(&COLUMNS, resource_rows.chain(template_rows), wide)?;
        }
        Ok(Exit::DONE)
    }
}
