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
    calls::{Answering, CallRefusal, CallSink, Client, Closed, Receipt, RequestedCall},
    supervisor::Server,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::oneshot;

use super::{
    RestDoor,
    body::Body,
    followed::{Follower, with_progress},
    not_configured,
    refusal::Refusal,
    via::Via,
};

/// What every route of calls answers with.
pub enum Answered<T> {
    Whole(Closed<Outcome<T>>),
    /// A stream of events, the last of which is the answer.
    Followed(Response),
}

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
        match self {
            Self::Whole(closed) => closed.into_inner().answer.map(Json).into_response(),
            Self::Followed(response) => response,
        }
    }
}

/// A call that has come in.
pub struct Call {
    door: RestDoor,
    client: Arc<Client>,
    receipt: Receipt,
    /// The caller, where it follows the call, until the server is asked.
    follower: Option<Follower>,
    /// What is asked for, as far as it has been read.
    pub wanted: RequestedCall,
    /// Why there is no result, where the answer says so in other words.
    pub failure: Option<Failure>,
}

impl Call {
    /// Answers a call of this method, whether or not the caller waits for it. A caller that follows the call
    /// and does not wait for its end cancels it.
    pub async fn answer<T, F>(
        door: RestDoor,
        via: Via,
        method: Method,
        run: impl FnOnce(Self) -> F,
    ) -> Answered<T>
    where
        F: Future<Output = (Self, Result<T, Refusal>)> + Send + 'static,
        T: Serialize + Send + 'static,
    {
        let calls = door.gateway.calls.clone();
        let client = via.client();
        let (follower, stream) = via
            .follows()
            .then(|| Follower::new(Arc::clone(&client)))
            .unzip();
        let running = run(Self {
            door,
            client,
            receipt: Receipt::new(),
            follower,
            wanted: RequestedCall::new(method, ""),
            failure: None,
        });
        let answering = async move {
            let (call, answer) = running.await;
            call.close(answer).await
        };
        match stream {
            Some(stream) => {
                let answering = async move { answering.await.into_response() };
                Answered::Followed(stream.response(&calls, answering))
            }
            None => calls.detachable(answering).await,
        }
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
        Answered::Whole(self.receipt.close(calls, outcome, origin, || None).await)
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

    /// One request on the server's shared session. `params` is the text of a JSON object with members.
    pub async fn ask(&mut self, server: Arc<Server>, params: &str) -> Result<Raw, Failure> {
        let (calls, method) = (&self.door.gateway.calls, self.wanted.method);
        let (receipt, client) = (&self.receipt, Arc::clone(&self.client));
        if let Some(Follower { sink, cancelled }) = self.follower.take() {
            let params = with_progress(params);
            let asking =
                mainstay_gateway::ask(calls, receipt, sink, server, method, &params, cancelled);
            return asking.await;
        }
        let (_, never) = oneshot::channel();
        let (sink, _) = CallSink::new(client, None);
        mainstay_gateway::ask(calls, receipt, sink, server, method, params, never).await
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
