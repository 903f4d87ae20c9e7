// Calls as they happen and as they were: the list, its filters, one call, two side by side, and what leaves the page.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { axe, closeBrowser, closePage, Daemon, fake, FAKE_SERVER, folder, openPage, soon } from './harness.mjs'
import { McpClient } from './mcp.mjs'

const LONG_MS = 60_000
const TIMEOUT_MS = 1000
const BIG_BYTES = 1_200_000

let daemon
let client
let other
/** A server starts while this file is there. */
let gate
before(async () => {
  gate = path.join(folder(), 'gate')
  fs.writeFileSync(gate, '')
  daemon = await Daemon.start({
    mcpServers: {
      alpha: fake(),
      beta: fake(),
      slow: { ...fake(), timeout: TIMEOUT_MS },
      reader: { ...fake('--hint', 'readOnlyHint'), reconnect: { initialDelayMs: 100, jitter: 0 } },
      gated: { command: 'sh', args: ['-c', 'until [ -e "$0" ]; do sleep 0.05; done; exec "$@"', gate, FAKE_SERVER], reconnect: { initialDelayMs: 100, jitter: 0 } },
    },
  })
  await daemon.connected('alpha', 'beta', 'slow', 'reader', 'gated')
  client = await McpClient.connect(daemon, 'page-test')
  other = await McpClient.connect(daemon, 'Other, with a comma')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
  fs.rmSync(path.dirname(gate), { recursive: true, force: true })
})

const records = (query = '') => daemon.api(`/api/call-records?${query}`)
const newest = async (query) => (await records(`limit=1&${query}`)).calls[0]
const listOf = (page) => page.getByRole('table', { name: 'Calls, the newest first' })
const rowsOf = (page, name) => listOf(page).getByRole('link', { name, exact: true })
/** How many rows the list has, those out of sight as well. */
const length = async (page) => Number(await listOf(page).getAttribute('aria-rowcount', { timeout: 2000 })) - 1

/** The list has as many calls as the daemon says that there are, some but not all. */
async function fits(page, query) {
  const [wanted, all] = [(await records(query)).total_count, (await records()).total_count]
  assert.ok(wanted > 0 && wanted < all, `${wanted} of ${all} calls fit ${query}`)
  await soon(`${wanted} calls of ${query}`, async () => (await length(page)) === wanted)
}

async function openCall(page, id) {
  await page.goto(`${daemon.url}/#/calls?id=${id}`)
  const drawer = page.getByRole('dialog')
  await drawer.getByText(`Call ${id},`).waitFor()
  return drawer
}

/** The value of a fact, by its name. */
const fact = (drawer, name) => drawer.locator('dt', { hasText: new RegExp(`^${name}$`) }).locator('xpath=following-sibling::dd[1]')

test('calls come in while a client calls; nothing moves under the pointer, and it goes on', async () => {
  const page = await openPage(daemon, '#/calls')
  await page.getByRole('heading', { name: 'No calls yet' }).waitFor()
  await page.getByText(`${daemon.url}/mcp`, { exact: true }).waitFor()
  assert.equal(await page.getByRole('link', { name: 'Entries for each client to paste' }).getAttribute('href'), '#/clients/connect')
  for (const text of ['one', 'two', 'three']) await client.call('alpha__echo', { text })
  await soon('three rows', async () => (await rowsOf(page, 'alpha/echo').count()) === 3)
  await page.getByRole('main').getByRole('status').filter({ hasText: 'Live' }).waitFor()

  await rowsOf(page, 'alpha/echo').nth(1).hover()
  await page.getByText('Paused while you read').waitFor()
  await client.call('beta__add', { a: 1, b: 2 })
  await client.call('beta__error')
  await page.getByRole('button', { name: '2 new' }).waitFor()
  assert.equal(await length(page), 3, 'nothing moved')
  await page.getByRole('heading', { name: 'Calls', exact: true }).hover()
  await soon('the calls that were held', async () => (await length(page)) === 5)
  await rowsOf(page, 'beta/error').waitFor()
  await client.call('beta__echo', { text: 'later' })
  await soon('the list to go on', async () => (await length(page)) === 6)
  await closePage(page)
})

