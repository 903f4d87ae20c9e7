// Figures of a row, of a tool and of the overview are those of the daemon; nothing moves when they change.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'
import { McpClient } from './mcp.mjs'
import { shiftsOf, watchShifts } from './measure.mjs'

const SLOW_MS = 300
const MB = 1024 * 1024

let daemon
let client
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake(), beta: fake(), heavy: fake('--spawn-grandchild') } })
  await daemon.connected('alpha', 'beta', 'heavy')
  client = await McpClient.connect(daemon)
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const row = (page, name) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) })
const says = (where, text) => where.getByText(text).first().waitFor()
const shown = (page) => page.getByRole('list', { name: 'Servers' }).locator('a[href^="#/servers/"]').allTextContents()

async function figuresOf(name) {
  return (await daemon.api('/api/figures')).servers.find((it) => it.name === name)
}

/** Waits until a row has its line. */
async function drawn(row) {
  const line = row.getByRole('img', { name: 'p95 of the last five minutes' })
  // It has more than one colour of pixels: something is drawn.
  await soon('a line', () => line.locator('canvas').evaluate((canvas) => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0)))
}

/** `1.25 s` and `12 ms` in milliseconds. */
function milliseconds(text) {
  const [, value, unit] = /([\d.]+) (ms|s)/.exec(text)
  return Number(value) * (unit === 's' ? 1000 : 1)
}

/** Resident memory of a process in bytes, as the system has it. */
function memoryOf(pid) {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024
}

test('a server that fails its calls is never said to run and answer', async () => {
  const failing = await Daemon.start({ mcpServers: { billing: fake() } })
  try {
    await failing.connected('billing')
    const caller = await McpClient.connect(failing)
    for (let call = 0; call < 3; call += 1) await caller.call('billing__error').catch(() => {})
    const page = await openPage(failing, '#/servers')
    await says(row(page, 'billing'), 'its calls fail')
    await page.goto(`${failing.url}/#/servers/billing`)
    const why = page.getByRole('region', { name: 'Why' })
    await says(why, /It is connected, last heard .*; all of its 3 calls of the last minute failed\./)
    await caller.call('billing__echo', { text: 'x' })
    await says(why, /; 3 of its 4 calls of the last minute failed\./)
    assert.equal(await why.getByText('It runs and answers').count(), 0)
    await closePage(page)
  } finally {
    await failing.end()
  }
})

test('a row has calls, errors, p95 with its line, memory, processes and uptime', async () => {
  const page = await openPage(daemon)
  const [alpha, heavy] = [row(page, 'alpha'), row(page, 'heavy')]
  await says(alpha, '0/min')
  for (let call = 0; call < 3; call += 1) await client.call('alpha__sleep', { ms: SLOW_MS })
  for (let call = 0; call < 2; call += 1) await client.call('alpha__error')
  await alpha.getByTitle(/^5 calls in the last (minute|\d+ s)/).waitFor()
  await says(alpha, '2 err')
  const p95 = alpha.getByTitle(/^Half of the calls/)
  await soon('p95 to be that of the slow calls', async () => {
    const text = await p95.innerText()
    // An estimate from a histogram.
    if (milliseconds(text) < SLOW_MS * 0.7 || milliseconds(text) > SLOW_MS * 1.7) throw new Error(text)
    return true
  })
  await drawn(alpha)
  await says(heavy, /^2 processes$/)
  const memory = alpha.getByTitle('Resident memory of all its processes')
  const [, value, unit] = /^([\d.]+) (kB|KB|KiB|MB|MiB)$/.exec(await memory.innerText())
  const known = memoryOf((await daemon.server('alpha')).pid)
  const told = Number(value) * (unit.startsWith('M') ? MB : 1024)
  assert.ok(Math.abs(told - known) < known * 0.3, `${value} ${unit}: ${known}`)
  await soon('the uptime', async () => /^\d+ (s|min)$/.test(await alpha.getByTitle(/^Connected since/).innerText()))
  assert.equal(await alpha.getByRole('switch', { name: 'Start alpha with Mainstay' }).isChecked(), true)
  await says(page, 'Auto-start')

  // Calls that came in a burst are calls of the minute when they are over, too.
  await soon('the burst to be over', async () => (await figuresOf('alpha')).recent.callsPerSecond === 0)
  await page.waitForResponse('**/api/figures')
  await says(alpha, /^5( in \d+ s|\/min)$/)
  await closePage(page)
})

test('a page that was just opened has the last minutes with the first answer, and says when a server answered', async () => {
  const page = await openPage(daemon)
  await client.call('heavy__echo', { text: 'x' })
  await soon('the daemon to read its counters', async () => (await figuresOf('heavy')).series)
  // One answer, and no other.
  const held = []
  let isRead = false
  await page.route('**/api/figures', (route) => {
    if (isRead) held.push(route)
    isRead = true
    return held.length > 0 ? undefined : route.fallback()
  })
  // When it was last heard is known from its figures alone.
  await page.route('**/api/servers', async (route) => {
    const response = await route.fetch()
    const json = await response.json()
    for (const server of json.servers ?? []) server.lastSuccessAt = null
    await route.fulfill({ response, json })
  })
  await page.reload()
  const heavy = row(page, 'heavy')
  await heavy.getByTitle(/^[1-9]\d* calls in the last (minute|\d+ s)/).waitFor()
  await drawn(heavy)
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
  await says(heavy, /^answered (just now|\d+ s ago)$/)
  await page.unroute('**/api/figures')
  for (const route of held) await route.fallback()
  await closePage(page)
})

