// Every screen, dialog, drawer and menu: axe-core finds nothing, nothing overflows at any width, and with
// MAINSTAY_SCREENSHOTS=1 there is a picture of each at every width in both schemes.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, FAKE_SERVER, folder, here, openPage, scripted, soon } from './harness.mjs'
import { McpClient } from './mcp.mjs'

const PICTURES = process.env.MAINSTAY_SCREENSHOTS !== undefined
const WIDTHS = [360, 1280, 2560, 3840]
const SCHEMES = ['light', 'dark']
/** Of a screen that is laid out alike at each width axe-core sees two looks. */
const LOOKS = ['1280-light', '360-dark']

const dialog = (page, name) => page.getByRole('dialog', { name })
const says = (where, text) => where.getByText(text).first().waitFor()
const press = async (page, keys, shown) => {
  await page.keyboard.press(keys)
  await shown.waitFor()
}
const screen = (name, hash, ready, more) => ({ name, hash, ready, ...more })
const titled = (title) => (page) => dialog(page, title).waitFor()

/**
 * The looks: an address, what is waited for, and what a person does first. `isWide` is one whose layout differs with
 * the width, `isLong` one that is taller than the window; `isTouched` is one that a person did something to.
 */
const SCREENS = [
  screen('servers', '#/servers', async (page) => {
    await says(page, 'Awaits approval')
    await page.getByTitle(/^Degraded since/).waitFor()
  }, { isWide: true }),
  screen('servers-open', '#/servers?open=alpha', (page) => says(page, 'Last events')),
  screen('servers-selected', '#/servers', async (page) => {
    for (const name of ['alpha', 'off']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
    await page.getByRole('toolbar').waitFor()
  }, { isTouched: true }),
  screen('servers-stop', '#/servers', async (page) => {
    for (const name of ['alpha', 'results']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
    await page.getByRole('toolbar').getByRole('button', { name: 'Stop' }).click()
    await dialog(page, 'Stop 2 servers?').waitFor()
  }, { isTouched: true }),
  screen('servers-menu', '#/servers', async (page) => {
    await page.getByRole('button', { name: 'More actions for asked' }).click()
    await page.getByRole('menu').waitFor()
  }, { isTouched: true }),
  screen('servers-notice', '#/servers', (page) => page.getByRole('note', { name: 'Security notice' }).waitFor(), { isUnread: true }),
  screen('palette', '#/servers', async (page) => {
    await press(page, 'Control+k', page.getByRole('combobox', { name: 'Search or run a command' }))
    await page.getByRole('option', { name: 'Restart: alpha' }).waitFor()
  }, { isTouched: true }),
  screen('help', '#/servers', (page) => press(page, '?', dialog(page, 'Keyboard')), { isTouched: true }),
  screen('servers-add', '#/servers?add=1', titled('Add a server'), { isTouched: true }),
  screen('servers-add-form', '#/servers?add=form', async (page) => {
    await dialog(page, 'Add a server').getByRole('button', { name: 'Review' }).click()
    await says(page, 'A server needs a name.')
  }, { isTouched: true }),
  screen('servers-add-clients', '#/servers?add=clients', (page) => page.getByRole('region', { name: 'Cursor' }).waitFor(), { isTouched: true }),
  screen('servers-review', '#/servers?add=paste', async (page) => {
    await page.getByLabel('A snippet, a command line or an address').fill(`API_KEY=abc ${FAKE_SERVER} --tools 3`)
    await page.getByRole('button', { name: 'Read it' }).click()
    await page.getByRole('button', { name: 'Try it' }).click()
    await says(page, 'tool_3')
  }, { isTouched: true }),
  screen('servers-review-failed', '#/servers?add=paste', async (page) => {
    await page.getByLabel('A snippet, a command line or an address').fill(`${FAKE_SERVER} --crash-at-start 7`)
    await page.getByRole('button', { name: 'Read it' }).click()
    await page.getByRole('button', { name: 'Try it' }).click()
    await says(page, 'What it wrote on stderr')
  }, { isTouched: true }),
  screen('servers-replace', '#/servers?add=paste', async (page) => {
    await page.getByLabel('A snippet, a command line or an address').fill(JSON.stringify({ mcpServers: { alpha: fake('--tools', '3') } }))
    await page.getByRole('button', { name: 'Read it' }).click()
    await page.getByRole('button', { name: 'Replace alpha' }).click()
    await page.getByRole('region', { name: 'What changes in the entry' }).waitFor()
  }, { isTouched: true }),
  screen('servers-exists', '#/servers?add=paste', async (page) => {
    await page.getByLabel('A snippet, a command line or an address').fill(JSON.stringify({ mcpServers: { alpha: fake('--tools', '3') } }))
    await page.getByRole('button', { name: 'Read it' }).click()
    await page.getByRole('button', { name: 'Replace alpha' }).waitFor()
  }, { isTouched: true }),
  screen('servers-approve', '#/servers?review=asked', (page) => says(dialog(page, 'Approve asked?'), 'API_KEY=of-a-client')),
  screen('servers-delete', '#/servers?delete=alpha', titled('Delete alpha?')),
  screen('servers-edit', '#/servers?edit=alpha', (page) => dialog(page, 'Edit alpha').getByLabel('Arguments').waitFor()),
  screen('servers-duplicate', '#/servers?copy=alpha', titled('Duplicate alpha'), { isTouched: true }),
  screen('server', '#/servers/alpha', (page) => page.getByRole('region', { name: 'States' }).getByRole('img').waitFor(), { isLong: true }),
  screen('server-down', '#/servers/broken', (page) => page.getByRole('list', { name: 'Log lines' }).waitFor(), { isWide: true, isLong: true }),
  screen('server-log', '#/servers/alpha/log', (page) => page.getByRole('list', { name: 'Log lines' }).waitFor()),
  screen('server-menu', '#/servers/alpha', async (page) => {
    await page.getByRole('button', { name: 'More actions' }).click()
    await page.getByRole('menu').waitFor()
  }, { isTouched: true }),
  screen('server-down', '#/servers/broken', (page) => says(page, 'fatal: no database')),
  screen('server-tools', '#/servers/alpha/tools', (page) => page.getByRole('list', { name: 'Tools' }).getByRole('link').first().waitFor()),
  screen('server-resources', '#/servers/alpha/resources', (page) => page.getByRole('button', { name: /fake:\/\/text/ }).first().waitFor()),
  screen('server-prompts', '#/servers/alpha/prompts', (page) => page.getByRole('button', { name: /letter/ }).waitFor()),
  screen('server-calls', '#/servers/alpha/calls', (page) => page.getByRole('table').getByText('echo').first().waitFor()),
  screen('server-sessions', '#/servers/alpha/sessions', (page) => page.getByRole('row', { name: /visitor/ }).waitFor()),
  screen('server-entry', '#/servers/alpha/entry', (page) => says(page, /\$\{secret:/)),
  screen('calls', '#/calls', (page) => says(page, 'alpha/echo'), { isWide: true }),
  screen('call', '#/calls?id=2', (page) => says(page.getByRole('dialog'), 'It ran and answered.')),
  screen('calls-compare', '#/calls?compare=2,3&side=1', (page) => says(page.getByRole('dialog'), 'alpha/echo')),
  screen('overview', '#/overview?by=server', (page) => page.locator('.uplot').last().waitFor(), { isWide: true, isLong: true }),
  screen('tools', '#/tools', (page) => page.getByRole('list', { name: 'Tools' }).getByRole('link').first().waitFor()),
  screen('tool', '#/tools/alpha/echo', (page) => says(page, 'As curl'), { isLong: true }),
  screen('tool-form', '#/tools/alpha/kinds', async (page) => {
    await page.getByRole('button', { name: 'Call', exact: true }).click()
    await says(page, 'A value is required.')
    await page.getByRole('button', { name: 'Add an item' }).first().click()
  }, { isTouched: true, isLong: true }),
  screen('tool-result', '#/tools/results/mixed', async (page) => {
    await page.getByRole('button', { name: 'Call', exact: true }).click()
    const result = page.getByRole('region', { name: 'Result' })
    await says(result, 'text of a resource')
    await result.getByRole('img', { name: 'Image' }).waitFor()
  }, { isTouched: true, isLong: true }),
  screen('tool-table', '#/tools/results/rows', async (page) => {
    await page.getByRole('button', { name: 'Call', exact: true }).click()
    const result = page.getByRole('region', { name: 'Result' })
    await result.getByRole('tab', { name: 'Table' }).click()
    await result.getByRole('columnheader', { name: 'name' }).waitFor()
  }, { isTouched: true }),
  screen('tool-running', `#/tools/alpha/progress?arguments=${encodeURIComponent('{"steps": 2000, "intervalMs": 100}')}`, async (page) => {
    await page.getByRole('button', { name: 'Call', exact: true }).click()
    const result = page.getByRole('region', { name: 'Result' })
    await soon('progress', async () => Number(await result.getByRole('progressbar').getAttribute('value')) > 2 / 2000)
  }, { isTouched: true, isLong: true }),
  screen('tool-destructive', '#/tools/results/wipe', async (page) => {
    await page.getByRole('button', { name: 'Call', exact: true }).click()
    await dialog(page, 'Call a destructive tool?').waitFor()
  }, { isTouched: true }),
  screen('prompts', '#/tools?tab=prompts', (page) => page.getByRole('button', { name: /alpha\/letter/ }).waitFor()),
  screen('prompt', '#/tools?tab=prompts&open=alpha%2Fletter', titled('Prompt alpha/letter')),
  screen('resources', '#/tools?tab=resources', (page) => page.getByRole('button', { name: /fake:\/\/text/ }).first().waitFor()),
  screen('resource', `#/tools?tab=resources&open=${encodeURIComponent('alpha fake://text')}`, async (page) => {
    await page.getByRole('dialog').getByRole('tab', { name: 'JSON', exact: true }).or(page.getByRole('dialog').locator('pre')).first().waitFor()
  }, { isTouched: true }),
  screen('requests', '#/requests', (page) => soon('all requests', async () => (await page.getByRole('article').count()) === 3), { isLong: true }),
  screen('clients', '#/clients', (page) => says(page, 'Cursor, the editor')),
  screen('clients-switches', '#/clients?switches=visitor', titled('Servers of visitor')),
  screen('clients-tokens', '#/clients/tokens', (page) => page.getByRole('row').filter({ hasText: 'laptop' }).waitFor()),
  screen('clients-connect', '#/clients?connect=cursor', (page) => page.getByRole('heading', { name: 'Cursor', level: 2 }).waitFor()),
  screen('clients-connect-any', '#/clients/connect', async (page) => {
    await page.getByRole('link', { name: 'Any other client' }).click()
    await page.getByLabel('Profile').waitFor()
  }, { isTouched: true }),
  screen('events', '#/events', (page) => page.getByRole('table', { name: 'Events, the newest first' }).getByRole('link').first().waitFor()),
  screen('event', '#/events', async (page) => {
    await page.locator('a[data-row]').first().click()
    await page.getByRole('dialog').waitFor()
  }, { isTouched: true }),
  screen('events-filter', '#/events', async (page) => {
    await page.getByRole('button', { name: 'Type' }).click()
    await page.getByRole('group', { name: 'Type' }).waitFor()
  }, { isTouched: true }),
  screen('configuration', '#/configuration', (page) => page.getByRole('textbox', { name: 'Configuration, as JSON' }).waitFor()),
  screen('configuration-profiles', '#/configuration/profiles', (page) => page.getByRole('list', { name: 'Profiles' }).waitFor()),
  screen('configuration-profile', '#/configuration/profiles?profile=docs', titled('Profile docs')),
  screen('configuration-review', '#/configuration', async (page) => {
    const editor = page.getByRole('textbox', { name: 'Configuration, as JSON' })
    await editor.focus()
    await page.keyboard.press('Control+Home')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Save…' }).click()
    await says(dialog(page, 'Save the configuration'), /servers stay as they are/)
  }, { isTouched: true }),
  screen('configuration-conflict', '#/configuration', async (page) => {
    const editor = page.getByRole('textbox', { name: 'Configuration, as JSON' })
    await editor.focus()
    await page.keyboard.press('Control+Home')
    await page.keyboard.press('Enter')
    // What another hand would have written.
    await page.route('**/api/config/text', async (route) => {
      const response = await route.fetch()
      const file = await response.json()
      await route.fulfill({ response, json: { ...file, text: file.text.replace('"enabled": false', '"enabled": true'), digest: 'another' } })
    })
    await page.evaluate(() => dispatchEvent(new Event('focus')))
    await page.getByRole('button', { name: 'Show the difference' }).click()
    await page.getByRole('region', { name: 'From the file to your text' }).waitFor()
    await page.unroute('**/api/config/text')
  }, { isTouched: true }),
  screen('settings', '#/settings', (page) => page.getByRole('radiogroup', { name: 'Colours' }).waitFor()),
  screen('about', '#/settings/about', (page) => says(page, 'State directory'), { isLong: true }),
]

/** An argument of many kinds. */
const KINDS = {
  name: 'kinds',
  description: 'Takes everything.',
  inputSchema: {
    type: 'object',
    required: ['text', 'mode', 'list'],
    properties: {
      text: { type: 'string', description: 'Any text.', minLength: 2 },
      day: { type: 'string', format: 'date' },
      secret: { type: 'string', format: 'password' },
      lines: { type: 'string', maxLength: 5000 },
      count: { type: 'integer', minimum: 1, maximum: 10, default: 3 },
      flag: { type: 'boolean' },
      mode: { enum: ['fast', 'slow', null] },
      list: { type: 'array', items: { type: 'string' }, minItems: 1 },
      nested: { type: 'object', required: ['inner'], properties: { inner: { type: 'object', properties: { n: { type: 'integer' } } } } },
      either: { oneOf: [{ type: 'string', title: 'By name' }, { type: 'integer', title: 'By number' }] },
      free: {},
    },
  },
}
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const RESULTS = {
  wipe: { content: [{ type: 'text', text: 'wiped' }] },
  mixed: {
    content: [
      { type: 'text', text: 'plain words' },
      { type: 'image', mimeType: 'image/png', data: PIXEL },
      { type: 'audio', mimeType: 'audio/wav', data: 'UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=' },
      { type: 'resource_link', uri: 'notes://today', name: 'today', mimeType: 'text/plain' },
      { type: 'resource', resource: { uri: 'notes://inside', mimeType: 'text/plain', text: 'text of a resource' } },
      { type: 'hologram', depth: 3 },
    ],
  },
  rows: { content: [], structuredContent: { rows: [{ id: 1, name: 'ada' }, { id: 2, name: 'grace' }], total: 2 } },
}
const QUESTIONS = [
  ['elicitation/create', { message: 'Who are you?', requestedSchema: { type: 'object', required: ['name'], properties: { name: { type: 'string', title: 'Your name' }, size: { type: 'string', enum: ['s', 'm'] }, sure: { type: 'boolean' } } } }],
  ['elicitation/create', { mode: 'url', elicitationId: 'e1', url: 'https://example.org/sign-in?state=1', message: 'Sign in there' }],
  ['sampling/createMessage', { systemPrompt: 'Be brief.', maxTokens: 1200, messages: [{ role: 'user', content: { type: 'text', text: 'What is two and two?' } }] }],
]

let daemon
let scripts
/** Two pages, each of which shows one screen after the other. */
let idle
before(async () => {
  scripts = folder()
  const env = { API_KEY: 'sk-live-0123456789abcdef' }
  daemon = await Daemon.start({
    ownTools: ['control'],
    mcpServers: {
      alpha: { ...fake('--tools', '12', '--tool', JSON.stringify(KINDS), '--prompt', JSON.stringify({ name: 'letter', description: 'Writes a letter.', arguments: [{ name: 'to', required: true }, { name: 'tone' }] })), env },
      results: scripted(scripts, 'results', { tools: Object.keys(RESULTS).map((name) => ({ name, inputSchema: { type: 'object', properties: {} }, annotations: { destructiveHint: name === 'wipe' } })), results: RESULTS }),
      asking: { ...fake(), serverRequests: 'queue' },
      broken: { command: 'sh', args: ['-c', 'echo "fatal: no database" >&2; exit 3'] },
      missing: { command: 'no-such-program' },
      mute: { ...fake('--ignore-ping'), health: { intervalMs: 500, timeoutMs: 500, threshold: 1, action: 'event' } },
      off: { ...fake(), enabled: false },
    },
    profiles: { docs: { servers: ['alpha'], tools: { deny: ['alpha/tool_*'] } } },
  })
  await daemon.connected('alpha', 'results', 'asking')
  fs.mkdirSync(path.join(daemon.home, '.cursor'))
  fs.writeFileSync(path.join(daemon.home, '.cursor', 'mcp.json'), JSON.stringify({ mcpServers: { memory: fake(), alpha: { command: 'other' } } }))
  const client = await McpClient.open(daemon, '/mcp', { name: 'Cursor, the editor', version: '2.1', token: daemon.token })
  await client.call('add_server', { name: 'asked', ...fake('--tools', '2'), env: { API_KEY: 'of-a-client' } })
  assert.equal((await daemon.server('asked')).status, 'pending')
  await McpClient.open(daemon, '/servers/alpha/mcp', { name: 'visitor', version: '1.0' })
  for (const text of ['one', 'two']) await client.call('alpha__echo', { text })
  await client.call('alpha__error')
  await client.call('alpha__no_such_tool')
  for (const [method, params] of QUESTIONS) daemon.api('/api/mcp-tools/call', 'POST', { tool: 'asking/ask', arguments: { method, params } }).catch(() => {})
  await soon('all requests', async () => (await daemon.api('/api/server-requests')).requests.length === QUESTIONS.length)
  for (const token of [{ name: 'laptop', expiresInSeconds: 30 * 86_400 }, { name: 'ci' }]) await daemon.api('/api/tokens', 'POST', token)
  idle = [await openPage(daemon), await openPage(daemon)]
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
  if (scripts) fs.rmSync(scripts, { recursive: true, force: true })
})

/** Shows a scheme as the page does when a person chooses it. */
function colour(scheme) {
  document.documentElement.dataset.scheme = scheme
  dispatchEvent(new CustomEvent('schemechange'))
}

/** Looks at what the page shows: nothing overflows, axe-core finds nothing. */
async function looks(shown, name, { isWide = false, isLong = false } = {}) {
  for (const width of WIDTHS) {
    await shown.setViewportSize({ width, height: width < 500 ? 780 : width > 3000 ? 2160 : 900 })
    await fits(shown, `${name} at ${width} px`)
    for (const scheme of SCHEMES) {
      const look = `${width}-${scheme}`
      const isSeen = isWide ? width < 3000 : LOOKS.includes(look)
      if (!isSeen && !PICTURES) continue
      await shown.evaluate(colour, scheme)
      // The same layout in other colours can have other contrasts, and nothing else.
      const isOnlyRecoloured = isWide && scheme === 'dark'
      if (isSeen) assert.deepEqual(await axe(shown, isOnlyRecoloured ? ['color-contrast'] : undefined), [], `${name} at ${width} px, ${scheme}`)
      if (PICTURES) await picture(shown, `${name}-${look}`, isLong)
    }
  }
}

/** Nothing is wider or taller than the window. What is measured and drawn anew after a change of the window takes a frame. */
async function fits(shown, where) {
  let found
  const hasNone = async () => (found = [...await tooWide(shown), ...await tooTall(shown)]).length === 0
  await soon(`${where} to fit`, hasNone).catch((error) => assert.deepEqual(found, [], error.message))
}

function tooWide(shown) {
  return shown.evaluate(() => {
    const overflow = document.documentElement.scrollWidth - innerWidth
    return overflow > 0 ? [`the document is ${overflow} px too wide`] : []
  })
}

/**
 * What scrolls beside the part that should: the window beside its screen, a dialog beside its content. Words that only
 * a screen reader sees do that where nothing that scrolls holds them.
 */
function tooTall(shown) {
  return shown.evaluate(() => {
    const whole = document.scrollingElement
    const found = [...document.querySelectorAll('dialog[open]')].filter((it) => it.scrollHeight > it.clientHeight).map((it) => `the dialog is ${it.scrollHeight} px in ${it.clientHeight}`)
    return whole.scrollHeight > innerHeight ? [`the document is ${whole.scrollHeight} px in ${innerHeight}`, ...found] : found
  })
}

/** Writes a picture; of a long screen all of it, in a window as tall as the screen. */
async function picture(shown, name, isLong) {
  const target = path.join(here, 'screenshots')
  fs.mkdirSync(target, { recursive: true })
  const size = shown.viewportSize()
  const more = isLong ? await shown.evaluate(() => Math.max(0, ...[...document.querySelectorAll('main')].map((it) => it.scrollHeight - it.clientHeight))) : 0
  if (more > 0) await shown.setViewportSize({ ...size, height: Math.min(size.height + more, 6000) })
  await shown.screenshot({ path: path.join(target, `${name}.png`) })
  if (more > 0) await shown.setViewportSize(size)
}

/** Shows an address; what a person did before is gone only after a reload. */
async function show(page, hash, isFresh, noticeRead = true) {
  await page.setViewportSize({ width: 1280, height: 900 })
  if (isFresh) await page.evaluate((read) => localStorage.setItem('mainstay.settings', JSON.stringify({ scheme: 'light', noticeRead: read })), noticeRead)
  await page.goto(`${daemon.url}/${hash}`)
  if (isFresh) await page.reload()
  await page.getByRole('heading', { level: 1 }).first().waitFor()
}

describe('each screen', { concurrency: 2 }, () => {
  for (const { name, hash, ready, isUnread = false, isTouched = isUnread, ...look } of SCREENS) {
    test(name, async () => {
      const page = idle.pop()
      try {
        await show(page, hash, isUnread || (page.isTouched ?? false), !isUnread)
        page.isTouched = true
        await ready(page)
        await soon('the screen to be loaded', async () => (await page.getByText('Loading…').count()) === 0)
        await looks(page, name, look)
        page.isTouched = isTouched
      } finally {
        idle.push(page)
      }
    })
  }
})

/** The screens of the rail, and the two that are longer than a window. */
const SCROLLED = ['#/servers', '#/servers/alpha', '#/calls', '#/overview', '#/tools', '#/tools/alpha/kinds', '#/requests', '#/clients', '#/events', '#/configuration', '#/settings', '#/settings/about']

test('no screen scrolls away, by the wheel or by keys', async () => {
  const page = await openPage(daemon)
  for (const [width, height] of [[1280, 800], [360, 740]]) {
    await page.setViewportSize({ width, height })
    for (const hash of SCROLLED) {
      await page.goto(`${daemon.url}/${hash}`)
      await page.getByRole('heading', { level: 1 }).first().waitFor()
      await soon('the screen to be loaded', async () => (await page.getByText('Loading…').count()) === 0)
      const where = `${hash} at ${width} px`
      const isAtTop = async (how) => assert.equal(await page.evaluate(() => scrollY), 0, `${where}, ${how}`)
      await fits(page, where)
      await page.mouse.move(width / 2, height / 2)
      for (let tick = 0; tick < 10; tick += 1) await page.mouse.wheel(0, 1000)
      await isAtTop('the wheel')
      await page.evaluate(() => document.activeElement?.blur())
      for (const key of ['End', 'PageDown', 'Space']) await page.keyboard.press(key)
      await isAtTop('keys')
      await page.getByRole('main').focus()
      await page.keyboard.press('End')
      await isAtTop('the end of the screen')
    }
  }
  await closePage(page)
})

test('sign-in', async () => {
  const out = await openPage(daemon, '#/', { signedIn: false })
  await out.getByLabel('Control token').fill('wrong')
  await out.getByRole('button', { name: 'Sign in' }).click()
  await says(out, 'This is not the control token.')
  await looks(out, 'sign-in')
  await closePage(out)
})

test('first-steps', async () => {
  const empty = await Daemon.start({ mcpServers: {} })
  try {
    const first = await openPage(empty)
    await says(first, 'No client with servers was found on this machine.')
    await looks(first, 'first-steps', { isLong: true })
    for (const [name, hash, text] of [['calls', '#/calls', 'No calls yet'], ['clients', '#/clients', 'No client is connected'], ['tokens', '#/clients/tokens', 'No tokens yet'], ['requests', '#/requests', 'Nothing waits for an answer']]) {
      await first.goto(`${empty.url}/${hash}`)
      await says(first, text)
      await looks(first, `empty-${name}`)
    }
    await closePage(first)
  } finally {
    await empty.end()
  }
})

test('journal-off', async () => {
  const without = await Daemon.start({ journal: { enabled: false }, mcpServers: { alpha: fake() } })
  try {
    await without.connected('alpha')
    const page = await openPage(without)
    for (const [name, hash] of [['calls', '#/calls'], ['overview', '#/overview'], ['server', '#/servers/alpha/calls']]) {
      await page.goto(`${without.url}/${hash}`)
      await page.getByRole('heading', { name: 'The journal is off' }).waitFor()
      await looks(page, `journal-off-${name}`, { isLong: name === 'server' })
    }
    await closePage(page)
  } finally {
    await without.end()
  }
})

test('about-failed', async () => {
  const broken = new Daemon({ mcpServers: { alpha: fake() } })
  const journal = path.join(broken.home, 'state', 'journal')
  fs.mkdirSync(journal, { recursive: true, mode: 0o700 })
  // Others could write to it.
  fs.chmodSync(journal, 0o777)
  await broken.run()
  try {
    await broken.connected('alpha')
    await broken.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text: 'x' } })
    const page = await openPage(broken, '#/settings/about')
    await says(page.getByRole('alert'), `Calls are not recorded now: ${journal} cannot be used`)
    assert.equal(await page.getByText('Every call is recorded.').count(), 0)
    await looks(page, 'about-failed', { isLong: true })
    await page.goto(`${broken.url}/#/calls`)
    await says(page.getByRole('alert'), `calls are not on record: ${journal} cannot be used`)
    await looks(page, 'calls-failed')

    // A disk that failed for a while is seen later by what is missing.
    await page.route('**/api/about', async (route) => {
      const response = await route.fetch()
      const about = await response.json()
      await route.fulfill({ response, json: { ...about, journal: { ...about.journal, bytes: 1_500_000_000, records: 120_000, lost: 1234, error: null } } })
    })
    await page.goto(`${broken.url}/#/settings/about`)
    await says(page, '1,234 records were lost: more calls came than could be written, or the disk failed.')
    assert.equal(await page.getByText('Every call is recorded.').count(), 0)
    await looks(page, 'about-lost', { isLong: true })
    await closePage(page)
  } finally {
    await broken.end()
  }
})

// The last one: afterwards there is no daemon.
test('gone', async () => {
  const [page, other] = idle
  await closePage(other)
  await show(page, '#/servers?open=alpha', true)
  await says(page, 'Last events')
  await daemon.stop()
  await says(page, 'Mainstay does not answer.')
  await looks(page, 'gone')
  await closePage(page)
})
