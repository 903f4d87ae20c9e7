//! One operation of the REST API, in the words of OpenAPI.

use serde_json::{Map, Value, json};
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use crate::api;

pub const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

/// One method of one path.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    what: &'static str,
    query: Vec<Value>,
    body: Option<Value>,
    /// By media type.
    answer: Map<String, Value>,
    /// What it refers to.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

impl Operation {
    pub fn new(method: &'static str, path: &'static str, what: &'static str) -> Self {
        Self {
            method,
            path,
            what,
            query: Vec::new(),
            body: None,
            answer: Map::new(),
            schemas: Vec::new(),
        }
    }

    pub fn query(mut self, name: &str, what: &str, schema: &Value) -> Self {
        self.query
            .push(json!({"name": name, "in": "query", "description": what, "schema": schema}));
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

    pub fn streams(mut self) -> Self {
        self.answer.insert(EVENT_STREAM.to_owned(), json!({}));
        self
    }

    fn refer<T: ToSchema>(&mut self) -> Value {
        self.schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(&mut self.schemas);
        json!({"$ref": format!("#/components/schemas/{}", T::name())})
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
                "operation" => json!({"enum": ["start", "stop", "restart", "reconnect"]}),
                _ => json!({"type": "string", "minLength": 1}),
            };
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        });
        let parameters: Vec<Value> = in_path.chain(self.query.iter().cloned()).collect();
        let mut operation = json!({
            "summary": self.what,
            "parameters": parameters,
            "responses": {
                "200": {"description": "Done", "content": self.answer},
                "401": {"$ref": "#/components/responses/Unauthorized"},
                "403": {"$ref": "#/components/responses/Forbidden"},
                "default": {"$ref": "#/components/responses/Refused"},
            },
        });
        if let Some(body) = &self.body {
            operation["requestBody"] = body.clone();
        }
        operation
    }
}
