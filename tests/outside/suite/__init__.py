"""Outside MCP clients against outside MCP servers, directly and through Mainstay."""
