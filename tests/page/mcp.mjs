// An MCP client over HTTP, as small as can be: what the page shows of calls comes from somebody who calls.

export class McpClient {
  #id = 0
  #headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

  static async connect(daemon, name = 'page-test', address = '/mcp') {
    const client = new McpClient()
    client.url = daemon.url + address
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name, version: '1.0' } }
    await client.ask('initialize', params)
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

  call(name, args = {}, id = undefined) {
    return this.ask('tools/call', { name, arguments: args }, id)
  }

  async toolNames() {
    return (await this.ask('tools/list', {})).result.tools.map((tool) => tool.name)
  }
}
