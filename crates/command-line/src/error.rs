//! Errors of commands: the text, the hint, and the exit code.

use std::{error::Error, fmt, io};

use http::StatusCode;
use mainstay_api::ClientError;
use mainstay_core::failure::{Failure, with_causes};
use mainstay_install::unpack::BundleError;
use mainstay_platform::{
    environment::LoadError, lineage::LineageError, state::StateError, vault::VaultError,
};
use mainstay_tokens::TokenError;
use mainstay_transport::{BoundedError, DownloadError};
use serde_json::{Map, Value};

use super::{
    fate::CallFate,
    hint,
    listen::ListenAddress,
    screen::{complain, complain_json},
};

/// Exit codes of all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub u8);

impl Exit {
    pub const DONE: Self = Self(0);
    pub const FAILED: Self = Self(1);
    pub const USAGE: Self = Self(2);
    pub const UNREACHABLE: Self = Self(3);
    pub const NOT_FOUND: Self = Self(4);
    pub const TIMED_OUT: Self = Self(5);
    /// The MCP registry cannot be reached.
    pub const NO_REGISTRY: Self = Self(6);
}

/// An error of the journal's store.
#[derive(Debug)]
pub struct JournalFault {
    pub error: Box<dyn Error + Send + Sync>,
    /// The next step.
    pub hint: Option<String>,
}

