// Tools: forms made from schemas, calls, their results, and who may use them.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { axe, closeBrowser, closePage, Daemon, fake, FAKE_SERVER, folder, here, openPage, scripted, soon } from './harness.mjs'

const run = promisify(execFile)
const point = { type: 'object', properties: { x: { type: 'number' }, y: { type: 'number' } }, required: ['x', 'y'] }
/** A tool with an argument of each kind that a schema can say. */
const KINDS = {
  name: 'kinds',
  description: 'Takes everything.',
  inputSchema: {
    type: 'object',
    required: ['text', 'count', 'mode', 'list', 'place'],
    additionalProperties: false,
    $defs: { point, tree: { type: 'object', properties: { label: { type: 'string' }, below: { type: 'array', items: { $ref: '#/$defs/tree' } } } } },
    properties: {
      text: { type: 'string', description: 'Any text.', minLength: 2, maxLength: 40 },
      mail: { type: 'string', format: 'email' },
      day: { type: 'string', format: 'date' },
      moment: { type: 'string', format: 'date-time' },
      link: { type: 'string', format: 'uri' },
      secret: { type: 'string', format: 'password' },
      lines: { type: 'string', maxLength: 5000 },
      count: { type: 'integer', minimum: 1, maximum: 10 },
      ratio: { type: 'number', exclusiveMinimum: 0 },
      flag: { type: 'boolean' },
      mode: { enum: ['fast', 'slow', 3, null] },
      titled: { oneOf: [{ const: 'a', title: 'First' }, { const: 'b', title: 'Second' }] },
      fixed: { const: 'v1' },
      maybe: { type: ['string', 'null'] },
      nested: { type: 'object', properties: { inner: { type: 'string' }, deeper: { type: 'object', properties: { n: { type: 'integer' } } } }, required: ['inner'] },
      list: { type: 'array', items: { type: 'string' }, minItems: 1 },
      points: { type: 'array', items: { $ref: '#/$defs/point' } },
      place: { $ref: '#/$defs/point' },
      either: { oneOf: [{ type: 'string', title: 'By name' }, { type: 'object', title: 'By number', properties: { number: { type: 'integer' } }, required: ['number'] }] },
      any: { anyOf: [{ type: 'integer' }, { type: 'array', items: { type: 'integer' } }] },
      given: { type: 'string', default: 'as it was' },
      free: {},
      tree: { $ref: '#/$defs/tree' },
    },
  },
}
const way = (title, type, needed) => ({ title, type: 'object', required: ['type', needed], properties: { type: { const: type }, [needed]: { type: 'string' } } })
/** A tool whose argument is one of two kinds, told apart by a constant. */
const PAY = { name: 'pay', description: 'Pays a bill.', inputSchema: { type: 'object', required: ['payment'], properties: { payment: { oneOf: [way('Card', 'card', 'number'), way('Invoice', 'invoice', 'address')] } } } }
/** Texts, secrets and moments. */
const TIMED = { name: 'timed', inputSchema: { type: 'object', properties: { title: { type: 'string' }, content: { type: 'string' }, secret: { type: 'string', format: 'password' }, hidden: { type: 'string', writeOnly: true }, api_key: { type: 'string', maxLength: 500 }, moment: { type: 'string', format: 'date-time' }, clock: { type: 'string', format: 'time' }, day: { type: 'string', format: 'date' } } } }
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const SILENCE = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA='
const RESULTS = {
  mixed: {
    content: [
      { type: 'text', text: 'plain words' },
      { type: 'image', mimeType: 'image/png', data: PIXEL },
      { type: 'audio', mimeType: 'audio/wav', data: SILENCE },
      { type: 'resource_link', uri: 'notes://today', name: 'today', mimeType: 'text/plain' },
      { type: 'resource', resource: { uri: 'notes://inside', mimeType: 'text/plain', text: 'text of a resource' } },
      { type: 'hologram', depth: 3 },
    ],
  },
  rows: {
    content: [],
    structuredContent: { rows: [{ id: 1, name: 'ada' }, { id: 2, name: 'grace' }], total: 2 },
  },
  json: { content: [{ type: 'text', text: '{"city":"Berne","at":{"x":1}}' }], structuredContent: { city: 'Berne', at: { x: 1 } } },
  wrong: { content: [{ type: 'text', text: 'the disk is full' }], isError: true },
  markdown: {
    content: [{ type: 'text', text: '# Title\n\nSome **bold** words, [a link](https://evil.invalid/a) and ![a picture](https://evil.invalid/p.png)\n\n<script>window.owned = 1</script>\n\n<img src="x" onerror="window.owned = 1">\n\n[run](javascript:window.owned=1)' }],
  },
  destroy: { content: [{ type: 'text', text: 'destroyed' }] },
  programs: { content: ['application/exe', 'text/html', 'image/png'].map((mimeType) => ({ type: 'image', mimeType, data: PIXEL })) },
  // Texts for which a reader of Markdown takes a minute, or for which no stack is deep enough.
  slow: { content: [markdown('@repeat:25000:a___')] },
  deep: { content: [markdown('@repeat:20000:>')] },
  nested: { content: [markdown('@repeat:30000:1. ')] },
  many: { content: [markdown('@repeat:30000:*a* ')] },
}
function markdown(text) {
  return { type: 'resource', resource: { uri: 'notes://long', mimeType: 'text/markdown', text } }
}

let daemon, scripts, needed
before(async () => {
  scripts = folder()
  // A server that starts while this file is there, and is tried again after a long time.
  needed = path.join(scripts, 'needed')
  fs.writeFileSync(needed, '')
  daemon = await Daemon.start({
    mcpServers: {
      alpha: fake('--record', path.join(scripts, 'alpha.log'), '--tool', JSON.stringify(KINDS), '--tool', JSON.stringify(PAY), '--tool', JSON.stringify(TIMED), '--prompt', JSON.stringify({ name: 'letter', description: 'Writes a letter.', arguments: [{ name: 'to', required: true }, { name: 'tone' }] })),
      results: scripted(scripts, 'results', {
        tools: Object.keys(RESULTS).map((name) => ({ name, inputSchema: { type: 'object', properties: {} }, ...(name === 'destroy' && { title: 'Wipe it', annotations: { destructiveHint: true } }) })),
        results: RESULTS,
        resources: [{ uri: 'notes://today', name: 'today', description: 'Notes of today', mimeType: 'text/plain' }],
        templates: [{ uriTemplate: 'notes://{day}', name: 'a day' }],
        contents: { 'notes://today': [{ uri: 'notes://today', mimeType: 'text/plain', text: 'buy milk' }], 'notes://monday': [{ uri: 'notes://monday', text: 'rest' }] },
        prompts: [{ name: 'greet', description: 'Greets somebody', arguments: [{ name: 'who', required: true }] }],
        messages: [{ role: 'user', content: { type: 'text', text: 'Say hello' } }, { role: 'assistant', content: { type: 'text', text: 'Hello' } }],
      }),
      hasty: { ...fake(), timeout: 1000 },
      away: { command: 'sh', args: ['-c', 'test -f "$0" && exec "$1"', needed, FAKE_SERVER], reconnect: { initialDelayMs: 300_000, maxDelayMs: 300_000, jitter: 0, onCall: false } },
    },
  })
  await daemon.connected('alpha', 'results', 'hasty', 'away')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
  if (scripts) fs.rmSync(scripts, { recursive: true, force: true })
})

