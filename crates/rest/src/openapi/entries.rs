//! Operations about entries before they are saved, the files of other clients, the configuration as text,
//! and profiles.

use mainstay_api as api;
use mainstay_core::failure::FailureKind;
use serde_json::json;

use super::super::{
    code::{
        CONFIG_CHANGED,
        Code::{self, Failed},
        INVALID_CONFIG, OF_THE_FILE,
    },
    operation::Operation,
    schema::entry,
};

pub fn operations() -> Vec<Operation> {
    let post = |path, what| Operation::new("post", path, what);
    let get = |path, what| Operation::new("get", path, what);
    vec![
        post(
            api::TRY,
            "Start the server of an entry once, list its tools, and keep nothing",
        )
        .takes_with(&entry(&[]))
        .answers::<api::TrialRun>()
        .fails(&[INVALID_CONFIG, Code::TooManyTrials]),
        post(
            api::IMPORT_PREVIEW,
            "The servers in a pasted text: a client's file, a command line or a URL",
        )
        .takes::<api::PastedText>()
        .answers::<api::ImportPreview>(),
        get(
            api::CLIENT_FILES,
            "What other MCP clients on this machine have, and how each is pointed here",
        )
        .answers::<api::ClientFiles>(),
        post(
            api::IMPORT_FROM_CLIENT,
            "Take the servers of another client's files over",
        )
        .takes::<api::ImportFromClient>()
        .answers::<api::ImportedFromClient>()
        .fails(&OF_THE_FILE)
        .fails(&[CONFIG_CHANGED]),
        get(
            api::CONFIG_TEXT,
            "The configuration's file as a text, comments included; secrets are placeholders",
        )
        .answers::<api::ConfigText>()
        .fails(&OF_THE_FILE),
        Operation::new(
            "put",
            api::CONFIG_TEXT,
            "Replace the text of the configuration's file, if it is still the one that was read",
        )
        .takes::<api::SetConfigText>()
        .answers::<api::ConfigUpdated>()
        .fails(&OF_THE_FILE)
        .fails(&[CONFIG_CHANGED]),
        get(
            api::CONFIG_HISTORY,
            "The versions of the configuration's file, the newest first",
        )
        .answers::<api::ConfigHistory>()
        .fails(&[Failed(FailureKind::NotSaved), Code::StateUnusable]),
        get(
            api::CONFIG_VERSION,
            "A version of the configuration's file, and what it changed; secrets are placeholders",
        )
        .answers::<api::ConfigVersionText>()
        .fails(&[
            Failed(FailureKind::NotSaved),
            Failed(FailureKind::VersionNotFound),
            Code::StateUnusable,
        ]),
        post(
            api::UNDO_CONFIG,
            "Give the configuration's file the content of an earlier version, and take it into force",
        )
        .takes::<api::UndoConfig>()
        .answers::<api::ConfigUndone>()
        .fails(&OF_THE_FILE)
        .fails(&[CONFIG_CHANGED, Failed(FailureKind::VersionNotFound)]),
        post(
            api::CHECK_CONFIG,
            "What is wrong with a configuration, and what it would change; nothing is written",
        )
        .takes::<api::CheckConfig>()
        .needing(&json!({"oneOf": [
            {"required": ["text"], "properties": {"text": {"type": "string"}}},
            {"required": ["config"], "properties": {"config": {"type": "object"}}},
        ]}))
        .answers::<api::CheckedConfig>()
        .fails(&OF_THE_FILE),
        get(api::PROFILES, "The profiles, and what each has").answers::<api::Profiles>(),
    ]
}
