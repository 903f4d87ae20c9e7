//! How sessions are kept: `preset`, and the knobs beside it.
//!
//! The same keys stand at the top of the file, for all servers, and in a server's entry. The nearer one
//! wins, and a preset sets everything: an entry that names a preset starts from it, and the top's
//! settings of these keys do not reach it. Any other entry starts from the top.

use std::time::Duration;

use mainstay_core::{
    config::{Isolation, ListChanged, ServerConfig, ServerRequests},
    health::Action,
    lifecycle::{Policy, Preset, ReconnectMode},
    words::SettingWords as _,
};
use serde_json::Value;

use crate::{
    read::{
        fields::Fields,
        node::Node,
        report::{FindingReport, KeyPath},
    },
    words::settings::{self, SettingValue},
};

/// What holds at one level of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub preset: Preset,
    pub policy: Policy,
    pub call_retry: bool,
    pub list_changed: ListChanged,
    pub server_requests: Option<ServerRequests>,
    /// What the top of the file says: an entry reads its own.
    pub isolation: Option<Isolation>,
    /// Whether tools are kept from clients whose names are not plain ASCII words.
    pub strict_tool_names: bool,
    /// Whether the file says how often a server is asked.
    pub health_interval_stated: bool,
}

impl Policies {
    /// What a preset says.
    pub fn of(preset: Preset) -> Self {
        Self {
            preset,
            policy: preset.policy(),
            strict_tool_names: preset == Preset::Desktop,
            ..Self::default()
        }
    }

    /// What holds where this object speaks; `above` holds where it is silent.
    pub fn read(above: &Self, fields: &mut Fields<'_>, report: &mut FindingReport<'_>) -> Self {
        let preset = fields.take("preset").and_then(|node| {
            let words = Preset::ALL.map(|preset| (preset.as_str(), preset));
            node.word(report, &words)
        });
        let mut this = match preset {
            Some(preset) => Self {
                // These are no part of a preset.
                server_requests: above.server_requests,
                isolation: above.isolation,
                ..Self::of(preset)
            },
            None => above.clone(),
        };
        let stated = Stated::in_fields(fields);
        if stated.is_off {
            this.policy.health.interval = None;
            // It may be `false` or "off" in place of an object.
            if fields.peek("health").is_some_and(|node| !node.is_object()) {
                fields.take("health");
            }
        }
        settings::read(&mut this, fields, report);
        this.read_automatic(&stated, fields, report);
        this.read_aliases(&stated, fields, report);
        if let (true, Some(place)) = (stated.is_off, &stated.interval)
            && this.policy.health.interval.take().is_some()
        {
            report.error(place, "contradicts that it is off");
        }
        this.health_interval_stated |= stated.is_off || stated.interval.is_some();
        this
    }

    /// The policies of a server.
    pub fn of_server(server: &ServerConfig) -> Self {
        Self {
            preset: Preset::default(),
            policy: server.policy.clone(),
            call_retry: server.call_retry,
            list_changed: server.list_changed,
            server_requests: server.server_requests,
            isolation: server.isolation,
            strict_tool_names: server.withheld.strict_names,
            health_interval_stated: server.health_interval_stated,
        }
    }

    /// Whether to reconnect by itself, in two spellings; what `reconnect.mode` says may say it more exactly.
    fn read_automatic(
        &mut self,
        stated: &Stated,
        fields: &mut Fields<'_>,
        report: &mut FindingReport<'_>,
    ) {
        let [snake, camel] = ["auto_reconnect", "autoReconnect"].map(|name| {
            let node = fields.take(name)?;
            Some((node.boolean(report)?, node.place))
        });
        if let (Some((snake, _)), Some((camel, place))) = (&snake, &camel)
            && snake != camel
        {
            let message = "`auto_reconnect` and `autoReconnect` contradict each other";
            report.error(place, message);
        }
        let Some((is_automatic, place)) = camel.or(snake) else {
            return;
        };
        let own = stated.place("reconnect", "mode");
        let mode = match is_automatic {
            true => ReconnectMode::Auto,
            false if own.is_some() && self.policy.reconnect.mode == ReconnectMode::Manual => {
                ReconnectMode::Manual
            }
            false => ReconnectMode::Off,
        };
        match own {
            Some(own) if self.policy.reconnect.mode != mode => {
                report.error(&place, format!("contradicts {}", own.path));
            }
            _ => self.policy.reconnect.mode = mode,
        }
    }

