// What rows and screens of servers tell by fields that a daemon gives only for a moment.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { anotherPage, closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'
import { McpClient } from './mcp.mjs'
import { shiftsOf, watchShifts } from './measure.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({
    ownTools: ['control'],
    mcpServers: {
      alpha: fake(),
      hung: fake(),
      idle: { ...fake(), autoStart: false },
      odd: { ...fake(), args: 'not a list' },
      wrong: { ...fake('--crash-at-start', '5'), reconnect: { initialFailure: 'error' } },
    },
  })
  await daemon.connected('alpha', 'hung')
  await soon('wrong to fail', async () => (await daemon.server('wrong')).status === 'error')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const row = (page, name) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) })
const says = (where, text) => where.getByText(text).first().waitFor()
const why = (page) => page.getByRole('region', { name: 'Why' })
const isServers = (url) => /^\/api\/servers(\/[^/]+)?$/.test(url.pathname)

/** A page that reads `name` with these fields; answers how often it was read alone. */
async function patched(name, fields, hash = '#/') {
  const page = await openPage(daemon, hash)
  let reads = 0
  await page.route(isServers, async (route) => {
    if (route.request().method() !== 'GET') return route.fallback()
    const response = await route.fetch()
    const json = await response.json()
    if (json.server?.name === name) reads += 1
    for (const server of json.servers ?? [json.server]) if (server?.name === name) Object.assign(server, fields())
    await route.fulfill({ response, json })
  })
  // Its figures say the same.
  await page.route('**/api/figures', async (route) => {
    const response = await route.fetch()
    const json = await response.json()
    const heard = fields().lastSuccessAt
    for (const server of json.servers) if (heard && server.name === name) server.answeredAt = Date.parse(heard)
    await route.fulfill({ response, json })
  })
  // A page that is seen again reads all servers.
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
  return { page, reads: () => reads }
}

test('a server that is asked and does not answer says so, and is read again until it does', async () => {
  let askedAt = Date.now() - 40_000
  const { page, reads } = await patched('alpha', () => (askedAt ? { askedAt, lastSuccessAt: new Date(askedAt).toISOString() } : {}))
  await says(row(page, 'alpha'), /^asked, silent for \d+ (s|min)$/)
  const first = reads()
  await soon('it to be read again by itself', () => reads() >= first + 2)
  askedAt = undefined
  // Sooner than all servers are read.
  await row(page, 'alpha').getByText(/^answered /).waitFor({ timeout: 6000 })
  await closePage(page)
})

test('a question that waits is told, and its answer', async () => {
  const call = daemon.api('/api/servers/hung/tools/hang/call', 'POST', { arguments: {} }).catch(() => {})
  // What takes no longer than usual is not told.
  await soon('the question to wait', async () => Date.now() - (await daemon.server('hung')).askedAt > 2500)
  const page = await openPage(daemon)
  await says(row(page, 'hung'), /^asked, silent for \d+ (s|min)$/)
  await says(row(page, 'alpha'), /^answered /)
  await daemon.api('/api/servers/hung/restart', 'POST', {})
  await says(row(page, 'hung'), /^answered /)
  await call
  await closePage(page)
})

test('evidence of any length moves nothing, at each width', async () => {
  const long = 100 * 60 * 60_000
  let fields = {}
  const { page } = await patched('alpha', () => fields)
  const alpha = row(page, 'alpha')
  const again = () => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
  for (const width of [360, 700, 750, 900, 1280, 2560]) {
    fields = {}
    await page.setViewportSize({ width, height: 1400 })
    await again()
    await says(alpha, /^answered /)
    const { height } = await alpha.boundingBox()
    await watchShifts(page)
    fields = { askedAt: Date.now() - long, lastSuccessAt: new Date(Date.now() - long).toISOString(), consecutiveHealthFailures: 1 }
    await again()
    const told = alpha.getByText(/^asked, silent for \d+ d/)
    await told.waitFor()
    assert.deepEqual(await shiftsOf(page), [], `at ${width} px`)
    assert.equal((await alpha.boundingBox()).height, height, `at ${width} px`)
    assert.match(await told.getAttribute('title'), /^asked, silent for \d+ d/, 'whole, where it is cut')
    const { x, width: wide } = await told.boundingBox()
    assert.ok(x + wide <= width, `at ${width} px`)
  }
  await closePage(page)
})

