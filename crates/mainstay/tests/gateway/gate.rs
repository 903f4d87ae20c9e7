//! Access rules apply at every endpoint. Refused items are not listed, and a request for one gets
//! the same answer as for an unknown item.

use std::sync::Arc;

use http::StatusCode;
use mainstay_core::config::Secret;
use mainstay_doorway::token_limits::LimitsOfTokens;
use mainstay_gateway::GatewayOptions;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};

use crate::{
    backend::Backend,
    client::{Http, LATEST, initialize},
    gateway::{Gateway, config},
    modern::Modern,
    rest_client::TOKEN,
};

/// Rules by which the client `friend` may use everything. Other clients see neither the server `y`
/// nor these items of `x`.
fn friend_only() -> Value {
    json!({
        "default": "allow",
        "rules": [
            {"who": ["friend"]},
            {"servers": ["y"], "allow": false},
            {
                "servers": ["x"],
                "tools": ["echo"],
                "prompts": ["greet"],
                "resources": ["fake://text", "fake://item/{id}"],
                "allow": false,
            },
        ],
    })
}

/// A daemon with the servers `x` and `y` and with access rules.
struct Guarded {
    gateway: Gateway,
    x: Backend,
    y: Backend,
    tokens: Tokens,
}

impl Guarded {
    async fn new() -> Self {
        let (first_backend, second_backend) = (Backend::http().await, Backend::http().await);
        let settings = json!({
            "profiles": {"search": {"expose": "meta", "ownTools": ["meta", "external"]}},
            "access": friend_only(),
        });
        let tokens = Tokens::from(Secret::new(TOKEN));
        let options = GatewayOptions {
            token_limits: Some(Arc::new(LimitsOfTokens(tokens.clone()))),
            ..GatewayOptions::default()
        };
        let config_json = config(&[("x", &first_backend), ("y", &second_backend)], settings);
        let gateway =
            Gateway::guarded(&config_json, options, tokens.clone(), |address| address).await;
        gateway.registry().settled().await;
        Self {
            gateway,
            x: first_backend,
            y: second_backend,
            tokens,
        }
    }

    /// Adds a token for a client of this name.
    fn token(&self, name: &str) -> String {
        let (token, _) = self.tokens.add(name, None).expect("added");
        token.expose().to_owned()
    }

    async fn client(&self, path: &str, token: &str) -> Http {
        let mut client = self.gateway.stranger(path);
        client.token = Some(token.to_owned());
        client.initialize(LATEST).await;
        client
    }

    /// The number of requests that have reached the servers.
    fn request_count(&self) -> usize {
        let methods = [
            "tools/call",
            "prompts/get",
            "resources/read",
            "resources/subscribe",
            "completion/complete",
        ];
        let count = |method: &&str| self.x.count(method) + self.y.count(method);
        methods.iter().map(count).sum()
    }
}

/// Requests for the hidden items, with the names of an endpoint that adds this prefix.
fn requests(prefix: &str) -> [(&'static str, Value); 6] {
    [
        (
            "tools/call",
            json!({"name": format!("{prefix}echo"), "arguments": {"text": "hi"}}),
        ),
        (
            "prompts/get",
            json!({"name": format!("{prefix}greet"), "arguments": {"name": "Ada"}}),
        ),
        ("resources/read", json!({"uri": "fake://text"})),
        ("resources/subscribe", json!({"uri": "fake://text"})),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/prompt", "name": format!("{prefix}greet")},
                "argument": {"name": "name", "value": "A"},
            }),
        ),
        (
            "completion/complete",
            json!({
                "ref": {"type": "ref/resource", "uri": "fake://item/{id}"},
                "argument": {"name": "id", "value": "1"},
            }),
        ),
    ]
}

const LISTS: [&str; 4] = [
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
];

/// All lists of a client, as one text.
async fn lists(client: &Http) -> String {
    let mut text = String::new();
    for method in LISTS {
        let list = client.result(method, json!({})).await;
        text.push_str(&list.to_string());
    }
    text
}

