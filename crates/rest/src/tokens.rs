//! Creates and removes client tokens, and replaces the control token. Only the answer that creates
//! a token shows it.

use std::time::Duration;

use axum::{Json, extract::State};
use mainstay_api as api;
use mainstay_platform::blocking::off_the_runtime;
use mainstay_tokens::{self as tokens, TokenError, Tokens};

use super::{RestDoor, address::Path, body::Body, refusal::Refusal};

pub async fn list(State(door): State<RestDoor>) -> Json<api::ClientTokens> {
    let tokens = door.tokens.clients();
    Json(api::ClientTokens {
        tokens: tokens.iter().map(api::ClientToken::from).collect(),
    })
}

pub async fn add(
    State(door): State<RestDoor>,
    Body(request): Body<api::AddToken>,
) -> Result<Json<api::AddedToken>, Refusal> {
    let name = request.name.ok_or(Refusal::MissingParameter("name"))?;
    let lifetime = request.expires_in_seconds.map(Duration::from_secs);
    let limits = tokens::read_limits(&request.limits)?;
    for profile in &limits.profiles {
        door.gateway.registry.profile(profile.as_str())?;
    }
    let add = move |tokens: &Tokens| tokens.add_limited(&name, lifetime, limits);
    let (token, client) = changed(&door, add).await?;
    Ok(Json(tokens::added(&token, &client)))
}

pub async fn remove(
    State(door): State<RestDoor>,
    Path(name): Path<String>,
) -> Result<Json<api::RemovedToken>, Refusal> {
    let client = changed(&door, move |tokens| tokens.remove(&name)).await?;
    Ok(Json(api::RemovedToken {
        success: true,
        name: client.name.to_string(),
    }))
}

pub async fn rotate(State(door): State<RestDoor>) -> Result<Json<api::RotatedToken>, Refusal> {
    let token = changed(&door, Tokens::rotate).await?;
    Ok(Json(api::RotatedToken {
        token: token.expose().to_owned(),
    }))
}

/// Changes tokens on a blocking thread, because a change writes a file.
pub async fn changed<T: Send + 'static>(
    door: &RestDoor,
    change: impl FnOnce(&Tokens) -> Result<T, TokenError> + Send + 'static,
) -> Result<T, Refusal> {
    let tokens = door.tokens.clone();
    Ok(off_the_runtime(move || change(&tokens)).await?)
}
