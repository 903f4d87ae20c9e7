//! Writes values of settings in the words of the file.

#![expect(clippy::ref_option, reason = "rows pass a reference to their field")]

use std::{sync::Arc, time::Duration};

use mainstay_core::{
    access::{AccessPolicy, AccessRule, ItemPatterns},
    config::{Alert, AlertCommand, AlertKind, Glob, Receiver, Root, Secret, Telemetry},
};
use serde_json::{Map, Value, json};

use crate::words::settings::SettingValue;

/// Makes an object, without the members that are `null`.
pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    let set = members.into_iter().filter(|(_, value)| !value.is_null());
    set.map(|(key, value)| (key.to_owned(), value)).collect()
}

pub(crate) fn globs(globs: &[Glob]) -> Value {
    globs.iter().map(Glob::as_str).collect()
}

pub(crate) fn headers(headers: &[(String, Secret)]) -> Value {
    let members = headers
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.expose())));
    match members.collect::<Map<_, _>>() {
        none if none.is_empty() => Value::Null,
        members => members.into(),
    }
}

/// `null`, for a setting that other code or another key writes.
pub(crate) fn elsewhere<T>(_: &T) -> Value {
    Value::Null
}

/// A duration in seconds, a whole number if possible.
pub(crate) fn seconds(time: &Duration) -> Value {
    if time.subsec_nanos() == 0 {
        time.as_secs().into()
    } else {
        time.as_secs_f64().into()
    }
}

pub(crate) fn roots(roots: &[Root]) -> Value {
    let values = roots.iter().map(|root| match &root.name {
        Some(name) => json!({"uri": root.uri, "name": name}),
        None => root.uri.as_str().into(),
    });
    values.collect()
}

pub(crate) fn url(url: &Option<Secret>) -> Value {
    json!(url.as_ref().map(Secret::expose))
}

pub(crate) fn tools(tools: &Arc<[String]>) -> Value {
    json!(tools[..])
}

pub(crate) fn allowed_tools(tools: &Option<Arc<[String]>>) -> Value {
    json!(tools.as_deref())
}

pub(crate) fn access(access: &Option<Arc<AccessPolicy>>) -> Value {
    access.as_deref().map_or(Value::Null, access_value)
}

/// Writes the rules of access in the words of the file.
pub fn access_value(policy: &AccessPolicy) -> Value {
    let groups: Map<_, _> = policy
        .groups
        .iter()
        .map(|(name, members)| (name.to_string(), globs(members)))
        .collect();
    object([
        ("default", verdict(policy.allows_rest)),
        ("groups", groups.into()),
        ("rules", policy.rules.iter().map(access_rule).collect()),
    ])
    .into()
}

fn verdict(is_allowed: bool) -> Value {
    if is_allowed { "allow" } else { "deny" }.into()
}

fn access_rule(rule: &AccessRule) -> Value {
    let AccessRule {
        name,
        subjects,
        profiles,
        servers,
        items,
        allows,
        read_only,
        refuses_destructive,
    } = rule;
    let unless_empty = |patterns: &[Glob]| match patterns {
        [] => Value::Null,
        patterns => globs(patterns),
    };
    let patterns = |of_kind: fn(&ItemPatterns) -> &[Glob]| {
        items
            .as_ref()
            .map_or(Value::Null, |items| globs(of_kind(items)))
    };
    let subject_texts: Vec<String> = subjects.iter().map(ToString::to_string).collect();
    object([
        ("name", name.as_str().into()),
        (
            "who",
            match &subject_texts[..] {
                [] => Value::Null,
                texts => texts.into(),
            },
        ),
        ("profiles", unless_empty(profiles)),
        ("servers", unless_empty(servers)),
        ("tools", patterns(|items| &items.tools)),
        ("prompts", patterns(|items| &items.prompts)),
        ("resources", patterns(|items| &items.resources)),
        ("allow", (*allows).into()),
        (
            "readOnly",
            if *read_only { true.into() } else { Value::Null },
        ),
        (
            "destructive",
            if *refuses_destructive {
                verdict(false)
            } else {
                Value::Null
            },
        ),
    ])
    .into()
}

pub(crate) fn alerts(alerts: &[Alert]) -> Value {
    alerts.iter().map(alert).collect()
}

fn alert(alert: &Alert) -> Value {
    let Alert {
        on,
        servers,
        to,
        after,
        flapping,
        timeout,
    } = alert;
    let (key, receiver) = match to {
        Receiver::Webhook(webhook) => {
            let url = webhook.url.expose();
            let webhook = object([("url", url.into()), ("headers", headers(&webhook.headers))]);
            ("webhook", webhook.into())
        }
        Receiver::Command(AlertCommand { program, args }) => {
            let words = std::iter::once(program).chain(args).cloned();
            ("command", words.collect())
        }
    };
    object([
        ("on", on.iter().copied().map(AlertKind::as_str).collect()),
        ("servers", globs(servers)),
        (key, receiver),
        ("afterMs", after.file_value()),
        (
            "flapping",
            json!({"losses": flapping.losses, "withinMs": flapping.within.file_value()}),
        ),
        ("timeoutMs", timeout.file_value()),
    ])
    .into()
}

pub(crate) fn telemetry(telemetry: &Option<Telemetry>) -> Value {
    // The environment sets everything else.
    let Some(Telemetry {
        collector,
        service_name,
        sample_ratio,
        attributes: _,
        other_protocol: _,
    }) = telemetry
    else {
        return Value::Null;
    };
    object([
        ("endpoint", collector.url.expose().into()),
        ("headers", headers(&collector.headers)),
        ("serviceName", service_name.as_str().into()),
        ("sampleRatio", (*sample_ratio).into()),
    ])
    .into()
}
