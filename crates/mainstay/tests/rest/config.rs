//! The configuration as text over REST: it is read, checked and saved.

use std::fs;

use http::{Method, StatusCode};
use mainstay_testkit::{found, limits::PROGRAMS};
use serde_json::{Value, json};

use crate::world::{RestDaemon, fake, fake_entry, until};

const TEXT: &str = "/api/config/text";
const CHECK_PATH: &str = "/api/config/check";

/// A configuration with comments, secrets, and an unusual order.
fn commented_config() -> String {
    format!(
        "// mine\n{{\n  \"mcpServers\": {{\n    // \"old\": {{\"env\": {{\"API_KEY\": \"s3cret-old\"}}}},\n    \"one\": {{\n      \
         \"env\": {{\"KEY\": 's3cret'}}, // for now\n      \"command\": \"{}\",\n    }},\n  }},\n}}\n",
        fake()
    )
}

async fn text_of(world: &RestDaemon) -> (String, Value) {
    let answer = world.get(TEXT).await;
    let text = answer["text"].as_str().expect("a text").to_owned();
    (text, answer["digest"].clone())
}

#[tokio::test]
async fn a_text_is_edited_with_its_comments_and_secrets() {
    let world = RestDaemon::with_file("servers.jsonc", &commented_config()).await;
    let answer = world.get(TEXT).await;
    assert_eq!(answer["path"], world.file.to_str().expect("UTF-8"));
    let (text, digest) = text_of(&world).await;
    assert!(!text.contains("s3cret"), "{text}");
    assert!(
        text.contains("// mine") && text.contains("// for now"),
        "{text}"
    );
    assert!(
        text.contains("\"${secret:/mcpServers/one/env/KEY}\""),
        "{text}"
    );

    // Saving the same text changes no byte of the file.
    let (status, answer) = world
        .put(TEXT, &json!({"text": text, "digest": digest}))
        .await;
    assert_eq!(
        (status, &answer["success"]),
        (StatusCode::OK, &json!(true)),
        "{answer}"
    );
    assert_eq!(world.text(), commented_config());

    let edited_text = text.replace("// mine", "// ours").replace(
        "\"command\"",
        "\"autoStart\": true, \"timeout\": 5000, \"command\"",
    );
    let (status, answer) = world
        .put(TEXT, &json!({"text": edited_text, "digest": digest}))
        .await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(
        answer["summary"]
            .as_str()
            .is_some_and(|text| text.contains("one")),
        "{answer}"
    );
    let written_text = world.text();
    assert!(
        written_text.starts_with("// ours") && written_text.contains("'s3cret'"),
        "{written_text}"
    );
    assert!(
        written_text.contains("\"s3cret-old\"") && written_text.contains("// for now"),
        "{written_text}"
    );

    // The digest is now out of date.
    let (status, answer) = world
        .put(TEXT, &json!({"text": text, "digest": digest}))
        .await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::CONFLICT, &json!("config_changed")),
        "{answer}"
    );
    assert_eq!(world.text(), written_text);
    world.end().await;
}

#[tokio::test]
async fn a_text_that_cannot_be_used_is_refused_as_a_whole() {
    let world = RestDaemon::with_file("servers.jsonc", &commented_config()).await;
    let (text, digest) = text_of(&world).await;
    for (new_text, expected_text) in [
        ("{".to_owned(), "Invalid configuration"),
        (
            text.replace("\"command\"", "\"args\": 7, \"command\""),
            "args",
        ),
        (
            text.replace("one/env/KEY", "gone/env/KEY"),
            "does not have any more",
        ),
    ] {
        let (status, answer) = world
            .put(TEXT, &json!({"text": new_text, "digest": digest}))
            .await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_config")),
            "{answer}"
        );
        assert!(
            answer["message"]
                .as_str()
                .is_some_and(|text| text.contains(expected_text)),
            "{answer}"
        );
        assert_eq!(world.text(), commented_config());
    }
    for body in [
        json!({"text": text}),
        json!({"digest": digest}),
        json!({"text": 1, "digest": "x"}),
    ] {
        let (status, _) = world.put(TEXT, &body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    }
    // If a file cannot be parsed, its secrets cannot be recognised, so no text is returned.
    fs::write(&world.file, "{ s3cret").expect("written");
    let (status, answer) = world.send(Method::GET, TEXT, None).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_config")),
        "{answer}"
    );
    assert!(!answer.to_string().contains("s3cret"), "{answer}");
    world.end().await;
}

