//! The retry policy of a session, and the presets.

use std::time::Duration;

use super::Loss;
use crate::{health, ids::Epoch, words::words};

/// All settings of a session's life. Explicit settings of a server override its preset.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Time limit from spawn or connect to the end of the handshake. For processes, only time
    /// without a sign of work counts.
    pub connect_timeout: Duration,
    /// Time limit for a whole start, even if its processes work; see [`Policy::longest_start`].
    pub start_timeout: Duration,
    /// Time after which a session that does not close is killed.
    pub close_timeout: Duration,
    pub reconnect: Reconnect,
    pub restart: Restart,
    pub health: health::HealthPolicy,
    /// The seed of the jitter. The same seed gives the same delays.
    pub seed: u64,
}

/// Settings for attempts after a loss.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconnect {
    pub mode: ReconnectMode,
    /// Maximum number of attempts in a row. `None` is without limit.
    pub max_attempts: Option<u32>,
    pub initial_delay: Duration,
    pub max_delay: Duration,
    pub multiplier: f64,
    /// Fraction by which a delay varies up or down. Applied after `max_delay`.
    pub jitter: f64,
    /// The delay after HTTP 401 or 403. It does not grow.
    pub unauthorized_delay: Duration,
    /// Minimum time from an attempt that got HTTP 401 or 403 to an attempt for a call.
    pub unauthorized_spacing: Duration,
    pub initial_failure: InitialFailure,
    /// True if a call to a server that is down brings the next attempt forward.
    pub on_call: bool,
    /// Uptime after which losses are forgiven. Zero forgives them on connect. With a longer time,
    /// the delay also grows for a server that dies soon after each handshake.
    pub forgive_after: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconnectMode {
    /// Retry after a delay.
    Auto,
    /// Retry only on request. A call is a request if `on_call` is set.
    Manual,
    /// Open only when the operator starts the server.
    Off,
}

words!(ReconnectMode { "auto" => Auto, "manual" => Manual, "off" => Off });

/// The action after a failed first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialFailure {
    Retry,
    Error,
}

words!(InitialFailure { "retry" => Retry, "error" => Error });

/// Settings for restarts after a crash of a process. Crashes are counted apart from lost
/// connections. So a policy can retry remote servers without limit, and give up after five crashes.
#[derive(Clone, Debug, PartialEq)]
pub struct Restart {
    pub mode: RestartMode,
    /// Maximum number of crashes in a row. `None` is without limit. Applies to
    /// [`RestartMode::OnCrash`].
    pub max_attempts: Option<u32>,
    /// Uptime after which crashes are forgiven.
    pub reset_after: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartMode {
    /// Crashes have their own budget, but use the delays of `reconnect`.
    OnCrash,
    /// A crash counts like any other loss.
    AsReconnect,
    Never,
}

words!(RestartMode { "on_crash" => OnCrash, "as_reconnect" => AsReconnect, "never" => Never });

/// The presets of docs/configuration.md. All except the default reproduce an older program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Preset {
    #[default]
    Default,
    /// Reconnects without limit.
    Persistent,
    /// Gives up after five attempts. The probe is an HTTP request.
    Router,
    /// Gives up after five attempts. One missed ping is enough for a reconnect.
    Bounded,
    /// Only a person restarts a crashed server.
    Desktop,
    /// Only a person reconnects.
    Manual,
}