/** The newest record of a tool, with its arguments. */
async function lastCall(server, tool, after = 0) {
  return soon(`a record of ${server}/${tool}`, async () => {
    const { calls } = await daemon.api(`/api/call-records?server=${server}&tool=${tool}&limit=1`)
    return calls[0] && Number(calls[0].id) > Number(after) && calls[0].status !== 'open' && daemon.api(`/api/call-records/${calls[0].id}`)
  })
}
const outcome = (page) => page.getByRole('region', { name: 'Result' })
const call = (page) => page.getByRole('button', { name: 'Call', exact: true }).click()
const answered = (page) => outcome(page).getByText('Answered').waitFor()
/** A field of a form, by the name of its place. */
const field = (within, name) => within.getByLabel(new RegExp(`^${name}\\b`)).first()
const group = (within, name) => within.getByRole('group', { name: new RegExp(`^${name}\\b`) }).first()

/** The same call as a command and as curl, which are folded. */
async function openCommands(page) {
  await page.getByText('The same call as a command, and as curl').click()
  return page.getByRole('region', { name: 'As a command' })
}

test('every kind of argument arrives as it was entered', async () => {
  const page = await openPage(daemon, '#/tools/alpha/kinds')
  const form = page.getByRole('tabpanel', { name: 'Form' })
  await field(form, 'text').waitFor()
  const commands = await openCommands(page)
  const incomplete = commands.getByText('Not complete yet: a required argument is missing.')
  await incomplete.waitFor()
  assert.match(await commands.getByRole('figure', { name: 'As a command' }).innerText(), /mainstay call alpha\/kinds 'place=\{\}' 'given=as it was'$/m, 'what is still empty is left out')

  // What is missing is said at its field, and nothing is sent.
  await call(page)
  await page.getByRole('alert').getByText('values do not fit the schema').waitFor()
  const about = async (name) => {
    const ids = ((await field(form, name).getAttribute('aria-describedby')) ?? '').split(' ')
    return (await Promise.all(ids.filter(Boolean).map((id) => page.locator(`[id="${id}"]`).innerText()))).join(' ')
  }
  assert.match(await about('text'), /A value is required\./)
  assert.match(await about('count'), /A value is required\./)
  assert.match(await about('mode'), /A value is required\./)
  assert.equal((await daemon.api('/api/call-records?server=alpha&tool=kinds')).calls.length, 0)

  await field(form, 'text').fill('x')
  await soon('the bound of a text to be said', async () => /too short|at least|2/.test(await about('text')) && (await field(form, 'text').getAttribute('aria-invalid')) === 'true')
  await field(form, 'text').fill('a "text", it\'s')
  await soon('the error to be gone', async () => (await field(form, 'text').getAttribute('aria-invalid')) === 'false')
  await field(form, 'count').fill('11')
  await soon('the bound of a number to be said', async () => (await field(form, 'count').getAttribute('aria-invalid')) === 'true')
  await field(form, 'count').fill('1.5')
  await soon('half a number to be no integer', async () => (await field(form, 'count').getAttribute('aria-invalid')) === 'true')
  await field(form, 'count').fill('seven')
  await soon('a word to be no number', async () => (await about('count')).includes('Expected here: whole number.'))
  await field(form, 'count').fill('1e400')
  await soon('a number that none can hold not to be sent', async () => (await about('count')).includes('Expected here: whole number.'))
  await field(form, 'count').fill('')
  await field(form, 'count').pressSequentially('7')
  await field(form, 'mail').fill('no address')
  await soon('the format to be said', async () => (await field(form, 'mail').getAttribute('aria-invalid')) === 'true')
  await field(form, 'mail').fill('ada@example.org')
  await field(form, 'day').fill('2026-02-03')
  // The picker is of the browser's zone.
  await field(form, 'moment').fill(await page.evaluate(() => new Date('2026-02-03T04:05:06Z').toLocaleString('sv').replace(' ', 'T')))
  await field(form, 'link').fill('https://example.org/')
  assert.equal(await field(form, 'secret').getAttribute('type'), 'password')
  await field(form, 'secret').fill('hush')
  await field(form, 'lines').fill('one\ntwo')
  assert.match(await about('ratio'), /more than 0/)
  await field(form, 'ratio').fill('0.25')
  await field(form, 'flag').selectOption({ label: 'no' })
  await field(form, 'mode').selectOption({ label: '3' })
  await field(form, 'titled').selectOption({ label: 'Second' })
  await field(form, 'fixed').check()

  const maybe = group(form, 'maybe')
  await maybe.getByRole('button', { name: 'Add' }).click()
  await maybe.getByLabel('Which kind').selectOption({ label: 'null' })

  const nested = group(form, 'nested')
  await nested.getByRole('button', { name: 'Add nested' }).click()
  await field(nested, 'inner').fill('within')
  await group(nested, 'deeper').getByRole('button', { name: 'Add deeper' }).click()
  await field(group(nested, 'deeper'), 'n').fill('-4')

  const list = group(form, 'list')
  await field(list, 'Item 1').fill('first')
  await list.getByRole('button', { name: 'Add an item' }).click()
  await field(list, 'Item 2').fill('gone')
  await list.getByRole('button', { name: 'Add an item' }).click()
  await field(list, 'Item 3').fill('third')
  await list.getByRole('button', { name: 'Remove Item 2' }).click()

  const points = group(form, 'points')
  await points.getByRole('button', { name: 'Add an item' }).click()
  await field(group(points, 'Item 1'), 'x').fill('1e3')
  await field(group(points, 'Item 1'), 'y').fill('0')
  await field(group(form, 'place'), 'x').fill('-1.5')
  await field(group(form, 'place'), 'y').fill('2')

  const either = group(form, 'either')
  await either.getByRole('button', { name: 'Add' }).click()
  await either.getByLabel('Which kind').selectOption({ label: 'By number' })
  await field(either, 'number').fill('12')
  const any = group(form, 'any')
  await any.getByRole('button', { name: 'Add' }).click()
  await any.getByLabel('Which kind').selectOption({ label: 'list' })
  await any.getByRole('button', { name: 'Add an item' }).click()
  await field(any, 'Item 1').fill('5')

  assert.equal(await field(form, 'given').inputValue(), 'as it was', 'the default stands in its field')
  await field(form, 'free').fill('{"at": ["will"]}')
  const tree = group(form, 'tree')
  await tree.getByRole('button', { name: 'Add tree' }).click()
  await field(tree, 'label').fill('root')
  await group(tree, 'below').getByRole('button', { name: 'Add an item' }).first().click()
  await field(group(group(tree, 'below'), 'Item 1'), 'label').fill('leaf')

  const expected = {
    text: 'a "text", it\'s', mail: 'ada@example.org', day: '2026-02-03', moment: '2026-02-03T04:05:06Z', link: 'https://example.org/', secret: 'hush', lines: 'one\ntwo',
    count: 7, ratio: 0.25, flag: false, mode: 3, titled: 'b', fixed: 'v1', maybe: null, nested: { inner: 'within', deeper: { n: -4 } },
    list: ['first', 'third'], points: [{ x: 1000, y: 0 }], place: { x: -1.5, y: 2 }, either: { number: 12 }, any: [5], given: 'as it was', free: { at: ['will'] },
    tree: { label: 'root', below: [{ label: 'leaf' }] },
  }
  assert.equal(await incomplete.count(), 0)
  const json = page.getByRole('tab', { name: 'JSON', exact: true }).first()
  await json.click()
  const text = page.getByRole('tabpanel', { name: 'JSON' }).getByRole('textbox')
  assert.deepEqual(JSON.parse(await text.inputValue()), expected, 'the JSON is that of the form')
  await text.fill('{"text": ')
  await page.getByText('This is no JSON').waitFor()
  assert.ok(await page.getByRole('button', { name: 'Call', exact: true }).isDisabled())
  await text.fill(JSON.stringify({ ...expected, count: 8, list: ['only'] }))
  await page.getByRole('tab', { name: 'Form', exact: true }).click()
  assert.equal(await field(form, 'count').inputValue(), '8', 'the form is that of the JSON')
  assert.equal(await field(group(form, 'either'), 'number').inputValue(), '12')

  await field(form, 'lines').press('Control+Enter')
  await answered(page)
  const record = await lastCall('alpha', 'kinds')
  assert.equal(record.call.status, 'ok')
  const sent = fs.readFileSync(path.join(scripts, 'alpha.log'), 'utf8').split('\n').filter((line) => line.includes('"tools/call"'))
  assert.deepEqual(JSON.parse(sent.at(-1)).params.arguments, { ...expected, count: 8, list: ['only'] }, 'what came to the server')
  assert.deepEqual(record.arguments, { ...expected, count: 8, list: ['only'], secret: '[redacted]' })
  await closePage(page)
})

