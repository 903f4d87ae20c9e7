// What happened, in words, as it happens: filtered, held, as JSON, and with the calls around it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'
import { McpClient } from './mcp.mjs'

let daemon
let client
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake(), beta: fake(), asks: { ...fake(), serverRequests: 'queue' } } })
  await daemon.connected('alpha', 'beta', 'asks')
  client = await McpClient.connect(daemon)
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const events = async (query = '') => (await daemon.api(`/api/events/recent?${query}`)).events
const listOf = (page) => page.getByRole('table', { name: 'Events, the newest first' })
/** The cells of the rows, without the time and the link to the calls. */
const rows = async (page) =>
  listOf(page).getByRole('row').evaluateAll((all) => all.map((row) => [...row.querySelectorAll('[role=cell]')].slice(1, 4).map((cell) => cell.textContent.trim())))
const told = (page, word, server, detail) =>
  soon(`${server} ${word}`, async () =>
    (await rows(page)).find(([itsWord, itsServer, itsDetail]) => itsWord.endsWith(word) && itsServer === server && detail.test(itsDetail)),
  )

test('events come in as they happen, in words', async () => {
  const page = await openPage(daemon, '#/events')
  // High enough for all rows: those out of sight are not drawn.
  await page.setViewportSize({ width: 1280, height: 2400 })
  await told(page, 'running', 'alpha', /^$/)
  await told(page, 'tools', 'alpha', /^\d+ tools; new: .* and \d+ more$/)
  const call = client.call('alpha__sleep', { ms: 60_000 })
  await soon('the call to be sent', async () => (await daemon.server('alpha')).callsInFlight === 1)
  process.kill((await daemon.server('alpha')).pid, 'SIGKILL')
  await call
  await told(page, 'lost', 'alpha', /signal 9/)
  await told(page, 'reconnecting', 'alpha', /signal 9.*; attempt 1 in /)
  await told(page, 'reconnected', 'alpha', /^after 1 attempt$/)
  await daemon.api('/api/servers/beta/stop', 'POST')
  await told(page, 'stopped', 'beta', /^as its operator wanted$/)
  await daemon.api('/api/servers', 'POST', { name: 'gamma', ...fake() })
  await told(page, 'added', 'gamma', /^$/)
  await daemon.api('/api/servers/gamma', 'DELETE')
  await told(page, 'removed', 'gamma', /^$/)
  assert.equal((await rows(page)).length, (await events()).length, 'each event of the daemon has its row')
  assert.deepEqual(await axe(page), [])
  await closePage(page)
})

test('a request of a server that waits for an answer by hand', async () => {
  const page = await openPage(daemon, '#/events?type=server_request_waiting,server_request_settled')
  const params = { message: 'who?', requestedSchema: { type: 'object', properties: {} } }
  const call = client.call('asks__ask', { method: 'elicitation/create', params })
  await told(page, 'asks', 'asks', /^elicitation\/create; waits for an answer by hand$/)
  await listOf(page).getByRole('link', { name: 'asks' }).first().click()
  await page.getByRole('dialog').getByRole('link', { name: 'Open the requests' }).click()
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.getByText('elicitation/create').or(page.getByText('who?')).first().waitFor()
  const [waiting] = await events('type=server_request_waiting')
  await daemon.api(`/api/server-requests/${waiting.data.id}`, 'POST', { error: 'not today' })
  await call
  await page.goBack()
  await told(page, 'request ended', 'asks', /^elicitation\/create; refused by hand$/)
  await closePage(page)
})