    /// Other names of settings, beside the objects that have them. The two must not contradict each other.
    fn read_aliases(
        &mut self,
        stated: &Stated,
        fields: &mut Fields<'_>,
        report: &mut FindingReport<'_>,
    ) {
        for row in fields.keys() {
            let (Some((object, key)), Some(field)) = (row.alias_of, &row.field) else {
                continue;
            };
            let (Some(node), Some(read)) = (fields.take(row.names[0]), field.read) else {
                continue;
            };
            let mut other = self.clone();
            read(&mut other, &node, report);
            match stated.place(object, key) {
                Some(own) if (field.differs)(self, &other) => {
                    report.error(&node.place, format!("contradicts {}", own.path));
                }
                Some(_) => {}
                None => *self = other,
            }
        }
    }
}

/// Which settings a level of the file states.
struct Stated {
    /// Object and key, and where its value stands.
    places: Vec<(&'static str, &'static str, KeyPath)>,
    /// Whether servers are never asked how they are.
    is_off: bool,
    /// Where it says how often they are.
    interval: Option<KeyPath>,
}

impl Stated {
    fn in_fields(fields: &Fields<'_>) -> Self {
        let mut places = Vec::new();
        for row in fields.keys() {
            let Some(object) = row.object_of::<Policies>() else {
                continue;
            };
            let name = row.names[0];
            let Some(node) = fields.peek(name) else {
                continue;
            };
            places.extend(object.all_keys().filter_map(|key| {
                let own = node.member(key.names[0]).filter(|own| !own.is_null())?;
                Some((name, key.names[0], own.place))
            }));
        }
        let health = fields.peek("health");
        let is_off = health.is_some_and(|node| {
            let action = node.member("action");
            let action = action.as_ref().and_then(Node::as_str);
            node.as_bool() == Some(false) || node.as_str() == Some(OFF) || action == Some(OFF)
        });
        let mut stated = Self {
            places,
            is_off,
            interval: None,
        };
        let alias = fields.peek("healthCheckIntervalMs");
        let own = stated.place("health", "intervalMs").cloned();
        stated.interval = own.or(alias.map(|node| node.place.clone()));
        stated
    }

    fn place(&self, object: &str, key: &str) -> Option<&KeyPath> {
        let mut places = self.places.iter();
        let stated = places.find(|(of, name, _)| (*of, *name) == (object, key));
        stated.map(|(.., place)| place)
    }
}

/// Attempts or calls in a row, if there is a limit.
pub(crate) type Limit = Option<u32>;

/// Zero is no limit.
pub(crate) fn attempts(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Limit> {
    let number = node.count(report, 0)?;
    Some((number > 0).then_some(number))
}

/// How often a server is asked, if it is.
pub(crate) type Interval = Option<Duration>;

/// Zero is never.
pub(crate) fn interval(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Interval> {
    let time = node.milliseconds_or_zero(report)?;
    Some((!time.is_zero()).then_some(time))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "rows pass a reference to their field"
)]
pub(crate) fn shown_limit(limit: &Limit) -> Value {
    limit.unwrap_or_default().into()
}

pub(crate) fn shown_interval(interval: &Interval) -> Value {
    interval.unwrap_or_default().file_value()
}

/// At least one attempt: none is what `autoReconnect` says.
pub(crate) fn retries(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Limit> {
    u32::read(node, report).map(Some)
}

/// In the place of an object or of an action: a server is never asked.
pub(crate) const OFF: &str = "off";

/// "off" is an action in the file; here it is an interval that there is not.
pub(crate) fn action(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Action> {
    let mut words: Vec<_> = Action::VALUES
        .iter()
        .map(|action| (action.word(), Some(*action)))
        .collect();
    words.push((OFF, None));
    node.word(report, &words).flatten()
}