#[tokio::test]
async fn a_configuration_is_checked_before_it_is_saved() {
    let world = RestDaemon::with_file("servers.jsonc", &commented_config()).await;
    let previous_pid = world.get("/api/servers").await["servers"][0]["pid"].clone();
    let (text, digest) = text_of(&world).await;
    let check = async |body: Value| {
        let (status, answer) = world.post(CHECK_PATH, &body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert!(!answer.to_string().contains("s3cret"), "{answer}");
        // A PUT of the invalid text returns the same findings.
        if answer["valid"] == false {
            let (path, mut change) = match &body["text"] {
                Value::Null => ("/api/config", body["config"].clone()),
                _ => (TEXT, body),
            };
            if path == TEXT {
                change["digest"] = digest.clone();
            }
            let (status, refusal_body) = world.put(path, &change).await;
            assert_eq!(
                (status, &refusal_body["error"]),
                (StatusCode::BAD_REQUEST, &json!("invalid_config")),
                "{refusal_body}"
            );
            let error_findings = answer["findings"].as_array().expect("a list").iter();
            let errors: Vec<_> = error_findings
                .filter(|finding| finding["severity"] == "error")
                .collect();
            assert_eq!(refusal_body["findings"], json!(errors), "{change}");
        }
        answer
    };
    let same_answer = check(json!({"text": text})).await;
    assert_eq!(
        (&same_answer["valid"], &same_answer["findings"]),
        (&json!(true), &json!([])),
        "{same_answer}"
    );
    assert!(
        same_answer["plan"].is_object() && same_answer["summary"].is_string(),
        "{same_answer}"
    );

    // If a problem comes after a secret on its line, the finding has the position in the edited
    // text.
    let line = "      \"env\": {\"KEY\": \"${secret:/mcpServers/one/env/KEY}\"}, \"args\": 7,";
    let odd_text = text.replace("// for now", "\"args\": 7,\n");
    let error_findings = check(json!({"text": odd_text})).await;
    assert_eq!(error_findings["valid"], false);
    assert!(error_findings.get("plan").is_none(), "{error_findings}");
    let finding = &error_findings["findings"][0];
    assert_eq!(
        (&finding["severity"], &finding["path"]),
        (&json!("error"), &json!("mcpServers.one.args")),
        "{finding}"
    );
    assert_eq!(finding["line"], 6, "{finding}");
    let columns =
        [line.find("\"args\""), line.find('7')].map(|offset| offset.map(|offset| offset + 1));
    let column = finding["column"]
        .as_u64()
        .and_then(|number| usize::try_from(number).ok());
    assert!(columns.contains(&column), "{finding} in {line}");

    let warned_text =
        check(json!({"text": text.replace("\"command\"", "\"comand\": 1, \"command\"")})).await;
    assert_eq!(
        (
            &warned_text["valid"],
            &warned_text["findings"][0]["severity"]
        ),
        (&json!(true), &json!("warning")),
        "{warned_text}"
    );
    let broken_answer = check(json!({"text": "{\n  \"mcpServers\": {,}\n}"})).await;
    assert_eq!(
        (
            &broken_answer["valid"],
            &broken_answer["findings"][0]["line"]
        ),
        (&json!(false), &json!(2)),
        "{broken_answer}"
    );
    let unknown_text = check(json!({"text": text.replace("one/env", "gone/env")})).await;
    assert_eq!(
        (&unknown_text["valid"], &unknown_text["findings"][0]["line"]),
        (&json!(false), &json!(6)),
        "{unknown_text}"
    );

    let mut value = world.get("/api/config").await;
    value["mcpServers"]["two"] = fake_entry(&[]);
    let config_answer = check(json!({"config": value})).await;
    assert_eq!(config_answer["valid"], true, "{config_answer}");
    assert!(
        config_answer["summary"]
            .as_str()
            .is_some_and(|text| text.contains("two")),
        "{config_answer}"
    );
    value["mcpServers"]["two"] = json!({"args": []});
    let odd_text = check(json!({"config": value})).await;
    assert_eq!(odd_text["valid"], false);
    assert!(odd_text["findings"][0].get("line").is_none(), "{odd_text}");

    // None of these checks has changed anything.
    assert_eq!(world.text(), commented_config());
    assert_eq!(
        world.get("/api/servers").await["servers"][0]["pid"],
        previous_pid
    );
    for body in [
        json!({}),
        json!({"text": "{}", "config": {}}),
        json!({"text": 1}),
        json!({"config": 7}),
        json!("x"),
    ] {
        let (status, answer) = world.post(CHECK_PATH, &body).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_request")),
            "{body}"
        );
    }
    for hostile in [
        "[".repeat(100_000),
        "\u{0}".to_owned(),
        "{\"a\":".repeat(10_000),
        "null".to_owned(),
        "[]".to_owned(),
    ] {
        let error_findings = check(json!({"text": hostile})).await;
        assert_eq!(error_findings["valid"], false);
    }
    world.end().await;
}

