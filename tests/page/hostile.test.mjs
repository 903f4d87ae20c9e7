// What hostile servers say is text on every screen: nothing of it runs, loads, hides what is around it or turns it round.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, folder, openPage, scripted, soon } from './harness.mjs'
import { McpClient, modernCall } from './mcp.mjs'

/** Begins each hostile text, and is looked for as it stands. */
const SCRIPT = '<script>window.owned=1</script>'
const EVIL = `${SCRIPT}<img src=x onerror="window.owned=1"><style>*{display:none}</style><a href="javascript:window.owned=1">go</a>![p](https://evil.invalid/p.png)\u202egnp.exe\u001b[31m\u0007\u009b2J`
/** Other spellings of the same, for values that must differ. */
const evil = (word) => `${EVIL}${word}`
const CODES = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/

const nested = (depth) => `${'{"a":['.repeat(depth / 2)}"bottom"${']}'.repeat(depth / 2)}`
const nestedSchema = (depth) => `${'{"type":"object","properties":{"a":'.repeat(depth)}{}${'}}'.repeat(depth)}`
const property = { [evil('property')]: { type: 'string', title: evil('title'), description: EVIL, enum: [EVIL, 'b'], default: EVIL }, plain: { type: 'string', description: EVIL } }
const schema = { type: 'object', title: EVIL, properties: property, required: [evil('property')] }
const prompts = [{ name: 'prompt', title: EVIL, description: EVIL, arguments: [{ name: evil('argument'), title: EVIL, description: EVIL, required: false }] }]

