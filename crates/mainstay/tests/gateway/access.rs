//! Tests rules of access in the configuration file, and limits of tokens: their effects on clients,
//! and the explanations over REST.

use http::StatusCode;
use mainstay_core::{access::TokenLimits, config::Secret, ids::ProfileName};
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};

use crate::{
    backend::{Backend, BackendKind},
    client::{Http, LATEST, Stream, initialize},
    gateway::Gateway,
    modern::Modern,
    rest_client::TOKEN,
    world::{TestConfig, ok},
};

/// A daemon with two profiles and two servers. The tools of `reader` are read-only, and the tools
/// of `writer` have no hints.
struct World {
    config: TestConfig,
    gateway: Gateway,
    tokens: Tokens,
    reader: Backend,
    writer: Backend,
}

impl World {
    async fn new(access: &Value) -> Self {
        let reader = Backend::start(BackendKind::Http, &["--hint", "readOnlyHint"]).await;
        let writer = Backend::http().await;
        let file = json!({
            "mcpServers": {"reader": reader.entry, "writer": writer.entry},
            "profiles": {"build": {}, "other": {}},
            "access": access,
        });
        let config = TestConfig::new_json(&file);
        let tokens = Tokens::from(Secret::new(TOKEN));
        let gateway = config
            .run_with_tokens(GatewayOptions::default(), tokens.clone())
            .await;
        gateway.registry().settled().await;
        Self {
            config,
            gateway,
            tokens,
            reader,
            writer,
        }
    }

    /// Replaces the rules over REST.
    async fn set_access(&self, access: Value) {
        let mut file = self.config.value();
        file["access"] = access;
        ok(self.gateway.rest().put("/api/config", file).await);
    }

    fn token(&self, name: &str) -> String {
        self.limited_token(name, TokenLimits::default())
    }

    fn limited_token(&self, name: &str, limits: TokenLimits) -> String {
        let added = self.tokens.add_limited(name, None, limits);
        added.expect("added").0.expose().to_owned()
    }

    fn stranger(&self, path: &str, token: &str) -> Http {
        let mut client = self.gateway.stranger(path);
        client.token = Some(token.to_owned());
        client
    }

    async fn client(&self, path: &str, token: &str) -> Http {
        let mut client = self.stranger(path, token);
        client.initialize(LATEST).await;
        client
    }

    fn modern(&self, path: &str, token: &str) -> Modern {
        let mut client = Modern::at(&self.gateway, path);
        client.http.token = Some(token.to_owned());
        client
    }

    /// Sends `initialize` to this path. Returns the status and the body of the response.
    async fn greeting(&self, path: &str, token: &str) -> (StatusCode, String) {
        let response = self.stranger(path, token).post(initialize(LATEST)).await;
        (response.status, response.text)
    }
}

/// Waits for the notification that a list has changed.
async fn until_changed(stream: &mut Stream, method: &str) {
    while stream.message().await["method"] != method {}
}

#[tokio::test]
async fn rules_by_the_effect_of_a_tool_hold_in_both_eras_and_at_both_endpoints() {
    let world = World::new(&json!({
        "rules": [{"who": ["agent"], "readOnly": true}, {"who": ["person"], "destructive": "deny"}],
    }))
    .await;
    for name in ["agent", "person"] {
        let token = world.token(name);
        let client = world.client("/mcp", &token).await;
        let tools = client.tools().await.join(" ");
        assert!(
            tools.contains("reader__echo") && !tools.contains("writer__"),
            "{tools}"
        );
        client.assert_echo("reader__echo").await;
        let error = client
            .error("tools/call", json!({"name": "writer__count"}))
            .await;
        assert!(error.to_string().contains("writer__count"), "{error}");
        let modern = world.modern("/mcp", &token);
        let tools = modern.result("tools/list", json!({})).await.to_string();
        assert!(
            tools.contains("reader__echo") && !tools.contains("writer__"),
            "{tools}"
        );

        // Other items have no effects.
        let prompts = client.result("prompts/list", json!({})).await.to_string();
        assert!(prompts.contains("writer__greet"), "{prompts}");

        let transparent = world.client("/servers/writer/mcp", &token).await;
        assert!(transparent.tools().await.is_empty());
        transparent
            .error("tools/call", json!({"name": "count"}))
            .await;
        let transparent = world.client("/servers/reader/mcp", &token).await;
        transparent.assert_echo("echo").await;
        let modern = world.modern("/servers/writer/mcp", &token);
        let tools = modern.result("tools/list", json!({})).await;
        assert_eq!(tools["tools"], json!([]));
        modern.error("tools/call", json!({"name": "count"})).await;
    }
    assert_eq!(
        (world.writer.runs("count"), world.reader.runs("echo")),
        (0, 4)
    );
}