test('arguments of the address fill the form', async () => {
  const args = { text: 'from the address', count: 3, mode: null, list: ['a'], place: { x: 1, y: 2 } }
  const page = await openPage(daemon, `#/tools/alpha/kinds?arguments=${encodeURIComponent(JSON.stringify(args))}`)
  const form = page.getByRole('tabpanel', { name: 'Form' })
  await soon('the form to be filled', async () => (await field(form, 'text').inputValue()) === 'from the address')
  await call(page)
  await answered(page)
  assert.deepEqual((await lastCall('alpha', 'kinds')).arguments, args)
  await page.goto(`${daemon.url}/#/tools/alpha/add?arguments=nonsense`)
  await page.getByText('The arguments in the address were left out. This is no JSON: ').waitFor()
  await closePage(page)
})

test('a number that nothing can hold is refused', async () => {
  const large = '{"text": 1e400}'
  const words = 'This number is too large for the browser, and would be changed: 1e400'
  const page = await openPage(daemon, `#/tools/alpha/echo?arguments=${encodeURIComponent(large)}`)
  await page.getByText(`The arguments in the address were left out. ${words}`).waitFor()
  await page.getByRole('tab', { name: 'JSON', exact: true }).first().click()
  await page.getByRole('tabpanel', { name: 'JSON' }).getByRole('textbox').fill(large)
  await page.getByText(words, { exact: true }).waitFor()
  assert.ok(await page.getByRole('button', { name: 'Call', exact: true }).isDisabled())
  await closePage(page)
})

test('a large number keeps its digits: typed, sent, answered, on record, and run again', async () => {
  const digits = '12345678901234567890'
  const page = await openPage(daemon, `#/tools/alpha/echo?arguments=${encodeURIComponent(`{"text":"x","id":${digits}}`)}`)
  await page.getByRole('tab', { name: 'JSON', exact: true }).first().click()
  const typed = page.getByRole('tabpanel', { name: 'JSON' }).getByRole('textbox')
  assert.match(await typed.inputValue(), new RegExp(`"id": ${digits}`))
  assert.match(await page.getByText(/^curl /).first().textContent(), new RegExp(`"id":${digits}`))
  await call(page)
  await answered(page)
  const { call: made } = await lastCall('alpha', 'echo')
  const record = await fetch(`${daemon.url}/api/call-records/${made.id}`, { headers: { authorization: `Bearer ${daemon.token}` } })
  assert.match(await record.text(), new RegExp(`"id":${digits}`))

  await page.goto(`${daemon.url}/#/calls?id=${made.id}`)
  const drawer = page.getByRole('dialog')
  await drawer.getByText(new RegExp(`"id": ${digits}`)).first().waitFor()
  await drawer.getByRole('link', { name: 'Run again…' }).click()
  await page.getByRole('tab', { name: 'JSON', exact: true }).first().click()
  await soon('the form to be filled', async () => (await typed.inputValue()).includes(digits))
  await closePage(page)
})

test('a value that does not fit is sent when a person insists', async () => {
  const page = await openPage(daemon, `#/tools/alpha/add?arguments=${encodeURIComponent('{"a": "x", "b": 2}')}`)
  await call(page)
  await page.getByRole('button', { name: 'Send it as it is' }).click()
  await outcome(page).getByText('a and b must be numbers').first().waitFor()
  const record = await lastCall('alpha', 'add')
  assert.deepEqual([record.call.status, record.arguments], ['error', { a: 'x', b: 2 }])
  await closePage(page)
})

