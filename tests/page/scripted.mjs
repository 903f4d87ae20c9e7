// An MCP server on stdio for the tests of the page, which says what its script says: `node scripted.mjs FILE`, where
// FILE is JSON: `{"serverInfo", "instructions", "stderr": […], "tools": […], "results": {TOOL: result}, "asks":
// {TOOL: {"method", "params"}}, "progress": {TOOL: message}, "prompts": […], "messages": […], "resources": […],
// "templates": […], "contents": {URI: […]}}`. A tool of `asks` answers with what it was answered. In texts,
// `"@repeat:N:TEXT"` stands for TEXT N times, and a result `{"@nested": N}` is JSON nested so deeply.
import fs from 'node:fs'
import process from 'node:process'
import readline from 'node:readline'

const script = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))
const asked = new Map()
let nextId = 1

const say = (message) => process.stdout.write(`${typeof message === 'string' ? message : JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const nested = (depth) => `${'{"a":['.repeat(depth / 2)}"bottom"${']}'.repeat(depth / 2)}`

/** The result of a tool as JSON. */
function written(result) {
  const depth = result['@nested']
  if (depth !== undefined) return `{"content":[{"type":"text","text":"deep"}],"structuredContent":${nested(depth)}}`
  return JSON.stringify(result, (_, value) => {
    const repeat = typeof value === 'string' && /^@repeat:(\d+):(.*)$/s.exec(value)
    return repeat ? repeat[2].repeat(Number(repeat[1])) : value
  })
}

const methods = {
  initialize: (params) => ({
    protocolVersion: params.protocolVersion,
    capabilities: { tools: {}, prompts: {}, resources: {}, logging: {} },
    serverInfo: script.serverInfo ?? { name: 'scripted', version: '1.0.0' },
    instructions: script.instructions,
  }),
  ping: () => ({}),
  'logging/setLevel': () => ({}),
  'tools/list': () => ({ tools: script.tools ?? [] }),
  'prompts/list': () => ({ prompts: script.prompts ?? [] }),
  'resources/list': () => ({ resources: script.resources ?? [] }),
  'resources/templates/list': () => ({ resourceTemplates: script.templates ?? [] }),
  'prompts/get': () => ({ messages: script.messages ?? [] }),
  'resources/read': ({ uri }) => script.contents?.[uri] && { contents: script.contents[uri] },
}

function call(id, { name, _meta }) {
  const answer = (result) => say(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${written(result)}}`)
  const ask = script.asks?.[name]
  if (ask) {
    asked.set(nextId, (answered) => answer({ content: [{ type: 'text', text: JSON.stringify(answered) }] }))
    say({ id: nextId, ...ask })
    nextId += 1
    return
  }
  const message = script.progress?.[name]
  if (message && _meta?.progressToken !== undefined) {
    say({ method: 'notifications/message', params: { level: 'error', logger: message, data: message } })
    say({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress: 1, total: 2, message } })
  }
  answer(script.results?.[name] ?? { content: [{ type: 'text', text: name }] })
}

for (const line of script.stderr ?? []) process.stderr.write(`${line}\n`)
readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params, result, error } = JSON.parse(line)
  if (method === undefined) {
    asked.get(id)?.(result ?? { error })
    asked.delete(id)
  } else if (method === 'tools/call') {
    call(id, params)
  } else if (id !== undefined) {
    const answer = methods[method]?.(params ?? {})
    if (answer) say({ id, result: answer })
    else say({ id, error: { code: -32601, message: `no ${method}` } })
  }
})