#[tokio::test]
async fn a_changed_rule_holds_at_once_for_what_is_open() {
    let everything = json!({"rules": [{"who": ["ci"]}]});
    let world = World::new(&everything).await;
    let token = world.token("ci");
    let client = world.client("/mcp", &token).await;
    let transparent = world.client("/servers/writer/mcp", &token).await;
    let mut stream = client.listen().await;
    let mut transparent_stream = transparent.listen().await;
    let modern = world.modern("/mcp", &token);
    let listening = json!({"notifications": {"toolsListChanged": true}});
    let mut listen = modern.begin("subscriptions/listen", listening).await;
    listen.message().await;
    client.call("writer__count", json!({})).await;

    world
        .set_access(json!({"rules": [{"who": ["ci"], "servers": ["reader"]}]}))
        .await;
    client
        .error("tools/call", json!({"name": "writer__count"}))
        .await;
    until_changed(&mut stream, "notifications/tools/list_changed").await;
    assert!(!client.tools().await.join(" ").contains("writer__"));
    // The endpoint of `writer` is closed to the client, and its streams end.
    let closed = transparent
        .post(transparent.request_text("tools/list", "{}"))
        .await;
    assert_eq!(closed.status, StatusCode::NOT_FOUND);
    assert!(!transparent_stream.rest().await.contains("tools"));
    listen.rest().await;
    assert_eq!(world.writer.runs("count"), 1);

    world.set_access(everything).await;
    until_changed(&mut stream, "notifications/tools/list_changed").await;
    client.call("writer__count", json!({})).await;
}

/// Names that a server may take for a refused item, in a spelling that no rule names.
#[tokio::test]
async fn no_spelling_leads_around_a_rule() {
    let world = World::new(&json!({
        "default": "allow",
        "rules": [
            {"servers": ["reader"], "tools": ["echo"], "prompts": ["greet"], "allow": false},
            {"who": ["paths"], "servers": ["reader"], "resources": ["fake://public/*"]},
            {"who": ["paths"], "servers": ["reader"], "allow": false},
            {"servers": ["writer"], "tools": ["count"], "allow": false},
        ],
    }))
    .await;
    let token = world.token("ci");
    let client = world.client("/servers/reader/mcp", &token).await;
    let modern = world.modern("/servers/reader/mcp", &token);
    let count = world.reader.received().len();
    for (method, params) in [
        (
            "tools/call",
            json!({"name": "ECHO", "arguments": {"text": "hi"}}),
        ),
        (
            "tools/call",
            json!({"name": "echo ", "arguments": {"text": "hi"}}),
        ),
        ("prompts/get", json!({"name": "Greet"})),
        ("vendor/wipe", json!({"name": "echo"})),
    ] {
        let error = client.error(method, params.clone()).await;
        assert!(
            [-32602, -32601].contains(&error["code"].as_i64().expect("a code")),
            "{error}"
        );
        modern.error(method, params).await;
    }
    assert_eq!(
        world.reader.received().len(),
        count,
        "the server is not asked"
    );
    client.call("count", json!({})).await;
    // Without rules everything goes to the server.
    let operator = world.client("/servers/reader/mcp", TOKEN).await;
    operator.error("vendor/wipe", json!({})).await;
    assert_eq!(world.reader.count("vendor/wipe"), 1);

    let token = world.token("paths");
    for path in ["/servers/reader/mcp", "/mcp"] {
        let client = world.client(path, &token).await;
        let count = world.reader.count("resources/read");
        for uri in [
            "fake://text",
            "fake://public/../text",
            "fake://public/%2e%2e/text",
            "fake://public/..%2Ftext",
            "fake://public/..\\text",
            "fake://%74ext",
            "fake://public/.\t./text",
            "fake://public/..?x",
        ] {
            client.error("resources/read", json!({"uri": uri})).await;
        }
        assert_eq!(world.reader.count("resources/read"), count, "{path}");
    }
}

