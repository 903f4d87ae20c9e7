"""Records: a client sees what is its own, and no secret is kept."""

import base64
import json

from .world import Home, cid, until

PIN = "4711"
SECRET = "k9-Zq84-horse-battery-staple"


def a_guess_by_content(home: Home):
    alice, mallory = home.tokens("alice", "mallory")
    result = {"content": [{"type": "text", "text": PIN}]}
    servers = {"vault": home.hostile("vault", tools=["pin"], results={"pin": result})}
    for own in (["records"], []):
        daemon = home.serve(servers, ownTools=own)
        daemon.until_status("vault", "connected")
        assert PIN in str(daemon.client(token=alice).call("vault__pin", {"pin": PIN}))
        _, listed = until("the record", lambda: daemon.rest("GET", "/api/call-records"))
        known = {cid(json.dumps({"pin": PIN}, separators=(",", ":")).encode()), cid(json.dumps({"pin": PIN}).encode())}
        for call in listed.get("calls", []):
            known |= {it for key, it in call.items() if key.endswith("_cid") and it}
        client = daemon.client(token=mallory)
        for guess in known:
            answer = client.ask("resources/read", {"uri": f"mainstay://objects/{guess}"})
            assert PIN not in str(answer), f"{own}: {answer}"
            answer = client.call("inspect_object", {"cid": guess})
            assert PIN not in str(answer), f"{own}: {answer}"
        daemon.stop()


def a_secret_that_a_server_reflects(home: Home):
    entry = {**home.hostile("leaky", tools=["reflect"]), "env": {"SECRET": SECRET}}
    daemon = home.serve({"leaky": entry})
    daemon.until_status("leaky", "connected")
    daemon.client().call("leaky__reflect")
    until("the record", lambda: daemon.rest("GET", "/api/call-records")[1].get("calls"))
    daemon.stop()
    kept = home.kept() + daemon.log.read_bytes()
    for form in (SECRET.encode(), base64.b64encode(SECRET.encode())):
        assert form not in kept, f"{form} was kept"


def secrets_among_arguments(home: Home):
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])})
    daemon.until_status("calm", "connected")
    secrets = {
        "password": "pass-3141592653",
        "api_key": "key-2718281828",
        "authorization": "Bearer abcdefghijklmnop1618",
        "note": "use ghp_0123456789abcdefghijklmnopqrstuvwxyzAB please",
    }
    daemon.client().call("calm__say", secrets)
    until("the record", lambda: daemon.rest("GET", "/api/call-records")[1].get("calls"))
    daemon.stop()
    kept = home.kept()
    for value in ("pass-3141592653", "key-2718281828", "abcdefghijklmnop1618", "ghp_0123456789abcdef"):
        assert value.encode() not in kept, f"{value} was kept"