test('a long call shows how far it is, and is cancelled', async () => {
  const args = { steps: 600, intervalMs: 100 }
  const page = await openPage(daemon, `#/tools/alpha/progress?arguments=${encodeURIComponent(JSON.stringify(args))}`)
  await call(page)
  await outcome(page).getByText('Running').waitFor()
  assert.equal(await outcome(page).getByText('Waits for').count(), 0)
  const bar = outcome(page).getByRole('progressbar')
  await soon('progress', async () => Number(await bar.getAttribute('value')) > 2 / 600)
  await outcome(page).getByText(/^step \d+$/).waitFor()
  await outcome(page).getByText(/\/ 600$/).waitFor()
  await page.getByRole('button', { name: 'Cancel the call' }).click()
  await outcome(page).getByText('Cancelled', { exact: true }).waitFor()
  await outcome(page).getByText('It was sent and may have run in part or as a whole: it was cancelled before the answer. Check what it did before you call it again.').waitFor()
  const record = await lastCall('alpha', 'progress')
  assert.equal(record.call.status, 'cancelled')
  await outcome(page).getByRole('link', { name: 'The record of this call' }).click()
  await page.getByRole('dialog', { name: 'alpha/progress' }).getByText('it was cancelled before the answer.').waitFor()
  assert.match(page.url(), new RegExp(`id=${record.call.id}$`))
  await closePage(page)
})

test('a call waits for its server, and says that it was never sent when it is cancelled there', async () => {
  const page = await openPage(daemon, `#/tools/away/sleep?arguments=${encodeURIComponent('{"ms": 1}')}`)
  await page.getByRole('button', { name: 'Call', exact: true }).waitFor()
  fs.rmSync(needed)
  process.kill((await daemon.server('away')).pid, 'SIGKILL')
  await soon('the next attempt to be far', async () => (await daemon.server('away')).nextRetryMs > 60_000)
  await call(page)
  await soon('the call to wait', async () => (await daemon.api('/api/figures')).servers.find((it) => it.name === 'away').callsWaiting === 1)
  await outcome(page).getByText('Waits for away').waitFor()
  await outcome(page).getByText(/\(reconnecting, next attempt in [45] min\)/).waitFor()
  assert.equal(await outcome(page).getByText('Running').count(), 0)
  await page.getByRole('button', { name: 'Cancel the call' }).click()
  await outcome(page).getByText('It did not run: it was cancelled before it was sent.').waitFor()
  assert.equal(await outcome(page).getByText('may have run').count(), 0)
  const { call: of } = await lastCall('away', 'sleep')
  assert.deepEqual([of.status, of.state], ['cancelled', 'not_sent'])
  assert.ok((await outcome(page).getByRole('link', { name: 'The record of this call' }).getAttribute('href')).endsWith(`id=${of.id}`))
  await closePage(page)
})

test('a call that fails says whether it may have run', async () => {
  const page = await openPage(daemon, `#/tools/hasty/sleep?arguments=${encodeURIComponent('{"ms": 600000}')}`)
  const doubt = outcome(page).getByText('Check what it did before you call it again.')
  await call(page)
  assert.doesNotMatch(await outcome(page).innerText(), /status/)
  await outcome(page).getByText('It was sent and may have run: no answer came in time.').waitFor()
  await doubt.waitFor()
  const { call: late } = await lastCall('hasty', 'sleep')
  assert.equal(late.status, 'timeout')
  const link = outcome(page).getByRole('link', { name: 'The record of this call' })
  assert.ok((await link.getAttribute('href')).endsWith(`id=${late.id}`))
  assert.deepEqual(await axe(page), [])

  await call(page)
  await soon('the server to have the call', async () => (await daemon.api('/api/figures')).servers.find((it) => it.name === 'hasty').callsInFlight === 1)
  process.kill((await daemon.server('hasty')).pid, 'SIGKILL')
  await outcome(page).getByText('It was sent and may have run: how it ended is not known.').waitFor()
  await doubt.waitFor()

  await daemon.api('/api/servers/hasty/stop', 'POST')
  await call(page)
  await outcome(page).getByText(/^It did not run: /).waitFor()
  assert.equal(await doubt.count(), 0)
  const { call: unsent } = await lastCall('hasty', 'sleep', late.id)
  assert.equal(unsent.state, 'not_sent')
  assert.ok((await link.getAttribute('href')).endsWith(`id=${unsent.id}`))
  await closePage(page)
})

test('a call goes on when its screen is left, and says how it ended', async () => {
  const long = { steps: 600, intervalMs: 100 }
  const page = await openPage(daemon, `#/tools/alpha/progress?arguments=${encodeURIComponent(JSON.stringify(long))}`)
  const toast = (text) => page.locator('.toasts').getByText(text).first()
  await call(page)
  await outcome(page).getByText(/^step \d+$/).waitFor()
  const { id } = await soon('the call on record', async () => (await daemon.api('/api/call-records?server=alpha&tool=progress&status=open&limit=1')).calls[0])
  await page.getByRole('navigation').first().getByRole('link', { name: 'Servers' }).click()
  await toast('The call of alpha/progress goes on.').getByRole('link', { name: 'Its calls on record' }).click()
  await page.getByRole('table', { name: 'Calls, the newest first' }).getByRole('link', { name: 'alpha/progress', exact: true }).first().waitFor()
  const statusOf = async (of) => (await daemon.api(`/api/call-records/${of}`)).call.status
  assert.equal(await statusOf(id), 'open')

  // The browser asks before it ends the call.
  const asked = page.waitForEvent('dialog')
  const leaving = page.reload().catch(() => {})
  const dialog = await asked
  assert.equal(dialog.type(), 'beforeunload')
  await dialog.dismiss()

  // Its screen shows it again, with what it was called with.
  await page.goto(`${daemon.url}/#/tools/alpha/progress`)
  await outcome(page).getByText('Running').waitFor()
  assert.equal(await field(page.getByRole('tabpanel', { name: 'Form' }), 'steps').inputValue(), '600')
  assert.equal(await statusOf(id), 'open')
  await page.getByRole('button', { name: 'Cancel the call' }).click()
  await outcome(page).getByText('Cancelled', { exact: true }).waitFor()
  await soon('the daemon to know', async () => (await statusOf(id)) === 'cancelled')
  await page.reload()
  await leaving

  // One that ends elsewhere says so there.
  await page.goto(`${daemon.url}/#/tools/alpha/sleep?arguments=${encodeURIComponent('{"ms": 1500}')}`)
  await call(page)
  await outcome(page).getByText('Running').waitFor()
  await page.getByRole('navigation').first().getByRole('link', { name: 'Servers' }).click()
  await toast('The call of alpha/sleep goes on.').waitFor()
  await toast('The call of alpha/sleep has ended: Answered.').waitFor()
  assert.equal((await lastCall('alpha', 'sleep')).call.status, 'ok')
  await closePage(page)
})

