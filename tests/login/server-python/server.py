"""A remote MCP server that asks for a login, made of FastMCP and its authentication. The first line of its
output says where it is: {"url"}.

    server.py --provider ISSUER [--verify introspection|jwks] [--scopes "read"] [--port N]
    server.py --own [--access-token-seconds N]      it is its own authorization server
"""

import argparse
import json
import socket
import sys
import urllib.request

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers import in_memory
from fastmcp.server.auth.providers.introspection import IntrospectionTokenVerifier
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token


def authentication(options: argparse.Namespace, origin: str):
    scopes = options.scopes.split()
    if options.own:
        in_memory.DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS = options.access_token_seconds
        return in_memory.InMemoryOAuthProvider(
            base_url=origin,
            required_scopes=scopes,
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=["read", "write"], default_scopes=["read", "write"]
            ),
            revocation_options=RevocationOptions(enabled=True),
        )
    if options.verify == "jwks":
        with urllib.request.urlopen(f"{options.provider}/.well-known/openid-configuration", timeout=30) as answer:
            keys = json.load(answer)["jwks_uri"]
        verifier = JWTVerifier(
            jwks_uri=keys, issuer=options.provider, audience=f"{origin}/mcp", required_scopes=scopes
        )
    else:
        verifier = IntrospectionTokenVerifier(
            introspection_url=f"{options.provider}/introspect",
            client_id="resource-server",
            client_secret="resource-server-secret",
            required_scopes=scopes,
        )
    return RemoteAuthProvider(
        token_verifier=verifier, authorization_servers=[options.provider], base_url=origin
    )


def mcp_server(auth) -> FastMCP:
    server = FastMCP("login-python", auth=auth)

    @server.tool
    def echo(text: str) -> str:
        return text

    @server.tool
    def whoami() -> str:
        token = get_access_token()
        subject = token.claims.get("sub")
        return json.dumps({"subject": subject, "client": token.client_id, "scopes": token.scopes})

    return server


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--provider")
    parser.add_argument("--verify", choices=["introspection", "jwks"], default="introspection")
    parser.add_argument("--scopes", default="")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--access-token-seconds", type=int, default=3600)
    options = parser.parse_args()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", options.port))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = mcp_server(authentication(options, origin)).http_app(path="/mcp")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    startup = server.startup

    async def ready(sockets=None):
        await startup(sockets)
        print(json.dumps({"url": f"{origin}/mcp"}), flush=True)

    server.startup = ready
    server.run(sockets=[listener])


sys.exit(main())
