//! How sessions are kept: `preset`, and the knobs beside it.
//!
//! The same keys stand at the top of the file, for all servers, and in a server's entry. The nearer one
//! wins, and a preset sets everything: an entry that names a preset starts from it, and the top's
//! settings of these keys do not reach it. Any other entry starts from the top.

use std::time::Duration;

use crate::{
    health::{self, Action, Method},
    lifecycle::{InitialFailure, Policy, Preset, Reconnect, ReconnectMode, Restart, RestartMode},
};

use super::{
    Isolation, ListChanged, ServerRequests,
    fields::Fields,
    node::Node,
    report::{KeyPath, Report},
};

/// A server that dies at once shall not keep a core busy.
const SHORTEST_DELAY: Duration = Duration::from_millis(100);

/// What holds at one level of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
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
    pub fn read(above: &Self, fields: &mut Fields<'_>, report: &mut Report<'_>) -> Self {
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
        let timeout = fields.take("connectTimeoutMs");
        if let Some(timeout) = timeout.and_then(|node| node.limit(report)) {
            this.policy.connect_timeout = timeout;
        }
        let timeout = fields.take("startTimeoutMs");
        if let Some(timeout) = timeout.and_then(|node| node.limit(report)) {
            this.policy.start_timeout = timeout;
        }
        let call_retry = fields.take("callRetry");
        if let Some(call_retry) = call_retry.and_then(|node| node.boolean(report)) {
            this.call_retry = call_retry;
        }
        if let Some(node) = fields.take("listChanged") {
            let words = [
                ("propagate", ListChanged::Propagate),
                ("ignore", ListChanged::Ignore),
            ];
            this.list_changed = node.word(report, &words).unwrap_or(this.list_changed);
        }
        let strict = fields.take("strictToolNames");
        if let Some(strict) = strict.and_then(|node| node.boolean(report)) {
            this.strict_tool_names = strict;
        }
        if let Some(node) = fields.take("serverRequests") {
            let words = [
                ("forward", ServerRequests::Forward),
                ("queue", ServerRequests::Queue),
                ("reject", ServerRequests::Reject),
            ];
            this.server_requests = node.word(report, &words).or(this.server_requests);
        }
        reconnect(&mut this.policy.reconnect, fields, report);
        restart(&mut this.policy.restart, fields, report);
        this.health_interval_stated |= health(&mut this.policy.health, fields, report);
        this
    }
}

fn reconnect(policy: &mut Reconnect, fields: &mut Fields<'_>, report: &mut Report<'_>) {
    let mut group = Group::open("reconnect", fields, report);
    let modes = [
        ("auto", ReconnectMode::Auto),
        ("manual", ReconnectMode::Manual),
        ("off", ReconnectMode::Off),
    ];
    let mode = group.own("mode", words(&modes));
    let automatic = automatic(&mut group, mode.as_ref());
    group.set(&mut policy.mode, mode, automatic);

    let own = group.own("maxAttempts", attempts);
    // Zero would mean no attempt, which `autoReconnect` says better.
    let alias = group.beside("maxRetries", |node, report| node.count(report, 1).map(Some));
    group.set(&mut policy.max_attempts, own, alias);
    group.knob_or_alias(&mut policy.initial_delay, "initialDelayMs", delay);
    group.knob_or_alias(&mut policy.max_delay, "maxDelayMs", delay);
    group.knob_or_alias(
        &mut policy.forgive_after,
        "forgiveAfterMs",
        Node::milliseconds_or_zero,
    );
    group.knob(&mut policy.multiplier, "multiplier", |node, report| {
        node.number(1.0..=1000.0, "from 1 to 1000", report)
    });
    group.knob(&mut policy.jitter, "jitter", jitter);
    group.knob(&mut policy.unauthorized_delay, "unauthorizedDelayMs", delay);
    let failures = [
        ("retry", InitialFailure::Retry),
        ("error", InitialFailure::Error),
    ];
    group.knob(
        &mut policy.initial_failure,
        "initialFailure",
        words(&failures),
    );
    group.knob(&mut policy.on_call, "onCall", Node::boolean);
    group.finish();
}

/// Whether to reconnect by itself, in two spellings; what `reconnect.mode` says may say it
/// more exactly.
fn automatic(
    group: &mut Group<'_, '_, '_, '_>,
    mode: Option<&Stated<ReconnectMode>>,
) -> Option<Stated<ReconnectMode>> {
    let snake = group.beside("auto_reconnect", Node::boolean);
    let camel = group.beside("autoReconnect", Node::boolean);
    if let (Some(snake), Some(camel)) = (&snake, &camel)
        && snake.value != camel.value
    {
        let message = "`auto_reconnect` and `autoReconnect` contradict each other";
        group.report.error(&camel.place, message);
    }
    let Stated { place, value } = camel.or(snake)?;
    let value = match value {
        true => ReconnectMode::Auto,
        false if mode.is_some_and(|mode| mode.value == ReconnectMode::Manual) => {
            ReconnectMode::Manual
        }
        false => ReconnectMode::Off,
    };
    Some(Stated { place, value })
}

fn restart(policy: &mut Restart, fields: &mut Fields<'_>, report: &mut Report<'_>) {
    let mut group = Group::open("restart", fields, report);
    let modes = [
        ("on_crash", RestartMode::OnCrash),
        ("as_reconnect", RestartMode::AsReconnect),
        ("never", RestartMode::Never),
    ];
    group.knob(&mut policy.mode, "mode", words(&modes));
    group.knob(&mut policy.max_attempts, "maxAttempts", attempts);
    group.knob(
        &mut policy.reset_after,
        "resetAfterMs",
        Node::milliseconds_or_zero,
    );
    group.finish();
}