test('results: each kind of content', async () => {
  const page = await openPage(daemon, '#/tools/results/mixed')
  await call(page)
  await answered(page)
  const shown = outcome(page)
  await shown.getByText('plain words').waitFor()
  await soon('the picture to be shown unasked', () => shown.getByRole('img', { name: 'Image' }).evaluate((image) => image.complete && image.naturalWidth === 1))
  await shown.getByRole('button', { name: 'Play it' }).click()
  await soon('the sound', () => shown.locator('audio').evaluate((audio) => audio.readyState > 0 && !audio.error))
  await shown.getByText('text of a resource').waitFor()
  await shown.getByText('Content of type hologram').waitFor()
  await shown.getByRole('button', { name: 'Read it notes://today' }).click()
  const drawer = page.getByRole('dialog', { name: 'Resource notes://today' })
  await drawer.getByText('buy milk').waitFor()
  await page.keyboard.press('Escape')
  await drawer.waitFor({ state: 'hidden' })
  await shown.getByRole('tab', { name: 'JSON', exact: true }).click()
  await shown.getByText('"resource_link"').waitFor()
  await closePage(page)
})

test('results: structured content as a tree and as a table', async () => {
  const page = await openPage(daemon, '#/tools/results/rows')
  await call(page)
  await answered(page)
  const shown = outcome(page)
  await shown.getByRole('button', { name: /^1: / }).click()
  await shown.getByText('"grace"').waitFor()
  await shown.getByRole('button', { name: /^rows: / }).click()
  await shown.getByText('"grace"').waitFor({ state: 'hidden' })
  await shown.getByRole('tab', { name: 'Table' }).click()
  await shown.getByRole('columnheader', { name: 'name' }).waitFor()
  assert.deepEqual(await shown.getByRole('cell').allInnerTexts(), ['1', 'ada', '2', 'grace'])
  await closePage(page)
})

test('results: an error of the tool', async () => {
  const page = await openPage(daemon, '#/tools/results/wrong')
  await call(page)
  await outcome(page).getByText('The tool reports an error').waitFor()
  await outcome(page).getByText('the disk is full').waitFor()
  assert.equal((await lastCall('results', 'wrong')).call.status, 'error')
  await closePage(page)
})

test('a JSON-RPC error is shown with its code and its data', async () => {
  const page = await openPage(daemon, '#/tools/alpha/rpc_error')
  await call(page)
  await outcome(page).getByText('the request failed').waitFor()
  await outcome(page).getByText('-32050', { exact: true }).waitFor()
  await outcome(page).getByText('"asked for"').waitFor()
  await closePage(page)
})

test('texts are lines, what is long or pasted with lines has room, and moments are picked', async () => {
  const page = await openPage(daemon, '#/tools/alpha/timed')
  const form = page.getByRole('tabpanel', { name: 'Form' })
  const tag = (name) => field(form, name).evaluate((it) => `${it.tagName} ${it.type}`)
  await field(form, 'title').waitFor()
  assert.deepEqual(await Promise.all(['title', 'content', 'secret', 'hidden', 'api_key', 'moment', 'clock', 'day'].map(tag)), ['INPUT text', 'TEXTAREA textarea', 'INPUT password', 'INPUT password', 'INPUT password', 'INPUT datetime-local', 'INPUT time', 'INPUT date'])
  // A line keeps the breaks of what is pasted.
  await field(form, 'title').fill('begin ')
  await page.evaluate(() => navigator.clipboard.writeText('one\ntwo'))
  await field(form, 'title').press('End')
  await field(form, 'title').press('ControlOrMeta+V')
  await soon('room for lines', async () => (await tag('title')) === 'TEXTAREA textarea')
  assert.equal(await field(form, 'title').inputValue(), 'begin one\ntwo')
  await field(form, 'moment').fill('2026-01-31T12:00:00')
  await field(form, 'clock').fill('08:30:15')
  await field(form, 'day').fill('2026-02-01')
  const sent = await page.evaluate(() => new Date('2026-01-31T12:00:00').toISOString().replace('.000Z', 'Z'))
  await form.getByText(sent).waitFor()
  await call(page)
  await answered(page)
  assert.deepEqual((await lastCall('alpha', 'timed')).arguments, { title: 'begin one\ntwo', moment: sent, clock: '08:30:15Z', day: '2026-02-01' })
  // What a picker cannot show is edited as a text, and not lost.
  await page.goto(`${daemon.url}/#/tools/alpha/timed?arguments=${encodeURIComponent('{"moment": "tomorrow"}')}`)
  await page.reload()
  await field(form, 'moment').waitFor()
  assert.deepEqual([await tag('moment'), await field(form, 'moment').inputValue()], ['INPUT text', 'tomorrow'])
  await closePage(page)
})

test('a result in JSON is a tree at once, and has one row of views', async () => {
  const page = await openPage(daemon, '#/tools/results/json')
  await call(page)
  await answered(page)
  const shown = outcome(page)
  await shown.getByText('"Berne"').waitFor()
  assert.deepEqual(await shown.getByRole('tab').allInnerTexts(), ['Tree', 'Text', 'JSON'], 'structured content that is the same is not shown twice')
  assert.equal(await shown.getByRole('tablist').count(), 1)
  await shown.getByRole('tab', { name: 'Text' }).click()
  await shown.getByText('{"city":"Berne","at":{"x":1}}').waitFor()
  await closePage(page)
})

test('results: Markdown on request, and nothing in it runs or loads', async () => {
  const page = await openPage(daemon, '#/tools/results/markdown')
  await call(page)
  const shown = outcome(page)
  await shown.getByText('# Title').waitFor()
  await shown.getByRole('tab', { name: 'Markdown' }).click()
  await shown.getByRole('heading', { name: 'Title' }).waitFor()
  assert.equal(await shown.locator('strong').last().innerText(), 'bold')
  await shown.getByText('a link (https://evil.invalid/a)').waitFor()
  await shown.getByText('[a picture] https://evil.invalid/p.png').waitFor()
  await shown.getByText('<script>window.owned = 1</script>').waitFor()
  assert.equal(await shown.locator('a[href*=evil], a[href^=javascript], script, img').count(), 0)
  assert.equal(await page.evaluate(() => window.owned), undefined)
  await closePage(page)
})

