//! Reads the sources of credentials for requests to a remote server, apart from its headers.

use std::time::Duration;

use mainstay_core::config::{HeadersHelper, SignIn};

use crate::read::{entry::EntryReader, fields::Fields, node::Node, reach::is_off};

/// Default time limit of a helper.
const HELPER_TIME_LIMIT: Duration = Duration::from_secs(10);

impl EntryReader<'_, '_, '_> {
    /// Reads `headersHelper`. Its command is run by the shell, so the shell expands its references.
    pub fn headers_helper(&mut self) -> Option<SignIn> {
        let node = self.fields.take("headersHelper")?;
        if is_off(&node) {
            return None;
        }
        let mut helper = HeadersHelper {
            command: String::new(),
            time_limit: HELPER_TIME_LIMIT,
            ttl: None,
        };
        let command = if node.is_object() {
            let mut fields = Fields::open(&node, self.report)?;
            let command = fields.take("command");
            let limit = fields
                .take("timeoutMs")
                .and_then(|node| node.milliseconds(self.report));
            helper.time_limit = limit.unwrap_or(HELPER_TIME_LIMIT);
            helper.ttl = fields
                .take("ttlMs")
                .and_then(|node| node.milliseconds(self.report));
            fields.finish(self.report);
            if command.is_none() {
                let message = "a helper needs a `command`";
                self.report.error(&node.place, message);
            }
            command?
        } else {
            node
        };
        helper.command = self.command_line(&command)?;
        Some(SignIn::Helper(helper))
    }

    fn command_line(&mut self, node: &Node<'_>) -> Option<String> {
        let text = node.string(self.report)?;
        if text.trim().is_empty() || text.contains('\0') {
            let message = "expected a command line for the shell";
            self.report.error(&node.place, message);
            return None;
        }
        Some(text.to_owned())
    }
}
