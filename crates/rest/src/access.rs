//! The rules of access: what is in force, and the decision about one item.

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_config::access_value;
use mainstay_core::{
    access::{ItemQuestion, ToolEffect},
    catalog::ListKind,
    principal::{ClientName, Principal},
};
use mainstay_tokens::ClientToken;
use serde::Deserialize;

use super::{RestDoor, address::Query, refusal::Refusal};

pub async fn overview(State(door): State<RestDoor>) -> Json<api::AccessOverview> {
    let policy = door.gateway.access.policy();
    let tokens = door.tokens.clients();
    let mut principals = vec![principal_view(&door, &Principal::Anonymous, None)];
    principals.extend(tokens.iter().map(|token| {
        let principal = Principal::Client(token.name.clone());
        principal_view(&door, &principal, Some(token))
    }));
    Json(api::AccessOverview {
        access: policy.as_deref().map(access_value),
        principals,
    })
}

fn principal_view(
    door: &RestDoor,
    principal: &Principal,
    token: Option<&ClientToken>,
) -> api::PrincipalView {
    let access = &door.gateway.access;
    // A token with profiles opens no single server. Its profiles decide what it sees there.
    let rules = access.access_of(principal, None);
    let sees = |server: &str| {
        rules
            .as_ref()
            .is_none_or(|rules| rules.allows_server(server))
    };
    let servers = door.gateway.registry.servers();
    let names = servers.iter().map(|server| server.name.as_str());
    let policy = access.policy();
    let groups = match (policy.as_deref(), principal) {
        (Some(policy), Principal::Client(name)) => {
            policy.groups_of(name).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    api::PrincipalView {
        principal: principal.to_string(),
        groups,
        limits: token.map(mainstay_tokens::limits).unwrap_or_default(),
        unlimited: access.is_unlimited(principal),
        servers: names.filter(|name| sees(name)).map(str::to_owned).collect(),
    }
}

/// `?principal=NAME&server=NAME&tool=NAME`
#[derive(Debug, Deserialize)]
pub struct AccessQuestion {
    principal: Option<String>,
    profile: Option<String>,
    server: Option<String>,
    tool: Option<String>,
    prompt: Option<String>,
    resource: Option<String>,
}

pub async fn explain(
    State(door): State<RestDoor>,
    Query(question): Query<AccessQuestion>,
) -> Result<Json<api::AccessExplanation>, Refusal> {
    let principal = question
        .principal
        .ok_or(Refusal::MissingParameter("principal"))?;
    let principal = read_principal(&principal)?;
    let server = question.server.ok_or(Refusal::MissingParameter("server"))?;
    let server = door.gateway.registry.server(&server)?;
    let profile = match &question.profile {
        Some(name) => Some(door.gateway.registry.profile(name)?.name.clone()),
        None => None,
    };
    let items = [
        (ListKind::Tools, question.tool),
        (ListKind::Prompts, question.prompt),
        (ListKind::Resources, question.resource),
    ];
    let item = items
        .into_iter()
        .find_map(|(kind, name)| Some((kind, name?)));
    let effect = item
        .as_ref()
        .filter(|(kind, _)| *kind == ListKind::Tools)
        .map(|(kind, name)| {
            let catalog = server.catalog();
            let tool = catalog
                .as_deref()
                .and_then(|catalog| catalog.item(*kind, name));
            tool.map_or_else(ToolEffect::default, |tool| tool.effect)
        });
    let access = &door.gateway.access;
    let decision = access.explain(&principal, profile.as_ref(), |access| match &item {
        Some((kind, original)) => access.decide(&ItemQuestion {
            kind: *kind,
            server: server.name.as_str(),
            original,
            effect: effect.unwrap_or_default(),
        }),
        None => access.decide_server(server.name.as_str()),
    });
    Ok(Json(api::AccessExplanation {
        allowed: decision.is_allowed,
        reason: decision.reason.to_string(),
        rule: decision.reason.rule().map(str::to_owned),
        effect: effect.map(|effect| effect.as_str().to_owned()),
    }))
}

/// Reads the name of a token, `client:NAME`, `anonymous` or `operator`.
fn read_principal(text: &str) -> Result<Principal, Refusal> {
    match text {
        "anonymous" => Ok(Principal::Anonymous),
        "operator" => Ok(Principal::Operator),
        _ => {
            let name = text.strip_prefix("client:").unwrap_or(text);
            let name = ClientName::new(name);
            name.map(Principal::Client)
                .map_err(|error| Refusal::Malformed(error.to_string()))
        }
    }
}
