//! `access`: rules, and the findings about them.

use insta::assert_snapshot;
use mainstay_config::{Defaults, Syntax, edit::Document, file_view};
use serde_json::{Value, json};

use crate::world::{findings, read};

/// A file with two servers, a profile and these rules of access.
fn file(access: &Value) -> String {
    json!({
        "mcpServers": {"db": {"command": "x"}, "git-a": {"command": "x"}},
        "profiles": {"build": {}},
        "access": access,
    })
    .to_string()
}

fn rule_findings(rules: &Value) -> String {
    findings(&file(
        &json!({"groups": {"agents": ["ci"]}, "rules": rules}),
    ))
}

#[test]
fn rules_are_read_and_written() {
    let access = json!({
        "default": "allow",
        "groups": {"agents": ["ci", "night-*"]},
        "rules": [
            {"name": "no drops", "servers": ["db"], "tools": ["drop_*"], "allow": false},
            {"name": "agents read", "who": ["group:agents", "anonymous"], "profiles": ["build"], "readOnly": true, "allow": true},
            {"who": ["anna"], "resources": ["file://*"], "prompts": [], "destructive": "deny"},
        ],
    });
    assert_eq!(findings(&file(&access)), "");
    let config = read("config.json", &file(&access)).unwrap().config;
    let policy = config.access.as_ref().expect("rules");
    assert!(policy.allows_rest);
    assert_eq!(policy.rules[2].name, "rules[2]");
    let document = Document::read(&file(&access), Syntax::Json).unwrap();
    let written = file_view(&config, &document, Defaults::LeftOut).to_string();
    let again = read("config.json", &written).unwrap().config;
    assert_eq!(again.access, config.access, "{written}");
}

#[test]
fn without_rules_everything_is_allowed_and_an_empty_object_allows_nothing() {
    assert!(
        read("config.json", r#"{"mcpServers": {}}"#)
            .unwrap()
            .config
            .access
            .is_none()
    );
    assert_snapshot!(findings(&file(&json!({}))), @r#"warning config.json:1:95: access: without rules nobody but the operator may use anything"#);
}

#[test]
fn a_rule_that_names_nothing_is_found_with_its_place() {
    assert_snapshot!(rule_findings(&json!([
        {"who": ["group:agent"]},
    ])), @r#"error config.json:1:140: access.rules[0].who[0]: there is no group "agent" in `access.groups` (did you mean "group:agents"?)"#);
    assert_snapshot!(rule_findings(&json!([
        {"who": ["group:nobody", "a b", ""], "servers": [""]},
    ])), @r#"
error config.json:1:140: access.rules[0].who[0]: there is no group "nobody" in `access.groups`
error config.json:1:155: access.rules[0].who[1]: "a b" names nobody; write "*", "anonymous", the name of a token such as "ci" or "ci-*", or "group:NAME"
error config.json:1:161: access.rules[0].who[2]: "" names nobody; write "*", "anonymous", the name of a token such as "ci" or "ci-*", or "group:NAME"
error config.json:1:176: access.rules[0].servers[0]: an empty pattern of servers matches nothing (`*` matches everything)
"#);
    assert_snapshot!(rule_findings(&json!([
        {"who": [], "servers": [], "profiles": [], "tools": []},
    ])), @r#"
error config.json:1:132: access.rules[0]: the rule is about no item (leave `tools`, `prompts` and `resources` out for all items)
error config.json:1:139: access.rules[0].who: an empty `who` makes the rule void (leave the key out for all of them)
error config.json:1:152: access.rules[0].servers: an empty `servers` makes the rule void (leave the key out for all of them)
error config.json:1:166: access.rules[0].profiles: an empty `profiles` makes the rule void (leave the key out for all of them)
"#);
    assert_snapshot!(rule_findings(&json!([
        {"servers": ["db2", "git-*", "mail-*"], "profiles": ["biuld", "b*"]},
    ])), @r#"
warning config.json:1:144: access.rules[0].servers[0]: there is no server "db2" in this file
warning config.json:1:158: access.rules[0].servers[2]: there is no server "mail-*" in this file
warning config.json:1:180: access.rules[0].profiles[0]: no profile of this file matches "biuld"
"#);
}

#[test]
fn rules_that_contradict_or_repeat_each_other_are_found() {
    assert_snapshot!(rule_findings(&json!([
        {"name": "a", "allow": false, "readOnly": true, "destructive": "deny"},
        {"name": "a", "who": ["ci"]},
    ])), @r#"
error config.json:1:169: access.rules[0].readOnly: a rule with `allow: false` refuses every effect (remove this key or `allow`)
error config.json:1:188: access.rules[0].destructive: a rule with `allow: false` refuses every effect (remove this key or `allow`)
error config.json:1:204: access.rules[1].name: "a" is empty, or the name of another rule
"#);
    assert_snapshot!(rule_findings(&json!([
        {"who": ["ci"], "allow": "no", "readOnly": 1, "destructive": "ask", "tool": ["x"], "x": null},
    ])), @r#"
error config.json:1:154: access.rules[0].allow: expected true or false, found a string
error config.json:1:170: access.rules[0].readOnly: expected true or false, found a number
error config.json:1:186: access.rules[0].destructive: expected "allow" or "deny", found "ask"
error config.json:1:192: access.rules[0].tool: unknown key (did you mean `tools`?)
error config.json:1:205: access.rules[0].x: unknown key
"#);
    assert_snapshot!(rule_findings(&json!([
        {"name": "all", "who": ["*", "ci"], "servers": ["*"]},
        {"name": "never", "who": ["ci"], "allow": false},
    ])), @r#"warning config.json:1:180: access.rules[1]: the rule never decides: "all" is about everything"#);
    assert_snapshot!(findings(&file(&json!({"rule": []}))), @r#"error config.json:1:96: access.rule: unknown key (did you mean `rules`?)"#);
    assert_snapshot!(rule_findings(&json!("all")), @r#"error config.json:1:131: access.rules: expected an array, found a string"#);
}