test('a start is shown at once', async () => {
  const reader = await openPage(daemon)
  await says(row(reader, 'idle'), 'Stopped')
  const page = await anotherPage(reader, daemon)
  await says(row(page, 'idle'), 'Stopped')
  // What follows from the event alone: its server is not read meanwhile.
  let release
  const held = new Promise((resolve) => (release = resolve))
  await page.route('**/api/servers/idle', async (route) => {
    await held
    await route.fallback()
  })
  await reader.evaluate(() => {
    const data = JSON.stringify({ id: '1', type: 'server_starting', server: 'idle', createdAt: new Date().toISOString(), data: {} })
    new BroadcastChannel('mainstay.events').postMessage({ kind: 'message', type: 'server_starting', data, id: '' })
  })
  await says(row(page, 'idle'), 'Starting')
  await row(page, 'idle').getByRole('button', { name: 'Stop' }).waitFor()
  release()
  await says(row(page, 'idle'), 'Stopped')
  await page.close()
  await closePage(reader)
})

test('the row and the screen of a server say the same, and offer the same', async () => {
  const page = await openPage(daemon)
  await row(page, 'wrong').getByRole('button', { name: 'Reconnect now' }).waitFor()
  await page.getByRole('button', { name: 'Details of wrong' }).click()
  await says(row(page, 'wrong'), 'It is not tried again by itself. See its log, correct its entry, then reconnect.')
  await row(page, 'wrong').getByRole('link', { name: 'wrong', exact: true }).click()
  await says(why(page), 'It is not tried again by itself.')
  assert.equal(await page.getByRole('main').getByRole('button', { name: 'Reconnect now' }).count(), 1)

  await page.goto(`${daemon.url}/#/servers?open=odd`)
  await says(row(page, 'odd'), 'It is not started before its entry is corrected.')
  await row(page, 'odd').getByRole('button', { name: 'Edit' }).first().click()
  await page.getByRole('dialog', { name: 'Edit odd' }).waitFor()
  await page.keyboard.press('Escape')
  await page.goto(`${daemon.url}/#/servers/odd`)
  await page.getByRole('button', { name: 'Edit' }).first().click()
  await page.getByRole('dialog', { name: 'Edit odd' }).waitFor()
  await closePage(page)
})

test('a next step that has a code is said for a page, not for a terminal', async () => {
  const { nextAction, nextStep } = await daemon.server('wrong')
  assert.equal(nextAction, 'see_log_and_start')
  assert.match(nextStep, /mainstay logs/)
  const page = await openPage(daemon, '#/servers?open=wrong')
  await says(row(page, 'wrong'), 'See what it said last, then try it again.')
  assert.equal(await page.getByText(/mainstay logs/).count(), 0)
  await row(page, 'wrong').getByRole('link', { name: 'Whole log' }).first().click()
  await says(page.getByRole('list', { name: 'Log lines' }), 'the fake crashes at start with code 5')
  await page.getByRole('tab', { name: 'Overview' }).click()
  await says(why(page), 'See what it said last, then try it again.')
  assert.equal(await page.getByText(/mainstay logs/).count(), 0)
  await says(page.getByRole('list', { name: 'Log lines' }), 'the fake crashes at start with code 5')

  await page.goto(`${daemon.url}/#/servers/odd`)
  await says(why(page), 'Correct its entry.')
  await page.getByRole('main').getByRole('button', { name: 'Edit' }).click()
  await page.getByRole('dialog', { name: 'Edit odd' }).waitFor()
  await page.goto(`${daemon.url}/#/servers/idle`)
  await says(why(page), 'Start it.')
  await closePage(page)
})