impl fmt::Display for JournalFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl Error for JournalFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Journal(JournalFault),
    /// `journal.durability` is `strict`, and the journal has no directory.
    #[error("calls cannot be put on record, and no call is to go unrecorded")]
    NotRecorded(#[source] StateError),
    #[error(transparent)]
    Lineage(#[from] LineageError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// No daemon runs, and the command needs one.
    #[error(transparent)]
    NoDaemon(ClientError),
    /// The change of the configuration file failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The arguments are invalid.
    #[error("{message}")]
    Usage {
        message: String,
        hint: Option<String>,
    },
    #[error("cannot listen on {address}")]
    Listen {
        address: ListenAddress,
        source: io::Error,
    },
    #[error("{subject} not found")]
    NotFound { subject: String, hint: String },
    /// The command has nothing to work on.
    #[error("{message}")]
    Nothing { message: String, hint: String },
    #[error("cannot read {path}")]
    Read { path: String, source: io::Error },
    /// The machine cannot do it, or not now.
    #[error("{message}")]
    Cannot {
        code: &'static str,
        message: String,
        hint: Option<String>,
    },
    #[error("signals cannot be heard")]
    Signals(#[source] io::Error),
    #[error("cannot write to stdout")]
    Output(#[source] io::Error),
    #[error("interrupted by {name}")]
    Interrupted { name: &'static str, exit: u8 },
    /// A call that was cancelled by its caller.
    #[error("{subject} was cancelled by {signal}: {}", fate.words())]
    Cancelled {
        subject: String,
        signal: &'static str,
        exit: u8,
        fate: CallFate,
    },
    #[error("not stopped within {seconds} s")]
    StillRunning { seconds: u64 },
    #[error("{0} is not approved")]
    NotApproved(String),
    /// A front has no daemon.
    #[error("{reason}")]
    NotAttached { exit: Exit, reason: String },
    /// The user declined.
    #[error("nothing was started and nothing was saved")]
    Declined,
    /// A server failed to start in a trial.
    #[error("{server} was not added: {reason}")]
    NotStarted {
        server: String,
        reason: String,
        /// The last lines of its stderr.
        stderr: Vec<String>,
        hint: &'static str,
    },
    /// Required settings of a server have no value.
    #[error("values are missing: {}", lines.join("; "))]
    Missing { lines: Vec<String>, hint: String },
    /// A server of the registry that cannot run on this machine.
    #[error("{server} cannot be run here: {}", reasons.join("; "))]
    Unusable {
        server: String,
        reasons: Vec<String>,
        hint: Option<String>,
    },
    #[error("the registry cannot be asked")]
    Registry(#[source] DownloadError),
    #[error("the registry {url} cannot be understood: {reason}")]
    RegistryAnswer { url: String, reason: String },
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error("cannot write {path}")]
    Write { path: String, source: io::Error },
    /// The daemon of the state directory listens on an address where other users may listen, too.
    #[error("the daemon of the state directory is said to be at {0}, which is not loopback")]
    Elsewhere(String),
}

impl CommandError {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Load(_) | Self::Lineage(_) | Self::Usage { .. } | Self::Read { .. } => {
                Exit::USAGE
            }
            Self::Client(error) | Self::NoDaemon(error) => client_exit(error),
            Self::Token(error) => match error {
                TokenError::Name(_) | TokenError::Lifetime(_) | TokenError::Profile(_) => {
                    Exit::USAGE
                }
                TokenError::Unknown(_) => Exit::NOT_FOUND,
                TokenError::Taken(_)
                | TokenError::TooMany(_)
                | TokenError::Unreadable { .. }
                | TokenError::State(_) => Exit::FAILED,
            },
            Self::Vault(VaultError::Name | VaultError::TooLong(_)) => Exit::USAGE,
            Self::Failed(failure) => Exit(failure.kind.exit_code()),
            Self::NotFound { .. } | Self::Nothing { .. } => Exit::NOT_FOUND,
            Self::Missing { .. } => Exit::USAGE,
            Self::Registry(DownloadError::Unanswered(BoundedError::Late { .. })) => Exit::TIMED_OUT,
            Self::Registry(DownloadError::Unanswered(
                BoundedError::NotSent { .. } | BoundedError::AnswerLost { .. },
            )) => Exit::NO_REGISTRY,
            Self::Interrupted { exit, .. } | Self::Cancelled { exit, .. } => Exit(*exit),
            Self::NotAttached { exit, .. } => *exit,
            Self::State(_)
            | Self::Vault(_)
            | Self::Journal(_)
            | Self::NotRecorded(_)
            | Self::Listen { .. }
            | Self::Cannot { .. }
            | Self::Signals(_)
            | Self::Output(_)
            | Self::NotApproved(_)
            | Self::Declined
            | Self::NotStarted { .. }
            | Self::Unusable { .. }
            | Self::Registry(_)
            | Self::RegistryAnswer { .. }
            | Self::Bundle(_)
            | Self::Write { .. }
            | Self::Elsewhere(_)
            | Self::StillRunning { .. } => Exit::FAILED,
        }
    }

    /// The error code for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::Load(_) => "invalid_config",
            Self::Lineage(_) => "loop",
            Self::State(StateError::Taken { .. }) => "already_running",
            Self::State(_) | Self::Journal(_) | Self::NotRecorded(_) => "state_unusable",
            Self::Client(error) | Self::NoDaemon(error) => error.code(),
            Self::Token(error) => error.code(),
            Self::Failed(failure) => failure.kind.code(),
            Self::Vault(VaultError::Name | VaultError::TooLong(_)) => "invalid_arguments",
            Self::Vault(_) => "vault_unusable",
            Self::Usage { .. } => "invalid_arguments",
            Self::Cannot { code, .. } => code,
            Self::Listen { .. } => "cannot_listen",
            Self::NotFound { .. } | Self::Nothing { .. } => "not_found",
            Self::Read { .. } => "cannot_read",
            Self::Signals(_) | Self::Output(_) => "internal_error",
            Self::Interrupted { .. } => "interrupted",
            Self::Cancelled { .. } => "cancelled",
            Self::StillRunning { .. } => "stop_timeout",
            Self::NotApproved(_) | Self::Declined => "not_approved",
            Self::NotStarted { .. } => "not_started",
            Self::Missing { .. } => "missing_values",
            Self::Unusable { .. } => "unusable_server",
            Self::Registry(_) => "registry_unreachable",
            Self::RegistryAnswer { .. } => "registry_unreadable",
            Self::Bundle(_) => "bundle_refused",
            Self::Write { .. } => "not_saved",
            Self::Elsewhere(_) => "not_loopback",
            Self::NotAttached { .. } => "unreachable",
        }
    }

    /// The error with its causes: `cannot read x.json: there is no such file`.
    fn sentence(&self) -> String {
        with_causes(self)
    }

    /// Prints the error on stderr, for people or as JSON.
    pub fn report(&self, json: bool) {
        if json {
            complain_json(&self.body());
            return;
        }
        match self {
            // The findings already have the format that editors understand.
            Self::Load(LoadError::Invalid { path, errors }) => {
                for error in &errors.0 {
                    complain(&error.at(path.display()).to_string());
                }
            }
            _ => complain(&format!("error: {}", self.sentence())),
        }
        self.explain();
    }

    /// Prints the error as the result for one of several servers.
    pub fn report_of(&self, server: &str, json: bool) {
        if json {
            let mut body = self.body();
            if let Some(body) = body.as_object_mut() {
                body.entry("server").or_insert_with(|| server.into());
            }
            complain_json(&body);
            return;
        }
        complain(&format!("{server}: {}", self.sentence()));
        self.explain();
    }

    /// Prints details for people.
    fn explain(&self) {
        for line in self.details() {
            complain(&format!("  | {line}"));
        }
        if let Some(hint) = hint::hint_for(self) {
            complain(&format!("  hint: {hint}"));
        }
    }

    /// The last lines of a server's stderr, if the failure has them.
    fn details(&self) -> Vec<String> {
        if let Self::NotStarted { stderr, .. } = self {
            return stderr.clone();
        }
        let Self::Client(error) = self else {
            return Vec::new();
        };
        let elements = error
            .body()
            .and_then(|body| body.get("stderr"))
            .and_then(Value::as_array);
        let lines = elements.into_iter().flatten().filter_map(Value::as_str);
        lines.map(str::to_owned).collect()
    }

    fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("error".to_owned(), self.code().into());
        body.insert("message".to_owned(), self.sentence().into());
        if let Self::Load(LoadError::Invalid { path, errors }) = self {
            let errors = errors
                .0
                .iter()
                .map(|error| error.at(path.display()).to_string());
            body.insert("errors".to_owned(), errors.collect());
        }
        if let Some(hint) = hint::hint_for(self) {
            body.insert("hint".to_owned(), hint.into());
        }
        if let Self::NotStarted { stderr, .. } = self {
            body.insert("stderr".to_owned(), stderr.as_slice().into());
        }
        // The message of the daemon.
        if let Self::Client(error) = self {
            body.extend(
                error
                    .body()
                    .into_iter()
                    .flatten()
                    .map(|(key, value)| (key.clone(), value.clone())),
            );
        }
        Value::Object(body)
    }
}

/// The exit code for each REST status.
fn client_exit(error: &ClientError) -> Exit {
    match error {
        ClientError::BadUrl { .. } => Exit::USAGE,
        ClientError::NotRunning { .. } | ClientError::Unreachable { .. } => Exit::UNREACHABLE,
        ClientError::Lost { .. }
        | ClientError::Unauthorized { .. }
        | ClientError::Foreign { .. } => Exit::FAILED,
        ClientError::Refused { status, .. } => match *status {
            StatusCode::BAD_REQUEST => Exit::USAGE,
            StatusCode::NOT_FOUND => Exit::NOT_FOUND,
            StatusCode::GATEWAY_TIMEOUT => Exit::TIMED_OUT,
            _ => Exit::FAILED,
        },
    }
}
