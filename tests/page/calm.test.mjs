// Calm: nothing moves when a number gets longer, nothing is animated at rest, and what comes again is not drawn again.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'
import { McpClient, modernCall } from './mcp.mjs'
import { shiftsOf, watchShifts } from './measure.mjs'

/** What every figure of an answer is, one after the other: each has more digits than the one before. */
const STEPS = [7, 42, 380, 2400]
/** Counts that stand in a name, as in a tab. */
const MAX_LISTED = 380
const FIGURES = /^(calls|errors|callsPerSecond|callsInFlight|callsWaiting|p\d\dMs|p\d\d_ms|duration_ms|queue_ms|upstream_ms|processes|crashCount|lastPingMs|handshakeMs|streams)$/
/** Servers of the line of state. */
const ALL = 800
const LISTED = /^(tool|resource|prompt)Count$/

let daemon
let client
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake(), beta: fake(), asking: { ...fake(), serverRequests: 'queue' } } })
  await daemon.connected('alpha', 'beta', 'asking')
  client = await McpClient.connect(daemon)
  for (let call = 0; call < 3; call += 1) await client.call('alpha__echo', { text: 'x' })
  await client.call('beta__error')
  await modernCall(daemon, '/mcp', { name: 'modern', version: '3.1' }, 'alpha__echo', { text: 'x' })
  // More than the list of calls has room for.
  for (let call = 0; call < 40; call += 1) await client.call('alpha__echo', { text: 'x' })
  await soon('all calls to be counted', async () => (await daemon.api('/api/statistics?by=all')).tools[0]?.total.calls === 45)
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const says = (where, text) => where.getByText(text).first().waitFor()
/** What is read every so often is read again by a page that is seen again. */
const again = (page) => page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))

/** A page whose figures are those of `step`, in everything that it reads but the stream. */
async function growing(hash) {
  const page = await openPage(daemon, hash)
  const state = { step: STEPS[0] }
  const grow = (key, value) => {
    if (typeof value === 'number' && FIGURES.test(key)) return state.step
    // First they are those of less than a minute.
    if (key === 'spanMs') return state.step === STEPS[0] ? 20_000 : 60_000
    if (typeof value === 'number' && LISTED.test(key)) return Math.min(state.step, MAX_LISTED)
    return key === 'memoryBytes' ? state.step * 1_000_000 : value
  }
  await page.route('**/api/**', async (route) => {
    if (route.request().method() !== 'GET' || /\/(events|logs)\b/.test(route.request().url())) return route.fallback()
    const response = await route.fetch()
    const text = await response.text()
    await route.fulfill({ response, body: text && JSON.stringify(JSON.parse(text, grow)) })
  })
  return { page, state }
}

/** Shows each step, and fails where anything moves. `shown` waits for what a step shows. */
async function stays({ page, state }, shown, more = async () => {}) {
  await again(page)
  await shown(STEPS[0])
  await watchShifts(page)
  for (const step of STEPS.slice(1)) {
    state.step = step
    await more(step)
    await again(page)
    await shown(step)
    assert.deepEqual(await shiftsOf(page), [], `at ${step}`)
  }
  await closePage(page)
}

const counted = (number) => number.toLocaleString('en')

test('servers: their figures', async () => {
  const all = await growing('#/')
  await stays(all, async (step) => {
    const [past, shown] = step === STEPS[0] ? ['20 s', ' in 20 s'] : ['minute', '/min']
    await says(all.page.getByTitle(`${counted(step)} calls in the last ${past}`), `${counted(step)}${shown}`)
  })
})

test('the overview: totals, tables and rankings', async () => {
  const all = await growing('#/overview?by=server')
  await all.page.getByText('Numbers as a table').click()
  await stays(all, (step) => all.page.locator('dl dd').filter({ hasText: new RegExp(`^${counted(step)}$`) }).first().waitFor())
})

test('a server: its facts, its tabs and its calls', async () => {
  for (const tab of ['', '/log', '/calls']) {
    const all = await growing(`#/servers/alpha${tab}`)
    const facts = all.page.getByRole('region', { name: 'Details' })
    await stays(all, async (step) => {
      if (tab === '') await says(facts, new RegExp(`^${counted(step)}, ${counted(step)} failed`))
      await all.page.getByRole('tab', { name: new RegExp(`^Tools\\s*${Math.min(step, MAX_LISTED)}$`) }).waitFor()
    })
  }
})

