//! Reads `alerts`: receivers of a message when a server goes down, flaps, loses its tools or recovers.
//!
//! ```json
//! {"on": ["server_down", "recovered"], "servers": ["prod-*"], "webhook": {"url": "${ALERT_URL}"}, "afterMs": 60000}
//! ```

use std::time::Duration;

use mainstay_core::config::{
    Alert, AlertCommand, AlertKind, Flapping, Glob, Receiver, Secret, Webhook,
};

use crate::read::{
    entry::{Context, EntryReader},
    fields::Fields,
    node::Node,
    report::FindingReport,
};

/// Default delay of an alert. Most outages are shorter, and nobody needs to hear of them.
const AFTER: Duration = Duration::from_secs(60);
const FLAPPING: Flapping = Flapping {
    losses: 3,
    within: Duration::from_secs(600),
};
/// Default time limit of a delivery, by webhook or command. Long enough for a slow chat service.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads `alerts`, an array.
pub(crate) fn read<'e>(
    node: &Node<'e>,
    context: &Context<'e>,
    report: &mut FindingReport<'_>,
) -> Vec<Alert> {
    let elements = node.array(report);
    elements
        .iter()
        .filter_map(|node| alert(node, context, report))
        .collect()
}

fn alert<'e>(
    node: &Node<'e>,
    context: &Context<'e>,
    report: &mut FindingReport<'_>,
) -> Option<Alert> {
    let mut fields = Fields::open(node, report)?;
    let on = fields.take("on").map(|node| kinds(&node, report));
    let servers = fields.take("servers").map(|node| node.strings(report));
    let (webhook, command) = (fields.take("webhook"), fields.take("command"));
    let to = match (webhook, command) {
        (Some(node), None) => self::webhook(&node, context, report).map(Receiver::Webhook),
        (None, Some(node)) => self::command(&node, context, report).map(Receiver::Command),
        (Some(_), Some(node)) => {
            let message = "an alert has a `webhook` or a `command`, not both";
            report.error_with_hint(&node.place, message, "make two of it");
            None
        }
        (None, None) => {
            report.error(&fields.place, "an alert needs a `webhook` or a `command`");
            None
        }
    };
    let after = fields
        .take("afterMs")
        .and_then(|node| node.milliseconds_or_zero(report));
    let flapping = fields.take("flapping").map(|node| flapping(&node, report));
    let timeout = fields
        .take("timeoutMs")
        .and_then(|node| node.milliseconds(report));
    fields.finish(report);
    Some(Alert {
        on: on.unwrap_or_else(|| AlertKind::ALL.to_vec()),
        servers: servers
            .unwrap_or_default()
            .into_iter()
            .map(Glob::new)
            .collect(),
        to: to?,
        after: after.unwrap_or(AFTER),
        flapping: flapping.unwrap_or(FLAPPING),
        timeout: timeout.unwrap_or(TIMEOUT),
    })
}

fn kinds(node: &Node<'_>, report: &mut FindingReport<'_>) -> Vec<AlertKind> {
    let words = AlertKind::ALL.map(|kind| (kind.as_str(), kind));
    let elements = node.array(report);
    if node.is_array() && elements.is_empty() {
        report.error(
            &node.place,
            "an alert about nothing; leave `on` out for everything",
        );
    }
    elements
        .iter()
        .filter_map(|node| node.word(report, &words))
        .collect()
}

fn flapping(node: &Node<'_>, report: &mut FindingReport<'_>) -> Flapping {
    let mut flapping = FLAPPING;
    let Some(mut fields) = Fields::open(node, report) else {
        return flapping;
    };
    // One loss is not flapping.
    if let Some(losses) = fields.take("losses").and_then(|node| node.count(report, 2)) {
        flapping.losses = losses;
    }
    if let Some(within) = fields
        .take("withinMs")
        .and_then(|node| node.milliseconds(report))
    {
        flapping.within = within;
    }
    fields.finish(report);
    flapping
}

fn webhook<'e>(
    node: &Node<'e>,
    context: &Context<'e>,
    report: &mut FindingReport<'_>,
) -> Option<Webhook> {
    let fields = Fields::open(node, report)?;
    let mut entry = EntryReader::new("", fields, context, report);
    let url = entry.fields.take("url");
    let url = entry
        .required(url, &["url"], "a webhook needs a `url`")
        .and_then(|(place, url)| entry.checked_url(&place, url));
    let headers = entry.headers();
    entry.fields.finish(entry.report);
    Some(Webhook {
        url: Secret::new(url?),
        headers,
    })
}

fn command<'e>(
    node: &Node<'e>,
    context: &Context<'e>,
    report: &mut FindingReport<'_>,
) -> Option<AlertCommand> {
    let scope = context.scope();
    let mut words = Vec::new();
    for node in node.array(report) {
        let text = node.string(report)?;
        match scope.expand(text) {
            Ok(text) => words.push(text),
            Err(fault) => report.error_about(&node.place, &fault, fault.hint()),
        }
    }
    let mut rest = words.into_iter();
    let Some(program) = rest.next().filter(|program| !program.trim().is_empty()) else {
        if node.is_array() {
            report.error(&node.place, "a command needs the name of a program");
        }
        return None;
    };
    Some(AlertCommand {
        program,
        args: rest.collect(),
    })
}