test('a row says why its call failed, and only what failed has a colour', async () => {
  await client.call('beta__error')
  await client.call('beta__echo', { text: 'well' })
  const page = await openPage(daemon, '#/calls')
  const why = (await newest('tool=error')).error.message.split('\n')[0]
  const line = (name) => listOf(page).getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) }).first()
  const failed = line('beta/error')
  await failed.getByText(why).waitFor()
  for (const width of [1280, 800, 360]) {
    await page.setViewportSize({ width, height: 780 })
    assert.ok(await failed.getByText(why).isVisible(), `the reason at ${width} px`)
  }
  await page.setViewportSize({ width: 1280, height: 850 })
  assert.deepEqual(await listOf(page).getByRole('columnheader').allInnerTexts(), ['Compare', 'Time', 'Server/tool', 'Client', 'Status', 'Reason', 'Duration', 'Try'])
  assert.match(await line('beta/echo').getByRole('cell').nth(6).getAttribute('title'), /^Waited for the server: .+\nAt the server: \S+ ms \(\d+ %\)/)
  /** How far the colour of a text is from grey. */
  const colour = (within, text) =>
    within.getByText(new RegExp(`^\\S${text}$`)).evaluate((it) => {
      const canvas = document.createElement('canvas').getContext('2d')
      canvas.fillStyle = getComputedStyle(it).color
      canvas.fillRect(0, 0, 1, 1)
      const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data
      return Math.max(red, green, blue) - Math.min(red, green, blue)
    })
  const [ok, error] = [await colour(line('beta/echo'), 'ok'), await colour(failed, 'error')]
  assert.ok(ok < 20 && error > 80, `ok ${ok}, error ${error}`)

  await page.goto(`${daemon.url}/#/servers/beta/calls`)
  await page.getByRole('row').filter({ hasText: 'error' }).first().getByText(why).waitFor()
  await closePage(page)
})

test('each filter, as a control, as text, in the address, and after a reload', async () => {
  await other.call('beta__echo', { text: 'other' })
  await other.call('beta__nope')
  const page = await openPage(daemon, '#/calls')
  const text = page.getByRole('searchbox')
  const wide = async () => {
    await text.fill('')
    const all = (await records()).total_count
    await soon('all calls', async () => (await length(page)) === all)
  }
  async function choose(label, ...values) {
    await page.getByRole('button', { name: label }).click()
    for (const value of values) await page.getByRole('group', { name: label }).getByRole('checkbox', { name: value }).check()
    await page.keyboard.press('Escape')
  }
  /** What a control has set stands in the text and in the address, and comes again with either of them. */
  async function everywhere(words, query) {
    await fits(page, query)
    assert.equal(await text.inputValue(), words)
    const address = page.url()
    await page.reload()
    await fits(page, query)
    assert.equal(await text.inputValue(), words)
    await wide()
    await text.fill(words)
    await fits(page, query)
    assert.equal(page.url(), address)
    await wide()
  }

  await choose('Server', 'beta')
  await everywhere('server:beta', 'server=beta')
  await choose('Tool', 'echo', 'error')
  await everywhere('tool:echo,error', 'tool=echo&tool=error')
  await choose('Client', 'Other, with a comma')
  await everywhere('client:"Other, with a comma"', `client=${encodeURIComponent('Other, with a comma')}`)
  await choose('Status', 'error', 'did not run')
  await everywhere('status:error,refused', 'status=error,refused')
  await choose('Reached', 'Not sent')
  await everywhere('state:not_sent', 'state=not_sent')

  await text.fill('beta/e')
  await everywhere('beta/e', 'text=beta/e')
  await text.fill('server:beta status:ok tool:echo client:page-test')
  await fits(page, 'server=beta&status=ok&tool=echo&client=page-test')
  await wide()

  // A span from a control, and a time of the past between two fields.
  await page.getByLabel('Time').selectOption('Last 15 min')
  await soon('the span in the address', () => page.url().includes('since=15m'))
  await soon('the span in the text', async () => (await text.inputValue()) === 'since:15m')
  await page.getByLabel('Time').selectOption('From … to …')
  const first = (await records('limit=1000')).calls.at(-1)
  const end = new Date(Math.ceil(Date.parse(first.started_at) / 1000) * 1000)
  const local = (date) => date.toLocaleString('sv').replace(' ', 'T')
  await page.getByLabel('From', { exact: true }).fill(local(new Date(end.getTime() - 60_000)))
  await page.getByLabel('To', { exact: true }).fill(local(end))
  await fits(page, `until=${end.toISOString()}`)
  await page.getByText('Ends at a time; not followed').waitFor()
  await page.reload()
  await fits(page, `until=${end.toISOString()}`)

  const yesterday = new Date(await page.evaluate(() => new Date().setHours(-24, 0, 0, 0))).toISOString()
  await text.fill('since:yesterday status:error')
  await fits(page, `since=${yesterday}&status=error`)
  await text.fill('since:"yesterday 00:00" status:error')
  await fits(page, `since=${yesterday}&status=error`)
  await text.fill('since:someday')
  await page.getByRole('alert').getByText('"someday" is no time.').waitFor()
  await text.fill('stauts:error')
  await page.getByRole('alert').getByText('"stauts" is no word of this filter. Did you mean status? There are server, tool, ').waitFor()
  assert.equal(await listOf(page).count(), 0)
  await page.reload()
  await page.getByRole('alert').getByText('"stauts" is no word').waitFor()
  assert.equal(await text.inputValue(), 'stauts:error')
  await text.fill('text:beta/e')
  await fits(page, 'text=beta/e')
  await text.fill('status:fine')
  await page.getByRole('alert').getByText('there is no status "fine"').waitFor()
  await text.fill('server:nobody')
  await page.getByRole('heading', { name: 'Nothing fits this filter.' }).waitFor()
  await page.getByRole('button', { name: 'Clear the filter' }).click()
  await rowsOf(page, 'beta/nope').waitFor()
  assert.equal(await text.inputValue(), '')
  await closePage(page)
})