/// The hidden items in the form in which lists contain them.
fn listed_names(prefix: &str) -> [String; 4] {
    [
        format!(r#""name":"{prefix}echo""#),
        format!(r#""name":"{prefix}greet""#),
        r#""uri":"fake://text""#.to_owned(),
        r#""uriTemplate":"fake://item/{id}""#.to_owned(),
    ]
}

#[tokio::test]
async fn refused_items_are_unknown_at_mcp_endpoints() {
    let fixture = Guarded::new().await;
    let (guest_token, friend) = (fixture.token("guest"), fixture.token("friend"));
    for (path, prefix) in [("/mcp", "x__"), ("/servers/x/mcp", "")] {
        let client = fixture.client(path, &guest_token).await;
        let lists_of_guest = lists(&client).await;
        let friend = fixture.client(path, &friend).await;
        let lists_of_friend = lists(&friend).await;
        for hidden_item in listed_names(prefix) {
            assert!(
                !lists_of_guest.contains(&hidden_item),
                "{path}: {hidden_item}"
            );
            assert!(
                lists_of_friend.contains(&hidden_item),
                "{path}: {hidden_item}"
            );
        }
        assert!(lists_of_guest.contains(&format!(r#""name":"{prefix}count""#)));
        let count = fixture.request_count();
        for (method, params) in requests(prefix) {
            let error = client.error(method, params.clone()).await;
            assert!(
                [-32602, -32002].contains(&error["code"].as_i64().expect("a code")),
                "{error}"
            );
        }
        assert_eq!(fixture.request_count(), count, "{path}: no server is asked");
        for (method, params) in requests(prefix) {
            friend.result(method, params).await;
        }
        client.call(&format!("{prefix}count"), json!({})).await;
        let mut modern = Modern::at(&fixture.gateway, path);
        modern.http.token = Some(guest_token.clone());
        let count = fixture.request_count();
        for method in LISTS {
            let list = modern.result(method, json!({})).await.to_string();
            for hidden_item in listed_names(prefix) {
                assert!(!list.contains(&hidden_item), "{path}: {hidden_item}");
            }
        }
        for (method, params) in requests(prefix) {
            if method != "resources/subscribe" {
                modern.error(method, params).await;
            }
        }
        assert_eq!(fixture.request_count(), count, "{path}: no server is asked");
    }
    // The answer for an unknown name is the same.
    let client = fixture.client("/mcp", &guest_token).await;
    let unknown_result = client.error("tools/call", json!({"name": "x__none"})).await;
    let refused_result = client.error("tools/call", json!({"name": "x__echo"})).await;
    assert_eq!(
        refused_result.to_string(),
        unknown_result.to_string().replace("none", "echo")
    );
}

#[tokio::test]
async fn a_refused_server_is_not_there() {
    let fixture = Guarded::new().await;
    let (guest_token, friend) = (fixture.token("guest"), fixture.token("friend"));
    let client = fixture.client("/mcp", &guest_token).await;
    assert!(!lists(&client).await.contains("y__"));
    client
        .error("tools/call", json!({"name": "y__count"}))
        .await;
    let answer = async |path: &str| {
        let mut client = fixture.gateway.stranger(path);
        client.token = Some(guest_token.clone());
        let response = client.post(initialize(LATEST)).await;
        (response.status, response.text)
    };
    let (status, refusal_body) = answer("/servers/y/mcp").await;
    let (_, unknown_body) = answer("/servers/none/mcp").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{refusal_body}");
    assert_eq!(refusal_body, unknown_body.replace("none", "y"));
    let friend = fixture.client("/servers/y/mcp", &friend).await;
    friend.assert_echo("echo").await;
    assert_eq!(fixture.y.runs("count"), 0);
}

/// The search of the own tools finds only items that the client may use.
#[tokio::test]
async fn search_omits_refused_items() {
    let fixture = Guarded::new().await;
    let (guest_token, friend) = (fixture.token("guest"), fixture.token("friend"));
    let search = json!({"query": "echo", "limit": 50});
    let client = fixture.client("/mcp/search", &guest_token).await;
    let friend = fixture.client("/mcp/search", &friend).await;
    let matching_result = client.call_text("search_tools", search.clone()).await;
    assert!(
        !matching_result.contains("x__echo") && !matching_result.contains("y__"),
        "{matching_result}"
    );
    assert!(
        friend
            .call_text("search_tools", search)
            .await
            .contains("x__echo")
    );
    for (tool, arguments) in [
        ("describe_tool", json!({"name": "x/echo"})),
        (
            "execute_tool",
            json!({"name": "x/echo", "arguments": {"text": "hi"}}),
        ),
        (
            "external_call_tool",
            json!({"tool": "x/echo", "arguments": {"text": "hi"}}),
        ),
    ] {
        let result = client.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
    }
    let listed_result = client.call_text("list_servers", json!({})).await;
    assert!(!listed_result.contains(r#""name":"y""#), "{listed_result}");
    let tools = client.call_text("external_list_tools", json!({})).await;
    assert!(
        !tools.contains("x/echo") && tools.contains("x/count"),
        "{tools}"
    );
    assert_eq!(fixture.x.runs("echo"), 0);
}

#[tokio::test]
async fn the_operator_may_use_everything() {
    let fixture = Guarded::new().await;
    let rest = fixture.gateway.rest();
    for (path, item) in [
        ("/api/mcp-tools", "x/echo"),
        ("/api/mcp-prompts", "x/greet"),
        ("/api/mcp-resources", "fake://text"),
        ("/api/mcp-resource-templates", "fake://item"),
        ("/api/servers", r#""name":"y""#),
    ] {
        let list = rest.get(path).await.to_string();
        assert!(list.contains(item), "{path}: {list}");
    }
    let call = json!({"tool": "y/echo", "arguments": {"text": "hi"}});
    let (status, answer) = rest.post("/api/mcp-tools/call", call).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let client = fixture.client("/servers/y/mcp", TOKEN).await;
    client.assert_echo("echo").await;
}