let daemon, scripts
before(async () => {
  scripts = folder()
  const script = {
    serverInfo: { name: EVIL, title: EVIL, version: EVIL },
    instructions: EVIL,
    stderr: [EVIL, 'y'.repeat(2_000_000)],
    tools: [
      { name: evil('tool'), title: EVIL, description: EVIL, inputSchema: schema, annotations: { title: EVIL } },
      { name: 'plain', title: EVIL, description: EVIL, inputSchema: { type: 'object' } },
      { name: 'all', description: 'd'.repeat(1_000_000), inputSchema: { type: 'object', properties: property } },
      { name: 'odd', title: 5, description: { a: 1 }, annotations: { title: { a: 1 }, destructiveHint: 'yes' }, inputSchema: { type: 'object' } },
      ...['long', 'deep', 'deeper', 'text', 'asks', 'schema', 'broken'].map((name) => ({ name, inputSchema: { type: 'object' } })),
    ],
    results: {
      all: {
        content: [
          { type: 'text', text: `${EVIL}\n\n![p](https://evil.invalid/p.png) [go](javascript:window.owned=1)` },
          { type: 'image', mimeType: `image/png"${EVIL}`, data: EVIL },
          { type: 'image', mimeType: 'image/svg+xml', data: Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="window.owned=1"><script>window.owned=1</script><image href="https://evil.invalid/i.png"/><rect width="9" height="9"/></svg>`).toString('base64') },
          { type: 'resource_link', uri: 'javascript:window.owned=1', name: EVIL, title: EVIL, description: EVIL, mimeType: EVIL },
          { type: 'resource', resource: { uri: EVIL, mimeType: 'text/html', text: EVIL } },
          { type: EVIL, [EVIL]: EVIL },
        ],
        structuredContent: { rows: [{ [EVIL]: EVIL, n: 1 }] },
      },
      long: { content: [{ type: 'text', text: '@repeat:1000000:<b>0123456' }] },
      deep: { '@nested': 480 },
      deeper: { '@nested': 5000 },
      text: { content: [{ type: 'text', text: nested(5000) }] },
      broken: { content: 'nothing of what it should be', structuredContent: [null, { rows: null }], isError: 'no' },
    },
    progress: { all: EVIL },
    asks: { asks: { method: 'elicitation/create', params: { message: EVIL, requestedSchema: { type: 'object', properties: property } } } },
    prompts,
    messages: [{ role: EVIL, content: { type: 'text', text: EVIL } }],
    resources: [{ uri: `evil://${EVIL}`, name: EVIL, title: EVIL, description: EVIL, mimeType: EVIL }],
    templates: [{ uriTemplate: `evil://{x}${EVIL}`, name: EVIL, description: EVIL }],
  }
  const entry = scripted(scripts, 'evil', script)
  const file = entry.args[1]
  // Nested too deeply for the script's own writer.
  fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('{"name":"schema","inputSchema":{"type":"object"}}', `{"name":"schema","inputSchema":${nestedSchema(200)}}`))
  daemon = await Daemon.start({
    ownTools: ['control'],
    mcpServers: {
      evil: { ...entry, args: [...entry.args, EVIL], serverRequests: 'queue', env: { SHOWN: EVIL } },
      dead: { command: 'sh', args: ['-c', 'printf "%s\\n" "$WORDS" >&2; exit 3'], env: { WORDS: EVIL } },
      asking: { ...fake(), serverRequests: 'queue' },
    },
  })
  await daemon.connected('evil', 'asking')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
  if (scripts) fs.rmSync(scripts, { recursive: true, force: true })
})

/** Nothing of what servers say became part of the page, and the page still does what it should. */
async function harmless(page, where) {
  const found = await page.evaluate((codes) => {
    const pattern = new RegExp(codes)
    const shown = [...document.querySelectorAll('body *')]
    const texts = shown.flatMap((element) => ['title', 'aria-label', 'placeholder', 'alt'].map((name) => element.getAttribute(name) ?? ''))
    const loaded = [...document.querySelectorAll('main script, main style, main iframe, main object, main embed, main link, main img, main a:not([href^="#"], [href^="/api/"]), main [onerror], main [onload]')]
    return {
      owned: window.owned,
      loaded: loaded.filter((it) => !it.getAttribute('src')?.startsWith('data:image/svg')).map((it) => it.outerHTML.slice(0, 200)),
      codes: [document.body.innerText, document.title, ...texts].filter((text) => pattern.test(text)).map((text) => text.slice(Math.max(0, text.search(pattern) - 80), text.search(pattern) + 80)),
      wide: document.documentElement.scrollWidth - innerWidth,
    }
  }, CODES.source)
  assert.deepEqual({ ...found, wide: Math.max(0, found.wide) }, { owned: undefined, loaded: [], codes: [], wide: 0 }, where)
}
const told = (page, text = SCRIPT) => soon(`${text} to be shown as text at ${page.url()}`, async () => (await page.locator('body').innerText()).includes(text))
const call = async (page) => {
  await page.getByRole('button', { name: 'Call', exact: true }).click()
  await page.getByRole('region', { name: 'Result' }).getByText(/Answered|The tool reports an error|Failed/).first().waitFor()
}
/** A call of a tool by REST, so that there is something on record. */
const calls = async () => {
  await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'evil/all', arguments: { [EVIL]: EVIL } })
  await daemon.api('/api/mcp-tools/call', 'POST', { tool: `evil/${evil('tool')}`, arguments: {} }).catch(() => {})
}

/** Screens that say what servers said. */
const SCREENS = {
  'the server that failed': '#/servers/dead',
  'the log of a server': '#/servers/evil/log',
  'the tools of a server': '#/servers/evil/tools',
  'its prompts': '#/servers/evil/prompts',
  'its resources': '#/servers/evil/resources',
  'its entry': '#/servers/evil/entry',
  'all tools': '#/tools',
  'all prompts': '#/tools?tab=prompts',
  'all resources': '#/tools?tab=resources',
  'a tool': '#/tools/evil/plain',
  'a tool of an evil name': `#/tools/evil/${encodeURIComponent(evil('tool'))}`,
  'a tool that is not there': `#/tools/evil/${encodeURIComponent(evil('none'))}`,
  'a prompt': '#/tools?tab=prompts&open=evil%2Fprompt',
  'a resource': `#/tools?tab=resources&open=${encodeURIComponent(`evil evil://${EVIL}`)}`,
}

test('every screen that says what servers said', async () => {
  const page = await openPage(daemon)
  for (const [name, hash] of Object.entries(SCREENS)) {
    await page.setViewportSize({ width: 1000, height: 850 })
    await page.goto(`${daemon.url}/${hash}`)
    // The text of the screen before does not count.
    await page.reload()
    await told(page)
    await harmless(page, name)
    await page.setViewportSize({ width: 360, height: 780 })
    await harmless(page, `${name}, narrow`)
  }
  await closePage(page)
})

test('the list of servers, with everything of a row open', async () => {
  const page = await openPage(daemon, '#/servers')
  await page.getByRole('link', { name: 'evil' }).first().waitFor()
  for (const name of ['dead', 'evil']) await page.getByRole('button', { name: new RegExp(`(details|more).*${name}|${name}.*(details|more)`, 'i') }).first().click()
  await told(page)
  await harmless(page, 'servers')
  await closePage(page)
})

test('records of calls', async () => {
  await calls()
  const page = await openPage(daemon, '#/calls?server=evil')
  await told(page)
  await harmless(page, 'calls')
  const { calls: records } = await soon('the record', async () => {
    const answer = await daemon.api('/api/call-records?server=evil&tool=all')
    return answer.calls.length > 0 && answer
  })
  await page.goto(`${daemon.url}/#/calls?id=${records[0].id}`)
  await page.getByRole('dialog').waitFor()
  await told(page)
  await harmless(page, 'a call')
  await page.getByRole('dialog').getByRole('tab', { name: 'Structured' }).click()
  await page.getByRole('dialog').getByRole('tab', { name: 'Table' }).click()
  await harmless(page, 'a call, as a table')
  await closePage(page)
})

test('what clients call themselves', async () => {
  const client = await McpClient.open(daemon, '/mcp', { name: EVIL, version: EVIL })
  await client.call('evil__plain')
  await McpClient.open(daemon, '/servers/evil/mcp', { name: evil('own'), version: EVIL })
  const page = await openPage(daemon, '#/clients')
  for (const [name, hash] of [['clients', '#/clients'], ['calls', '#/calls?server=evil'], ['sessions of a server', '#/servers/evil/sessions']]) {
    await page.setViewportSize({ width: 1000, height: 850 })
    await page.goto(`${daemon.url}/${hash}`)
    await page.reload()
    await told(page)
    await harmless(page, name)
    await page.setViewportSize({ width: 360, height: 780 })
    await harmless(page, `${name}, narrow`)
  }
  await page.goto(`${daemon.url}/#/clients`)
  await page.getByRole('button', { name: /^Switches/ }).first().click()
  await page.getByRole('dialog').getByText(SCRIPT).first().waitFor()
  await harmless(page, 'switches')
  await closePage(page)
})

test('what a client wants to run is shown whole before it is approved', async () => {
  const client = await McpClient.open(daemon, '/mcp', { token: daemon.token })
  await client.call('add_server', { name: 'wanted', command: 'sh', args: ['-c', EVIL, '\u202egnp.exe', '\u0007'], env: { EVIL_VALUE: EVIL, MODE: '\u2066x\u001b[8m' }, cwd: '/tmp/\u202efdp' })
  const page = await openPage(daemon, '#/servers')
  const row = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'wanted', exact: true }) })
  await row.getByText('Awaits approval').first().waitFor()
  await harmless(page, 'a row that waits')
  await row.getByRole('button', { name: 'Review' }).click()
  const ask = page.getByRole('dialog', { name: 'Approve wanted?' })
  await ask.getByText(SCRIPT).first().waitFor()
  // Each of these characters is written out where it stands: none is left out, none does what it is for.
  const text = await ask.innerText()
  for (const code of ['202e', '2066', '1b', '7', '9b']) assert.ok(text.includes(`\\u{${code}}`), `U+${code} is shown`)
  for (const part of ['EVIL_VALUE=', 'MODE=', 'gnp.exe', 'fdp']) assert.ok(text.includes(part), part)
  await harmless(page, 'what waits to be approved')
  await page.setViewportSize({ width: 360, height: 780 })
  await harmless(page, 'what waits to be approved, narrow')
  await ask.getByRole('button', { name: 'Decline' }).click()
  await row.waitFor({ state: 'detached' })
  await closePage(page)
})