/// The check, the PUT, `mainstay validate` and the reload have the same finding. After the reload,
/// the server shows it as well.
#[tokio::test]
async fn a_bad_entry_is_judged_the_same_everywhere() {
    let servers = |args: Value| {
        let second_entry = json!({"command": fake(), "args": args});
        json!({"mcpServers": {"one": fake_entry(&[]), "two": second_entry}})
    };
    let world = RestDaemon::with_servers(servers(json!([]))["mcpServers"].clone()).await;
    for name in ["one", "two"] {
        let start = format!("/api/servers/{name}/start");
        let (_, start_answer) = world.post(&start, &json!({})).await;
        assert_eq!(start_answer["status"], "connected", "{start_answer}");
    }
    let pid = |list: &Value| list["servers"][0]["pid"].clone();
    let previous_pid = pid(&world.get("/api/servers").await);
    let bad_text = format!("{:#}", servers(json!(5)));
    let (status, check_answer) = world.post(CHECK_PATH, &json!({"text": bad_text})).await;
    assert_eq!(status, StatusCode::OK, "{check_answer}");
    let finding = &check_answer["findings"][0];
    assert_eq!(
        (&finding["path"], &finding["severity"], &finding["line"]),
        (&json!("mcpServers.two.args"), &json!("error"), &json!(9)),
        "{check_answer}"
    );
    let (_, digest) = text_of(&world).await;
    let change = json!({"text": bad_text, "digest": digest});
    let (status, refusal_body) = world.put(TEXT, &change).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{refusal_body}");
    assert_eq!(refusal_body["findings"], check_answer["findings"]);

    fs::write(&world.file, &bad_text).expect("written");
    let loaded_environment =
        mainstay_platform::environment::load(Some(&world.file)).expect("usable");
    let problems: Vec<_> = loaded_environment
        .config
        .problems()
        .map(|problem| problem.1.to_json())
        .collect();
    assert_eq!(json!(problems), check_answer["findings"]);
    for dry_run in [true, false] {
        let reload = json!({"dryRun": dry_run});
        let (status, reload_answer) = world.post("/api/reload", &reload).await;
        assert_eq!(status, StatusCode::OK, "{reload_answer}");
        assert_eq!(
            reload_answer["findings"], check_answer["findings"],
            "{reload_answer}"
        );
    }
    let list = found(PROGRAMS, "the error", async || {
        let list = world.get("/api/servers").await;
        (list["servers"][1]["status"] == "error").then_some(list)
    })
    .await;
    assert_eq!(pid(&list), previous_pid, "{list}");
    assert_eq!(list["servers"][0]["status"], "connected", "{list}");
    let second_entry = &list["servers"][1];
    assert_eq!(
        (&second_entry["nextAction"], &second_entry["retried"]),
        (&json!("correct_entry"), &json!(false)),
        "{second_entry}"
    );
    world.end().await;
}

/// An entry that is saved with placeholders keeps its secrets.
#[tokio::test]
async fn an_entry_that_comes_back_keeps_its_secrets() {
    let world = RestDaemon::with_file("servers.jsonc", &commented_config()).await;
    let details = world.get("/api/servers/one").await;
    let mut entry = details["entry"].clone();
    assert!(!entry.to_string().contains("s3cret"), "{entry}");
    entry["autoStart"] = false.into();
    entry["persist"] = true.into();
    let (status, answer) = world.put("/api/servers/one", &entry).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let written_text = world.text();
    assert!(
        written_text.contains("s3cret") && written_text.contains("// mine"),
        "{written_text}"
    );
    assert!(
        written_text.contains("\"autoStart\": false"),
        "{written_text}"
    );
    let details = world.get("/api/servers/one").await;
    assert_eq!(
        (
            &details["server"]["autoStart"],
            &details["entry"]["autoStart"]
        ),
        (&json!(false), &json!(false))
    );
    // Save the entry once more, under another name.
    let mut entry = details["entry"].clone();
    entry["autoStart"] = true.into();
    entry["persist"] = true.into();
    let (_, answer) = world.put("/api/servers/one", &entry).await;
    assert_eq!(answer["status"], "connected", "{answer}");
    entry["name"] = "copy".into();
    let (status, answer) = world.post("/api/servers", &entry).await;
    assert_eq!(
        (status, &answer["status"]),
        (StatusCode::OK, &json!("connected")),
        "{answer}"
    );
    let file = world.get("/api/config").await;
    assert_eq!(
        file["mcpServers"]["copy"]["env"]["KEY"],
        "${secret:/mcpServers/copy/env/KEY}"
    );
    assert_eq!(
        world.text().matches("s3cret\"").count() + world.text().matches("s3cret'").count(),
        2,
        "{}",
        world.text()
    );
    world.end().await;
}

