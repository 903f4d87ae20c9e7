"""What schemathesis must be told of Mainstay beside its OpenAPI document."""

import json
import os
from pathlib import Path

import requests
import schemathesis

URL = os.environ["MAINSTAY_URL"]
TOKEN = Path(os.environ["MAINSTAY_HOME"]) / "token"
SERVERS = json.loads(os.environ["SERVERS"])

# What takes a server away.
TAKING = ("/disable", "/disconnect", "/{operation}")


@schemathesis.auth(refresh_interval=None)
class ControlToken:
    """The control token: read for every request, since one of them replaces it."""

    def get(self, case, context):
        return TOKEN.read_text()

    def set(self, case, data, context):
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}


@schemathesis.hook
def after_call(context, case, response):
    """Gives the servers back that a request has taken away, so that those that follow find some."""
    takes = case.method in ("PUT", "DELETE") or case.path.endswith(TAKING)
    if takes and response.status_code == 200:
        bearer = {"Authorization": f"Bearer {TOKEN.read_text()}"}
        for name, entry in SERVERS.items():
            requests.put(f"{URL}/api/servers/{name}", json=entry, headers=bearer, timeout=10)