test('events and the overview', async () => {
  for (const hash of ['#/events', '#/overview', '#/clients', '#/configuration', '#/settings']) {
    const page = await openPage(daemon, hash)
    await page.getByRole('heading', { level: 1 }).first().waitFor()
    await soon('the screen to be loaded', async () => (await page.getByText('Loading…').count()) === 0)
    if (hash === '#/events') await page.getByText(/dead/).first().waitFor()
    await harmless(page, hash)
    await closePage(page)
  }
})

test('a result of every kind, in every view', async () => {
  const page = await openPage(daemon, '#/tools/evil/all')
  await call(page)
  const result = page.getByRole('region', { name: 'Result' })
  await result.getByText(SCRIPT).first().waitFor()
  await result.getByText('Log of this call').waitFor()
  await harmless(page, 'content')
  for (const button of await result.getByRole('button', { name: 'Show it' }).all()) await button.click()
  await soon('the picture', () => result.locator('img[src^="data:image/svg"]').evaluate((image) => image.complete))
  await harmless(page, 'pictures')
  for (const tab of await result.getByRole('tab', { name: 'Markdown' }).all()) await tab.click()
  await result.getByText('[p] https://evil.invalid/p.png').first().waitFor()
  await harmless(page, 'Markdown')
  await result.getByRole('tab', { name: 'Structured' }).click()
  await result.getByRole('tab', { name: 'Table' }).click()
  await result.getByRole('columnheader').first().waitFor()
  await harmless(page, 'a table')
  await result.getByRole('tab', { name: 'Tree' }).click()
  await harmless(page, 'a tree')
  await result.getByRole('tab', { name: 'JSON', exact: true }).click()
  await harmless(page, 'JSON')
  await page.getByText('Schema', { exact: true }).click()
  await harmless(page, 'a schema')
  await closePage(page)
})

