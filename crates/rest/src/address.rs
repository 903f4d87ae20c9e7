//! Parameters of a URL's path and query. axum parses them. Errors have the form of REST errors.

use axum::extract::{self, FromRequestParts};
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::refusal::Refusal;

/// The parameters in the path of a URL.
pub struct Path<T>(pub T);

impl<T, S> FromRequestParts<S> for Path<T>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match extract::Path::from_request_parts(parts, state).await {
            Ok(extract::Path(parameters)) => Ok(Self(parameters)),
            Err(rejection) => Err(Refusal::Malformed(rejection.body_text())),
        }
    }
}

/// The parameters in the query of a URL.
pub struct Query<T>(pub T);

impl<T, S> FromRequestParts<S> for Query<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match extract::Query::from_request_parts(parts, state).await {
            Ok(extract::Query(parameters)) => Ok(Self(parameters)),
            Err(rejection) => Err(Refusal::Malformed(rejection.body_text())),
        }
    }
}