test('of several kinds of a value, only the chosen one is told what it lacks', async () => {
  const page = await openPage(daemon, '#/tools/alpha/pay')
  const payment = group(page.getByRole('tabpanel', { name: 'Form' }), 'payment')
  const wrong = async () => (await payment.locator('.errors li').allInnerTexts()).map((text) => text.replace('✕', '').trim())
  await call(page)
  await soon('what the card lacks', async () => (await wrong()).join() === 'A value is required.')
  await payment.getByLabel('Which kind').selectOption({ label: 'Invoice' })
  await payment.getByLabel(/^address/).waitFor()
  await soon('what the invoice lacks', async () => (await wrong()).join() === 'A value is required.')
  await payment.getByLabel(/^address/).fill('Main Street 1')
  await soon('nothing to be wrong', async () => (await wrong()).length === 0)
  await call(page)
  await answered(page)
  assert.deepEqual((await lastCall('alpha', 'pay')).arguments, { payment: { type: 'invoice', address: 'Main Street 1' } })
  await closePage(page)
})

test('results: what is saved has the ending of a known type, or none that is run', async () => {
  const page = await openPage(daemon, '#/tools/results/programs')
  await call(page)
  const names = []
  for (const index of [0, 1, 2]) {
    const saving = page.waitForEvent('download')
    await outcome(page).getByRole('button', { name: 'Save it' }).nth(index).click()
    names.push((await saving).suggestedFilename())
  }
  assert.deepEqual(names, ['result.bin', 'result.bin', 'result.png'])
  await closePage(page)
})

for (const name of ['slow', 'deep', 'nested', 'many']) {
  test(`results: Markdown that is too much is shown as text, and the page goes on (${name})`, async () => {
    const page = await openPage(daemon, `#/tools/results/${name}`)
    await call(page)
    const shown = outcome(page)
    const view = (title) => shown.getByRole('tab', { name: title, exact: true })
    await view('Markdown').click()
    const note = shown.getByText('This text cannot be shown as Markdown')
    await note.waitFor({ timeout: 10_000 })
    assert.equal((await shown.locator('pre').first().innerText()).slice(0, 4), { slow: 'a___', deep: '>>>>', nested: '1. 1', many: '*a* ' }[name])
    await view('Text').click()
    await note.waitFor({ state: 'detached' })
    await closePage(page)
  })
}

test('a destructive tool asks first', async () => {
  const page = await openPage(daemon, '#/tools/results/destroy')
  await page.getByText('Wipe it').waitFor()
  await page.getByText('Destructive', { exact: true }).waitFor()
  await call(page)
  await page.getByRole('dialog', { name: 'Call a destructive tool?' }).getByRole('button', { name: 'Cancel' }).click()
  assert.equal((await daemon.api('/api/call-records?server=results&tool=destroy')).calls.length, 0)
  await call(page)
  await page.getByRole('dialog').getByRole('button', { name: 'Call it' }).click()
  await answered(page)
  await outcome(page).getByText('destroyed').waitFor()
  // Each time.
  await call(page)
  await page.getByRole('dialog', { name: 'Call a destructive tool?' }).getByRole('button', { name: 'Cancel' }).click()
  assert.equal((await daemon.api('/api/call-records?server=results&tool=destroy')).calls.length, 1)
  await closePage(page)
})

test('the commands shown do what the page does', async () => {
  const args = { text: `it's "so" $HOME \`id\` \\n @x`, list: ['-a', '1', ''], count: 5, mode: 'slow', place: { x: 1, y: 0.5 }, mail: 'a@b.example', lines: 'one\ntwo ☃' }
  const page = await openPage(daemon, `#/tools/alpha/kinds?arguments=${encodeURIComponent(JSON.stringify(args))}`)
  await call(page)
  await answered(page)
  const first = await lastCall('alpha', 'kinds')
  assert.deepEqual(first.arguments, args)
  const commands = await openCommands(page)
  const shown = async (name) => {
    await commands.getByRole('figure', { name }).getByRole('button', { name: 'Copy' }).click()
    return page.evaluate(() => navigator.clipboard.readText())
  }
  const env = { ...process.env, HOME: daemon.home, MAINSTAY_HOME: path.join(daemon.home, 'state'), PATH: `${path.dirname(process.env.MAINSTAY)}:${process.env.PATH}` }
  const command = await shown('As a command')
  assert.match(command, /^mainstay call alpha\/kinds /)
  assert.match((await run('sh', ['-c', command], { env })).stdout, /kinds/)
  const second = await lastCall('alpha', 'kinds', first.call.id)
  assert.deepEqual(second.arguments, args, command)
  const curl = await shown('As curl')
  const { stdout } = await run('sh', ['-c', curl], { env })
  const third = await lastCall('alpha', 'kinds', second.call.id)
  assert.deepEqual(third.arguments, args, curl)
  assert.deepEqual(JSON.parse(stdout).result, third.result)
  await closePage(page)
})

test('the commands show no password, and are copied with it', async () => {
  const args = { text: 'some', count: 1, mode: 3, list: ['a'], place: { x: 1, y: 2 } }
  const page = await openPage(daemon, `#/tools/alpha/kinds?arguments=${encodeURIComponent(JSON.stringify(args))}`)
  const commands = await openCommands(page)
  const note = commands.getByText('Secrets are shown as dots. Copy takes them as they are.')
  await commands.getByRole('figure', { name: 'As curl' }).waitFor()
  assert.equal(await note.count(), 0)
  await field(page.getByRole('tabpanel', { name: 'Form' }), 'secret').fill('hush')
  await note.waitFor()
  for (const name of ['As a command', 'As curl']) {
    const figure = commands.getByRole('figure', { name })
    const shown = await figure.innerText()
    assert.match(shown, /••••••/, name)
    assert.doesNotMatch(shown, /hush/, name)
    await figure.getByRole('button', { name: 'Copy' }).click()
    await figure.getByText('Copied').waitFor()
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /hush/, name)
  }
  await commands.getByRole('button', { name: 'Show secrets' }).click()
  await commands.getByRole('figure', { name: 'As curl' }).getByText('hush').waitFor()
  await commands.getByRole('button', { name: 'Hide secrets' }).click()
  await note.waitFor()
  await closePage(page)
})

test('a text whose name says that it is a secret is one, until it is shown', async () => {
  const page = await openPage(daemon, '#/tools/alpha/timed')
  const form = page.getByRole('tabpanel', { name: 'Form' })
  const commands = await openCommands(page)
  const curl = commands.getByRole('figure', { name: 'As curl' })
  await field(form, 'api_key').fill('hush')
  await curl.getByText('••••••').waitFor()
  assert.doesNotMatch(await commands.innerText(), /hush/)
  assert.equal(await field(form, 'api_key').getAttribute('type'), 'password')
  await form.getByRole('button', { name: 'Show api_key' }).click()
  assert.equal(await field(form, 'api_key').getAttribute('type'), 'text')
  // A key of several lines keeps them, as dots.
  await form.getByRole('button', { name: 'Hide api_key' }).click()
  await page.evaluate(() => navigator.clipboard.writeText('one\ntwo'))
  await field(form, 'api_key').press('ControlOrMeta+A')
  await field(form, 'api_key').press('ControlOrMeta+V')
  await soon('its lines', async () => (await field(form, 'api_key').inputValue()) === 'one\ntwo')
  assert.equal(await field(form, 'api_key').evaluate((it) => getComputedStyle(it).webkitTextSecurity), 'disc')
  await closePage(page)
})