def every_refusal(home: Home):
    """Whatever refuses a call, it is one more on record, and one more that is counted."""
    servers = {
        "one": home.hostile("one", tools=["same"], prompts=["same"]),
        "two": home.hostile("two", tools=["same"], prompts=["same"]),
        "stopped": home.hostile("stopped", tools=["t"], prompts=["p"]),
        "off": {**home.hostile("off", tools=["t"]), "enabled": False},
        "failed": {"command": "/nonexistent/program", "preset": "manual"},
        "less": {**home.hostile("less", tools=["denied"]), "disabledTools": ["denied"]},
    }
    own = ["meta", "external", "activity", "control"]
    daemon = home.serve(servers, ownTools=own, profiles={"small": {"servers": ["one"]}})
    for name in ("one", "two", "stopped", "less"):
        daemon.until_status(name, "connected")
    daemon.rest("POST", "/api/servers/stopped/stop")
    daemon.client(token=daemon.token).call("add_server", {"name": "pending", "command": "/bin/true"})
    client, small, lost = daemon.client(), daemon.client("/mcp/small"), daemon.client(begin=False)
    lost.headers["mcp-session-id"] = "nobody's"
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "one__same", "arguments": {}}}
    attempts = {}
    for target in ("nobody/t", "stopped/t", "off/t", "failed/t", "pending/t", "less/denied", "nobody/", "/t"):
        server, _, tool = target.partition("/")
        exposed = {"name": f"{server}__{tool}"}
        attempts |= {
            f"tools/call {target}": lambda it=exposed: client.ask("tools/call", it),
            f"prompts/get {target}": lambda it=exposed: client.ask("prompts/get", it),
            f"execute_tool {target}": lambda it=target: client.call("execute_tool", {"name": it}),
            f"external_call_tool {target}": lambda it=target: client.call("external_call_tool", {"tool": it}),
            f"get_prompt {target}": lambda it=target: client.call("get_prompt", {"name": it}),
            f"REST {target}": lambda it=target: daemon.rest("POST", "/api/mcp-tools/call", {"tool": it}),
            f"REST prompt {target}": lambda it=target: daemon.rest("POST", "/api/mcp-prompts/get", {"prompt": it}),
        }
        if server and tool:
            path = f"/api/servers/{server}/tools/{tool}/call"
            attempts[f"REST at {path}"] = lambda it=path: daemon.rest("POST", it, {})
    deep = {"x": None}
    for _ in range(600):
        deep = {"x": deep}
    unread = {"server": "nobody", "uri": "x://x"}
    twice = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__same","name":"x"}}'
    attempts |= {
        "an ambiguous tool": lambda: client.call("same"),
        "an ambiguous prompt": lambda: client.ask("prompts/get", {"name": "same"}),
        "ambiguous by execute_tool": lambda: client.call("execute_tool", {"name": "same"}),
        "ambiguous by external_call_tool": lambda: client.call("external_call_tool", {"tool": "same"}),
        "hidden by the profile": lambda: small.call("two__same"),
        "an own tool that is not offered": lambda: small.call("add_server"),
        "a resource of nobody": lambda: client.ask("resources/read", {"uri": "nobody://x"}),
        "an address of nobody": lambda: client.ask("resources/read", {"uri": "mainstay+nobody:x://x"}),
        "external_read_resource of nobody": lambda: client.call("external_read_resource", unread),
        "read_resource of nobody": lambda: client.call("read_resource", unread),
        "REST read of nobody": lambda: daemon.rest("POST", "/api/mcp-resources/read", unread),
        "REST whole read of nobody": lambda: daemon.rest("POST", "/api/resources/read", unread),
        "no name": lambda: client.ask("tools/call", {}),
        "a name that is no text": lambda: client.ask("tools/call", {"name": 5}),
        "a name twice": lambda: client.post(twice),
        "no id": lambda: client.post({key: value for key, value in call.items() if key != "id"}),
        "no session": lambda: daemon.client(begin=False).post(call),
        "a session of nobody": lambda: lost.post(call),
        "REST without a tool": lambda: daemon.rest("POST", "/api/mcp-tools/call", {}),
        "REST with arguments that are none": lambda: daemon.rest(
            "POST", "/api/mcp-tools/call", {"tool": "one/same", "arguments": [1]}
        ),
        "REST nested too deep": lambda: daemon.rest(
            "POST", "/api/mcp-tools/call", {"tool": "one/same", "arguments": deep}
        ),
        "a batch": lambda: client.post([call]),
        "the command": lambda: home.run("call", "nobody/t"),
    }
    _assert_on_record(daemon, attempts)


def refusals_before_a_session_is_found(home: Home):
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])})
    daemon.until_status("calm", "connected")
    client = daemon.client()
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "say", "arguments": {}}}
    deep = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"calm__say","arguments":{"x":%s}}}'
    attempts = {
        "nested too deep": lambda: client.post(deep % (b"[" * 600 + b"]" * 600)),
        "a server that nobody knows": lambda: daemon.client("/servers/nobody/mcp", begin=False).post(call),
        "a profile that nobody knows": lambda: daemon.client("/mcp/nobody", begin=False).post(call),
    }
    _assert_on_record(daemon, attempts)


