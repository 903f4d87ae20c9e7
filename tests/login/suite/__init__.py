"""Logins: authorization servers, MCP servers that ask for a login, and Mainstay between."""