test('a tool is switched off for all, and on again', async () => {
  const page = await openPage(daemon, '#/tools/results/mixed')
  await page.getByText('Available to clients').click()
  await page.getByText('Mainstay lists it for no client').waitFor()
  const names = async () => (await daemon.api('/api/mcp-tools?server=results')).tools.map((it) => it.original_name)
  await soon('the tool to be gone', async () => !(await names()).includes('mixed'))
  assert.deepEqual((await daemon.api('/api/servers/results')).entry.disabledTools, ['mixed'])
  await page.goto(`${daemon.url}/#/tools?server=results`)
  await page.getByRole('link', { name: 'results/mixed' }).getByText('Off').waitFor()
  await page.getByRole('link', { name: 'results/mixed' }).click()
  assert.equal(await page.getByRole('switch', { name: 'Available to clients' }).isChecked(), false)
  await page.getByText('Available to clients').click()
  await page.getByRole('button', { name: 'Call', exact: true }).waitFor()
  assert.ok((await names()).includes('mixed'))
  await closePage(page)
})

test('a tool that is off says what this browser remembers of it', async () => {
  const page = await openPage(daemon, '#/tools/alpha/pay')
  await page.getByText('Available to clients').click()
  await page.getByText('Mainstay lists it for no client').waitFor()
  await page.reload()
  await page.getByText('Mainstay lists it for no client').waitFor()
  await page.getByText('Pays a bill.').waitFor()
  await page.getByText('Schema', { exact: true }).click()
  await page.getByText('"payment"').first().waitFor()
  await page.getByText('Available to clients').click()
  await page.getByRole('button', { name: 'Call', exact: true }).waitFor()
  await closePage(page)
})

test('tools are switched where they are listed, one and several, and keep their descriptions and places', async () => {
  const page = await openPage(daemon, '#/servers/alpha/tools')
  const list = page.getByRole('list', { name: 'Tools' })
  const shown = async () => (await list.getByRole('link').allInnerTexts()).map((text) => text.split('\n')[0])
  await list.getByRole('link').first().waitFor()
  const before = await shown()
  const description = (await daemon.api('/api/mcp-tools?server=alpha')).tools.find((it) => it.original_name === 'add').description
  assert.ok(before.indexOf('add') < before.length - 1)
  const toggle = list.getByRole('switch', { name: 'alpha/add available to clients' })
  await toggle.click({ force: true })
  const off = list.getByRole('link', { name: /^add/ })
  await off.getByText('○ Off', { exact: true }).waitFor()
  await off.getByText(description).waitFor()
  await soon('the tool to be gone for clients', async () => !(await daemon.api('/api/mcp-tools?server=alpha')).tools.some((it) => it.original_name === 'add'))
  assert.deepEqual(await shown(), before)
  await page.reload()
  await off.getByText(description).waitFor()
  assert.deepEqual(await shown(), before)
  await soon('the switch to be off', async () => !(await toggle.isChecked()) && (await toggle.isEnabled()))
  await toggle.click({ force: true })
  await off.getByText('○ Off', { exact: true }).waitFor({ state: 'detached' })
  assert.deepEqual(await shown(), before)

  // Several: those that fit the filter, with one change of the file.
  await page.getByRole('searchbox').fill('error')
  const found = await soon('the filter', async () => {
    const names = await shown()
    return names.length > 1 && names.includes('rpc_error') && !names.includes('add') && names
  })
  await page.getByRole('button', { name: 'Switch several' }).click()
  await page.getByRole('menuitem', { name: `Switch off the ${found.length} shown` }).click()
  const asked = page.getByRole('dialog', { name: `Switch off ${found.length} tools?` })
  await asked.getByText(`alpha/${found[0]}`).waitFor()
  await asked.getByRole('button', { name: 'Switch off' }).click()
  await soon('all to be off', async () => (await list.getByText('○ Off', { exact: true }).count()) === found.length)
  assert.deepEqual([...(await daemon.api('/api/servers/alpha')).entry.disabledTools].sort(), [...found].sort())
  await page.getByRole('button', { name: 'Switch several' }).click()
  await page.getByRole('menuitem', { name: `Switch on the ${found.length} shown` }).click()
  await soon('all to be on', async () => (await list.getByText('○ Off', { exact: true }).count()) === 0)
  assert.equal((await daemon.api('/api/servers/alpha')).entry.disabledTools, undefined)
  await closePage(page)
})

test('an entry that another hand changes meanwhile is not overwritten by the switch of a tool', async () => {
  const page = await openPage(daemon, '#/tools/results/mixed')
  const config = JSON.parse(fs.readFileSync(daemon.config, 'utf8'))
  config.mcpServers.results.timeout = 45_000
  await page.route('**/api/servers/results', async (route) => {
    if (route.request().method() === 'PUT') fs.writeFileSync(daemon.config, JSON.stringify(config, null, 2))
    await route.continue()
  })
  await page.getByText('Available to clients').click()
  await page.getByText("The entry of server 'results' has changed since it was read").waitFor()
  assert.deepEqual(JSON.parse(fs.readFileSync(daemon.config, 'utf8')), config)
  await closePage(page)
})

test('a tool that leaves the list while it is called keeps its form and its outcome', async () => {
  const page = await openPage(daemon, `#/tools/alpha/sleep?arguments=${encodeURIComponent('{"ms": 3000}')}`)
  await call(page)
  await outcome(page).getByText('Running').waitFor()
  await page.getByText('Available to clients').click()
  await page.getByText('Mainstay lists it for no client').waitFor()
  await answered(page)
  assert.equal(await field(page.getByRole('tabpanel', { name: 'Form' }), 'ms').inputValue(), '3000')
  await page.getByText('Available to clients').click()
  await page.getByText('Mainstay lists it for no client').waitFor({ state: 'detached' })
  await answered(page)
  await closePage(page)
})

