// An MCP client over HTTP, as small as can be: what the page shows of calls comes from somebody who calls.

export class McpClient {
  #id = 0
  #headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

  static connect(daemon, name = 'page-test', address = '/mcp') {
    return McpClient.open(daemon, address, { name, version: '1.0' })
  }

  /** A client that has greeted. `address` is one such as `/mcp/docs`. */
  static async open(daemon, address = '/mcp', { name = 'desk', version = '1.2.3', token } = {}) {
    const client = new McpClient()
    client.url = daemon.url + address
    if (token) client.#headers.authorization = `Bearer ${token}`
    await client.ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name, version } })
    await client.tell('notifications/initialized')
    return client
  }

  async #post(message) {
    const response = await fetch(this.url, { method: 'POST', headers: this.#headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) })
    const text = await response.text()
    if (!response.ok) throw new Error(`${message.method}: ${response.status} ${text}`)
    const session = response.headers.get('mcp-session-id')
    if (session) this.#headers['mcp-session-id'] = session
    return text
  }

  tell(method, params = {}) {
    return this.#post({ method, params })
  }

  /** The answer, which may be an error; `undefined` where there is none, as of a call that was cancelled. */
  async ask(method, params, id = ++this.#id) {
    const text = await this.#post({ id, method, params })
    const messages = text.startsWith('{') ? [text] : [...text.matchAll(/^data: ?(.+)$/gm)].map((found) => found[1])
    return messages.map((message) => JSON.parse(message)).find((message) => message.id === id)
  }

  /** The result of a request. */
  async request(method, params = {}) {
    const { result, error } = await this.ask(method, params)
    if (error) throw new Error(`${method}: ${error.message}`)
    return result
  }

  /** The names of its tools, on all pages. */
  async tools() {
    const names = []
    let cursor
    do {
      const page = await this.request('tools/list', cursor ? { cursor } : {})
      names.push(...page.tools.map((tool) => tool.name))
      cursor = page.nextCursor
    } while (cursor)
    return names
  }

  call(name, args = {}, id = undefined) {
    return this.ask('tools/call', { name, arguments: args }, id)
  }
}

/** One call of a client of 2026-07-28, which has no session: it says in each request who it is. */
export async function modernCall(daemon, address, client, name, args = {}) {
  const meta = { protocolVersion: '2026-07-28', clientInfo: client, clientCapabilities: {} }
  const _meta = Object.fromEntries(Object.entries(meta).map(([key, value]) => [`io.modelcontextprotocol/${key}`, value]))
  const response = await fetch(daemon.url + address, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': meta.protocolVersion,
      'mcp-method': 'tools/call',
      'mcp-name': name,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args, _meta } }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`tools/call: ${response.status} ${text}`)
}