def _assert_on_record(daemon, attempts: dict):
    missing, before = [], daemon.refusals()
    for what, attempt in attempts.items():
        answer = attempt()
        wanted = (before[0] + 1, before[1] + 1)
        try:
            until("the record", lambda: daemon.refusals() == wanted, 1)
        except AssertionError:
            now = daemon.refusals()
            missing.append(f"{what}: {now[0] - before[0]} on record, {now[1] - before[1]} counted: {str(answer)[:160]}")
        before = daemon.refusals()
    assert not missing, "\n".join(missing)


def names_that_clients_make_up(home: Home):
    """Statistics are of tools that there are, and not of whatever a client says."""
    servers = {name: home.hostile(name, tools=["say"]) for name in ("calm", "stopped")}
    daemon = home.serve(servers, ownTools=["external"])
    for name in servers:
        daemon.until_status(name, "connected")
    daemon.rest("POST", "/api/servers/stopped/stop")
    client = daemon.client()
    for number in range(60):
        for server in ("calm", "stopped", "nobody"):
            client.call(f"{server}__made_up_{number}")
            client.call("external_call_tool", {"tool": f"{server}/made_up_{number}"})
            daemon.rest("POST", f"/api/servers/{server}/tools/made_up_{number}/call", {})

    def counted() -> list[dict] | None:
        """What is in the statistics, once every call is."""
        listed = daemon.rest("GET", "/api/statistics")[1]["tools"]
        return listed if sum(row["total"]["calls"] for row in listed) >= 60 * 3 * 3 else None

    rows = [f"{row['server']}/{row['tool']}" for row in until("the statistics", counted)]
    figures = len(daemon.ask("GET", "/metrics")[2])
    assert figures < 200_000, f"{figures} bytes of figures"
    assert len(rows) < 60, f"{len(rows)} rows, such as {[row for row in rows if 'made_up' in row][:3]}"


def what_other_tokens_have_called(home: Home):
    alice, mallory = home.tokens("alice", "mallory")
    own = ["records", "meta", "external", "activity"]
    servers = {name: home.hostile(name, tools=["say"]) for name in ("open", "hidden")}
    profiles = {"small": {"servers": ["open"], "ownTools": own}}
    daemon = home.serve(servers, ownTools=own, profiles=profiles)
    for name in servers:
        daemon.until_status(name, "connected")
    victim = daemon.client(token=alice)
    for name in servers:
        victim.call(f"{name}__say", {"pin": PIN, "of": name})
    until("the records", lambda: daemon.rest("GET", "/api/call-records")[1]["total_count"] >= 2)
    listed = daemon.rest("GET", "/api/call-records")[1]["calls"]
    assert PIN in str(victim.call("get_call_records")), "alice sees her own"
    kept = [(call["server"], call.get(key)) for call in listed for key in ("arguments_cid", "result_cid")]
    identifiers = {identifier for _, identifier in kept if identifier}
    of_hidden = {identifier for server, identifier in kept if identifier and server == "hidden"}
    for path, token, hidden in (
        ("/mcp", mallory, identifiers),
        ("/mcp/meta", mallory, identifiers),
        ("/mcp/small", mallory, identifiers),
        ("/servers/open/mcp", mallory, identifiers),
        ("/mcp/small", alice, of_hidden),
        ("/servers/open/mcp", alice, of_hidden),
    ):
        client = daemon.client(path, token)
        for asked in ({}, {"server": "hidden"}, {"tool": "say"}, {"status": "ok"}, {"limit": 500}):
            shown = str(client.call("get_call_records", asked))
            assert "hidden/say" not in shown, f"{path} {asked}: {shown}"
            assert token == alice or PIN not in shown, f"{path} {asked}: {shown}"
        for identifier in hidden:
            for uri in (
                f"mainstay://objects/{identifier}",
                f"mainstay://objects/{identifier}?raw=true",
                f"mainstay://objects/{identifier.upper()}",
                f"mainstay+open:mainstay://objects/{identifier}",
            ):
                answer = client.ask("resources/read", {"uri": uri})
                assert PIN not in str(answer), f"{path} {uri}: {answer}"
            for tool in ("inspect_object", "breakpoint_inspect_object", "read_object"):
                answer = client.call(tool, {"cid": identifier})
                assert PIN not in str(answer), f"{path} {tool}: {answer}"
    for path in (
        *("/api/call-records", f"/api/call-records/{listed[0]['id']}", "/api/statistics", "/api/events"),
        *("/api/events/recent", "/api/servers/open/logs", "/api/switches", "/api/server-requests", "/api/config"),
        *("/api/tokens", f"/api/objects/{listed[0]['arguments_cid']}"),
    ):
        for token, expected in ((mallory, 403), ("x", 401), (None, 401)):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            status = daemon.ask("GET", path, None, headers)[0]
            assert status == expected, f"{path}: {status}"


