// Faults of the authorization server that a test asks for: what happens to requests instead of an answer.

const PAGE = "<!doctype html><title>Down for maintenance</title><h1>We are back soon</h1>";

// status: an error without a body; html: a page; json: the body of the fault; hang: no answer; reset: the connection
// ends before anything is done; lostAnswer: the request takes effect, and the connection ends instead of the answer;
// slow: a delay.
export const KINDS = ["status", "html", "json", "hang", "reset", "lostAnswer", "slow"];

export class Faults {
  constructor() {
    this.faults = [];
    this.hanging = new Set();
    // Requests that are delayed.
    this.waiting = 0;
  }

  add({ kind, path = "", requests = null, seconds = null, status = null, delayMs = 1000, retryAfter = null, body }) {
    if (!KINDS.includes(kind)) throw new Error(`a fault is one of ${KINDS.join(", ")}`);
    const until = seconds === null ? null : performance.now() + seconds * 1000;
    this.faults.push({ kind, path, left: requests, until, status, delayMs, retryAfter, body });
  }

  clear() {
    this.faults = [];
    for (const socket of this.hanging) socket.destroy();
    this.hanging.clear();
  }

  // The fault of this request, which counts as one of its requests.
  next(path) {
    this.faults = this.faults.filter(({ left, until }) => left !== 0 && (until === null || until > performance.now()));
    const fault = this.faults.find((candidate) => path.startsWith(candidate.path));
    if (fault && fault.left !== null) fault.left -= 1;
    return fault;
  }

  // Lets the request pass, or answers it as the fault says. Returns whether the request goes on.
  async apply(fault, request, response) {
    switch (fault.kind) {
      case "status":
        if (fault.retryAfter !== null) response.setHeader("retry-after", String(fault.retryAfter));
        response.writeHead(fault.status ?? 503).end();
        return false;
      case "html":
        response.writeHead(fault.status ?? 200, { "content-type": "text/html" }).end(PAGE);
        return false;
      case "json":
        response.writeHead(fault.status ?? 400, { "content-type": "application/json" });
        response.end(JSON.stringify(fault.body ?? {}));
        return false;
      case "hang":
        this.hanging.add(request.socket);
        request.socket.once("close", () => this.hanging.delete(request.socket));
        return false;
      case "reset":
        request.socket.resetAndDestroy();
        return false;
      case "lostAnswer":
        response.write = () => true;
        response.end = () => {
          request.socket.resetAndDestroy();
          return response;
        };
        return true;
      case "slow":
        this.waiting += 1;
        await new Promise((resolve) => setTimeout(resolve, fault.delayMs));
        this.waiting -= 1;
        return true;
      default:
        throw new Error(`no fault: ${fault.kind}`);
    }
  }
}