test('calls: their times, while new ones come in', async () => {
  const all = await growing('#/calls')
  const table = all.page.getByRole('table', { name: 'Calls, the newest first' })
  const latency = { 7: '7 ms', 42: '42 ms', 380: '380 ms', 2400: '2.40 s' }
  await client.call('alpha__add', { a: 1, b: 2 })
  await stays(
    all,
    (step) => table.getByRole('row').nth(1).getByText(latency[step], { exact: true }).first().waitFor(),
    () => client.call('alpha__echo', { text: 'x' }),
  )
})

test('clients: what they do now', async () => {
  const all = await growing('#/clients')
  await stays(all, (step) => says(all.page.getByRole('list', { name: 'Sessions' }), `${counted(step)} in flight`.replace(',', '')))
})

test('events: as they come, and counted while the list stands still', async () => {
  const page = await openPage(daemon, '#/events')
  await page.getByRole('table').waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await says(page, 'Paused')
  await watchShifts(page)
  await page.mouse.move(0, 0)
  for (const count of [9, 11]) {
    await soon(`${count} new events`, async () => {
      await daemon.api('/api/servers/beta/restart', 'POST')
      const [, fresh] = /(\d+) new/.exec(await page.getByRole('button', { name: /^Follow/ }).textContent()) ?? []
      return Number(fresh) >= count
    })
    assert.deepEqual(await shiftsOf(page), [], `at ${count}`)
  }
  await page.getByRole('button', { name: /^Follow/ }).click()
  await page.getByRole('button', { name: 'Pause' }).waitFor()
  await watchShifts(page)
  const rows = () => page.getByRole('table').getAttribute('aria-rowcount')
  const before = Number(await rows())
  await soon('more events', async () => {
    await daemon.api('/api/servers/beta/restart', 'POST')
    return Number(await rows()) > before
  })
  assert.deepEqual(await shiftsOf(page), [])
  await closePage(page)
})

test('requests: how many, how long they wait, and the line of state above', async () => {
  const page = await openPage(daemon, '#/requests')
  let count = 7
  const copies = (first, key, length) => Array.from({ length }, (_, index) => ({ ...first, [key]: `${first[key]}${index || ''}` }))
  await page.route('**/api/server-requests', async (route) => {
    const response = await route.fetch()
    const { requests } = await response.json()
    await route.fulfill({ response, json: { requests: requests.length > 0 ? copies(requests[0], 'id', count) : [] } })
  })
  // As many servers run, and as many need somebody, of those that there are.
  await page.route('**/api/servers', async (route) => {
    const response = await route.fetch()
    const json = await response.json()
    const [server] = json.servers
    const down = { ...server, connected: false, wanted: false, status: 'disconnected' }
    const servers = copies(server, 'name', ALL).map((it, index) => (index < count ? it : { ...down, name: it.name, ...(index < 2 * count && { wanted: true, status: 'failed' }) }))
    await route.fulfill({ response, json: { ...json, servers } })
  })
  const badge = (name) => page.getByRole('navigation').first().getByRole('link', { name: new RegExp(`^${name}`) })
  const shown = async () => {
    const asked = daemon.api('/api/mcp-tools/call', 'POST', { tool: 'asking/ask', arguments: { method: 'roots/list', params: {} } })
    // It is answered at the end of the test, or refused with the daemon.
    asked.catch(() => {})
    await again(page)
    await soon(`${count} requests`, async () => (await badge('Requests').innerText()).trim().endsWith(`${count}`))
    await soon(`${count} servers`, async () => (await badge('Servers').innerText()).trim().endsWith(`${count}`))
    await says(page, `${2 * count} need you`)
  }
  await shown()
  await page.getByRole('article').first().waitFor()
  await watchShifts(page)
  for (count of [42, 380]) {
    await shown()
    assert.deepEqual(await shiftsOf(page), [], `at ${count}`)
  }

  // The groups of servers stand where they are, whatever their numbers.
  count = 7
  await page.goto(`${daemon.url}/#/servers`)
  const chips = page.getByRole('group', { name: 'Groups' }).getByRole('button')
  const places = async () => {
    await again(page)
    await page.getByRole('button', { name: `Running ${count}`, exact: true }).waitFor()
    return chips.evaluateAll((all) => all.map((chip) => Math.round(chip.getBoundingClientRect().x)))
  }
  const before = await places()
  assert.ok(before.length >= 5)
  for (count of [42, 380]) assert.deepEqual(await places(), before)
  const { requests } = await daemon.api('/api/server-requests')
  for (const { id } of requests) await daemon.api(`/api/server-requests/${id}`, 'POST', { error: 'left behind' })
  await closePage(page)
})