/// Whether the interval is stated.
fn health(policy: &mut health::Policy, fields: &mut Fields<'_>, report: &mut Report<'_>) -> bool {
    let off = fields
        .peek("health")
        .is_some_and(|node| node.as_bool() == Some(false) || node.as_str() == Some("off"));
    if off {
        fields.take("health");
    }
    let mut group = Group::open("health", fields, report);
    // "off" is an action in the file; here it is a server that is never asked.
    let actions = [
        ("verify", Some(Action::Verify)),
        ("reconnect", Some(Action::Reconnect)),
        ("event", Some(Action::Event)),
        ("log", Some(Action::Log)),
        ("off", None),
    ];
    let action = group.own("action", words(&actions));
    let off = off || matches!(&action, Some(Stated { value: None, .. }));
    if let Some(action) = action.and_then(|action| action.value) {
        policy.action = action;
    }
    let own = group.own("intervalMs", interval);
    let alias = group.beside("healthCheckIntervalMs", interval);
    let stated = off || own.is_some() || alias.is_some();
    if off {
        policy.interval = None;
        for Stated { place, value } in own.into_iter().chain(alias) {
            if value.is_some() {
                group.report.error(&place, "contradicts that it is off");
            }
        }
    } else {
        group.set(&mut policy.interval, own, alias);
    }
    group.knob_or_alias(&mut policy.hang_after, "hangAfterMs", Node::milliseconds);
    group.knob(&mut policy.unanswered_calls, "unansweredCalls", attempts);
    group.knob(&mut policy.jitter, "jitter", jitter);
    group.knob(&mut policy.timeout, "timeoutMs", Node::milliseconds);
    let methods = [
        ("ping", Method::Ping),
        ("tools_list", Method::ToolsList),
        ("http", Method::Http),
    ];
    group.knob(&mut policy.method, "method", words(&methods));
    group.knob(&mut policy.threshold, "threshold", |node, report| {
        node.count(report, 1)
    });
    group.finish();
    stated
}

/// Attempts or calls in a row, if there is a limit.
type Limit = Option<u32>;

/// Zero is no limit.
fn attempts(node: &Node<'_>, report: &mut Report<'_>) -> Option<Limit> {
    let number = node.count(report, 0)?;
    Some((number > 0).then_some(number))
}

/// How often a server is asked, if it is.
type Interval = Option<Duration>;

/// Zero is never.
fn interval(node: &Node<'_>, report: &mut Report<'_>) -> Option<Interval> {
    let time = node.milliseconds_or_zero(report)?;
    Some((!time.is_zero()).then_some(time))
}

fn delay(node: &Node<'_>, report: &mut Report<'_>) -> Option<Duration> {
    node.milliseconds_from(SHORTEST_DELAY, report)
}

fn jitter(node: &Node<'_>, report: &mut Report<'_>) -> Option<f64> {
    node.number(0.0..=1.0, "from 0 to 1", report)
}

fn words<T: Copy>(words: &[(&str, T)]) -> impl Fn(&Node<'_>, &mut Report<'_>) -> Option<T> {
    move |node, report| node.word(report, words)
}

/// A value that the file states, and where.
struct Stated<T> {
    place: KeyPath,
    value: T,
}

/// The knobs of one object, some of which have an older name beside it.
struct Group<'f, 'a, 'r, 't> {
    /// Absent where the file has none.
    fields: Option<Fields<'a>>,
    around: &'f mut Fields<'a>,
    report: &'r mut Report<'t>,
}

impl<'f, 'a, 'r, 't> Group<'f, 'a, 'r, 't> {
    fn open(name: &'static str, around: &'f mut Fields<'a>, report: &'r mut Report<'t>) -> Self {
        let node = around.take(name);
        Self {
            fields: node.and_then(|node| Fields::open(&node, report)),
            around,
            report,
        }
    }

    fn own<T>(&mut self, key: &'static str, read: impl Read<'a, T>) -> Option<Stated<T>> {
        let node = self.fields.as_mut()?.take(key)?;
        let value = read(&node, self.report)?;
        Some(Stated {
            place: node.place,
            value,
        })
    }

    fn beside<T>(&mut self, key: &'static str, read: impl Read<'a, T>) -> Option<Stated<T>> {
        let node = self.around.take(key)?;
        let value = read(&node, self.report)?;
        Some(Stated {
            place: node.place,
            value,
        })
    }

    /// Two names of one knob must not contradict each other.
    fn set<T: PartialEq>(
        &mut self,
        knob: &mut T,
        own: Option<Stated<T>>,
        alias: Option<Stated<T>>,
    ) {
        if let (Some(own), Some(alias)) = (&own, &alias)
            && own.value != alias.value
        {
            let message = format!("contradicts {}", own.place.path);
            self.report.error(&alias.place, message);
        }
        if let Some(stated) = own.or(alias) {
            *knob = stated.value;
        }
    }

    fn knob<T: PartialEq>(&mut self, knob: &mut T, key: &'static str, read: impl Read<'a, T>) {
        let own = self.own(key, read);
        self.set(knob, own, None);
    }

    /// A knob that may also stand beside the object, under the same name.
    fn knob_or_alias<T: PartialEq>(
        &mut self,
        knob: &mut T,
        key: &'static str,
        read: impl Read<'a, T> + Copy,
    ) {
        let own = self.own(key, read);
        let alias = self.beside(key, read);
        self.set(knob, own, alias);
    }

    fn finish(self) {
        if let Some(fields) = self.fields {
            fields.finish(self.report);
        }
    }
}

/// Reads a value, or reports why it cannot.
trait Read<'a, T>: Fn(&Node<'a>, &mut Report<'_>) -> Option<T> {}
impl<'a, T, F: Fn(&Node<'a>, &mut Report<'_>) -> Option<T>> Read<'a, T> for F {}