/// A bare name of several servers is answered without those that the client may not see.
#[tokio::test]
async fn an_ambiguous_name_names_no_hidden_server() {
    let world = World::new(&json!({
        "rules": [{"who": ["one"], "servers": ["reader"]}, {"who": ["both"]}],
    }))
    .await;
    let client = world.client("/mcp", &world.token("both")).await;
    let error = client
        .error("tools/call", json!({"name": "echo"}))
        .await
        .to_string();
    assert!(
        error.contains("reader__echo") && error.contains("writer__echo"),
        "{error}"
    );
    let client = world.client("/mcp", &world.token("one")).await;
    client.assert_echo("echo").await;
    let nobody = world.client("/mcp", &world.token("nobody")).await;
    let error = nobody
        .error("tools/call", json!({"name": "echo"}))
        .await
        .to_string();
    assert!(
        !error.contains("reader") && !error.contains("writer"),
        "{error}"
    );
    assert_eq!(
        (world.reader.runs("echo"), world.writer.runs("echo")),
        (1, 0)
    );
}

#[tokio::test]
async fn a_file_with_a_bad_rule_changes_nothing() {
    let world = World::new(&json!({"rules": [{"servers": ["reader"]}]})).await;
    let token = world.token("ci");
    let client = world.client("/mcp", &token).await;
    let mut file = world.config.value();
    file["access"]["rules"] = json!([{"servers": ["reader"], "tool": ["x"]}]);
    let (status, answer) = world.gateway.rest().put("/api/config", file).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    assert!(
        answer.to_string().contains("did you mean `tools`?"),
        "{answer}"
    );
    client
        .error("tools/call", json!({"name": "writer__count"}))
        .await;
    client.assert_echo("reader__echo").await;
}

#[tokio::test]
async fn a_token_with_profiles_opens_them_alone() {
    let world = World::new(&Value::Null).await;
    let build = ProfileName::new("build").expect("a name");
    let token = world.limited_token(
        "ci",
        TokenLimits {
            profiles: vec![build],
            is_read_only: true,
        },
    );
    let client = world.client("/mcp/build", &token).await;
    let tools = client.tools().await.join(" ");
    assert!(
        tools.contains("reader__echo") && !tools.contains("writer__"),
        "{tools}"
    );
    client
        .error("tools/call", json!({"name": "writer__count"}))
        .await;
    let (status, unknown_profile) = world.greeting("/mcp/none", &token).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(
        unknown_profile.contains("there are build\""),
        "{unknown_profile}"
    );
    for (path, name) in [
        ("/mcp", "default"),
        ("/mcp/other", "other"),
        ("/mcp/meta", "meta"),
    ] {
        let (status, body) = world.greeting(path, &token).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(body, unknown_profile.replace("none", name));
    }
    let (_, unknown_server) = world.greeting("/servers/none/mcp", &token).await;
    for path in ["/servers/reader/mcp", "/servers/reader/sse"] {
        let (status, body) = world.greeting(path, &token).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(body, unknown_server.replace("none", "reader"));
    }
    let free = world.token("free");
    world.client("/servers/reader/mcp", &free).await;
    let (_, body) = world.greeting("/mcp/none", &free).await;
    assert!(
        body.contains("there are default, meta, build, other"),
        "{body}"
    );
}

#[tokio::test]
async fn the_metrics_are_for_clients_without_limits() {
    let world = World::new(&json!({"rules": [{"who": ["admin"]}, {"servers": ["reader"]}]})).await;
    for (token, status) in [
        (Some(world.token("admin")), StatusCode::OK),
        (Some(TOKEN.to_owned()), StatusCode::OK),
        (Some(world.token("ci")), StatusCode::FORBIDDEN),
        (None, StatusCode::FORBIDDEN),
    ] {
        let mut client = world.gateway.stranger("/metrics");
        client.token = token;
        let answer = client
            .send(http::Method::GET, client.headers("*/*"), "")
            .await;
        let answer = answer.whole().await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert_eq!(answer.text.contains("writer"), status == StatusCode::OK);
    }
}