test('a prompt and its messages', async () => {
  const page = await openPage(daemon, '#/tools?tab=prompts&open=evil%2Fprompt')
  await page.getByRole('button', { name: 'Get the prompt' }).click()
  await page.getByRole('dialog').getByRole('group', { name: 'Result' }).getByText(SCRIPT).first().waitFor()
  await harmless(page, 'messages')
  await closePage(page)
})

test('requests of every method', async () => {
  const ask = (method, params) => daemon.api('/api/mcp-tools/call', 'POST', { tool: 'asking/ask', arguments: { method, params } }).catch(() => {})
  void ask('elicitation/create', { message: EVIL, requestedSchema: { type: 'object', title: EVIL, properties: property } })
  void ask('elicitation/create', { mode: 'url', elicitationId: EVIL, url: `javascript:window.owned=1//${EVIL}`, message: EVIL })
  void ask('sampling/createMessage', { systemPrompt: EVIL, maxTokens: 5, modelPreferences: { hints: [{ name: EVIL }] }, messages: [{ role: EVIL, content: { type: 'text', text: EVIL } }] })
  void daemon.api('/api/mcp-tools/call', 'POST', { tool: 'evil/asks', arguments: {} }).catch(() => {})
  const page = await openPage(daemon, '#/requests')
  await soon('all requests', async () => (await page.getByRole('article').count()) === 4)
  await told(page)
  for (const summary of await page.getByText('All of the request').all()) await summary.click()
  await harmless(page, 'requests')
  await page.setViewportSize({ width: 360, height: 780 })
  await harmless(page, 'requests, narrow')
  for (const { id } of (await daemon.api('/api/server-requests')).requests) await daemon.api(`/api/server-requests/${id}`, 'POST', { error: 'no' })
  await page.getByText('Nothing waits for an answer').waitFor()
  await closePage(page)
})