test('filters by server, by type and by words, in the address and after a reload', async () => {
  const page = await openPage(daemon, '#/events')
  const count = async (wanted, what) => {
    assert.ok(wanted > 0 && wanted < (await events()).length, what)
    await soon(`${wanted} events of ${what}`, async () => (await rows(page)).length === wanted)
  }
  async function choose(label, value) {
    await page.getByRole('button', { name: label }).click()
    await page.getByRole('group', { name: label }).getByRole('checkbox', { name: value, exact: true }).check()
    await page.keyboard.press('Escape')
  }
  await choose('Server', 'beta')
  await count((await events('server=beta')).length, 'beta')
  await choose('Type', 'Server lost or stopped')
  await count((await events('server=beta&type=server_disconnected')).length, 'beta and a type')
  await page.reload()
  await count((await events('server=beta&type=server_disconnected')).length, 'the same after a reload')
  assert.ok(page.url().includes('server=beta') && page.url().includes('type=server_disconnected'))
  await page.goto(`${daemon.url}/#/events`)
  await page.getByRole('searchbox').fill('signal 9')
  await soon('the events with these words', async () => {
    const found = await rows(page)
    return found.length === 2 && found.every(([, server, detail]) => server === 'alpha' && detail.includes('signal 9'))
  })
  await page.getByRole('searchbox').fill('nothing at all')
  await page.getByRole('button', { name: 'Clear the filter' }).click()
  await soon('all events', async () => (await rows(page)).length === (await events()).length)
  await closePage(page)
})

test('the list stands still on request, and goes on', async () => {
  const page = await openPage(daemon, '#/events?server=beta')
  await soon('the events of beta', async () => (await rows(page)).length > 0)
  await page.getByRole('button', { name: 'Pause' }).click()
  const before = await rows(page)
  await daemon.api('/api/servers/beta/start', 'POST')
  await daemon.api('/api/servers/alpha/reconnect', 'POST')
  const fresh = (await events('server=beta')).length - before.length
  assert.ok(fresh > 0)
  await page.getByRole('button', { name: `Follow, ${fresh} new` }).waitFor()
  assert.deepEqual(await rows(page), before)
  await page.getByRole('button', { name: 'Follow' }).click()
  await soon('the new ones on top', async () => (await rows(page)).length === before.length + fresh)
  await page.getByRole('button', { name: 'Pause' }).waitFor()
  await closePage(page)
})

test('one event: its data, and the calls around it', async () => {
  const [event] = await events('server=alpha&type=server_disconnected')
  const page = await openPage(daemon, '#/events')
  await told(page, 'lost', 'alpha', /signal 9/)
  await page.getByRole('main').focus()
  await listOf(page).getByRole('link', { name: 'lost' }).focus()
  await page.keyboard.press('Enter')
  const drawer = page.getByRole('dialog', { name: 'alpha' })
  await drawer.getByText('signal 9').first().waitFor()
  assert.ok(page.url().includes(`id=${event.id}`))
  assert.deepEqual(JSON.parse(await drawer.locator('pre').textContent()), event)
  await page.reload()
  await drawer.getByRole('button', { name: 'Copy' }).click()
  assert.deepEqual(JSON.parse(await soon('the clipboard', () => page.evaluate(() => navigator.clipboard.readText()))), event)
  assert.deepEqual(await axe(page), [])

  // What happened at 14:03? This call was in flight.
  await drawer.getByRole('link', { name: 'Calls around this time' }).click()
  await page.getByRole('table', { name: 'Calls, the newest first' }).getByRole('link', { name: 'alpha/sleep' }).click()
  await page.getByRole('dialog').getByText('It was sent and may have run: how it ended is not known.').waitFor()
  const [from, to] = ['since', 'until'].map((name) => Date.parse(new URLSearchParams(page.url().split('?')[1]).get(name)))
  assert.ok(from < Date.parse(event.createdAt) && Date.parse(event.createdAt) < to)

  await page.goto(`${daemon.url}/#/events`)
  await listOf(page).getByRole('row').filter({ hasText: 'signal 9' }).last().getByRole('link', { name: /^Calls around / }).click()
  await page.getByRole('table', { name: 'Calls, the newest first' }).waitFor()
  await page.goto(`${daemon.url}/#/events?id=1`)
  await page.getByText('Mainstay does not remember the event of this link any more.').waitFor()
  await closePage(page)
})