test('calls are found by what they say', async () => {
  await client.call('alpha__echo', { text: 'a needle in "hay"' })
  const call = await newest('tool=echo')
  await client.call('beta__error')
  const page = await openPage(daemon, '#/calls')
  const text = page.getByRole('searchbox', { name: /an error or arguments/ })
  await text.fill('tool FAILED')
  await fits(page, 'text=tool%20failed')
  await rowsOf(page, 'beta/error').first().waitFor()
  await text.fill('A Needle')
  await soon('one call', async () => (await length(page)) === 1)
  assert.match(await rowsOf(page, 'alpha/echo').getAttribute('href'), new RegExp(`id=${call.id}$`))

  // A call that comes is found while the search is shown.
  await client.call('beta__add', { a: 1, b: 2, note: 'another needle' })
  await text.fill('needle')
  await soon('two calls', async () => (await length(page)) === 2)
  await client.call('beta__echo', { text: 'the third needle' })
  await client.call('beta__echo', { text: 'hay' })
  await page.mouse.move(0, 0)
  await text.blur()
  await soon('three calls', async () => (await length(page)) === 3)

  // A search whose time is over before it found anything says how far it got, and goes on.
  const at = '2026-11-25T14:03:22.471Z'
  let [isCut, goOn] = [true, undefined]
  const held = new Promise((resolve) => (goOn = resolve))
  await page.route('**/api/call-records?*text=hidden*', async (route) => {
    if (!isCut) await held
    const calls = isCut ? [] : [call]
    const more = isCut ? { next: '4711', searched_back_to: at } : {}
    if (!isCut) assert.match(route.request().url(), /before=4711/)
    isCut = false
    await route.fulfill({ json: { calls, total_count: calls.length, truncated: 'next' in more, ...more } })
  })
  await text.fill('hidden')
  await page.getByText(/^Searched back to 2026-11-2\d \d\d:\d\d:22\.471\. Searching older calls…$/).waitFor()
  goOn()
  await soon('the call of the second page', async () => (await length(page)) === 1)
  await page.getByText('These are all calls that fit.').waitFor()
  await closePage(page)
})

