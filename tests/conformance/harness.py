"""What the runs of the conformance suite share: installing it, processes, Mainstay, results."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
NODE_MAJOR = 22

INSTALL_SECONDS = 240
START_SECONDS = 30
STOP_SECONDS = 5
SCENARIO_MS = 15_000

# A suite mostly waits; with more beside each other its checks of timing get tight.
WORKERS = max(3, os.cpu_count() or 1)

# The one server of a Mainstay that a run starts.
SERVER = "fixture"

# The scenarios of logins.
AUTH = "auth/"

# The scenarios of extensions belong to no revision: they run singly, without --spec-version.
EXTENSIONS = "extensions"

RESULT_FOLDER = re.compile(r"(?:server-|client-)?(.+)-(\d{4}-\d\d-\d\dT[\d-]+Z)")

# What the suite says of a scenario that could not go on.
FELL_OVER = re.compile(r"^(?:Server|Client) test error: (.*)", re.MULTILINE)

# Characters of a reason that are shown: some quote whole messages.
REASON = 400

# FAILURE and WARNING break a requirement, SKIPPED leaves it open.
PASSED = "SUCCESS"
NOTE = "INFO"
BROKEN = ("FAILURE", "WARNING")


class Trouble(Exception):
    """The run cannot go on; the message says why."""


def guarded(run, seconds):
    """The exit code of `run(scratch)`, which has `seconds` and a folder of its own."""

    def out_of_time(*_):
        raise Trouble(f"not finished after {seconds} s")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(seconds)
    try:
        with tempfile.TemporaryDirectory(prefix="conformance-") as scratch:
            return 0 if run(Path(scratch)) else 1
    except Trouble as trouble:
        print(f"conformance: {trouble}", file=sys.stderr)
        return 1


def install():
    """Installs the suite unless it is there, and returns the Node to run it with."""
    try:
        subprocess.run([HERE / "install"], check=True, timeout=INSTALL_SECONDS, stdout=sys.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        raise Trouble(f"cannot install the suite: {error}") from error
    bundled = HERE / "node_modules/.bin/node"
    node = str(bundled) if bundled.exists() else "node"
    try:
        version = subprocess.run([node, "--version"], check=True, capture_output=True, text=True, timeout=STOP_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise Trouble(f"cannot run {node}: {error}") from error
    if int(version.lstrip("v").partition(".")[0]) < NODE_MAJOR:
        raise Trouble(f"the suite needs Node {NODE_MAJOR} or later, {node} is {version.strip()}")
    return node


# Processes

LIVE = set()


@contextlib.contextmanager
def running(command, log, **environment):
    """The process of `command` with its output in `log`, stopped on the way out."""
    with open(log, "wb") as output:
        try:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )
        except OSError as error:
            raise Trouble(f"cannot start {command[0]}: {error.strerror}") from error
    LIVE.add(process)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        LIVE.discard(process)


def side_by_side(work, jobs):
    """The results of `work(job)` by job, a few at a time; trouble ends them all."""
    with ThreadPoolExecutor(WORKERS) as pool:
        futures = {job: pool.submit(work, job) for job in jobs}
        try:
            return {job: future.result() for job, future in futures.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(LIVE):
                process.terminate()
            raise


def wait_for(what, process, log, probe):
    """The first true answer of `probe`, asked while `process` lives and time is left."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        answer = probe()
        if answer:
            return answer
        if process.poll() is not None:
            raise Trouble(f"{what} ended with exit code {process.returncode}\n{tail(log)}")
        time.sleep(0.05)
    raise Trouble(f"{what} was not ready after {START_SECONDS} s\n{tail(log)}")


@contextlib.contextmanager
def gateway(binary, backend, scratch):
    """The base address of a Mainstay with one backend, which it calls `SERVER`."""
    scratch.mkdir(exist_ok=True)
    config, log = scratch / "mainstay.json", scratch / "mainstay.log"
    # On /mcp names stay as they are, and the shared session declares that its clients can be asked.
    settings = {"mcpServers": {SERVER: backend}, "naming": "none", "serverRequests": "forward"}
    config.write_text(json.dumps(settings))
    address = f"127.0.0.1:{free_port()}"
    command = [binary, "serve", "--config", config, "--listen", address]
    with running(command, log, MAINSTAY_HOME=str(scratch / "home")) as process:

        def ready():
            try:
                with urllib.request.urlopen(f"http://{address}/readyz", timeout=1) as answer:
                    return answer.status == 200
            except (urllib.error.URLError, OSError):
                return False

        wait_for("mainstay", process, log, ready)
        yield f"http://{address}"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tail(log):
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


