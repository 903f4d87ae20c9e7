//! `POST /api/hand-over`: a `mainstay serve` asks for the state directory of a `mainstay mcp`.

use axum::{Json, extract::State};
use mainstay_api as api;

use super::{RestDoor, body::Body, refusal::Refusal};

/// Answers before the handover begins. A daemon that keeps its directory does not have this route.
pub async fn hand_over(
    State(door): State<RestDoor>,
    Body(request): Body<api::HandOver>,
) -> Result<Json<api::HandedOver>, Refusal> {
    let Some(hand_over) = &door.hand_over else {
        return Err(Refusal::UnknownRoute(api::HAND_OVER.to_owned()));
    };
    // If the channel is full, an earlier request is being processed.
    hand_over.try_send(request).ok();
    Ok(Json(api::HandedOver {
        pid: std::process::id(),
    }))
}
