//! `mainstay add` and `mainstay search`.

mod bundles;
mod clients;
pub mod fake_registry;
mod packages;

use std::{fs, os::unix::fs::PermissionsExt as _};

use mainstay_testkit::Home;
use serde_json::{Value, json};

/// Installs a replacement for a package runner. It records its arguments and runs a fake server.
fn install_stand_in(home: &Home, name: &str, script: &str) {
    let bin = home.path().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let program = bin.join(name);
    let fake = fake_server::binary();
    let text = format!(
        "#!/bin/sh\nfor word in \"$0\" \"$@\"; do printf '%s\\n' \"${{word##*/}}\"; done > '{}'\n{}\n",
        home.path().join(format!("{name}.words")).display(),
        script.replace("FAKE", fake.to_str().expect("UTF-8")),
    );
    fs::write(&program, text).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
}

fn recorded_arguments(home: &Home, name: &str) -> Vec<String> {
    let arguments_text =
        fs::read_to_string(home.path().join(format!("{name}.words"))).expect("it was run");
    arguments_text.lines().map(str::to_owned).collect()
}

/// The saved configuration, if one exists.
fn saved_config(home: &Home) -> Option<Value> {
    let text = fs::read_to_string(home.state().join("config.json")).ok()?;
    Some(serde_json::from_str(&text).expect("JSON"))
}

fn npm_package(extra_members: &Value) -> Value {
    let mut package = json!({"registryType": "npm", "identifier": "@a/thing", "version": "1.2.3", "transport": {"type": "stdio"}});
    for (key, value) in extra_members.as_object().expect("an object") {
        package[key] = value.clone();
    }
    json!({"packages": [package]})
}
