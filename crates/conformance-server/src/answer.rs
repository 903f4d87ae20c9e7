//! Results of tools.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};

pub fn text(text: impl Into<String>) -> CallToolResponse {
    content([ContentBlock::text(text)])
}

pub fn content<const N: usize>(blocks: [ContentBlock; N]) -> CallToolResponse {
    CallToolResult::success(blocks.into()).into()
}

pub fn failure(message: &str) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(message)]).into()
}
