//! `mainstay resources`: lists resources and templates.

use clap::Args;
use mainstay_api as api;
use serde::Serialize;

use super::{CommandError, Exit, connect::DaemonArgs, output, stderr::complain};

#[derive(Debug, Args)]
pub struct Resources {
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

#[derive(Serialize)]
struct Both {
    resources: Vec<api::Resource>,
    resource_templates: Vec<api::Template>,
}

impl Resources {
    pub async fn run(self) -> Result<Exit, CommandError> {
        let all = self
            .daemon
            .with(async |client| {
                Ok(Both {
                    resources: client.resources().await?.resources,
                    resource_templates: client.templates().await?.resource_templates,
                })
            })
            .await?;
        if self.daemon.json {
            output::json(&all)?;
        } else if all.resources.is_empty() && all.resource_templates.is_empty() {
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
            output::table_of_names(
                ["URI", "SERVER", "TYPE", "NAME"],
                resources.chain(templates),
            )?;
        }
        Ok(Exit::DONE)
    }
}