test('10 MB of text do not stop the page', async () => {
  const page = await openPage(daemon, '#/tools/evil/long')
  await call(page)
  const result = page.getByRole('region', { name: 'Result' })
  await result.getByText('The first 50,000 of 10,000,000 characters.').waitFor()
  const begun = Date.now()
  await result.getByRole('tab', { name: 'JSON', exact: true }).click()
  await result.getByText('The first 50,000 of').waitFor()
  await result.getByRole('tab', { name: 'Text' }).click()
  await result.getByRole('button', { name: 'Show 1,000,000 more' }).click()
  await result.getByText('The first 1,050,000 of 10,000,000 characters.').waitFor()
  await page.getByRole('tab', { name: 'JSON', exact: true }).first().click()
  assert.ok(Date.now() - begun < 10_000, `${Date.now() - begun} ms`)
  await harmless(page, '10 MB')
  await closePage(page)
})

/** Opens a tree step by step. */
async function descend(within) {
  for (let depth = 0; depth < 30; depth += 1) {
    const closed = within.locator('button.fold[aria-expanded="false"]')
    if ((await closed.count()) === 0) break
    await closed.last().click()
  }
  assert.ok((await within.locator('button.fold').count()) > 20)
}

test('JSON nested deeply is a tree that opens step by step', async () => {
  const page = await openPage(daemon, '#/tools/evil/deep')
  await call(page)
  const result = page.getByRole('region', { name: 'Result' })
  await result.getByRole('tab', { name: 'Structured' }).click()
  await descend(result)
  await result.getByRole('tab', { name: 'JSON', exact: true }).click()
  await harmless(page, 'deep JSON')
  const { calls: records } = await soon('the record', async () => {
    const answer = await daemon.api('/api/call-records?server=evil&tool=deep')
    return answer.calls[0]?.status === 'ok' && answer
  })
  await page.goto(`${daemon.url}/#/calls?id=${records[0].id}`)
  await page.getByRole('dialog').getByText('deep').first().waitFor()
  await harmless(page, 'the record of deep JSON')
  await closePage(page)
})

test('a text that is JSON nested 5,000 deep is a tree, too', async () => {
  const page = await openPage(daemon, '#/tools/evil/text')
  await call(page)
  const result = page.getByRole('region', { name: 'Result' })
  await result.getByRole('tab', { name: 'Tree' }).click()
  await descend(result)
  await harmless(page, 'a deep text')
  await closePage(page)
})

test('an answer nested 5,000 deep is refused, and the page says why', async () => {
  const page = await openPage(daemon, '#/tools/evil/deeper')
  await call(page)
  await page.getByRole('region', { name: 'Result' }).getByText(/nested too deep/).first().waitFor()
  await harmless(page, 'a refused answer')
  await closePage(page)
})

test('definitions and results that are not what they should be', async () => {
  for (const tool of ['odd', 'schema', 'broken']) {
    const page = await openPage(daemon, `#/tools/evil/${tool}`)
    await call(page)
    await page.getByText('Schema', { exact: true }).click()
    await page.getByRole('region', { name: 'Result' }).getByRole('tab', { name: 'JSON', exact: true }).click()
    await harmless(page, tool)
    await closePage(page)
  }
})

/** Names that cost a careless page its layout or its words. */
const NAMES = { script: evil('name'), bidi: '\u202egnp.exe\u2066', long: 'n'.repeat(300), wide: 'W m '.repeat(75), spaces: '   ', emoji: '👩‍👩‍👧‍👦😀'.repeat(20) }

