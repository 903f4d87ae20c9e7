//! Hints about errors: the next step. Every error has a hint, except for an interrupt by the user.

use std::io;

use mainstay_api::ClientError;
use mainstay_core::{
    display::word,
    failure::{Failure, NOTE},
    lifecycle::SessionState,
};
use mainstay_install::unpack::BundleError;
use mainstay_platform::{
    environment::LoadError,
    lineage::LineageError,
    state::{StateError, Untrusted},
    vault::VaultError,
};
use mainstay_tokens::TokenError;
use mainstay_transport::{BoundedError, DownloadError};
use serde_json::Value;

use super::{CommandError, Exit, fate::CallFate, suggest};

/// The hint when no other is known.
const LOOK: &str = "`mainstay doctor` looks for what is wrong";

pub fn hint_for(error: &CommandError) -> Option<String> {
    let hint_or = |hint: &Option<String>, or: &str| hint.clone().unwrap_or_else(|| or.to_owned());
    Some(match error {
        CommandError::Load(error) => of_load(error),
        CommandError::State(error) => of_state(error),
        CommandError::Vault(error) => of_vault(error),
        CommandError::Journal(fault) => hint_or(&fault.hint, LOOK),
        CommandError::NotRecorded(StateError::Untrusted {
            source: source @ Untrusted::Writable { .. },
            ..
        }) => source.hint().unwrap_or_else(|| LOOK.to_owned()),
        CommandError::NotRecorded(_) => {
            "set MAINSTAY_HOME to a directory that can be written, or `journal.durability` to `relaxed`"
                .to_owned()
        }
        CommandError::Lineage(error) => of_lineage(error),
        CommandError::Token(error) => of_token(error),
        CommandError::Client(error) => of_client(error),
        CommandError::NoDaemon(_) => "start one with `mainstay serve`".to_owned(),
        CommandError::Failed(failure) => of_failure(failure),
        CommandError::Usage { hint, .. } => hint_or(hint, "--help shows what can be given"),
        CommandError::Cannot { code, hint, .. } => match (hint, *code) {
            (None, "cannot_write") => "see that its folder is there and can be written".to_owned(),
            (hint, _) => hint_or(hint, LOOK),
        },
        CommandError::Unusable { hint, .. } => hint_or(
            hint,
            "`mainstay search WORD` finds others; `mainstay add NAME -- COMMAND` adds what you start yourself",
        ),
        CommandError::NotFound { hint, .. }
        | CommandError::Nothing { hint, .. }
        | CommandError::Missing { hint, .. } => hint.clone(),
        CommandError::NotStarted { hint, .. } => (*hint).to_owned(),
        CommandError::Listen { source, .. } => match source.kind() {
            io::ErrorKind::AddrInUse => {
                "another program listens there; choose a port with --listen 127.0.0.1:PORT"
            }
            io::ErrorKind::PermissionDenied => "ports below 1024 need privileges",
            _ => "--listen 127.0.0.1:PORT names an address of this machine",
        }
        .to_owned(),
        CommandError::Read { path, source } => of_read(path, source.kind()),
        CommandError::Write { source, .. } => of_disk(source.kind())
            .unwrap_or_else(|| "see that its folder is there and can be written".to_owned()),
        CommandError::Bundle(error) => of_bundle(error),
        CommandError::Registry(error) => match error {
            DownloadError::Refused { status: 404, .. } => {
                "`mainstay search WORD` shows which servers there are"
            }
            DownloadError::Refused { .. }
            | DownloadError::Unanswered(BoundedError::TooLarge { .. }) => {
                "try again later, or name another registry by --registry or MAINSTAY_REGISTRY"
            }
            DownloadError::NoUrl(_) | DownloadError::Unanswered(_) => {
                "another registry is named by --registry or MAINSTAY_REGISTRY"
            }
        }
        .to_owned(),
        CommandError::RegistryAnswer { .. } => {
            "check its URL: --registry or MAINSTAY_REGISTRY names the registry".to_owned()
        }
        CommandError::Signals(_) => LOOK.to_owned(),
        CommandError::Output(_) => "see that what reads it is there, and that the disk has room".to_owned(),
        CommandError::Interrupted { .. } => return None,
        CommandError::Cancelled {
            fate: CallFate::NotSent,
            ..
        } => "it can be called again".to_owned(),
        CommandError::Cancelled { subject, .. } => format!(
            "check before you call again; `mainstay records --text {}` shows its record",
            word(subject)
        ),
        CommandError::StillRunning { .. } => {
            "give calls less time to end (`shutdown.graceMs`), or send the signal again".to_owned()
        }
        CommandError::NotApproved(server) => {
            format!("`mainstay approve {server}` asks again; --yes answers for you")
        }
        CommandError::Declined => "answer y to go on, or give --yes".to_owned(),
        CommandError::NotAttached { exit, .. } => match *exit {
            Exit::UNREACHABLE => {
                "start a daemon with `mainstay serve`; `mainstay mcp` does without one"
            }
            _ => "set MAINSTAY_TOKEN to a token of that daemon",
        }
        .to_owned(),
        CommandError::Elsewhere(url) => format!("if that is right, name it: --url {}", word(url)),
    })
}