/// A change with an old digest does not overwrite the change of another client.
#[tokio::test]
async fn an_entry_replaces_the_one_that_was_read_and_no_other() {
    let world = RestDaemon::with_file("servers.jsonc", &commented_config()).await;
    let read_entry = async |persist: bool| {
        let details = world.get("/api/servers/one").await;
        let mut entry = details["entry"].clone();
        entry["digest"] = details["digest"].clone();
        entry["persist"] = persist.into();
        entry
    };
    let put = async |mut entry: Value, timeout: u64| {
        entry["timeout"] = timeout.into();
        let (status, answer) = world.put("/api/servers/one", &entry).await;
        let is_changed = answer["error"] == "config_changed";
        assert_eq!(status == StatusCode::CONFLICT, is_changed, "{answer}");
        assert_eq!(status == StatusCode::OK, !is_changed, "{answer}");
        !is_changed
    };
    let early_entry = read_entry(true).await;
    assert!(early_entry["digest"].is_string(), "{early_entry}");
    assert!(put(early_entry.clone(), 1000).await);
    // The digest is now out of date.
    let written_text = world.text();
    assert!(!put(early_entry.clone(), 2000).await);
    assert_eq!(world.text(), written_text);
    // If only other parts of the file have changed, the change is accepted.
    let late_entry = read_entry(true).await;
    let other_text = written_text.replace("// mine", "// ours").replace(
        "    \"one\"",
        &format!("    \"two\": {},\n    \"one\"", fake_entry(&[])),
    );
    assert_ne!(other_text, written_text);
    fs::write(&world.file, other_text).expect("written");
    assert!(put(late_entry, 3000).await);
    // The digest is that of the entry in the file, not that of the entry in use.
    let late_entry = read_entry(true).await;
    let other_text = world.text().replace("3000", "3500");
    assert_ne!(other_text, world.text());
    fs::write(&world.file, &other_text).expect("written");
    assert!(!put(late_entry, 4000).await);
    assert_eq!(world.text(), other_text);
    // The digest may be left out.
    let mut entry = early_entry;
    entry["digest"] = Value::Null;
    assert!(put(entry, 5000).await);

    // The same holds for a change that is not written to the file.
    let early_entry = read_entry(false).await;
    assert!(put(early_entry.clone(), 6000).await);
    assert!(!put(early_entry, 7000).await);
    assert!(put(read_entry(false).await, 8000).await);
    let (status, answer) = world
        .put("/api/servers/one", &json!({"command": fake(), "digest": 7}))
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    world.end().await;
}

#[tokio::test]
async fn profiles_are_shown_with_what_they_have() {
    let world = RestDaemon::with_file("servers.json", &json!({
        "mcpServers": {"one": fake_entry(&[]), "two": fake_entry(&[])},
        "profiles": {"review": {"servers": ["two"], "naming": "none", "tools": {"allow": ["two/echo"]}, "ownTools": ["records"]}},
        "naming": "slash",
    }).to_string()).await;
    let profiles = world.get("/api/profiles").await["profiles"].clone();
    let names: Vec<&Value> = profiles
        .as_array()
        .expect("a list")
        .iter()
        .map(|profile| &profile["name"])
        .collect();
    assert_eq!(names, ["default", "meta", "review"]);
    let default = &profiles[0];
    assert_eq!(
        (&default["path"], &default["default"], &default["naming"]),
        (&json!("/mcp"), &json!(true), &json!("slash"))
    );
    assert_eq!(
        (&default["servers"], &default["builtin"]),
        (&json!(["one", "two"]), &json!([]))
    );
    assert!(default.get("entry").is_none(), "{default}");
    assert!(default["tools"].as_u64() > Some(2), "{default}");
    assert_eq!(
        (&profiles[1]["path"], &profiles[1]["builtin"]),
        (&json!("/mcp/meta"), &json!(["meta"]))
    );
    let file: Value = serde_json::from_str(&world.text()).expect("JSON");
    assert_eq!(
        profiles[2],
        json!({
            "name": "review", "path": "/mcp/review", "default": false, "naming": "none", "servers": ["two"],
            "tools": 1, "builtin": ["records"], "entry": file["profiles"]["review"],
        })
    );
    // Change the configuration that is in use now.
    let mut config = world.get("/api/config").await;
    config["profiles"]["second"] = json!({});
    let (status, _) = world.put("/api/config", &config).await;
    assert_eq!(status, StatusCode::OK);
    let registry = &world.daemon.gateway.registry;
    until("it is there", || registry.profile("second").is_ok()).await;
    let profiles = world.get("/api/profiles").await["profiles"].clone();
    assert_eq!(profiles[3]["entry"], json!({}));
    world.end().await;
}
