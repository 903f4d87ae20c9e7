//! `POST /api/hand-over`: a `mainstay serve` asks for the state directory of a `mainstay mcp`.

use axum::{Json, extract::State};
use mainstay_api as api;

use super::{RestDoor, body::Body, refusal::Refusal};

/// Answers before anything is done about it. A daemon that keeps its directory has no such route.
pub async fn hand_over(
    State(door): State<RestDoor>,
    Body(asked): Body<api::HandOver>,
) -> Result<Json<api::HandedOver>, Refusal> {
    let Some(hand_over) = &door.hand_over else {
        return Err(Refusal::UnknownRoute(api::HAND_OVER.to_owned()));
    };
    // The first one has been heard where there is no room for a second one.
    hand_over.try_send(asked).ok();
    Ok(Json(api::HandedOver {
        pid: std::process::id(),
    }))
}