test('a call that ran: arguments, result, times, who called', async () => {
  await client.call('alpha__sleep', { ms: 30, note: 'to be found' })
  const call = await newest('tool=sleep')
  const page = await openPage(daemon, '#/calls')
  await rowsOf(page, 'alpha/sleep').click()
  const drawer = page.getByRole('dialog', { name: 'alpha/sleep' })
  await drawer.getByText('It ran and answered.').waitFor()
  assert.ok(page.url().endsWith(`id=${call.id}`))
  await drawer.getByText('"note": "to be found"').waitFor()
  await drawer.getByText('slept 30 ms').waitFor()
  assert.match(await drawer.getByText('At the server:').textContent(), /: (\d\d|1\d\d|2\d\d) ms \(\d+ %\)/)
  assert.equal((await fact(drawer, 'Attempts').innerText()).trim(), '1, the first')
  assert.equal(await fact(drawer, 'Client').textContent(), 'page-test 1.0')
  assert.equal(await fact(drawer, 'Door').textContent(), 'MCP over HTTP')
  assert.equal(await fact(drawer, 'Session').textContent(), call.session)
  assert.match(await fact(drawer, 'Started').textContent(), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} /)
  assert.deepEqual(await axe(page), [])

  await drawer.getByRole('link', { name: 'Calls of this session' }).click()
  await drawer.waitFor({ state: 'detached' })
  await fits(page, `session=${call.session}`)
  await closePage(page)
})

test('the calls of a trace', async () => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
  const _meta = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` }
  await client.call('alpha__echo', { text: 'of no trace' })
  for (const name of ['alpha__echo', 'beta__echo']) await client.request('tools/call', { name, arguments: { text: name }, _meta })
  const call = await newest(`trace_id=${traceId}`)
  const page = await openPage(daemon, `#/calls?id=${call.id}`)
  const drawer = page.getByRole('dialog')
  assert.equal(await fact(drawer, 'Trace id').textContent(), traceId)
  await drawer.getByRole('link', { name: 'Calls of this trace' }).click()
  await drawer.waitFor({ state: 'detached' })
  await fits(page, `trace_id=${traceId}`)
  assert.equal(await length(page), 2)
  const text = page.getByRole('searchbox')
  assert.equal(await text.inputValue(), `trace:${traceId}`)
  await text.fill('trace:4bf92f')
  await page.getByText('trace:4bf92f… is not a trace yet: one has 32 hexadecimal digits.').waitFor()
  await text.fill('trace:nobody')
  await page.getByRole('alert').getByText('expected 32 hexadecimal digits').waitFor()
  await closePage(page)
})

test('whether it ran, in words, however it ended', async () => {
  const page = await openPage(daemon, '#/calls')
  async function told(call, word, sentence, isDoubtful) {
    const drawer = await openCall(page, call.id)
    await drawer.getByText(sentence).waitFor()
    const status = new RegExp(`^\\S${word}$`, 'u')
    await drawer.getByText(status).waitFor()
    assert.equal(await drawer.getByText('Check what it did before you call it again.').count(), isDoubtful ? 1 : 0)
    await page.keyboard.press('Escape')
    const row = listOf(page).getByRole('row').filter({ has: page.locator(`a[href$="id=${call.id}"]`) })
    await row.getByText(status).waitFor()
    return call
  }

  await told(await newest('tool=error'), 'error', 'The server had it and answered with an error.', false)

  await client.call('alpha__no_such_tool')
  await told(await newest('status=refused'), 'did not run', 'It did not run: Mainstay refused it and sent it to no server.', false)

  await client.call('slow__hang')
  await told(await newest('server=slow'), 'timeout', 'It was sent and may have run: no answer came in time.', true)

  const cancelled = client.call('beta__sleep', { ms: LONG_MS }, 'to cancel')
  const open = await soon('the call to be sent', () => newest('server=beta&tool=sleep&status=open&state=sent'))
  await told(open, 'open', 'The server has it. No answer yet.', false)
  const drawer = await openCall(page, open.id)
  await client.tell('notifications/cancelled', { requestId: 'to cancel' })
  await drawer.getByText('it was cancelled before the answer.').waitFor()
  await cancelled
  await told(open, 'cancelled', 'It was sent and may have run in part or as a whole: it was cancelled before the answer.', true)

  const lost = client.call('beta__sleep', { ms: LONG_MS })
  const inFlight = await soon('the call to be sent', () => newest('server=beta&tool=sleep&status=open&state=sent'))
  process.kill((await daemon.server('beta')).pid, 'SIGKILL')
  await lost
  await told(inFlight, 'may have run', 'It was sent and may have run: how it ended is not known.', true)
  await daemon.connected('beta')

  await daemon.api('/api/servers/slow/stop', 'POST')
  await client.call('slow__echo', { text: 'nobody is there' })
  const refused = await newest('server=slow')
  assert.equal(refused.state, 'not_sent')
  await told(refused, 'did not run', /^It did not run/, false)
  assert.equal((await daemon.api(`/api/call-records/${inFlight.id}`)).call.status, 'unknown')
  await closePage(page)
})

