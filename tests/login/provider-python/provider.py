"""An authorization server on loopback, made of Authlib and Flask, with faults on demand: a second implementation
beside provider-node, with fewer grants (code with PKCE, refresh, registration) and opaque tokens. The first
line of its output says where it is: {"issuer", "control"}. Its control is that of provider-node/control.mjs.
"""

import argparse
import json
import os
import secrets
import socket
import struct
import sys
import threading
import time

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # loopback

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import OAuth2Error, grants
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc7662 import IntrospectionEndpoint
from authlib.oauth2.rfc9207 import IssuerParameter
from flask import Flask, Response, jsonify, request
from state import Client, Code, State, Token, fingerprint
from werkzeug.serving import WSGIRequestHandler, make_server

PAGE = "<!doctype html><title>Down for maintenance</title><h1>We are back soon</h1>"
KINDS = ["status", "html", "json", "hang", "reset", "lostAnswer", "slow"]
AUTH_METHODS = ["none", "client_secret_basic", "client_secret_post"]
RESOURCE_SERVER = {
    "client_id": "resource-server",
    "client_secret": "resource-server-secret",
    "grant_types": [],
    "response_types": [],
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control-port", type=int, default=0)
    parser.add_argument("--access-token-seconds", type=int, default=3600)
    parser.add_argument("--reuse-grace-seconds", type=float, default=0)
    parser.add_argument("--registration", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--clients", default="[]", help="JSON")
    parser.add_argument("--person", default="ada")
    parser.add_argument("--refuse", action="store_true")
    parser.add_argument("--state", default="")
    return parser.parse_args()


options = parse()
state = State(options.state)
listener = socket.create_server(("127.0.0.1", options.port))
ISSUER = f"http://127.0.0.1:{listener.getsockname()[1]}"
for given in [RESOURCE_SERVER, *json.loads(options.clients)]:
    state.clients[given["client_id"]] = given

app = Flask(__name__)
app.config.update(
    OAUTH2_REFRESH_TOKEN_GENERATOR=True,
    OAUTH2_TOKEN_EXPIRES_IN={"authorization_code": options.access_token_seconds},
)


def query_client(client_id):
    metadata = state.clients.get(client_id)
    return Client(metadata) if metadata else None


def save_token(token, oauth):
    source = oauth.authorization_code or oauth.refresh_token
    expires_in = options.access_token_seconds
    token["expires_in"] = expires_in
    common = {name: source.values[name] for name in ("login", "person", "resource")}
    common |= {"client_id": oauth.client.client_id, "scope": token.get("scope", "")}
    common |= {"issued_at": state.now(), "expires_in": expires_in}
    state.tokens[token["access_token"]] = common
    if "refresh_token" in token:
        state.refresh[token["refresh_token"]] = {**common, "consumed_at": None}


server = AuthorizationServer(app, query_client=query_client, save_token=save_token)


class AuthorizationCode(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = AUTH_METHODS

    def save_authorization_code(self, code, oauth):
        data = oauth.payload.data
        login = secrets.token_hex(8)
        state.logins[login] = {"client": oauth.client.client_id, "person": oauth.user}
        state.codes[code] = {
            "client_id": oauth.client.client_id,
            "redirect_uri": oauth.payload.redirect_uri,
            "scope": oauth.payload.scope or "",
            "person": oauth.user,
            "login": login,
            "resource": data.get("resource"),
            "code_challenge": data.get("code_challenge"),
            "code_challenge_method": data.get("code_challenge_method"),
            "used": False,
        }

    def query_authorization_code(self, code, client):
        values = state.codes.get(code)
        if not values or values["client_id"] != client.client_id:
            return None
        if values["used"]:
            state.end_login(values["login"])
            return None
        found = Code(values)
        self.request.authorization_code = found
        return found

    def delete_authorization_code(self, authorization_code):
        authorization_code.values["used"] = True

    def authenticate_user(self, authorization_code):
        return authorization_code.values["person"]


class RefreshToken(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = AUTH_METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token):
        values = state.refresh.get(refresh_token)
        if not values:
            return None
        used = values["consumed_at"]
        if used is not None and state.now() - used >= options.reuse_grace_seconds:
            state.end_login(values["login"])
            return None
        return Token(values, state.now())

    def authenticate_user(self, refresh_token):
        return refresh_token.values["person"]

    def revoke_old_credential(self, refresh_token):
        refresh_token.values["consumed_at"] = state.now()


class Registration(ClientRegistrationEndpoint):
    def authenticate_token(self, oauth):
        return "anybody"

    def get_server_metadata(self):
        return metadata_document()

    def save_client(self, client_info, client_metadata, oauth):
        metadata = {**client_metadata, **client_info}
        state.clients[metadata["client_id"]] = metadata
        return Client(metadata)


def token_of(text: str) -> Token | None:
    values = state.tokens.get(text) or state.refresh.get(text)
    return Token(values, state.now()) if values else None


class Introspection(IntrospectionEndpoint):
    def check_permission(self, token, client, oauth):
        return client.client_id == RESOURCE_SERVER["client_id"]

    def query_token(self, token_string, token_type_hint):
        return token_of(token_string)

    def introspect_token(self, token):
        values = token.values
        about = {"active": not token.is_expired(), "client_id": values["client_id"], "iss": ISSUER}
        about |= {"sub": values["person"], "scope": values["scope"], "token_type": "Bearer"}
        about["exp"] = int(values["issued_at"] + values["expires_in"])
        if values["resource"]:
            about["aud"] = values["resource"]
        return about


class Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = AUTH_METHODS

    def query_token(self, token_string, token_type_hint):
        return token_of(token_string)

    def revoke_token(self, token, oauth):
        state.end_login(token.values["login"])


class Issuer(IssuerParameter):
    def get_issuer(self):
        return ISSUER


server.register_grant(AuthorizationCode, [CodeChallenge(required=True)])
server.register_grant(RefreshToken)
server.register_endpoint(Registration)
server.register_endpoint(Introspection)
server.register_endpoint(Revocation)
server.register_extension(Issuer())


def metadata_document() -> dict:
    document = {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "introspection_endpoint": f"{ISSUER}/introspect",
        "revocation_endpoint": f"{ISSUER}/revoke",
        "scopes_supported": ["read", "write"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": AUTH_METHODS,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
    }
    if options.registration:
        document["registration_endpoint"] = f"{ISSUER}/register"
    return document


@app.get("/.well-known/oauth-authorization-server")
def metadata():
    return jsonify(metadata_document())


@app.get("/authorize")
def authorize():
    person = request.cookies.get("person") or options.person
    refuses = request.cookies.get("refuse") == "1" or options.refuse
    try:
        grant = server.get_consent_grant(end_user=person)
    except OAuth2Error as error:
        return jsonify(dict(error.get_body())), 400
    return server.create_authorization_response(grant=grant, grant_user=None if refuses else person)


@app.post("/token")
def token():
    answer = server.create_token_response()
    body = answer.get_json()
    issued = state.tokens.get(body.get("access_token"))
    note(
        presented=fingerprint(request.form.get("refresh_token")),
        issued=fingerprint(body.get("refresh_token")),
        person=issued and issued["person"],
        login=issued and issued["login"],
        status=answer.status_code,
        outcome="ok" if answer.status_code == 200 else body.get("error", "error"),
    )
    return answer


@app.post("/register")
def register():
    if not options.registration:
        return Response(status=404)
    return server.create_endpoint_response(Registration.ENDPOINT_NAME)


@app.post("/introspect")
def introspect():
    return server.create_endpoint_response(Introspection.ENDPOINT_NAME)


@app.post("/revoke")
def revoke():
    return server.create_endpoint_response(Revocation.ENDPOINT_NAME)


def note(**outcome):
    """Puts a token request on record."""
    basic = request.authorization
    client = request.form.get("client_id") or (basic.username if basic else "")
    asked = {name: request.form.get(name) for name in ("resource", "scope")}
    grant = request.form.get("grant_type", "")
    state.requests.append({"at": time.time(), "grant": grant, "client": client, **asked, **outcome})


class Faults:
    def __init__(self):
        self.faults: list[dict] = []
        self.well = threading.Event()

    def add(self, given: dict):
        if given["kind"] not in KINDS:
            raise ValueError(f"a fault is one of {', '.join(KINDS)}")
        self.well.clear()
        seconds = given.get("seconds")
        until = None if seconds is None else time.monotonic() + seconds
        self.faults.append({"path": "", "requests": None, **given, "until": until})

    def next(self, path: str) -> dict | None:
        for fault in self.faults:
            over = fault["until"] is not None and fault["until"] <= time.monotonic()
            if over or fault["requests"] == 0 or not path.startswith(fault["path"]):
                continue
            if fault["requests"] is not None:
                fault["requests"] -= 1
            return fault
        return None

    def clear(self):
        self.faults = []
        self.well.set()


faults = Faults()


def reset(environ) -> Response:
    """Ends the connection without an answer."""
    connection = environ["werkzeug.socket"]
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError


def dispatch(environ, start_response):
    """Flask behind the faults."""
    path = environ["PATH_INFO"]
    with state.lock:
        fault = faults.next(path)
    kind = fault and fault["kind"]
    if kind and path == "/token" and kind not in ("lostAnswer", "slow"):
        with state.lock, app.request_context(environ):
            note(presented=fingerprint(request.form.get("refresh_token")), issued=None, person=None,
                 login=None, status=None, outcome=f"fault: {kind}")
            state.save()
    if kind == "status":
        headers = [("retry-after", str(fault["retryAfter"]))] if fault.get("retryAfter") is not None else []
        return Response(status=fault.get("status") or 503, headers=headers)(environ, start_response)
    if kind == "html":
        return Response(PAGE, status=fault.get("status") or 200, mimetype="text/html")(environ, start_response)
    if kind == "json":
        status, body = fault.get("status") or 400, json.dumps(fault.get("body", {}))
        return Response(body, status=status, mimetype="application/json")(environ, start_response)
    if kind == "hang":
        faults.well.wait()
        return reset(environ)
    if kind == "reset":
        return reset(environ)
    if kind == "slow":
        time.sleep(fault.get("delayMs", 1000) / 1000)
    with state.lock:
        answer = Response.from_app(app.wsgi_app, environ, buffered=True)
        state.save()
    return reset(environ) if kind == "lostAnswer" else answer(environ, start_response)


control = Flask("control")


@control.get("/control")
def report():
    logins = [{"login": login, **values} for login, values in state.logins.items()]
    clock = {"shift": state.shift}
    requests = {"requests": state.requests, "counts": state.counts()}
    return jsonify({"issuer": ISSUER, "logins": logins, "clock": clock, **requests})


@control.post("/control/<action>")
def act(action):
    given = request.get_json(silent=True) or {}
    answer = {}
    with state.lock:
        match action:
            case "forget":
                state.requests = []
            case "revoke":
                wanted = [
                    login
                    for login, values in state.logins.items()
                    if given.get("login") in (None, login) and given.get("client") in (None, values["client"])
                ]
                for login in wanted:
                    state.end_login(login)
                answer = {"ended": len(wanted)}
            case "expire":
                answer = {"expired": len(state.tokens)}
                state.tokens.clear()
            case "faults":
                faults.add(given)
            case "well":
                faults.clear()
            case "clock":
                state.shift = given["shift"]
            case "person":
                options.person = given.get("name", options.person)
                options.refuse = given.get("refuses", options.refuse)
            case _:
                return jsonify({"error": "no such action"}), 404
        state.save()
    return jsonify(answer)


class Quiet(WSGIRequestHandler):
    def log_request(self, *_):
        pass

    def connection_dropped(self, *_):
        pass


def main():
    main_server = make_server("127.0.0.1", 0, dispatch, threaded=True, fd=listener.fileno(), request_handler=Quiet)
    main_server.daemon_threads = True
    control_server = make_server("127.0.0.1", options.control_port, control, threaded=True, request_handler=Quiet)
    threading.Thread(target=control_server.serve_forever, daemon=True).start()
    print(json.dumps({"issuer": ISSUER, "control": f"http://127.0.0.1:{control_server.port}/control"}), flush=True)
    main_server.serve_forever()


sys.exit(main())