/** Each screen, what it reads again and again, and what shows that it is there. */
const AT_REST = [
  ['#/', '/api/figures', (page) => says(page, /\d(\/min| in \d+ s)$/)],
  ['#/?open=alpha', '/api/figures', (page) => says(page, 'Last events')],
  ['#/servers/alpha/log', '/api/figures', (page) => page.getByRole('list', { name: 'Log lines' }).waitFor()],
  ['#/servers/alpha/calls', '/api/call-records', (page) => says(page, 'All calls')],
  ['#/servers/alpha/sessions', '/api/sessions', (page) => says(page, /\/servers\/alpha\/mcp$/)],
  ['#/calls', '/api/call-records', (page) => says(page, 'alpha/echo')],
  ['#/overview?by=server', '/api/history', (page) => page.locator('.uplot').last().waitFor()],
  ['#/tools', '/api/servers', (page) => page.getByRole('list', { name: 'Tools' }).getByRole('link').first().waitFor()],
  ['#/tools/alpha/echo', '/api/servers', (page) => says(page, 'As curl')],
  ['#/requests', '/api/servers', (page) => says(page, 'Nothing waits for an answer')],
  ['#/clients', '/api/sessions', (page) => page.getByRole('list', { name: 'Sessions' }).waitFor()],
  ['#/events', '/api/servers', (page) => page.getByRole('table').waitFor()],
  ['#/configuration', '/api/servers', (page) => page.getByRole('textbox', { name: 'Configuration, as JSON' }).waitFor()],
  ['#/settings', '/api/servers', (page) => page.getByRole('heading', { level: 2 }).first().waitFor()],
]
const POLLS = 3

test('at rest nothing is animated, and the same data draw nothing anew', async () => {
  const page = await openPage(daemon)
  let reads = 0
  // Figures of the last minute change by themselves: each answer is given again and again.
  const answers = new Map()
  await page.route('**/api/**', async (route) => {
    const url = new URL(route.request().url())
    if (/\/(events|logs)$/.test(url.pathname)) return route.fallback()
    for (const name of ['since', 'until']) url.searchParams.delete(name)
    if (!answers.has(url.href)) answers.set(url.href, await (await route.fetch()).body())
    await route.fulfill({ contentType: 'application/json', body: answers.get(url.href) })
  })
  let wanted
  page.on('requestfinished', (request) => {
    if (new URL(request.url()).pathname === wanted) reads += 1
  })
  for (const [hash, route, ready] of AT_REST) {
    answers.clear()
    await page.goto(`${daemon.url}/${hash}`)
    await ready(page)
    wanted = route
    // The first readings fill the screen; a chart and a log are drawn after them.
    const poll = async (times) => {
      for (let time = 0; time < times; time += 1) {
        const before = reads
        await again(page)
        await soon(`${route} to be read`, () => reads > before)
      }
    }
    await poll(2)
    await page.evaluate(() => {
      window.drawn = []
      window.drawing?.disconnect()
      const told = (node) => (node instanceof Element ? node.outerHTML : node.nodeValue ?? '').slice(0, 160)
      window.drawing = new MutationObserver((records) => {
        for (const { target, addedNodes, removedNodes } of records) {
          // Time goes on: now and then an axis loses its first mark, or gets a new one.
          if (target instanceof Element && target.matches('.marks')) continue
          window.drawn.push(`${told(target)}: ${[...addedNodes].map(told)} for ${[...removedNodes].map(told)}`)
        }
      })
      window.drawing.observe(document.body, { subtree: true, childList: true })
    })
    await poll(POLLS)
    const { drawn, endless } = await page.evaluate(() => ({
      drawn: window.drawn,
      endless: document.getAnimations().filter((it) => it.playState === 'running' && it.effect.getComputedTiming().iterations === Infinity).map((it) => it.effect.target?.outerHTML.slice(0, 160)),
    }))
    assert.deepEqual([drawn, endless], [[], []], `on ${hash}`)
  }
  await closePage(page)
})

test('no style sheet has an animation without an end', async () => {
  const page = await openPage(daemon)
  const endless = await page.evaluate(() => {
    const rulesOf = (rules) => [...rules].flatMap((rule) => [rule, ...(rule.cssRules ? rulesOf(rule.cssRules) : [])])
    const sheets = [...document.styleSheets].map((sheet) => rulesOf(sheet.cssRules))
    if (sheets.flat().length < 100) throw new Error('the style sheets cannot be read')
    return sheets.flat().filter((rule) => rule.style?.animationIterationCount.includes('infinite')).map((rule) => rule.cssText)
  })
  assert.deepEqual(endless, [])
  await closePage(page)
})