test('each attempt of a call, with its reason', async () => {
  const page = await openPage(daemon, '#/calls')
  const sleeping = client.call('reader__sleep', { ms: 1500 })
  await soon('the call to be sent', () => newest('server=reader&status=open&state=sent'))
  process.kill((await daemon.server('reader')).pid, 'SIGKILL')
  await sleeping
  const drawer = await openCall(page, (await newest('server=reader&status=ok')).id)
  const attempts = fact(drawer, 'Attempts')
  assert.match(await attempts.innerText(), /^2\s+1\. after [\d.]+ m?s, sent and lost, but running it twice does no harm: .*was lost during the call/)
  await closePage(page)
})

test('a call that waited for its server says how long', async () => {
  fs.rmSync(gate)
  process.kill((await daemon.server('gated')).pid, 'SIGKILL')
  await soon('the loss to be known', async () => !(await daemon.server('gated')).connected)
  const waiting = client.call('gated__sleep', { ms: 300 })
  const open = await soon('the call to wait', () => newest('server=gated&tool=sleep&status=open&state=not_sent'))
  fs.writeFileSync(gate, '')
  await waiting
  const page = await openPage(daemon, '#/calls')
  const drawer = await openCall(page, open.id)
  await drawer.getByText('It ran and answered.').waitFor()
  for (const part of ['Waited for the server', 'At the server']) {
    const share = /: .+ \((\d+) %\)/.exec(await drawer.getByText(`${part}:`).textContent())
    assert.ok(Number(share?.[1]) > 0, `${part}: ${share}`)
  }
  await closePage(page)
})

test('a result of more than a megabyte comes in parts', async () => {
  await client.call('alpha__big', { bytes: BIG_BYTES })
  const call = await newest('tool=big')
  assert.ok(call.result_bytes > BIG_BYTES)
  const page = await openPage(daemon, '#/calls')
  const drawer = await openCall(page, call.id)
  await drawer.getByText('1.2 MB, too long to be shown at once.').waitFor()
  await drawer.getByRole('button', { name: 'Show the beginning' }).click()
  await drawer.getByText('The first 262 kB of 1.2 MB.').waitFor()
  const more = drawer.getByRole('button', { name: 'Show more' })
  for (let part = 1; part * 262_144 < call.result_bytes; part += 1) await more.click()
  const whole = await (await fetch(`${daemon.url}/api/objects/${call.result_cid}`, { headers: { authorization: `Bearer ${daemon.token}` } })).text()
  assert.equal(whole.length, call.result_bytes)
  await soon('all of it to stand there', async () => (await drawer.locator('pre').last().textContent()) === whole)
  const [download] = await Promise.all([page.waitForEvent('download'), drawer.getByRole('link', { name: 'Download' }).click()])
  assert.equal(fs.readFileSync(await download.path(), 'utf8'), whole)
  await closePage(page)
})