def reloads_of_what_a_profile_hides(home: Home):
    calm = home.hostile("calm", tools=["say"])
    settings = {"profiles": {"small": {"servers": ["calm"], "ownTools": ["activity"]}}}
    daemon = home.serve({"calm": calm}, **settings)
    daemon.until_status("calm", "connected")
    client = daemon.client("/mcp/small")
    waited = client.call("await_activity", {"timeout_ms": 100})
    last = json.loads(waited["result"]["content"][0]["text"])["last_event_id"]
    home.configure({"calm": calm, "topsecret": home.hostile("topsecret")}, **settings)
    home.run("reload")
    daemon.until_status("topsecret", "connected")
    heard = client.call("await_activity", {"timeout_ms": 100, "last_event_id": last})
    assert "topsecret" not in str(heard), f"{heard}"


def secrets_in_other_clothes(home: Home):
    """Of a known name, but in another form than a member of that name."""
    daemon = home.serve({"calm": home.hostile("calm", tools=["say"])})
    daemon.until_status("calm", "connected")
    forms = {
        "a header as a pair": {"headers": [{"name": "Authorization", "value": "Basic %s"}]},
        "a key as a pair": {"env": [{"key": "API_KEY", "value": "%s"}]},
        "a list of two": {"headers": [["X-Api-Key", "%s"]]},
        "another scheme": {"text": "Authorization: ApiKey %s"},
        "a digest": {"text": 'Authorization: Digest username="me", response="%s"'},
        "a second cookie": {"text": "Cookie: theme=dark; session=%s"},
        "words in quotes": {"text": 'password: "correct horse %s"'},
        "an option as a list": {"argv": ["tool", "--api-key", "%s"]},
        "a query": {"text": "https://example/x?access_token=%s&x=1"},
        "JSON in text": {"text": "sent " + json.dumps({"password": "%s"})},
        "JSON in JSON": {"text": json.dumps({"x": json.dumps({"token": "%s"})})},
        "an object": {"token": {"value": "%s"}},
        "a form": {"text": "user=me&password=%s&x=1"},
        "capitals": {"HEADERS": {"PROXY-AUTHORIZATION": "Basic %s", "Set-Cookie": "%s"}},
        "half a character": {"text": "\ud800 password: %s"},
    }
    client = daemon.client()
    secrets = {}
    for number, (what, form) in enumerate(forms.items()):
        secret = f"zq{number:02}x8-horse-battery"
        secrets[secret] = what
        client.call("calm__say", json.loads(json.dumps(form).replace("%s", secret)))
    until("the records", lambda: daemon.rest("GET", "/api/call-records")[1]["total_count"] >= len(forms))
    daemon.stop()
    kept = home.kept()
    fell = [what for secret, what in secrets.items() if secret.encode() in kept]
    assert not fell, f"kept: {', '.join(fell)}"