test('rows are sorted by errors, by p95 and by memory, the most first', async () => {
  const page = await openPage(daemon)
  // Twice as slow, and fewer errors.
  for (let call = 0; call < 2; call += 1) await client.call('beta__sleep', { ms: SLOW_MS * 2 })
  await client.call('beta__error')
  await says(row(page, 'beta'), '1 err')
  const first = async (sort, names) => {
    await page.getByLabel('Sort').selectOption(sort)
    await soon(`${names} first, ${sort}`, async () => {
      const found = await shown(page)
      if (found.slice(0, names.length).join() !== names.join()) throw new Error(`it is ${found}`)
      return true
    })
  }
  await first('Sort: errors', ['alpha', 'beta'])
  await first('Sort: p95', ['beta', 'alpha'])
  await first('Sort: memory', ['heavy'])
  assert.match(page.url(), /sort=memory/)
  await closePage(page)
})

test('a tool has its latency and its errors over time', async () => {
  await soon('the calls to be counted', async () => (await daemon.api('/api/statistics?by=tool&server=alpha')).tools.some((it) => it.tool === 'error' && it.total.errors === 2))
  const page = await openPage(daemon, '#/tools/alpha/error')
  const part = page.getByRole('region', { name: 'Last 24 hours' })
  await part.getByRole('img', { name: /^Calls in half hours: 2 calls, 2 of them errors/ }).waitFor()
  const total = (await daemon.api('/api/statistics?server=alpha&by=tool')).tools.find((it) => it.tool === 'error').total
  const figure = (name) => part.locator('div', { has: page.locator('dt', { hasText: name }) }).locator('dd').first().innerText()
  assert.deepEqual([await figure('Calls'), await figure('Errors')], ['2', '2'])
  assert.ok(Math.abs(milliseconds(await figure('p95')) - total.p95_ms) <= Math.max(0.51, total.p95_ms * 0.01))
  await part.getByText('As a table').click()
  const cells = await part.getByRole('table').locator('tbody tr').first().locator('td').allInnerTexts()
  assert.ok(cells.includes('2'), `${cells}`)

  await page.goto(`${daemon.url}/#/tools/alpha/sleep`)
  await part.getByRole('img', { name: /^Calls in half hours: 3 calls, 0 of them errors/ }).waitFor()
  assert.ok(milliseconds(await figure('p50')) >= SLOW_MS * 0.9)
  await closePage(page)
})

test('the overview of an hour, a week and a month has the calls; one without calls says so', async () => {
  const calls = (await daemon.api('/api/statistics?by=all')).tools[0].total.calls
  const page = await openPage(daemon, '#/overview')
  const total = page.locator('dl').first().locator('div', { has: page.locator('dt', { hasText: 'Calls' }) }).locator('dd')
  await page.getByText('Numbers as a table').click()
  const table = page.getByRole('region', { name: 'Numbers as a table' }).getByRole('table').filter({ has: page.getByRole('columnheader', { name: 'From' }) })
  for (const [title, key] of [['1 h', '1h'], ['7 d', '7d'], ['30 d', '30d']]) {
    await page.getByRole('group', { name: 'Span' }).getByRole('button', { name: title, exact: true }).click()
    await page.getByRole('group', { name: 'Span' }).getByRole('button', { name: title, exact: true, pressed: true }).waitFor()
    assert.ok(page.url().includes(`span=${key}`))
    await soon(`${calls} calls in ${title}`, async () => (await total.innerText()) === String(calls))
    await soon(`the buckets of ${title} to have them all`, async () => {
      const counts = await table.locator('tbody tr').evaluateAll((all) => all.map((it) => Number(it.cells[1].textContent)))
      return counts.reduce((sum, count) => sum + count, 0) === calls
    })
  }
  await closePage(page)

  const quiet = await Daemon.start({ mcpServers: { alone: fake() } })
  try {
    await quiet.connected('alone')
    const empty = await openPage(quiet, '#/overview')
    await says(empty, 'No calls in this span.')
    await says(empty, 'No errors in this span.')
    await empty.getByRole('img', { name: /^alone: now Running/ }).waitFor()
    await closePage(empty)
  } finally {
    await quiet.end()
  }
})

test('nothing moves while figures change', async () => {
  const CHANGES = 60
  const page = await openPage(daemon)
  await says(row(page, 'alpha'), /\d(\/min| in \d+ s)/)
  await says(row(page, 'beta'), /\d(\/min| in \d+ s)/)
  await soon('figures of all', async () => (await page.getByText(/^\d+ process(es)?$/).count()) === 3)
  await watchShifts(page)
  await page.evaluate(() => {
    window.changed = 0
    new MutationObserver((changes) => (window.changed += changes.length)).observe(document.querySelector('main [role=list]'), { subtree: true, childList: true, characterData: true })
  })
  let isOver = false
  const busy = (async () => {
    while (!isOver) {
      await client.call('alpha__echo', { text: 'x' })
      await client.call('beta__error')
    }
  })()
  try {
    await soon(`${CHANGES} changes`, async () => (await page.evaluate(() => window.changed)) >= CHANGES, 60_000)
  } finally {
    isOver = true
    await busy
  }
  assert.deepEqual(await shiftsOf(page), [])
  await closePage(page)
})