test('a call is run again with other arguments, and the new record has them', async () => {
  await client.call('alpha__echo', { text: 'first try' })
  const call = await newest('tool=echo&server=alpha')
  const page = await openPage(daemon, '#/calls')
  const drawer = await openCall(page, call.id)
  await drawer.getByRole('link', { name: 'Run again…' }).click()
  await page.getByRole('heading', { level: 1 }).getByText('echo').waitFor()
  const field = page.getByLabel('text', { exact: true })
  await soon('the arguments of the call', async () => (await field.inputValue()) === 'first try')
  await field.fill('second try')
  await page.getByRole('button', { name: 'Call', exact: true }).click()
  await page.getByText('Answered', { exact: true }).waitFor()
  await page.getByRole('link', { name: 'Its calls on record' }).click()
  await rowsOf(page, 'alpha/echo').first().click()
  await page.getByRole('dialog').getByText('"text": "second try"').first().waitFor()
  const again = await newest('tool=echo&server=alpha')
  assert.notEqual(again.id, call.id)
  assert.deepEqual(again.arguments, { text: 'second try' })
  await closePage(page)
})

test('long arguments are in the form when a call is run again; without them nothing is offered', async () => {
  const long = 'long '.repeat(4000)
  await client.call('alpha__echo', { text: long })
  const call = await newest('tool=echo&server=alpha')
  const page = await openPage(daemon, '#/calls')
  const drawer = await openCall(page, call.id)
  await drawer.getByRole('link', { name: 'Run again…' }).click()
  const field = page.getByLabel('text', { exact: true })
  await soon('the arguments of the call', async () => (await field.inputValue()) === long)
  await page.getByRole('button', { name: 'Call', exact: true }).click()
  await page.getByText('Answered', { exact: true }).waitFor()
  const again = await soon('another record', async () => {
    const record = await newest('tool=echo&server=alpha')
    return record.id !== call.id && record
  })
  assert.deepEqual((await daemon.api(`/api/call-records/${again.id}`)).arguments, { text: long })

  // No record has that number.
  await page.goto(`${daemon.url}/#/tools/alpha/echo?from=999999`)
  await page.getByRole('alert').getByRole('button', { name: 'Try again' }).waitFor()
  await page.getByRole('link', { name: 'Go on without them' }).click()
  await soon('an empty form', async () => (await field.inputValue()) === '')

  // Only the identifier of the arguments is in the record.
  await client.call('alpha__echo', { text: 'x'.repeat(BIG_BYTES) })
  const big = await openCall(page, (await newest('tool=echo&server=alpha')).id)
  await big.getByText('it cannot be run again from here').waitFor()
  assert.equal(await big.getByRole('link', { name: 'Run again…' }).count(), 0)
  const copies = big.getByRole('group', { name: 'Copy the call as' }).getByRole('button')
  assert.deepEqual(await copies.allTextContents(), ['JSON'])
  await closePage(page)
})

test('two calls side by side', async () => {
  await client.call('alpha__echo', { text: 'here' })
  await client.call('alpha__echo', { text: 'there' })
  const [there, here] = (await records('tool=echo&limit=2')).calls
  const page = await openPage(daemon, '#/calls?tool=echo')
  await page.getByText('Select two calls to compare them.').waitFor()
  for (const { id } of [there, here]) await page.getByRole('checkbox', { name: `Select call ${id} of alpha/echo` }).check()
  await page.getByText('2 selected').waitFor()
  await page.getByRole('button', { name: 'Compare', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'Two calls' })
  const result = dialog.getByRole('region', { name: 'Result' })
  const changed = async (region, mark) => (await region.locator('.line', { hasText: mark }).allTextContents()).map((line) => line.replace(/\s+/g, ' ').trim())
  await result.waitFor()
  assert.deepEqual(await changed(dialog.getByRole('region', { name: 'Arguments' }), 'only left'), ['− only left "text": "here"'])
  assert.deepEqual(await changed(result, 'only right'), ['+ only right "text": "there"', '+ only right "text": "there"'])
  assert.deepEqual(await axe(page), [])
  await page.reload()
  await dialog.waitFor()
  // Browsers announce the end of a dialog with the next frame. It must not close the one that is open by then.
  await page.evaluate(() => {
    const { hash } = location
    const reopen = new MutationObserver(() => {
      if (document.querySelector('dialog[open]')) return
      reopen.disconnect()
      location.hash = hash
    })
    reopen.observe(document.body, { childList: true, subtree: true })
  })
  await page.keyboard.press('Escape')
  await page.evaluate(() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 200)))
  assert.equal(await dialog.count(), 1)
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })

  // Where nothing differs, that is said beside the name of the part.
  await client.call('alpha__echo', { text: 'there' })
  const [again] = (await records('tool=echo&limit=1')).calls
  await page.goto(`${daemon.url}/#/calls?compare=${there.id},${again.id}&side=1`)
  await dialog.getByRole('heading', { name: 'Arguments They are the same.', exact: true }).waitFor()
  await closePage(page)
})

