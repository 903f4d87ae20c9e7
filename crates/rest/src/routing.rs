//! Method routers for handlers. axum's code around a handler is compiled for each handler type.
//! Here all handlers get the same type, so it is compiled once
//! (docs/dev/decisions/0018-cargo-is-the-wall.md).

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

/// A function that axum accepts as a handler. Its future is boxed.
pub trait FnHandler<T>: Handler<T, RestDoor, Future = BoxFuture<'static, Response>> {}

impl<T, H: Handler<T, RestDoor, Future = BoxFuture<'static, Response>>> FnHandler<T> for H {}

/// A handler whose own type is erased.
#[derive(Clone)]
struct AnyHandler(Arc<Answering>);

impl AnyHandler {
    fn new<T: 'static>(handler: impl FnHandler<T>) -> Self {
        Self(Arc::new(move |request, door| {
            handler.clone().call(request, door)
        }))
    }
}

impl Handler<((),), RestDoor> for AnyHandler {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, door: RestDoor) -> Self::Future {
        (self.0)(request, door)
    }
}

pub fn get<T: 'static>(handler: impl FnHandler<T>) -> MethodRouter<RestDoor> {
    routing::get(AnyHandler::new(handler))
}

pub fn post<T: 'static>(handler: impl FnHandler<T>) -> MethodRouter<RestDoor> {
    routing::post(AnyHandler::new(handler))
}

pub fn put<T: 'static>(handler: impl FnHandler<T>) -> MethodRouter<RestDoor> {
    routing::put(AnyHandler::new(handler))
}

pub fn delete<T: 'static>(handler: impl FnHandler<T>) -> MethodRouter<RestDoor> {
    routing::delete(AnyHandler::new(handler))
}