fn of_load(error: &LoadError) -> String {
    match error {
        LoadError::Unreadable { source, .. } => source.hint().to_owned(),
        LoadError::Gone { .. } => "bring it back, or name another one by --config".to_owned(),
        LoadError::Invalid { .. } => "correct it; `mainstay validate FILE` checks it".to_owned(),
    }
}

fn of_state(error: &StateError) -> String {
    match error {
        StateError::Nowhere => "set MAINSTAY_HOME to a directory of yours".to_owned(),
        StateError::Taken { .. } => {
            "use that daemon, stop it, or set MAINSTAY_HOME to another directory for a second one"
                .to_owned()
        }
        StateError::BadToken(path) => format!(
            "remove {}; the next `mainstay serve` makes a new one",
            path.display()
        ),
        StateError::Random => "try again; the system has no random numbers now".to_owned(),
        StateError::Untrusted { source, .. } => source.hint().unwrap_or_else(other_home),
        StateError::Io { source, .. } => {
            let untrusted = source
                .get_ref()
                .and_then(|error| error.downcast_ref::<Untrusted>());
            let hint = untrusted.and_then(Untrusted::hint);
            hint.or_else(|| of_disk(source.kind()))
                .unwrap_or_else(other_home)
        }
        StateError::NotBelieved { path, .. } => format!(
            "stop the daemon, remove {}, and start it again",
            path.display()
        ),
    }
}

fn other_home() -> String {
    "set MAINSTAY_HOME to a directory that you can write".to_owned()
}

fn of_lineage(error: &LineageError) -> String {
    match error {
        LineageError::LaunchesItself { server, .. } => format!(
            "remove server {server:?}, or give the Mainstay that it starts another configuration with --config"
        ),
        LineageError::LeadsBack => {
            "remove the server that starts or reaches this Mainstay".to_owned()
        }
        LineageError::TooLong => "let the client use one of them directly".to_owned(),
    }
}

fn of_token(error: &TokenError) -> String {
    match error {
        TokenError::Name(_) => "such as `mainstay token add my-editor`".to_owned(),
        TokenError::Lifetime(_) => "such as --expires 90d".to_owned(),
        TokenError::Profile(_) => "such as --profile build".to_owned(),
        TokenError::Taken(name) => format!("`mainstay token remove {name}` removes it"),
        TokenError::Unknown(_) | TokenError::TooMany(_) => {
            "`mainstay token list` shows them".to_owned()
        }
        TokenError::Unreadable { path, .. } => format!(
            "mend {}, or move it away: then no client has a token",
            path.display()
        ),
        TokenError::State(error) => of_state(error),
    }
}

fn of_vault(error: &VaultError) -> String {
    match error {
        VaultError::Io { source, .. } => of_read("", source.kind()),
        VaultError::Sealed(path) => format!(
            "set the secret again, or restore {} from a backup",
            path.display()
        ),
        VaultError::BadKey(path) => format!("restore {} from a backup", path.display()),
        VaultError::KeyStore(_) => {
            "unlock the keyring of your session, and try again; \"mainstay doctor\" says more"
                .to_owned()
        }
        VaultError::KeyLost(_) => {
            "restore the keyring if it has a backup; else set the secrets and log in again"
                .to_owned()
        }
        VaultError::Locked(_) => "end the other Mainstay, or try again".to_owned(),
        VaultError::Name | VaultError::TooLong(_) | VaultError::Random => LOOK.to_owned(),
    }
}