/** RFC 4180. */
function csvRows(text) {
  const rows = [[]]
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1).push(quoted?.replaceAll('""', '"') ?? plain)
    if (end === '') break
    if (end !== ',') rows.push([])
  }
  return rows.filter((row) => row.length > 1)
}

test('what is filtered is exported, all of it and nothing else', async () => {
  for (let index = 0; index < 120; index += 1) await client.call('alpha__echo', { text: `"${index}", quoted` })
  const { total_count: total } = await records('server=alpha&tool=echo&tool=add')
  assert.ok(total > 120, 'more than the list has loaded')
  const page = await openPage(daemon, '#/calls?server=alpha&tool=echo,add')
  await rowsOf(page, 'alpha/echo').first().waitFor()
  async function saved(name) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name }).click()])
    return { name: download.suggestedFilename(), text: fs.readFileSync(await download.path(), 'utf8') }
  }
  const jsonl = await saved('As JSON lines')
  assert.match(jsonl.name, /\.jsonl$/)
  const calls = jsonl.text.trim().split('\n').map((line) => JSON.parse(line))
  assert.equal(calls.length, total)
  assert.deepEqual([...new Set(calls.map((call) => call.name))], ['alpha/echo'])
  assert.equal(calls[0].arguments.text, '"119", quoted')

  const csv = await saved('As CSV')
  assert.match(csv.name, /\.csv$/)
  const [head, ...rows] = csvRows(csv.text)
  assert.equal(rows.length, total)
  assert.deepEqual(rows.map((row) => row[head.indexOf('id')]), calls.map((call) => call.id))
  assert.equal(JSON.parse(rows[0][head.indexOf('arguments')]).text, '"119", quoted')
  await closePage(page)
})

test('older calls that cannot be loaded say so below the list, whatever polling does, and are tried again', async () => {
  const isOlder = (url) => url.pathname === '/api/call-records' && url.searchParams.get('limit') === '500'
  const page = await openPage(daemon)
  let failures = 0
  const fail = (route) => {
    failures += 1
    return route.fulfill({ status: 503, json: { error: 'journal_unreadable', message: 'the disk is gone' } })
  }
  await page.route(isOlder, fail)
  await page.goto(`${daemon.url}/#/calls?tool=echo`)
  await soon('the first page', async () => (await length(page)) === 100)
  const scroll = () => listOf(page).evaluate((element) => element.scrollTo(0, element.scrollHeight))
  await scroll()
  const failed = listOf(page).getByRole('alert').filter({ hasText: 'the disk is gone' })
  await failed.waitFor()
  assert.deepEqual(await axe(page), [])
  // A poll that goes well does not take it away, and nothing is asked for again unasked.
  await page.waitForResponse((response) => new URL(response.url()).searchParams.get('limit') === '200')
  assert.equal(await failed.count(), 1)
  assert.equal(failures, 1)
  await failed.getByRole('button', { name: 'Try again' }).click()
  await soon('it to be tried', () => failures === 2)
  await failed.waitFor()
  await page.unroute(isOlder, fail)
  await failed.getByRole('button', { name: 'Try again' }).click()
  const { total_count: total } = await records('tool=echo')
  await soon('all calls', async () => (await length(page)) === total)
  await scroll()
  await listOf(page).getByText('These are all calls that fit.').waitFor()
  await closePage(page)
})

