//! Routes for entries before they are saved, files of other clients, the configuration as text with
//! its versions, and profiles.

use mainstay_api as api;
use mainstay_core::failure::FailureKind;
use serde_json::json;

use crate::{
    client_files,
    code::{
        CONFIG_CHANGED,
        Code::{Failed, StateUnusable, TooManyTrials},
        FILE_ERRORS, INVALID_CONFIG,
    },
    config_history, config_text,
    operation::{Operation, get, post, put},
    pasted, profiles,
    schema::entry,
    trial,
};

pub fn operations() -> Vec<Operation> {
    vec![
post(api::TRY, trial::run).summary("Start the server of an entry once, list its tools, and keep nothing")
        .accepts_with(&entry(&[]))
        .answers::<api::TrialRun>()
        .fails(&[INVALID_CONFIG, TooManyTrials]).shares(trial::Trials::default()),
post(api::IMPORT_PREVIEW, pasted::preview).summary("The servers in a pasted text: a client's file, a command line or a URL")
        .accepts::<api::PastedText>()
        .answers::<api::ImportPreview>(),
get(api::CLIENT_FILES, client_files::list).summary("What other MCP clients on this machine have, and how each is pointed here")
        .answers::<api::ClientFiles>(),
post(api::IMPORT_FROM_CLIENT, client_files::import).summary("Take the servers of another client's files over")
        .accepts::<api::ImportFromClient>()
        .answers::<api::ImportedFromClient>()
        .fails(&FILE_ERRORS)
        .fails(&[CONFIG_CHANGED]),
get(api::CONFIG_TEXT, config_text::get).summary("The configuration's file as a text, comments included; secrets are placeholders")
        .answers::<api::ConfigText>()
        .fails(&FILE_ERRORS),
put(api::CONFIG_TEXT, config_text::put).summary("Replace the text of the configuration's file, if it is still the one that was read")
        .accepts::<api::SetConfigText>()
        .answers::<api::ConfigUpdated>()
        .fails(&FILE_ERRORS)
        .fails(&[CONFIG_CHANGED]),
get(api::CONFIG_HISTORY, config_history::list).summary("The versions of the configuration's file, the newest first")
        .answers::<api::ConfigHistory>()
        .fails(&[Failed(FailureKind::NotSaved), StateUnusable]),
get(api::CONFIG_VERSION, config_history::show).summary("A version of the configuration's file, and what it changed; secrets are placeholders")
        .answers::<api::ConfigVersionText>()
        .fails(&[
            Failed(FailureKind::NotSaved),
            Failed(FailureKind::VersionNotFound),
            StateUnusable,
        ]),
post(api::UNDO_CONFIG, config_history::undo).summary("Give the configuration's file the content of an earlier version, and take it into force")
        .accepts::<api::UndoConfig>()
        .answers::<api::ConfigUndone>()
        .fails(&FILE_ERRORS)
        .fails(&[CONFIG_CHANGED, Failed(FailureKind::VersionNotFound)]),
post(api::CHECK_CONFIG, config_text::check).summary("What is wrong with a configuration, and what it would change; nothing is written")
        .accepts::<api::CheckConfig>()
        .needing(&json!({"oneOf": [
            {"required": ["text"], "properties": {"text": {"type": "string"}}},
            {"required": ["config"], "properties": {"config": {"type": "object"}}},
        ]}))
        .answers::<api::CheckedConfig>()
        .fails(&FILE_ERRORS),
get(api::PROFILES, profiles::list).summary("The profiles, and what each has").answers::<api::Profiles>(),
]
}