impl Preset {
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::Persistent,
        Self::Router,
        Self::Bounded,
        Self::Desktop,
        Self::Manual,
    ];

    /// The name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Persistent => "persistent",
            Self::Router => "router",
            Self::Bounded => "bounded",
            Self::Desktop => "desktop",
            Self::Manual => "manual",
        }
    }

    pub fn policy(self) -> Policy {
        let base = Policy {
            connect_timeout: Duration::from_secs(30),
            // The first start with npx or uvx includes downloads and builds, which take minutes.
            start_timeout: Duration::from_mins(10),
            close_timeout: Duration::from_secs(10),
            reconnect: Reconnect {
                mode: ReconnectMode::Auto,
                max_attempts: None,
                initial_delay: Duration::from_secs(1),
                max_delay: Duration::from_secs(30),
                multiplier: 2.0,
                jitter: 0.1,
                unauthorized_delay: Duration::from_mins(10),
                unauthorized_spacing: Duration::from_mins(1),
                initial_failure: InitialFailure::Retry,
                on_call: true,
                forgive_after: Duration::from_secs(60),
            },
            restart: Restart {
                mode: RestartMode::OnCrash,
                max_attempts: Some(5),
                reset_after: Duration::from_secs(60),
            },
            health: health::HealthPolicy::default(),
            seed: 0,
        };
        let as_reconnect = Restart {
            mode: RestartMode::AsReconnect,
            ..base.restart.clone()
        };
        match self {
            Self::Default => base,
            Self::Persistent => Policy {
                reconnect: Reconnect {
                    max_delay: Duration::from_secs(180),
                    forgive_after: Duration::ZERO,
                    ..base.reconnect
                },
                restart: as_reconnect,
                health: health::HealthPolicy {
                    interval: Some(Duration::from_secs(120)),
                    timeout: Duration::from_secs(60),
                    method: health::ProbeMethod::ToolsList,
                    action: health::HealthAction::Event,
                    ..base.health
                },
                ..base
            },
            Self::Router => Policy {
                reconnect: Reconnect {
                    max_attempts: Some(5),
                    jitter: 0.0,
                    initial_failure: InitialFailure::Error,
                    on_call: false,
                    forgive_after: Duration::ZERO,
                    ..base.reconnect
                },
                restart: as_reconnect,
                health: health::HealthPolicy {
                    jitter: 0.0,
                    timeout: Duration::from_secs(5),
                    method: health::ProbeMethod::Http,
                    action: health::HealthAction::Reconnect,
                    unanswered_calls: None,
                    ..base.health
                },
                ..base
            },
            Self::Bounded => Policy {
                reconnect: Reconnect {
                    max_attempts: Some(5),
                    max_delay: Duration::from_secs(16),
                    jitter: 0.0,
                    initial_failure: InitialFailure::Error,
                    on_call: false,
                    ..base.reconnect
                },
                restart: as_reconnect,
                health: health::HealthPolicy {
                    jitter: 0.0,
                    threshold: 1,
                    action: health::HealthAction::Reconnect,
                    // One missed ping leads to a reconnect only if it shows a hang.
                    hang_after: Duration::from_secs(30),
                    unanswered_calls: None,
                    ..base.health
                },
                ..base
            },
            Self::Desktop => manual_policy(base, ReconnectMode::Off),
            Self::Manual => {
                let mut policy = manual_policy(base, ReconnectMode::Manual);
                policy.health.threshold = 5;
                policy
            }
        }
    }
}

/// Changes a policy so that sessions open only on request.
fn manual_policy(mut policy: Policy, mode: ReconnectMode) -> Policy {
    policy.reconnect.mode = mode;
    policy.reconnect.initial_failure = InitialFailure::Error;
    policy.reconnect.on_call = false;
    policy.restart.mode = RestartMode::Never;
    policy.health.interval = None;
    policy.health.unanswered_calls = None;
    policy
}

impl Default for Policy {
    fn default() -> Self {
        Preset::Default.policy()
    }
}

impl Policy {
    /// Time limit of a whole attempt: the longer one of `start_timeout` and `connect_timeout`.
    pub fn longest_start(&self) -> Duration {
        self.start_timeout.max(self.connect_timeout)
    }

    /// True if the policy retries after this loss without a request.
    pub(super) fn comes_back(&self, loss: &Loss) -> bool {
        let is_crash = matches!(loss, Loss::Crashed { .. });
        self.reconnect.mode == ReconnectMode::Auto
            && loss.is_retried()
            && !(is_crash && self.restart.mode == RestartMode::Never)
    }

    /// True if the policy reopens a lost session without a person: after a delay, or for a call.
    pub(super) fn reopens_alone(&self) -> bool {
        match self.reconnect.mode {
            ReconnectMode::Auto => true,
            ReconnectMode::Manual => self.reconnect.on_call,
            ReconnectMode::Off => false,
        }
    }

    /// The delay after the server refused the credentials, in whole milliseconds.
    pub(super) fn unauthorized_delay(&self, epoch: Epoch) -> Duration {
        let seconds = self.reconnect.unauthorized_delay.as_secs_f64();
        add_jitter(seconds, self.reconnect.jitter, self.seed ^ epoch.0)
    }

    /// The delay before attempt `attempt` (1, 2, …) of `epoch`, in whole milliseconds.
    pub(super) fn delay(&self, attempt: u32, epoch: Epoch) -> Duration {
        let Reconnect {
            initial_delay,
            max_delay,
            multiplier,
            jitter,
            ..
        } = self.reconnect;
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let raw_delay = initial_delay.as_secs_f64() * multiplier.powi(exponent);
        let capped = raw_delay.min(max_delay.as_secs_f64());
        add_jitter(capped, jitter, self.seed ^ epoch.0)
    }
}

/// `seconds`, varied by the fraction `jitter` up or down, in whole milliseconds.
pub(crate) fn add_jitter(seconds: f64, jitter: f64, seed: u64) -> Duration {
    let varied_seconds = seconds * (1.0 + jitter * (unit_random(seed) * 2.0 - 1.0));
    Duration::from_secs_f64((varied_seconds * 1000.0).round() / 1000.0)
}

/// A number in 0..1 that depends only on `seed` (SplitMix64).
#[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64")]
fn unit_random(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
