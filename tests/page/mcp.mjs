// An MCP client over Streamable HTTP, as programs of people are.
let id = 0

/** A client that has greeted. `path` is its address, such as `/mcp/docs`. */
export class McpClient {
  static async open(daemon, path = '/mcp', { name = 'desk', version = '1.2.3', token } = {}) {
    const client = new McpClient()
    client.url = daemon.url + path
    client.headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    if (token) client.headers.authorization = `Bearer ${token}`
    const { status, sessionId } = await client.#post({
      id: (id += 1),
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name, version } },
    })
    if (status !== 200) throw new Error(`${path} answers ${status}`)
    client.headers['mcp-session-id'] = sessionId
    await client.#post({ method: 'notifications/initialized' })
    return client
  }

  /** The result of a request. */
  async ask(method, params = {}) {
    const { status, text } = await this.#post({ id: (id += 1), method, params })
    if (status !== 200) throw new Error(`${method}: ${status} ${text}`)
    const lines = text.split('\n').filter((line) => line.startsWith('data:'))
    const answer = JSON.parse(lines.length > 0 ? lines.at(-1).slice(5) : text)
    if (answer.error) throw new Error(`${method}: ${answer.error.message}`)
    return answer.result
  }

  /** The names of its tools, on all pages. */
  async tools() {
    const names = []
    let cursor
    do {
      const page = await this.ask('tools/list', cursor ? { cursor } : {})
      names.push(...page.tools.map((tool) => tool.name))
      cursor = page.nextCursor
    } while (cursor)
    return names
  }

  async #post(message) {
    const response = await fetch(this.url, { method: 'POST', headers: this.headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) })
    return { status: response.status, sessionId: response.headers.get('mcp-session-id'), text: await response.text() }
  }
}