fn of_bundle(error: &BundleError) -> String {
    match error {
        BundleError::Read { source, .. } => of_read("", source.kind()),
        BundleError::NoFile(_) => "name a file that ends in .mcpb".to_owned(),
        BundleError::Write { source, .. } => of_disk(source.kind()).unwrap_or_else(other_home),
        BundleError::TooLarge(_)
        | BundleError::Zip { .. }
        | BundleError::Refused { .. }
        | BundleError::Manifest { .. } => {
            "ask its publisher for another one; `mainstay add NAME -- COMMAND` adds what you unpack yourself"
                .to_owned()
        }
    }
}

fn of_read(path: &str, kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "see that you may read it",
        io::ErrorKind::InvalidData => "it must be text in UTF-8",
        _ if path == "stdin" => "see that something is written to it",
        _ => "check the path, and that it is a file",
    }
    .to_owned()
}

/// The hint about an error of the disk.
fn of_disk(kind: io::ErrorKind) -> Option<String> {
    let remedy = match kind {
        io::ErrorKind::StorageFull => "free space there",
        io::ErrorKind::ReadOnlyFilesystem => "make its disk writable",
        _ => return None,
    };
    Some(format!(
        "{remedy}, or set MAINSTAY_HOME to a directory on another disk"
    ))
}

fn of_failure(failure: &Failure) -> String {
    let own_hint = failure.details.get(suggest::HINT).and_then(Value::as_str);
    own_hint
        .unwrap_or_else(|| of_code(failure.kind.code()))
        .to_owned()
}

/// The suggested name and the next step.
fn of_client(error: &ClientError) -> String {
    let next = match error {
        ClientError::NotRunning { .. } => {
            "start one with `mainstay serve`, or name a configuration with --config to do without"
                .to_owned()
        }
        ClientError::Unreachable { .. } => {
            "start it with `mainstay serve`, or check --url".to_owned()
        }
        ClientError::Lost { .. } => {
            "check whether it ran before you do it again; `mainstay records` of the next daemon shows calls".to_owned()
        }
        ClientError::Unauthorized { .. } => {
            "set MAINSTAY_TOKEN to what the file `token` in that daemon's state directory holds"
                .to_owned()
        }
        ClientError::BadUrl { .. } => "such as --url http://127.0.0.1:7420".to_owned(),
        ClientError::Foreign { .. } => {
            "check --url and MAINSTAY_URL; another program or version may listen there".to_owned()
        }
        ClientError::Refused { body, .. } => {
            let member_text = |name: &str| body.get(name).and_then(Value::as_str);
            match (member_text("error").unwrap_or_default(), member_text("server")) {
                ("call_failed", server) if member_text("code") == Some("call_timeout") => {
                    let is_up = member_text("status")
                        .is_none_or(|status| status == SessionState::Connected.as_str());
                    match server {
                        Some(server) if !is_up => {
                            format!("the server is not up yet; see \"mainstay logs {server}\"")
                        }
                        _ => {
                            let more = "`timeout` in the server's entry gives its calls more time";
                            member_text(NOTE)
                                .map_or_else(|| more.to_owned(), |note| format!("{note}. {more}"))
                        }
                    }
                }
                (
                    "call_failed"
                    | "connect_failed"
                    | "server_not_answering"
                    | "outcome_unknown"
                    | "message_too_large",
                    Some(server),
                ) => format!("\"mainstay logs {server}\" shows what the server says"),
                (code, _) => of_code(code).to_owned(),
            }
        }
    };
    let near_name = error
        .body()
        .and_then(|body| body.get(suggest::MEMBER)?.as_str());
    match near_name {
        Some(near_name) => format!("did you mean {}? {next}", word(near_name)),
        None => next,
    }
}