# The suite


def scenarios(node, heading):
    """The suite's scenarios under a heading of its list, each with the revisions it belongs to."""
    listed = subprocess.run([node, SUITE, "list"], check=True, capture_output=True, text=True, timeout=START_SECONDS)
    section = listed.stdout.partition(f"{heading} scenarios")[2].partition("\n\n")[0]
    return {name: tags.split(",") for name, tags in re.findall(r"^  - (\S+) \[(.*)\]", section, re.MULTILINE)}


def run_suite(node, mode, arguments, revision, scenario, scratch, **environment):
    """The checks of each scenario, in the order they ran, and what the suite said."""
    results = Path(tempfile.mkdtemp(dir=scratch))
    log = results / "suite.log"
    selection = ["--scenario", scenario] if scenario else ["--suite", "all"]
    if revision != EXTENSIONS:
        selection += ["--spec-version", revision]
    command = [node, SUITE, mode, *arguments, *selection, "--timeout", SCENARIO_MS, "--output-dir", results]
    with running(command, log, **environment) as process:
        process.wait()
    runs = []
    # A scenario whose name has a slash has its folder in another one.
    for checks in results.rglob("checks.json"):
        name, started = RESULT_FOLDER.fullmatch(checks.parent.relative_to(results).as_posix()).groups()
        runs.append((started, name, json.loads(checks.read_text())))
    # Its exit code does not tell a failed check from a suite that fell over.
    words = log.read_text(errors="replace")
    fell = FELL_OVER.search(words)
    if fell and scenario:
        runs.append(("", scenario, [fallen(scenario, fell[1])]))
    elif "=== SUMMARY ===" not in words and not (scenario and (runs or "SKIPPED" in words)):
        raise Trouble(f"the suite did not finish at {revision}\n{tail(log)}")
    return {name: checks for _, name, checks in sorted(runs, key=lambda run: run[0])}, words


# Checks


def fallen(scenario, reason):
    return {"id": scenario, "name": "FellOver", "status": "FAILURE", "errorMessage": reason}


def identity(check):
    return check["id"], check["name"], check["status"]


def only_in(checks, others):
    """The checks that `others` has not, by id, name and status."""
    unmatched = Counter(map(identity, checks)) - Counter(map(identity, others))
    return [check for check in checks if take(unmatched, identity(check))]


def take(counter, key):
    counter[key] -= 1
    return counter[key] >= 0


def line(side, check):
    # Scenarios of logins give their reasons as descriptions.
    description = check.get("description") if check["status"] in BROKEN else None
    reason = " ".join((check.get("errorMessage") or description or "").split())
    return f"{side} {check['status']:7} {check['id']} {check['name']}" + (f": {reason:.{REASON}}" if reason else "")


# The report


class Table:
    """A row for each scenario, with what is wrong below it, and a summary."""

    def __init__(self, columns):
        self.columns = columns
        self.statuses = {}
        self.wrong = 0

    def row(self, revision, scenario, checks, faults, different, excused=()):
        """`checks` by column; faults are the direct run's own, what is excused is told."""
        if revision not in self.statuses:
            print()
            self.line(revision, self.columns)
            self.statuses[revision] = {column: Counter() for column in self.columns}
        statuses = [Counter(check["status"] for check in checks.get(column, [])) for column in self.columns]
        for column, counted in zip(self.columns, statuses):
            self.statuses[revision][column] += counted
        verdict = "FAILED" if faults else "DIFFERS" if different else "ok"
        self.wrong += verdict != "ok"
        cells = [fraction(counted) if column in checks else "-" for column, counted in zip(self.columns, statuses)]
        self.line(f"  {scenario}", cells, verdict)
        for problem in [*faults, *different, *excused]:
            print(f"      {problem}")

    def conclude(self, what):
        """Prints the summary, and says whether all is well."""
        print()
        self.line("passed", self.columns)
        for revision, statuses in self.statuses.items():
            self.line(f"  {revision}", [fraction(statuses[column]) for column in self.columns])
        print(f"\n{what}: {self.wrong} scenarios wrong: {'FAILED' if self.wrong else 'ok'}")
        return not self.wrong

    def line(self, words, cells, verdict=""):
        print(f"{words:46}{''.join(f' {cell:>9}' for cell in cells)}  {verdict}".rstrip())


def fraction(statuses):
    return f"{statuses[PASSED]}/{statuses[PASSED] + sum(statuses[status] for status in BROKEN)}"
