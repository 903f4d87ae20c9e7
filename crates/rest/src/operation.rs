//! One operation of the REST API: its handler, and its description in the OpenAPI document.

use std::collections::{BTreeMap, BTreeSet};

use axum::{Extension, middleware, routing::MethodRouter};
use http::StatusCode;
use mainstay_api as api;
use serde_json::{Map, Value, json};
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    RestDoor,
    code::{BODY_ERRORS, CLIENT_ROUTE_ERRORS, COMMON_ERRORS, Code, INVALID_REQUEST},
    configured,
    routing::{self, FnHandler},
};

pub const JSON: &str = "application/json";
/// JSON Schema (draft 2020-12, core, section 14).
pub const JSON_SCHEMA: &str = "application/schema+json";
const EVENT_STREAM: &str = "text/event-stream";
const BYTES: &str = "application/octet-stream";

/// The description of a followed call's events.
const FOLLOWED: &str = "Server-sent events, with `Accept: text/event-stream`: `progress` and `log` with the \
    `params` of the server's notifications, and at the end `answer` with a FollowedAnswer. A caller that \
    closes the connection before cancels the call.";
const FOLLOWED_EXAMPLE: &str = "event: progress\ndata: {\"progressToken\":1,\"progress\":1,\"total\":2}\n\n\
    event: answer\ndata: {\"status\":200,\"body\":{\"result\":{\"content\":[]}}}\n\n";

/// Schemas by name, for the `components` of the document.
type NamedSchemas = Vec<(String, RefOr<Schema>)>;

/// One method of one path, with its handler and its description.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    handler: MethodRouter<RestDoor>,
    summary: &'static str,
    /// True if the operation needs no credentials.
    is_public: bool,
    /// True if the operation is refused while there is neither a configuration nor a server.
    needs_configuration: bool,
    query: Vec<Value>,
    body: Option<Value>,
    /// The contents of the answer, by media type.
    answer: Map<String, Value>,
    /// The headers of the answer, by name.
    headers: Map<String, Value>,
    /// The errors of the operation, without those that every operation may return.
    failures: Vec<Code>,
    /// Functions that add the schemas of the operation's types. Only the document calls them.
    referred: Vec<fn(&mut NamedSchemas)>,
}

/// One method of one path with its handler, but without a description.
pub struct Route {
    method: &'static str,
    path: &'static str,
    handler: MethodRouter<RestDoor>,
}

pub fn get<T: 'static>(path: &'static str, handler: impl FnHandler<T>) -> Route {
    Route::new("get", path, routing::get(handler))
}

pub fn post<T: 'static>(path: &'static str, handler: impl FnHandler<T>) -> Route {
    Route::new("post", path, routing::post(handler))
}

pub fn put<T: 'static>(path: &'static str, handler: impl FnHandler<T>) -> Route {
    Route::new("put", path, routing::put(handler))
}

pub fn delete<T: 'static>(path: &'static str, handler: impl FnHandler<T>) -> Route {
    Route::new("delete", path, routing::delete(handler))
}

impl Route {
    fn new(method: &'static str, path: &'static str, handler: MethodRouter<RestDoor>) -> Self {
        Self {
            method,
            path,
            handler,
        }
    }

    pub fn summary(self, summary: &'static str) -> Operation {
        Operation {
            method: self.method,
            path: self.path,
            handler: self.handler,
            summary,
            is_public: false,
            needs_configuration: false,
            query: Vec::new(),
            body: None,
            answer: Map::new(),
            headers: Map::new(),
            failures: Vec::new(),
            referred: Vec::new(),
        }
    }
}

