//! One operation of the REST API: its handler, and its description in the words of OpenAPI.

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
    code::{Code, EVERYWHERE, INVALID_REQUEST, OF_BODIES, OF_CLIENTS},
    configured,
    routing::{self, FnHandler},
};

pub const JSON: &str = "application/json";
/// JSON Schema (draft 2020-12, core, section 14).
pub const JSON_SCHEMA: &str = "application/schema+json";
const EVENT_STREAM: &str = "text/event-stream";
const BYTES: &str = "application/octet-stream";

/// What a caller that follows its call is sent.
const FOLLOWED: &str = "Server-sent events, with `Accept: text/event-stream`: `progress` and `log` with the \
    `params` of the server's notifications, and at the end `answer` with a FollowedAnswer. A caller that \
    closes the connection before cancels the call.";
const FOLLOWED_EXAMPLE: &str = "event: progress\ndata: {\"progressToken\":1,\"progress\":1,\"total\":2}\n\n\
    event: answer\ndata: {\"status\":200,\"body\":{\"result\":{\"content\":[]}}}\n\n";

/// Schemas by name, as the document's components have them.
type NamedSchemas = Vec<(String, RefOr<Schema>)>;

/// One method of one path: what answers it, and how the document describes it.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    handler: MethodRouter<RestDoor>,
    summary: &'static str,
    /// Needs no credential.
    is_public: bool,
    /// Is refused while there is neither a configuration nor a server.
    needs_configuration: bool,
    query: Vec<Value>,
    body: Option<Value>,
    /// By media type.
    answer: Map<String, Value>,
    /// Headers of the answer, by name.
    headers: Map<String, Value>,
    /// What it fails with beside what every operation may.
    failures: Vec<Code>,
    /// Each adds a type that the operation refers to. Only the document calls them; the router does without.
    referred: Vec<fn(&mut NamedSchemas)>,
}

/// One method of one path, not yet described.
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
    /// Requests share this state; the handler takes it as an `Extension`.
    pub fn shares<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        self.handler = self.handler.layer(Extension(state));
        self
    }

    /// Is refused with `not_configured` while there is neither a configuration nor a server.
    pub fn needs_configuration(mut self) -> Self {
        self.needs_configuration = true;
        self.fails(&OF_CLIENTS)
    }

    /// What the router has at this path and method.
    pub fn into_handler(self, door: &RestDoor) -> MethodRouter<RestDoor> {
        if self.needs_configuration {
            let check = middleware::from_fn_with_state(door.clone(), configured);
            self.handler.route_layer(check)
        } else {
            self.handler
        }
    }

    /// It gives the credential.
    pub fn public(mut self) -> Self {
        self.is_public = true;
        self
    }

    pub fn query(mut self, name: &str, what: &str, schema: &Value) -> Self {
        self.query
            .push(json!({"name": name, "in": "query", "description": what, "schema": schema}));
        self
    }

    /// A parameter that must be there.
    pub fn query_needed(mut self, name: &str, what: &str, schema: &Value) -> Self {
        self.query.push(json!({
            "name": name, "in": "query", "required": true, "description": what, "schema": schema,
        }));
        self
    }

    /// Or a file of this type.
    pub fn answers_as(mut self, media_type: &str) -> Self {
        let schema = json!({"schema": {"type": "string"}});
        self.answer.insert(media_type.to_owned(), schema);
        self
    }

    pub fn takes<T: ToSchema>(mut self) -> Self {
        let schema = self.refer::<T>();
        self.takes_with(&schema)
    }

    pub fn takes_with(mut self, schema: &Value) -> Self {
        self.body = Some(json!({"required": true, "content": {JSON: {"schema": schema}}}));
        self
    }

    /// Does without a body, too.
    pub fn may_take<T: ToSchema>(mut self) -> Self {
        let schema = self.refer::<T>();
        self.body = Some(json!({"content": {JSON: {"schema": schema}}}));
        self
    }

    /// What holds of the body beside its type.
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

    /// A call whose caller may follow it.
    pub fn follows(mut self) -> Self {
        self.refer::<api::FollowedAnswer>();
        let schema =
            json!({"type": "string", "description": FOLLOWED, "examples": [FOLLOWED_EXAMPLE]});
        self.answer
            .insert(EVENT_STREAM.to_owned(), json!({"schema": schema}));
        self
    }

    /// Or bytes as they are, of which a header says more.
    pub fn answers_bytes(mut self, header: &str, what: &str, schema: &Value) -> Self {
        self.answer.insert(BYTES.to_owned(), json!({}));
        let said = json!({"description": what, "schema": schema});
        self.headers.insert(header.to_owned(), said);
        self
    }

    pub fn fails(mut self, with: &[Code]) -> Self {
        self.failures.extend(with);
        self
    }

    /// Whatever it fails with.
    pub fn codes(&self) -> Vec<Code> {
        let mut codes = EVERYWHERE.to_vec();
        if self.path.contains('{') || !self.query.is_empty() {
            codes.push(INVALID_REQUEST);
        }
        if self.body.is_some() {
            codes.extend(OF_BODIES);
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

    /// The types that it refers to, and those that they refer to.
    pub fn schemas(&self) -> NamedSchemas {
        let mut schemas = Vec::new();
        for add in &self.referred {
            add(&mut schemas);
        }
        schemas
    }

    /// In the words of the specification.
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

    /// How it refuses, by status.
    pub fn refusals(&self) -> Vec<SharedResponse> {
        let mut refusals = BTreeMap::<StatusCode, BTreeSet<&str>>::new();
        for code in self.codes() {
            let words = refusals.entry(code.status()).or_default();
            words.insert(code.word());
        }
        let refusals = refusals.into_iter();
        refusals
            .map(|(status, words)| SharedResponse { status, words })
            .collect()
    }
}

/// A response that many operations share: a status, and the words that its error can be.
pub struct SharedResponse {
    status: StatusCode,
    words: BTreeSet<&'static str>,
}

impl SharedResponse {
    /// By which operations refer to it.
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
