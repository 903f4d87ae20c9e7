"""What schemathesis must be told of Mainstay beside its OpenAPI document."""

import os
from pathlib import Path

import schemathesis

TOKEN = Path(os.environ["MAINSTAY_HOME"]) / "token"


@schemathesis.auth(refresh_interval=None)
class ControlToken:
    """The control token: read for every request, since one of them replaces it."""

    def get(self, case, context):
        return TOKEN.read_text()

    def set(self, case, data, context):
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data}"}