/** The screen is harmless at the width of a telephone, and each part of `scope` lies within the window. */
async function narrow(page, where, scope = 'body') {
  await page.setViewportSize({ width: 360, height: 780 })
  await harmless(page, `${where}, narrow`)
  const outside = await page.locator(scope).first().evaluate((root) => {
    const scrolls = (it) => it !== document.body && (/auto|scroll/.test(getComputedStyle(it).overflowX) && it.scrollWidth > it.clientWidth ? true : it.parentElement && scrolls(it.parentElement))
    return [...root.querySelectorAll('*')]
      .filter((it) => it.checkVisibility() && !it.closest('.unseen') && getComputedStyle(it).position !== 'fixed')
      .map((it) => [it, it.getBoundingClientRect()])
      .filter(([it, box]) => box.width > 1 && (box.left < -1 || box.right > innerWidth + 1) && !it.closest('.cut') && !scrolls(it))
      .map(([it, box]) => `${it.outerHTML.slice(0, 120)} ${Math.round(box.left)}..${Math.round(box.right)}`)
  })
  assert.deepEqual(outside.slice(0, 5), [], `${where}, narrow`)
}

test('names in the palette', async () => {
  const tools = Object.values(NAMES).map((name) => ({ name, inputSchema: { type: 'object' } }))
  const other = await Daemon.start({ mcpServers: { names: scripted(scripts, 'names', { tools }), [NAMES.long]: fake(), [NAMES.emoji]: fake(), [EVIL]: fake() } })
  try {
    await other.connected('names')
    const page = await openPage(other)
    await page.keyboard.press('Control+k')
    const palette = page.getByRole('dialog', { name: 'Search or run a command' })
    await palette.getByRole('option', { name: 'Add a server' }).waitFor()
    await narrow(page, 'the palette', 'dialog[open]')
    await palette.getByRole('combobox').fill('names/')
    await soon('each tool', async () => (await palette.getByRole('option').count()) === tools.length)
    await palette.getByText(SCRIPT).first().waitFor()
    // Those that look alike do not hide each other, and one of spaces can be seen to be one.
    await palette.getByText('names/\\u{202e}gnp.exe\\u{2066}').waitFor()
    await narrow(page, 'tools in the palette', 'dialog[open]')
    await page.keyboard.press('Escape')
    await page.goto(`${other.url}/#/servers`)
    await page.getByRole('link', { name: NAMES.long, exact: true }).waitFor()
    await narrow(page, 'servers of long names', 'main')
    await closePage(page)
  } finally {
    await other.end()
  }
})

test('names of clients that were seen lately', async () => {
  for (const name of Object.values(NAMES)) await modernCall(daemon, '/mcp', { name, version: name }, 'evil__plain')
  const page = await openPage(daemon, '#/clients')
  const list = page.getByRole('list', { name: 'Seen lately' })
  await soon('each client', async () => (await list.getByRole('listitem').count()) >= Object.keys(NAMES).length)
  await list.getByText(SCRIPT).first().waitFor()
  await list.getByText('\\u{202e}gnp.exe\\u{2066}').first().waitFor()
  await harmless(page, 'seen lately')
  await narrow(page, 'seen lately', 'main')
  for (const name of ['gnp.exe', 'n'.repeat(40)]) {
    await page.goto(`${daemon.url}/#/clients`)
    await list.getByRole('listitem').filter({ hasText: name }).first().getByRole('button', { name: /^Switches/ }).click()
    await page.getByRole('dialog').getByText('evil').first().waitFor()
    await narrow(page, `switches of ${name}`, 'dialog[open]')
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }
  await closePage(page)
})

