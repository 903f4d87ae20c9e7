//! The methods of routes. axum compiles what surrounds a handler once for each handler; here handlers
//! are of one type, and it is compiled once: a third of the time that this package takes.

use std::sync::Arc;

use axum::{
    extract::Request,
    handler::Handler,
    response::Response,
    routing::{self, MethodRouter},
};
use futures_util::future::BoxFuture;

use super::RestDoor;

type Answering = dyn Fn(Request, RestDoor) -> BoxFuture<'static, Response> + Send + Sync;

/// Any handler.
#[derive(Clone)]
struct AnyHandler(Arc<Answering>);

impl AnyHandler {
    fn new<T: 'static>(handler: impl Handler<T, RestDoor>) -> Self {
        Self(Arc::new(move |request, door| {
            Box::pin(handler.clone().call(request, door))
        }))
    }
}

impl Handler<((),), RestDoor> for AnyHandler {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, door: RestDoor) -> Self::Future {
        (self.0)(request, door)
    }
}

pub fn get<T: 'static>(handler: impl Handler<T, RestDoor>) -> MethodRouter<RestDoor> {
    routing::get(AnyHandler::new(handler))
}

pub fn post<T: 'static>(handler: impl Handler<T, RestDoor>) -> MethodRouter<RestDoor> {
    routing::post(AnyHandler::new(handler))
}

pub fn put<T: 'static>(handler: impl Handler<T, RestDoor>) -> MethodRouter<RestDoor> {
    routing::put(AnyHandler::new(handler))
}

pub fn delete<T: 'static>(handler: impl Handler<T, RestDoor>) -> MethodRouter<RestDoor> {
    routing::delete(AnyHandler::new(handler))
}