#[tokio::test]
async fn rest_tells_who_may_use_what_and_why() {
    let access = json!({
        "default": "deny",
        "groups": {"agents": ["ci"]},
        "rules": [{"name": "agents read", "who": ["group:agents"], "servers": ["reader", "writer"], "readOnly": true, "allow": true}],
    });
    let world = World::new(&access).await;
    let rest = world.gateway.rest();
    world.token("ci");
    let request = json!({"name": "bound", "profiles": ["build"], "readOnly": true});
    let added = ok(rest.post("/api/tokens", request).await);
    assert_eq!(
        (&added["profiles"], &added["readOnly"]),
        (&json!(["build"]), &json!(true))
    );
    let unknown = json!({"name": "x", "profiles": ["biuld"]});
    let (status, answer) = rest.post("/api/tokens", unknown).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("profile_not_found"))
    );

    let overview = rest.get("/api/access").await;
    assert_eq!(overview["access"], access);
    assert_eq!(
        overview["principals"],
        json!([
            {"principal": "anonymous", "groups": [], "unlimited": false, "servers": []},
            {"principal": "client:ci", "groups": ["agents"], "unlimited": false, "servers": ["reader", "writer"]},
            {"principal": "client:bound", "groups": [], "unlimited": false, "servers": [], "profiles": ["build"], "readOnly": true},
        ])
    );
    let rule = "agents read";
    for (query, allowed, rule, effect, reason) in [
        (
            "principal=ci&server=reader&tool=echo",
            true,
            Some(rule),
            Some("read-only"),
            "decides",
        ),
        (
            "principal=client:ci&server=writer&tool=echo",
            false,
            Some(rule),
            Some("destructive"),
            "allows only tools",
        ),
        (
            "principal=ci&server=writer&tool=none",
            false,
            Some(rule),
            Some("destructive"),
            "allows only tools",
        ),
        (
            "principal=ci&server=writer",
            true,
            Some(rule),
            None,
            "decides",
        ),
        (
            "principal=ci&server=writer&prompt=greet",
            true,
            Some(rule),
            None,
            "decides",
        ),
        (
            "principal=other&server=reader",
            false,
            None,
            None,
            "`access.default`",
        ),
        (
            "principal=anonymous&server=reader&resource=fake://x",
            false,
            None,
            None,
            "`access.default`",
        ),
        (
            "principal=operator&server=writer&tool=echo",
            true,
            None,
            Some("destructive"),
            "the operator",
        ),
        (
            "principal=bound&server=reader",
            false,
            None,
            None,
            "does not open this endpoint",
        ),
        (
            "principal=bound&profile=build&server=reader",
            false,
            None,
            None,
            "`access.default`",
        ),
    ] {
        let explanation = rest.get(&format!("/api/access/explain?{query}")).await;
        assert_eq!(explanation["allowed"], allowed, "{query}: {explanation}");
        assert_eq!(explanation["rule"].as_str(), rule, "{query}: {explanation}");
        assert_eq!(
            explanation["effect"].as_str(),
            effect,
            "{query}: {explanation}"
        );
        assert!(
            explanation["reason"]
                .as_str()
                .is_some_and(|text| text.contains(reason)),
            "{query}: {explanation}"
        );
    }
    for (query, error) in [
        ("server=reader", "missing_parameter"),
        ("principal=ci", "missing_parameter"),
        ("principal=ci&server=none", "server_not_found"),
        (
            "principal=ci&server=reader&profile=none",
            "profile_not_found",
        ),
        ("principal=a:b&server=reader", "invalid_request"),
    ] {
        let (_, answer) = rest.try_get(&format!("/api/access/explain?{query}")).await;
        assert_eq!(answer["error"], error, "{query}: {answer}");
    }
}
