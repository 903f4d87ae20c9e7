"""Records: a client sees what is its own, and no secret is kept."""

import base64
import json

from .world import Home, cid, until

PIN = "4711"
SECRET = "k9-Zq84-horse-battery-staple"


def _tokens(home: Home) -> list[str]:
    made = [home.run("token", "add", name) for name in ("alice", "mallory")]
    return [next(w for w in it.stdout.decode().split() if w.startswith("mst_")) for it in made]


def _kept(home: Home) -> bytes:
    """Everything that was written into the state directory."""
    return b"".join(path.read_bytes() for path in home.state.rglob("*") if path.is_file())


def a_guess_by_content(home: Home):
    alice, mallory = _tokens(home)
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
    kept = _kept(home) + daemon.log.read_bytes()
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
    kept = _kept(home)
    for value in ("pass-3141592653", "key-2718281828", "abcdefghijklmnop1618", "ghp_0123456789abcdef"):
        assert value.encode() not in kept, f"{value} was kept"
