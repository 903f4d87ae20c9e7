//! REST types of tools, resources and prompts of servers, and of calls.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Raw;

/// The data of an [`ANSWER`].
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct FollowedAnswer {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The body of the answer.
    pub body: serde_json::Value,
}

/// The progress of a call, as its server reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    pub progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// `POST /api/servers/{name}/tools/{tool}/call`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Execute {
    #[serde(default, alias = "args", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Raw>,
}

/// The result of a tool call, or the reason that it has none.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Executed {
    pub success: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `GET /api/mcp-tools`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Tools {
    pub tools: Vec<Tool>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Tool {
    /// `server/tool`
    pub name: String,
    pub server: String,
    pub original_name: String,
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The server's hints about the behaviour of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub annotations: Option<Raw>,
    #[schema(value_type = Object)]
    pub input_schema: Raw,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Raw>,
}

/// `POST /api/mcp-tools/call`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Call {
    /// `server/tool`
    #[schema(required = true, value_type = String, pattern = "^[^/]+/.+$")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Raw>,
}

/// The answer to [`Call`] and [`GetPrompt`].
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Answer {
    #[schema(value_type = Object)]
    pub result: Raw,
}

/// `GET /api/mcp-resources`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Resources {
    pub resources: Vec<Resource>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Resource {
    pub uri: String,
    pub server: String,
    pub name: String,
    pub description: String,
    pub mime_type: Option<String>,
}

/// `GET /api/mcp-resource-templates`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Templates {
    pub resource_templates: Vec<Template>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Template {
    pub uri_template: String,
    pub server: String,
    pub name: String,
    pub description: String,
    pub mime_type: Option<String>,
}

/// `POST /api/mcp-resources/read` and `POST /api/resources/read`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Read {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[schema(required = true, value_type = String)]
    pub uri: Option<String>,
}

/// The first item of the contents: a text unchanged, anything else in base64.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Content {
    #[schema(value_type = String)]
    pub content: Raw,
    #[schema(value_type = Option<String>)]
    pub mime_type: Option<Raw>,
}

/// The contents of a resource as the server sent them, and the name of the server.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WholeRead {
    pub server: String,
    #[schema(value_type = Object)]
    pub result: Raw,
}

/// `GET /api/mcp-prompts`
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Prompts {
    pub prompts: Vec<Prompt>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Prompt {
    /// `server/prompt`
    pub name: String,
    pub server: String,
    pub original_name: String,
    pub description: String,
    /// The argument list as MCP defines it.
    #[schema(value_type = Vec<Object>)]
    pub arguments: Raw,
}

/// `POST /api/mcp-prompts/get`
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct GetPrompt {
    /// `server/prompt`
    #[schema(required = true, value_type = String)]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Raw>,
}
