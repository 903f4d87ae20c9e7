//! A call over REST, from its request to its answer.

use std::{borrow::Cow, sync::Arc};

use axum::{
    Json,
    extract::{FromRequest as _, Request},
    response::{IntoResponse, Response},
};
use mainstay_api::Raw;
use mainstay_core::{
    failure::{Failure, FailureKind},
    message::Method,
};
use mainstay_gateway::{
    Gateway,
    calls::{Answering, CallRefusal, Client, Closed, Receipt, RequestedCall},
    supervisor::Server,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::oneshot;

use super::{RestDoor, body::Body, not_configured, refusal::Refusal, via::Via};

/// What every route of calls answers with.
pub struct Answered<T>(Closed<Outcome<T>>);

/// A result, or why there is none.
#[derive(Debug)]
pub struct Outcome<T> {
    answer: Result<T, Refusal>,
    /// Why no server was called, and what was asked for.
    refused: Option<CallRefusal>,
}

impl<T> Answering for Outcome<T> {
    fn refused(&self) -> Option<Cow<'_, CallRefusal>> {
        self.refused.as_ref().map(Cow::Borrowed)
    }
}

impl<T: Serialize> IntoResponse for Answered<T> {
    fn into_response(self) -> Response {
        self.0.into_inner().answer.map(Json).into_response()
    }
}

/// A call that has come in.
pub struct Call {
    door: RestDoor,
    client: Arc<Client>,
    receipt: Receipt,
    /// What is asked for, as far as it has been read.
    pub wanted: RequestedCall,
    /// Why there is no result, where the answer says so in other words.
    pub failure: Option<Failure>,
}

impl Call {
    /// Answers a call of this method, whether or not the caller waits for it.
    pub async fn answer<T, F>(
        door: RestDoor,
        via: Via,
        method: Method,
        run: impl FnOnce(Self) -> F,
    ) -> Answered<T>
    where
        F: Future<Output = (Self, Result<T, Refusal>)> + Send + 'static,
        T: Send + 'static,
    {
        let calls = door.gateway.calls.clone();
        let running = run(Self {
            door,
            client: via.client(),
            receipt: Receipt::new(),
            wanted: RequestedCall::new(method, ""),
            failure: None,
        });
        let answering = async move {
            let (call, answer) = running.await;
            call.close(answer).await
        };
        calls.detachable(answering).await
    }

    async fn close<T>(self, answer: Result<T, Refusal>) -> Answered<T> {
        let failure = match &answer {
            Ok(_) => self.failure,
            Err(refusal) => Some(refusal.failure()),
        };
        let refused = failure.map(|failure| CallRefusal {
            failure,
            wanted: Some(self.wanted),
        });
        let outcome = Outcome { answer, refused };
        let origin = || Arc::clone(&self.client.origin);
        let calls = &self.door.gateway.calls;
        Answered(self.receipt.close(calls, outcome, origin, || None).await)
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.door.gateway
    }

    /// The body of the request.
    pub async fn body<T: DeserializeOwned>(&self, request: Request) -> Result<T, Refusal> {
        let Body(body) = Body::from_request(request, &self.door).await?;
        Ok(body)
    }

    /// The body, which may be missing.
    pub async fn optional_body<T: DeserializeOwned>(
        &self,
        request: Request,
    ) -> Result<Option<T>, Refusal> {
        let body = Option::<Body<T>>::from_request(request, &self.door).await?;
        Ok(body.map(|Body(body)| body))
    }

    /// Without a configuration and without a server there is nothing that could answer.
    pub fn is_configured(&self) -> Result<(), Refusal> {
        if self.gateway().registry.is_configured() {
            Ok(())
        } else {
            Err(not_configured().into())
        }
    }

    /// One request on the server's shared session.
    pub async fn ask(&self, server: Arc<Server>, params: &str) -> Result<Raw, Failure> {
        let (_, never) = oneshot::channel();
        let (calls, client, method) = (&self.gateway().calls, &self.client, self.wanted.method);
        let client = Arc::clone(client);
        mainstay_gateway::ask(calls, &self.receipt, client, server, method, params, never).await
    }
}

impl Refusal {
    /// This refusal as the failure of a call.
    fn failure(&self) -> Failure {
        let kind = match self {
            Self::Failed(failure) => return failure.clone(),
            Self::InvalidToolName { .. } => FailureKind::ToolNotFound,
            _ => FailureKind::InvalidRequest,
        };
        Failure::new(kind, self.to_string())
    }
}
