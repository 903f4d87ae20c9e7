// A remote MCP server that asks for a login, and the authorization server that it names, at one origin: as small as
// the page's tests need. tests/login has real ones. `person` decides what the authorization page answers.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'

const MINUTE_S = 60

export class Provider {
  /** `grants`: goes back with a code; `refuses`: goes back with an error; `reads`: stays at the authorization page. */
  person = 'grants'
  hasRevocation = true
  /** Lifetime of the tokens that it issues. */
  lifetimeS = 60 * MINUTE_S
  /** Scopes that the server asks for. */
  scopes = 'read'
  /** Bodies of the requests for tokens, the newest last. */
  requests = []
  revoked = []
  #tokens = new Set()
  #codes = new Set()
  #refreshTokens = new Set()
  /** Device codes by user code, `true` once the person has entered it. */
  #devices = new Map()

  static async start() {
    const provider = new Provider()
    provider.server = http.createServer((request, response) => void provider.#answer(request, response))
    provider.server.listen(0, '127.0.0.1')
    await once(provider.server, 'listening')
    provider.origin = `http://127.0.0.1:${provider.server.address().port}`
    provider.url = `${provider.origin}/mcp`
    return provider
  }

  async stop() {
    this.server.close()
    this.server.closeAllConnections()
  }

  async #answer(request, response) {
    let body = ''
    for await (const chunk of request) body += chunk
    const { pathname, searchParams } = new URL(request.url, this.origin)
    const json = (status, value, headers = {}) => response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))
    const at = this.origin
    switch (pathname) {
      case '/mcp':
        return this.#mcp(request, body, response, json)
      case '/.well-known/oauth-protected-resource/mcp':
        return json(200, { resource: this.url, authorization_servers: [at], scopes_supported: this.scopes.split(' ') })
      case '/.well-known/oauth-authorization-server':
        return json(200, {
          issuer: at,
          authorization_endpoint: `${at}/authorize`,
          token_endpoint: `${at}/token`,
          registration_endpoint: `${at}/register`,
          device_authorization_endpoint: `${at}/device`,
          ...(this.hasRevocation && { revocation_endpoint: `${at}/revoke` }),
          response_types_supported: ['code'],
          grant_types_supported: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['none'],
        })
      case '/register':
        return json(201, { ...JSON.parse(body), client_id: 'mainstay-of-the-page' })
      case '/authorize': {
        if (this.person === 'reads') return response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Provider</title><h1>May Mainstay in?</h1>')
        const back = new URL(searchParams.get('redirect_uri'))
        back.searchParams.set('state', searchParams.get('state'))
        if (this.person === 'refuses') {
          back.searchParams.set('error', 'access_denied')
          back.searchParams.set('error_description', 'the person refuses')
        } else back.searchParams.set('code', this.code())
        return response.writeHead(302, { location: back.href }).end()
      }
      case '/device': {
        const code = randomUUID()
        this.#devices.set('WXYZ-1234', { code, isEntered: false })
        return json(200, { device_code: code, user_code: 'WXYZ-1234', verification_uri: `${at}/enter`, expires_in: 5 * MINUTE_S, interval: 1 })
      }
      case '/token':
        return this.#token(new URLSearchParams(body), json)
      case '/revoke':
        this.revoked.push(new URLSearchParams(body).get('token'))
        return json(200, {})
      default:
        return json(404, { error: 'not_found' })
    }
  }

  /** A code that can be redeemed once, as if a person had consented. */
  code() {
    const code = randomUUID()
    this.#codes.add(code)
    return code
  }

  /** Ends all logins, as an operator of the authorization server does. */
  endLogins() {
    this.#tokens.clear()
    this.#refreshTokens.clear()
  }

  /** The person enters a user code on another device. */
  enter(userCode) {
    this.#devices.get(userCode).isEntered = true
  }

  #token(form, json) {
    this.requests.push(Object.fromEntries(form))
    const device = [...this.#devices.values()].find(({ code }) => code === form.get('device_code'))
    if (device && !device.isEntered) return json(400, { error: 'authorization_pending' })
    const isGranted = device || this.#codes.delete(form.get('code')) || this.#refreshTokens.delete(form.get('refresh_token'))
    if (!isGranted) return json(400, { error: 'invalid_grant', error_description: 'the grant was revoked' })
    const [token, refreshToken] = [randomUUID(), randomUUID()]
    this.#tokens.add(token)
    this.#refreshTokens.add(refreshToken)
    return json(200, { access_token: token, token_type: 'Bearer', expires_in: this.lifetimeS, refresh_token: refreshToken, scope: this.scopes })
  }

  #mcp(request, body, response, json) {
    const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1]
    if (!this.#tokens.has(token)) {
      const metadata = `${this.origin}/.well-known/oauth-protected-resource/mcp`
      return json(401, { error: 'invalid_token' }, { 'www-authenticate': `Bearer resource_metadata="${metadata}", scope="${this.scopes}"` })
    }
    if (request.method !== 'POST') return response.writeHead(405).end()
    const { id, method, params } = JSON.parse(body)
    if (id === undefined) return response.writeHead(202).end()
    const results = {
      initialize: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'guarded', version: '1.0.0' } }),
      ping: () => ({}),
      'tools/list': () => ({ tools: [{ name: 'guarded', inputSchema: { type: 'object' } }] }),
    }
    if (!Object.hasOwn(results, method)) return json(200, { jsonrpc: '2.0', id, error: { code: -32601, message: 'method not found' } })
    return json(200, { jsonrpc: '2.0', id, result: results[method]() })
  }
}