test('names in the file of a client', async () => {
  const file = path.join(daemon.home, '.cursor', 'mcp.json')
  fs.mkdirSync(path.dirname(file), { recursive: true })
  const entries = Object.values(NAMES).map((name) => [name, { command: name, args: [name, EVIL] }])
  fs.writeFileSync(file, JSON.stringify({ mcpServers: Object.fromEntries(entries) }))
  try {
    const page = await openPage(daemon, '#/servers?add=clients')
    for (const [where, hash, scope] of [['taking over', '#/servers?add=clients', 'dialog[open]'], ['connecting', '#/clients?connect=cursor', 'main']]) {
      await page.setViewportSize({ width: 1000, height: 850 })
      await page.goto(`${daemon.url}/${hash}`)
      await page.reload()
      const list = page.getByRole('list', { name: 'Servers of Cursor' })
      await soon(`each entry, ${where}`, async () => (await list.getByRole('listitem').count()) === entries.length)
      await list.getByText(SCRIPT).first().waitFor()
      await list.getByText('\\u{202e}gnp.exe\\u{2066}').first().waitFor()
      await harmless(page, where)
      await narrow(page, where, scope)
    }
    await closePage(page)
  } finally {
    fs.rmSync(path.dirname(file), { recursive: true })
  }
})

test('names in the plan of a configuration', async () => {
  const other = await Daemon.start({ mcpServers: { [NAMES.long]: fake(), kept: fake() }, profiles: { docs: { servers: ['kept'] } } })
  try {
    const page = await openPage(other, '#/settings')
    const { spaces: _, ...names } = NAMES
    const mcpServers = Object.fromEntries([...Object.values(names).map((name) => [`${name}2`, fake()]), ['kept', { ...fake(), env: { [EVIL.replaceAll('=', '')]: EVIL } }]])
    // The daemon reads a file by itself when it changes. So the look is at one that waits.
    await page.route('**/api/reload', async (route) => {
      fs.writeFileSync(other.config, JSON.stringify({ mcpServers, profiles: { docs: { servers: ['kept'], tools: { deny: [`kept/${EVIL}`, `kept/${'x'.repeat(300)}`] } } } }))
      await route.continue()
    })
    await page.getByRole('button', { name: 'Preview changes' }).click()
    await page.getByText('Ended and removed').first().waitFor()
    await page.getByText('Added and started').first().waitFor()
    await page.getByText(NAMES.long, { exact: true }).first().waitFor()
    await harmless(page, 'a plan')
    await narrow(page, 'a plan', 'main')
    await closePage(page)
  } finally {
    await other.end()
  }
  // What the editor is given is reviewed before it is saved: the plan, the changed lines, and what is wrong.
  const page = await openPage(daemon, '#/configuration')
  const editor = page.getByRole('textbox', { name: 'Configuration, as JSON' })
  for (const [what, added] of [['a plan', { [NAMES.long]: fake() }], ['what is wrong', { ok: { command: 5, [evil('key')]: EVIL }, [NAMES.spaces]: fake() }]]) {
    await page.setViewportSize({ width: 1000, height: 850 })
    const config = JSON.parse(fs.readFileSync(daemon.config, 'utf8'))
    const text = JSON.stringify({ ...config, mcpServers: { ...config.mcpServers, ...added }, profiles: { docs: { tools: { deny: [`evil/${EVIL}`, `evil/${'x'.repeat(300)}`] } } } }, null, 2)
    await page.evaluate((it) => navigator.clipboard.writeText(it), text)
    await editor.press('Control+a')
    await editor.press('Control+v')
    await page.getByRole('button', { name: 'Save…' }).click()
    const review = page.getByRole('dialog', { name: 'Save the configuration' })
    await review.getByText(what === 'a plan' ? NAMES.long.slice(0, 40) : 'key').first().waitFor()
    await harmless(page, `${what} of the editor`)
    await narrow(page, `${what} of the editor`, 'dialog[open]')
    await review.getByRole('button', { name: 'Close' }).first().click()
  }
  await closePage(page)
})