test('a tool is switched off for one client, and on again', async () => {
  const page = await openPage(daemon, '#/tools/alpha/echo')
  await page.getByText('On for every client.').waitFor()
  await page.getByLabel('Client', { exact: true }).fill('cursor')
  await page.getByRole('button', { name: 'Switch off for this client' }).click()
  await page.getByText('switched off for cursor').waitFor()
  assert.deepEqual((await daemon.api('/api/switches')).clients.cursor.tools, ['alpha/echo'])
  await page.goto(`${daemon.url}/#/tools?q=alpha/echo`)
  await page.getByRole('link', { name: 'alpha/echo' }).getByText('Off for 1 client').waitFor()
  await page.getByRole('link', { name: 'alpha/echo' }).click()
  await page.getByRole('button', { name: 'Switch on for cursor' }).click()
  await page.getByText('On for every client.').waitFor()
  assert.deepEqual((await daemon.api('/api/switches')).clients.cursor?.tools ?? [], [])
  await closePage(page)
})

test('prompts and resources', async () => {
  const page = await openPage(daemon, '#/tools')
  await page.getByRole('tab', { name: 'Prompts' }).click()
  await page.getByRole('button', { name: /results\/greet/ }).click()
  const prompt = page.getByRole('dialog', { name: 'Prompt results/greet' })
  await prompt.getByRole('button', { name: 'Get the prompt' }).click()
  await prompt.getByText('A value is required.').waitFor()
  await field(prompt, 'who').fill('Ada')
  await prompt.getByRole('button', { name: 'Get the prompt' }).click()
  await prompt.getByText('Say hello').waitFor()
  await prompt.getByText('Assistant').waitFor()
  assert.deepEqual((await soon('a record', async () => (await daemon.api('/api/call-records?server=results&tool=greet')).calls[0])).method, 'prompts/get')
  await page.keyboard.press('Escape')
  await prompt.waitFor({ state: 'hidden' })

  await page.getByRole('tab', { name: 'Resources' }).click()
  await page.getByRole('searchbox').fill('notes today')
  await page.getByRole('button', { name: /notes:\/\/today/ }).click()
  const resource = page.getByRole('dialog', { name: 'Resource today' })
  await resource.getByText('buy milk').waitFor()
  // One field needs no wide drawer.
  assert.equal((await resource.boundingBox()).width, 560)
  const [before] = (await daemon.api('/api/call-records?server=results&limit=1')).calls
  await resource.getByRole('button', { name: 'Read again' }).click()
  await soon('another reading', async () => (await daemon.api('/api/call-records?server=results&limit=1')).calls[0].id !== before.id)
  await page.keyboard.press('Escape')
  await page.getByRole('searchbox').fill('notes template')
  await page.getByText('Nothing fits this filter.').waitFor()
  await page.getByRole('button', { name: 'Clear the filter' }).click()
  await page.getByRole('button', { name: /notes:\/\/\{day\}/ }).click()
  const template = page.getByRole('dialog', { name: 'Resource a day' })
  await template.getByLabel('URI').fill('notes://monday')
  await template.getByRole('button', { name: 'Read it' }).click()
  await template.getByText('rest', { exact: true }).waitFor()
  await closePage(page)
})

test('5,000 tools scroll and filter', async () => {
  await daemon.api('/api/servers', 'POST', { name: 'many', ...fake('--tools', '5000') })
  await daemon.connected('many')
  const page = await openPage(daemon, '#/tools?server=many')
  const list = page.getByRole('list', { name: 'Tools' })
  await list.getByRole('link').first().waitFor()
  const all = (await daemon.api('/api/mcp-tools?server=many')).tools
  assert.ok(all.length >= 5000)
  await page.getByText(`${all.length.toLocaleString('en')} in all`).waitFor()
  assert.ok((await list.getByRole('link').count()) < 100, 'only what can be seen is there')
  await list.focus()
  await page.keyboard.press('End')
  await list.getByRole('link', { name: `many/${all.at(-1).original_name}`, exact: false }).last().waitFor()
  const begun = Date.now()
  await page.getByRole('searchbox').fill('tool_4321')
  await page.getByText(`1 of ${all.length.toLocaleString('en')}`).waitFor()
  assert.ok(Date.now() - begun < 2000, 'a filter answers at once')
  await list.getByRole('link').click()
  await call(page)
  await answered(page)
  assert.equal((await lastCall('many', 'tool_4321')).call.status, 'ok')
  await closePage(page)
  await daemon.api('/api/servers/many', 'DELETE')
})

// Servers that others wrote, where tests/outside/install has put them.
/** Where nothing may be left out, a missing program fails. */
const isOptional = !process.env.CI
const outside = path.join(process.env.OUTSIDE ?? path.join(here, '../outside'))
const REAL = {
  everything: { command: 'node_modules/.bin/mcp-server-everything', args: () => ['stdio'], tool: 'echo', values: { message: 'hello there' }, says: 'hello there' },
  filesystem: { command: 'node_modules/.bin/mcp-server-filesystem', args: () => [scripts], tool: 'list_directory', values: { path: () => scripts }, says: 'results.json' },
  memory: {
    command: 'node_modules/.bin/mcp-server-memory',
    args: () => [],
    env: () => ({ MEMORY_FILE_PATH: path.join(scripts, 'memory.jsonl') }),
    tool: 'search_nodes',
    values: { query: 'ada' },
    says: 'entities',
  },
  time: { command: '.venv/bin/mcp-server-time', args: () => ['--local-timezone', 'UTC'], tool: 'get_current_time', values: { timezone: 'Europe/Vienna' }, says: 'Europe/Vienna' },
  git: { command: '.venv/bin/mcp-server-git', args: () => ['--repository', scripts], tool: 'git_status', values: { repo_path: () => scripts }, says: 'branch' },
}
for (const [name, { command, args, env, tool, values, says }] of Object.entries(REAL)) {
  const program = path.join(outside, command)
  const missing = `tests/outside/install has not put ${command} there`
  test(`${name}: its tools are listed, and one is called through its form`, { skip: !fs.existsSync(program) && isOptional && missing }, async () => {
    assert.ok(fs.existsSync(program), missing)
    if (name === 'git') await run('git', ['init', '--quiet', scripts])
    await daemon.api('/api/servers', 'POST', { name, command: program, args: args(), ...(env && { env: env() }) })
    await daemon.connected(name)
    const page = await openPage(daemon, `#/tools?server=${name}`)
    const { tools } = await daemon.api(`/api/mcp-tools?server=${name}`)
    await page.getByText(`${tools.length} in all`).waitFor()
    await page.getByRole('link', { name: new RegExp(`^${name}/${tool}(?![-_\\w])`) }).click()
    const form = page.getByRole('tabpanel', { name: 'Form' })
    for (const [key, value] of Object.entries(values)) await field(form, key).fill(typeof value === 'function' ? value() : value)
    await call(page)
    await answered(page)
    await outcome(page).getByText(says).first().waitFor()
    assert.equal((await lastCall(name, tool)).call.status, 'ok')
    await closePage(page)
    await daemon.api(`/api/servers/${name}`, 'DELETE')
  })
}