test('a server that waits for approval says who asked for it, and when', async () => {
  const desk = await McpClient.open(daemon, '/mcp', { name: 'desk', token: daemon.token })
  await desk.call('add_server', { name: 'asked', ...fake() })
  assert.equal((await daemon.server('asked')).status, 'pending')
  const page = await openPage(daemon)
  const told = /^Asked for by desk \(MCP over HTTP\) (just now|\d+ (s|min) ago)$/
  await says(row(page, 'asked'), told)
  await row(page, 'asked').getByRole('button', { name: 'Review' }).click()
  await says(page.getByRole('dialog', { name: 'Approve asked?' }), told)
  await closePage(page)
})

test('a server that waits for approval shows in its row all that it would run', async () => {
  const args = ['-c', `echo ${'never '.repeat(30)}approved`, '--', ...Array.from({ length: 12 }, (_, at) => `--option-${at}=value`)]
  const desk = await McpClient.open(daemon, '/mcp', { name: 'desk', token: daemon.token })
  await desk.call('add_server', { name: 'whole', command: 'sh', args, cwd: '/tmp/of the client', env: { LD_PRELOAD: '/tmp/evil.so', API_KEY: 'of-a-client' } })
  await desk.call('add_server', { name: 'endless', command: 'sh', args: ['-c', `# ${'x'.repeat(2000)}`] })
  const page = await openPage(daemon)
  const told = ['Asked for by desk', `sh -c '${args[1]}' -- ${args.slice(3).join(' ')}`, '/tmp/of the client', 'LD_PRELOAD', 'API_KEY']
  for (const width of [360, 1280, 2560]) {
    await page.setViewportSize({ width, height: 1200 })
    await says(row(page, 'whole'), 'Awaits approval')
    const text = (await row(page, 'whole').innerText()).replace(/\s+/g, ' ')
    for (const part of told) assert.ok(text.includes(part), `${part} at ${width} px: ${text}`)
    // Nothing of it is cut, by an ellipsis or by an edge.
    const cut = await row(page, 'whole').evaluate((element) => {
      const { right, bottom } = element.getBoundingClientRect()
      const isCut = (it) => it.scrollWidth > it.clientWidth + 1 || it.getBoundingClientRect().right > right || it.getBoundingClientRect().bottom > bottom
      return [...element.querySelectorAll('dt, dd, p')].filter(isCut).map((it) => it.textContent)
    })
    assert.deepEqual(cut, [], `at ${width} px`)
  }
  assert.equal((await row(page, 'whole').innerText()).includes('of-a-client'), false, 'names of variables alone')
  // One that would fill the screen says that there is more.
  await says(row(page, 'endless'), '(510 more characters; Review shows them)')
  await page.goto(`${daemon.url}/#/servers/whole`)
  await says(why(page), told[1])
  await says(why(page), /^Asked for by desk/)
  await closePage(page)
})

test('times are those of the daemon, whatever the clock of the browser says', async () => {
  const { connectedAt } = await daemon.server('alpha')
  const page = await openPage(daemon)
  const behind = 3_600_000
  await page.addInitScript((ms) => {
    const now = Date.now
    Date.now = () => now() - ms
  }, behind)
  await page.reload()
  const up = row(page, 'alpha').getByTitle(/^Connected since/)
  await up.waitFor()
  const [, value, unit] = /^(?:up )?(\d+) (s|min)$/.exec(await up.textContent())
  const shown = Number(value) * (unit === 's' ? 1000 : 60_000)
  const real = Date.now() - Date.parse(connectedAt)
  assert.ok(shown <= real + 2000 && shown >= real - 61_000, `up ${shown}, in truth ${real}`)
  await says(row(page, 'alpha'), /^answered \d+ (s|min) ago$/)
  await closePage(page)
})
