//! `POST /api/hand-over`: a new `mainstay serve` asks a `mainstay mcp` for its state directory.

use axum::{Json, extract::State};
use mainstay_api as api;

use super::{RestDoor, body::Body, refusal::Refusal};

/// Requests a handover, and answers before it starts. A daemon that does not hand over answers as
/// if the route were unknown.
pub async fn hand_over(
    State(door): State<RestDoor>,
    Body(request): Body<api::HandOver>,
) -> Result<Json<api::HandedOver>, Refusal> {
    let Some(hand_over) = &door.hand_over else {
        return Err(Refusal::UnknownRoute(api::HAND_OVER.to_owned()));
    };
    // A full channel has an earlier request, so this one is not needed.
    hand_over.try_send(request).ok();
    Ok(Json(api::HandedOver {
        pid: std::process::id(),
    }))
}
