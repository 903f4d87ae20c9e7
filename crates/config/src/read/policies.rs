//! Reads the policies of sessions: `preset`, and the settings that change parts of it.
//!
//! The same keys are valid at the top of the file, for all servers, and in a server's entry. The entry
//! overrides the top. A preset sets all policies: an entry that names a preset starts from that preset,
//! and ignores the policies at the top. Any other entry starts from the policies at the top.

use std::time::Duration;

use mainstay_core::{
    config::{Isolation, ListChanged, ServerConfig, ServerRequests},
    health::HealthAction,
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

/// The policies at one level of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub preset: Preset,
    pub policy: Policy,
    pub call_retry: bool,
    pub list_changed: ListChanged,
    pub server_requests: Option<ServerRequests>,
    /// The setting at the top of the file. Another reader reads the setting of an entry.
    pub isolation: Option<Isolation>,
    /// True if tools whose names are not plain ASCII words are hidden from clients.
    pub strict_tool_names: bool,
    /// True if the file sets the interval of health checks.
    pub health_interval_stated: bool,
}

impl Policies {
    /// The policies of a preset.
    pub fn of_preset(preset: Preset) -> Self {
        Self {
            preset,
            policy: preset.policy(),
            strict_tool_names: preset == Preset::Desktop,
            ..Self::default()
        }
    }

    /// Reads the policies of this object. `above` has the policies that the object does not set.
    pub fn read(above: &Self, fields: &mut Fields<'_>, report: &mut FindingReport<'_>) -> Self {
        let preset = fields.take("preset").and_then(|node| {
            let words = Preset::ALL.map(|preset| (preset.as_str(), preset));
            node.word(report, &words)
        });
        let mut this = match preset {
            Some(preset) => Self {
                // A preset does not set these.
                server_requests: above.server_requests,
                isolation: above.isolation,
                ..Self::of_preset(preset)
            },
            None => above.clone(),
        };
        let stated = StatedPolicies::in_fields(fields);
        if stated.is_off {
            this.policy.health.interval = None;
            // `health` may be `false` or "off" instead of an object.
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

    /// Reads the switch for automatic reconnecting, in two spellings. `reconnect.mode` may refine "off" to
    /// `manual`.
    fn read_automatic(
        &mut self,
        stated: &StatedPolicies,
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
        let mode_place = stated.place("reconnect", "mode");
        let mode = match is_automatic {
            true => ReconnectMode::Auto,
            false
                if mode_place.is_some() && self.policy.reconnect.mode == ReconnectMode::Manual =>
            {
                ReconnectMode::Manual
            }
            false => ReconnectMode::Off,
        };
        match mode_place {
            Some(mode_place) if self.policy.reconnect.mode != mode => {
                report.error(&place, format!("contradicts {}", mode_place.path));
            }
            _ => self.policy.reconnect.mode = mode,
        }
    }

    /// Reads aliases: names of settings outside of their objects. An alias must not contradict the setting
    /// in its object.
    fn read_aliases(
        &mut self,
        stated: &StatedPolicies,
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
                Some(stated_place) if (field.differs)(self, &other) => {
                    report.error(&node.place, format!("contradicts {}", stated_place.path));
                }
                Some(_) => {}
                None => *self = other,
            }
        }
    }
}

/// The settings that one level of the file sets.
struct StatedPolicies {
    /// Object and key, and the place of the value.
    places: Vec<(&'static str, &'static str, KeyPath)>,
    /// True if health checks are off.
    is_off: bool,
    /// The place of the interval of health checks.
    interval: Option<KeyPath>,
}

impl StatedPolicies {
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
                let value = node.member(key.names[0]).filter(|value| !value.is_null())?;
                Some((name, key.names[0], value.place))
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
        let interval = stated.place("health", "intervalMs").cloned();
        stated.interval = interval.or(alias.map(|node| node.place.clone()));
        stated
    }

    fn place(&self, object: &str, key: &str) -> Option<&KeyPath> {
        self.places
            .iter()
            .find(|(holder, name, _)| (*holder, *name) == (object, key))
            .map(|(.., place)| place)
    }
}

/// Maximum number of consecutive attempts or calls. `None` means that there is no limit.
pub(crate) type Limit = Option<u32>;

/// Reads a limit. Zero means that there is no limit.
pub(crate) fn attempts(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Limit> {
    let number = node.count(report, 0)?;
    Some((number > 0).then_some(number))
}

/// Time between two health checks. `None` means that there are none.
pub(crate) type Interval = Option<Duration>;

/// Reads an interval. Zero means that there are no health checks.
pub(crate) fn interval(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Interval> {
    let time = node.milliseconds_or_zero(report)?;
    Some((!time.is_zero()).then_some(time))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "rows pass a reference to their field"
)]
pub(crate) fn file_limit(limit: &Limit) -> Value {
    limit.unwrap_or_default().into()
}

pub(crate) fn file_interval(interval: &Interval) -> Value {
    interval.unwrap_or_default().file_value()
}

/// Reads a limit of at least one attempt. `autoReconnect` turns attempts off.
pub(crate) fn retries(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Limit> {
    u32::read(node, report).map(Some)
}

/// The word that turns health checks off, in place of an object or of an action.
pub(crate) const OFF: &str = "off";

/// Reads an action. Returns `None` for "off", which is an absent interval and no action here.
pub(crate) fn action(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<HealthAction> {
    let mut words: Vec<_> = HealthAction::VALUES
        .iter()
        .map(|action| (action.word(), Some(*action)))
        .collect();
    words.push((OFF, None));
    node.word(report, &words).flatten()
}