test('while a word of the filter is typed the list stays', async () => {
  const page = await openPage(daemon, '#/calls')
  await rowsOf(page, 'alpha/echo').first().waitFor()
  const field = page.getByRole('searchbox')
  await field.pressSequentially('status:er', { delay: 20 })
  await page.getByText('status:er… can be error.').waitFor()
  await listOf(page).waitFor()
  assert.equal(await page.getByRole('alert').count(), 0)
  assert.doesNotMatch(page.url(), /status=er/)
  await field.pressSequentially('ror')
  await fits(page, 'status=error')
  await page.getByText('status:er…').waitFor({ state: 'detached' })
  assert.equal(await field.inputValue(), 'status:error')

  // A field that is left is finished.
  await field.fill('since:1')
  await page.getByText('since:1… is not a time yet.').waitFor()
  await field.blur()
  await page.getByRole('alert').getByText('"1" is no time.').waitFor()
  await closePage(page)
})

test('a call is copied as a command, as curl and as JSON, and both run', async () => {
  const tricky = `it's "quoted" $HOME \`x\` \\ ü`
  await client.call('alpha__echo', { text: tricky })
  const call = await newest('tool=echo')
  const page = await openPage(daemon, '#/calls')
  const drawer = await openCall(page, call.id)
  async function copied(name) {
    await page.evaluate(() => navigator.clipboard.writeText(''))
    await drawer.getByRole('group', { name: 'Copy the call as' }).getByRole('button', { name }).click()
    await drawer.getByText('Copied').first().waitFor()
    return soon('the clipboard', () => page.evaluate(() => navigator.clipboard.readText()))
  }
  const state = path.join(daemon.home, 'state')
  fs.mkdirSync(path.join(daemon.home, '.local/state'), { recursive: true })
  fs.symlinkSync(state, path.join(daemon.home, '.local/state/mainstay'))
  const env = { HOME: daemon.home, MAINSTAY_HOME: state, PATH: `${path.dirname(process.env.MAINSTAY)}:${process.env.PATH}` }
  const run = async (command) => (await promisify(execFile)('bash', ['-c', command], { env })).stdout

  const command = await copied('Command line')
  assert.match(command, /^mainstay call alpha\/echo /)
  assert.ok((await run(command)).includes(tricky), command)
  const curl = await copied('curl')
  assert.equal(JSON.parse(await run(`${curl.replace('curl', 'curl -s')}`)).result.content[0].text, tricky)
  const again = (await records('tool=echo&limit=3')).calls
  assert.deepEqual(again.map((it) => [it.door, it.arguments.text]), [['rest', tricky], ['cli', tricky], ['mcp_http', tricky]])
  assert.deepEqual(JSON.parse(await copied('JSON')), await daemon.api(`/api/call-records/${call.id}`))
  await closePage(page)
})

test('by keyboard alone', async () => {
  const page = await openPage(daemon, '#/calls')
  await rowsOf(page, 'alpha/echo').first().waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type('beta/echo status:ok')
  await fits(page, 'text=beta/echo&status=ok')
  await page.keyboard.press('Tab')
  const [first, second] = (await records('text=beta/echo&status=ok&limit=2')).calls
  const focused = () => page.evaluate(() => document.activeElement.getAttribute('href') ?? '')
  await soon('the second row to have the focus', async () => {
    await page.keyboard.press('j')
    return (await focused()).endsWith(`id=${second.id}`)
  })
  await page.keyboard.press('k')
  assert.ok((await focused()).endsWith(`id=${first.id}`))
  await page.keyboard.press('Enter')
  const drawer = page.getByRole('dialog', { name: 'beta/echo' })
  await drawer.getByText(`Call ${first.id},`).waitFor()
  const older = drawer.getByRole('button', { name: 'Older call' })
  await soon('the button', async () => {
    await page.keyboard.press('Tab')
    return older.evaluate((element) => element === document.activeElement)
  })
  await page.keyboard.press('Enter')
  await drawer.getByText(`Call ${second.id},`).waitFor()
  await page.keyboard.press('Escape')
  await drawer.waitFor({ state: 'detached' })
  assert.ok(page.url().includes('status=ok'), 'the filter stays')
  await soon('the focus to be back in the list', async () => (await focused()).endsWith(`id=${first.id}`))
  await closePage(page)
})