impl Operation {
    /// Adds state that all requests share. The handler gets it as an `Extension`.
    pub fn shares<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        self.handler = self.handler.layer(Extension(state));
        self
    }

    /// Refuses requests with `not_configured` while there is neither a configuration nor a server.
    pub fn needs_configuration(mut self) -> Self {
        self.needs_configuration = true;
        self.fails(&CLIENT_ROUTE_ERRORS)
    }

    /// The handler for the router.
    pub fn into_handler(self, door: &RestDoor) -> MethodRouter<RestDoor> {
        if self.needs_configuration {
            let check = middleware::from_fn_with_state(door.clone(), configured);
            self.handler.route_layer(check)
        } else {
            self.handler
        }
    }

    /// Marks the operation as one that needs no credentials. A sign-in is such an operation.
    pub fn public(mut self) -> Self {
        self.is_public = true;
        self
    }

    pub fn query(mut self, name: &str, description: &str, schema: &Value) -> Self {
        self.query.push(
            json!({"name": name, "in": "query", "description": description, "schema": schema}),
        );
        self
    }

    /// Adds a required query parameter.
    pub fn query_needed(mut self, name: &str, description: &str, schema: &Value) -> Self {
        self.query.push(json!({
            "name": name, "in": "query", "required": true, "description": description, "schema": schema,
        }));
        self
    }

    /// Adds an answer that is a text file of this media type.
    pub fn answers_as(mut self, media_type: &str) -> Self {
        let schema = json!({"schema": {"type": "string"}});
        self.answer.insert(media_type.to_owned(), schema);
        self
    }

    pub fn accepts<T: ToSchema>(mut self) -> Self {
        let schema = self.refer::<T>();
        self.accepts_with(&schema)
    }

    pub fn accepts_with(mut self, schema: &Value) -> Self {
        self.body = Some(json!({"required": true, "content": {JSON: {"schema": schema}}}));
        self
    }

    /// Adds an optional body.
    pub fn may_accept<T: ToSchema>(mut self) -> Self {
        let schema = self.refer::<T>();
        self.body = Some(json!({"content": {JSON: {"schema": schema}}}));
        self
    }

    /// Adds conditions for the body to the schema of its type.
    pub fn needing(mut self, more: &Value) -> Self {
        if let Some(schema) = self
            .body
            .as_mut()
            .map(|body| &mut body["content"][JSON]["schema"])
        {
            *schema = json!({"allOf": [schema.take(), more]});
        }
        self
    }

    pub fn answers<T: ToSchema>(mut self) -> Self {
        let schema = self.refer::<T>();
        self.answers_with(&schema)
    }

    pub fn answers_with(mut self, schema: &Value) -> Self {
        self.answer
            .insert(JSON.to_owned(), json!({"schema": schema}));
        self
    }

    pub fn answers_schema(mut self) -> Self {
        self.answer.insert(
            JSON_SCHEMA.to_owned(),
            json!({"schema": {"type": "object"}}),
        );
        self
    }

    pub fn streams(mut self) -> Self {
        self.answer.insert(EVENT_STREAM.to_owned(), json!({}));
        self
    }

    /// Adds the event stream for callers that follow the call.
    pub fn follows(mut self) -> Self {
        self.refer::<api::FollowedAnswer>();
        let schema =
            json!({"type": "string", "description": FOLLOWED, "examples": [FOLLOWED_EXAMPLE]});
        self.answer
            .insert(EVENT_STREAM.to_owned(), json!({"schema": schema}));
        self
    }

    /// Adds an answer of raw bytes. The header describes them.
    pub fn answers_bytes(mut self, header: &str, description: &str, schema: &Value) -> Self {
        self.answer.insert(BYTES.to_owned(), json!({}));
        let header_object = json!({"description": description, "schema": schema});
        self.headers.insert(header.to_owned(), header_object);
        self
    }

    pub fn fails(mut self, with: &[Code]) -> Self {
        self.failures.extend(with);
        self
    }

    /// All errors that the operation may return.
    pub fn codes(&self) -> Vec<Code> {
        let mut codes = COMMON_ERRORS.to_vec();
        if self.path.contains('{') || !self.query.is_empty() {
            codes.push(INVALID_REQUEST);
        }
        if self.body.is_some() {
            codes.extend(BODY_ERRORS);
        }
        codes.extend(&self.failures);
        codes
    }

    fn refer<T: ToSchema>(&mut self) -> Value {
        self.referred.push(|schemas| {
            schemas.push((T::name().into_owned(), T::schema()));
            T::schemas(schemas);
        });
        json!({"$ref": format!("#/components/schemas/{}", T::name())})
    }

    /// The schemas of all types to which the operation refers, also indirectly.
    pub fn schemas(&self) -> NamedSchemas {
        let mut schemas = Vec::new();
        for add in &self.referred {
            add(&mut schemas);
        }
        schemas
    }

    /// The operation object of the OpenAPI document.
    pub fn describe(&self) -> Value {
        let names = self.path.split('{').skip(1);
        let names = names.filter_map(|rest| rest.split('}').next());
        let in_path = names.map(|name| {
            let schema = match name {
                "id" if self.path == api::REPLY => {
                    json!({"type": "integer", "minimum": 0, "maximum": u64::MAX})
                }
                "version" => json!({"type": "integer", "minimum": 1, "maximum": u64::MAX}),
                "operation" => json!({"enum": ["start", "stop", "restart", "reconnect"]}),
                _ => json!({"type": "string", "minLength": 1}),
            };
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        });
        let parameters: Vec<Value> = in_path.chain(self.query.iter().cloned()).collect();
        let mut operation = json!({"summary": self.summary, "parameters": parameters, "responses": self.responses()});
        if self.is_public {
            operation["security"] = json!([]);
        }
        if let Some(body) = &self.body {
            operation["requestBody"] = body.clone();
        }
        operation
    }

    fn responses(&self) -> Value {
        let mut done = json!({"description": "Done", "content": self.answer});
        if !self.headers.is_empty() {
            done["headers"] = json!(self.headers);
        }
        let mut responses = json!({"200": done});
        for refused in self.refusals() {
            let response = format!("#/components/responses/{}", refused.name());
            responses[refused.status.as_str()] = json!({"$ref": response});
        }
        responses
    }

    /// The error responses of the operation, one for each status.
    pub fn refusals(&self) -> Vec<SharedResponse> {
        let mut refusals = BTreeMap::<StatusCode, BTreeSet<&str>>::new();
        for code in self.codes() {
            let words = refusals.entry(code.status()).or_default();
            words.insert(code.word());
        }
        refusals
            .into_iter()
            .map(|(status, words)| SharedResponse { status, words })
            .collect()
    }
}

/// An error response that several operations share: a status, and its possible codes.
pub struct SharedResponse {
    status: StatusCode,
    words: BTreeSet<&'static str>,
}

impl SharedResponse {
    /// The name of the response in the document's `components`.
    pub fn name(&self) -> String {
        self.words
            .iter()
            .fold(self.status.as_str().to_owned(), |name, word| {
                name + "." + word
            })
    }

    pub fn describe(&self) -> Value {
        let words: Vec<_> = self.words.iter().collect();
        let schema = json!({
            "allOf": [
                {"$ref": "#/components/schemas/Error"},
                {"properties": {"error": {"enum": words}}},
            ],
        });
        let reason = self.status.canonical_reason().unwrap_or("Not done");
        json!({"description": reason, "content": {JSON: {"schema": schema}}})
    }
}