/// The hint about a failure with this code.
fn of_code(code: &str) -> &'static str {
    match code {
        "server_not_found" | "server_not_connected" => {
            "`mainstay list` lists the configured servers"
        }
        "tool_not_found" | "invalid_tool_name" => "`mainstay tools` lists what can be called",
        "prompt_not_found" => "`mainstay prompts` lists what can be asked for",
        "resource_not_found" => "`mainstay resources` lists what can be read",
        "duplicate_name" => "`mainstay add --replace` gives it another entry",
        "mcp_client_not_configured" => "`mainstay add` adds the first server",
        "profile_not_found" => "the configuration's `profiles` names them",
        "server_not_answering" | "call_failed" | "connect_failed" => {
            "`mainstay health` asks the servers, and `mainstay logs NAME` shows what one says"
        }
        "call_crashes_server" => {
            "`mainstay events` shows what happened; `mainstay restart NAME` starts over"
        }
        "request_not_found" => "`mainstay requests` shows what waits",
        "call_timeout" => "`timeout` in the server's entry gives its calls more time",
        "outcome_unknown" => "check whether it ran before you call again",
        "message_too_large" => "ask for less at once; `maxMessageBytes` in the entry allows more",
        "login_required" => "`mainstay auth login NAME --client CLIENT` logs in",
        "too_many_sessions" | "too_many_connections" | "too_many_streams" => {
            "end some that are open, or try again later"
        }
        "cancelled" => "it can be called again, if it must not run once only",
        "shutting_down" => "wait for the next daemon, or start one with `mainstay serve`",
        "journal_disabled" | "journal_unreadable" | "not_recorded" => {
            "the daemon's log says why; `journal` in the configuration says what is kept"
        }
        "record_not_found" => "`mainstay records` shows which there are",
        "cid_not_found" => "`mainstay records ID` names what is kept of a call",
        "version_not_found" => "`mainstay config history` shows which are kept",
        "not_pending" => "`mainstay list` shows which servers wait for approval",
        "not_as_shown" => "`mainstay approve` shows it as it is now",
        "invalid_config" => "correct the entry; `mainstay validate` checks the configuration",
        "config_changed" => "read the configuration again, and make the change in that",
        "not_saved" | "state_unusable" | "state_unwritable" => {
            "see that its folder is there, is yours and can be written, and that its disk has room"
        }
        "invalid_request" | "missing_parameter" | "request_too_large" => {
            "--help shows what can be given"
        }
        "not_reloadable" => {
            "start the daemon with a configuration file: `mainstay serve --config FILE`"
        }
        "invalid_token_name" => "such as `mainstay token add my-editor`",
        "invalid_lifetime" => "such as --expires 90d",
        "token_not_found" | "token_exists" | "too_many_tokens" => {
            "`mainstay token list` shows them"
        }
        "log_unreadable" => "see that the folder `logs` in the state directory can be read",
        "unauthorized" | "forbidden" => "set MAINSTAY_TOKEN to a token that may do it",
        // A daemon of another version may have other codes.
        _ => LOOK,
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::failure::FailureKind;

    use super::*;

    /// Every failure has a hint of its own.
    #[test]
    fn every_failure_has_a_hint_of_its_own() {
        for kind in FailureKind::ALL {
            let failure = Failure::new(kind, "it failed");
            let hint = hint_for(&failure.into()).expect("a hint");
            assert_ne!(hint, LOOK, "{kind:?}");
        }
    }

    #[test]
    fn what_has_no_hint_of_its_own_has_a_general_one() {
        let message = || "no".to_owned();
        let usage = CommandError::Usage {
            message: message(),
            hint: None,
        };
        assert_eq!(
            hint_for(&usage).as_deref(),
            Some("--help shows what can be given")
        );
        let unwritable = CommandError::Cannot {
            code: "cannot_write",
            message: message(),
            hint: None,
        };
        assert!(
            hint_for(&unwritable)
                .expect("a hint")
                .contains("can be written")
        );
        let read = CommandError::Read {
            path: "x".to_owned(),
            source: io::ErrorKind::NotFound.into(),
        };
        assert_eq!(hint_for(&read).as_deref(), Some("check the path"));
    }
}
