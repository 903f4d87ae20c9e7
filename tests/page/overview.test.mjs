// Figures and states over time: they agree with the statistics and the history of the daemon, and lead to the calls.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'
import { McpClient } from './mcp.mjs'

const SLEEP_MS = 400

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake(), beta: fake() } })
  await daemon.connected('alpha', 'beta')
  const client = await McpClient.connect(daemon)
  for (let index = 0; index < 5; index += 1) await client.call('alpha__echo', { text: 'x' })
  for (let index = 0; index < 3; index += 1) await client.call('beta__error')
  for (let index = 0; index < 2; index += 1) await client.call('alpha__sleep', { ms: SLEEP_MS })
  await client.call('beta__no_such_tool')
  await daemon.api('/api/mcp-prompts/get', 'POST', { prompt: 'alpha/greet', arguments: { name: 'you' } })
  await daemon.api('/api/resources/read', 'POST', { server: 'alpha', uri: 'fake://text' })
  // So early that it is more than a pixel wide later.
  await daemon.api('/api/servers/beta/stop', 'POST')
  await soon('all calls to be counted', async () => (await statistics('all'))[0]?.total.calls === 13)
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const statistics = async (by) => (await daemon.api(`/api/statistics?by=${by}`)).tools

/** `1.25 s` and `12 ms` in milliseconds. */
function milliseconds(text) {
  const [, value, unit] = /^([\d.]+) (ms|s)$/.exec(text)
  return Number(value) * (unit === 's' ? 1000 : 1)
}

/** Calls, errors, p50, p95, p99 are those of the daemon, up to what rounding hides. */
function agrees(texts, total) {
  assert.deepEqual(texts.slice(0, 2).map((text) => Number(text.split(' ')[0])), [total.calls, total.errors])
  const known = [total.p50_ms, total.p95_ms, total.p99_ms]
  texts.slice(2).forEach((text, index) => assert.ok(Math.abs(milliseconds(text) - known[index]) <= Math.max(0.51, known[index] * 0.01), `${text}: ${known[index]}`))
}

/** The numbers of a table of the numbers, by their head. */
async function numbers(page, first) {
  const table = page.getByRole('region', { name: 'Numbers as a table' }).getByRole('table').filter({ has: page.getByRole('columnheader', { name: first }) })
  const rows = await table.locator('tbody tr').evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent.trim())))
  return new Map(rows.map(([name, ...cells]) => [name, cells]))
}

test('figures are those of the statistics: all calls, by server, by tool', async () => {
  const page = await openPage(daemon, '#/overview')
  const totals = page.locator('dl').first()
  const figure = (name) => totals.locator('div', { has: page.locator('dt', { hasText: name }) }).locator('dd')
  const [all] = await statistics('all')
  await soon('the number of calls', async () => (await figure('Calls').textContent()) === '13')
  assert.equal(await figure('Errors').textContent(), '4 (30.8 %)')
  agrees(await totals.locator('dd').allTextContents(), all.total)
  await page.getByText('Numbers as a table').click()

  await page.getByRole('group', { name: 'Compare' }).getByRole('button', { name: 'By server' }).click()
  await page.getByRole('button', { name: 'beta', pressed: true }).waitFor()
  const servers = await numbers(page, 'Whole span')
  assert.deepEqual([...servers.keys()], ['alpha', 'beta'])
  for (const { server, total } of await statistics('server')) agrees(servers.get(server), total)

  await page.getByRole('group', { name: 'Compare' }).getByRole('button', { name: 'By tool' }).click()
  await page.getByRole('button', { name: 'alpha/echo', pressed: true }).waitFor()
  assert.ok(page.url().includes('by=tool'))
  await page.reload()
  await page.getByText('Numbers as a table').click()
  const tools = await numbers(page, 'Whole span')
  const names = { 'prompts/get alpha/greet': 'alpha/greet (prompt)', 'resources/read alpha/': 'alpha: resources', 'tools/call beta/': 'beta: refused' }
  const wanted = await statistics('tool')
  assert.equal(tools.size, wanted.length)
  for (const { method, server, tool, total } of wanted) agrees(tools.get(names[`${method} ${server}/${tool}`] ?? `${server}/${tool}`), total)

  // A line that is not wanted goes, and comes again.
  const line = page.getByRole('button', { name: 'alpha/echo' })
  await line.click()
  assert.equal(await line.getAttribute('aria-pressed'), 'false')
  await page.getByRole('button', { name: 'alpha/sleep' }).click()
  // The address has them.
  await page.reload()
  for (const name of ['alpha/echo', 'alpha/sleep']) await page.getByRole('button', { name, pressed: false }).waitFor()
  await page.getByRole('button', { name: 'alpha/sleep' }).click()
  await page.getByRole('button', { name: 'alpha/sleep', pressed: true }).waitFor()
  await line.click()
  await page.getByRole('button', { name: 'alpha/echo', pressed: true }).waitFor()
  assert.doesNotMatch(page.url(), /off=/)
  await page.getByLabel('Percentile').selectOption('p99')
  await page.getByText('Duration, p99').waitFor()
  assert.deepEqual(await axe(page), [])
  await closePage(page)
})

test('each span has the calls, where they were', async () => {
  const page = await openPage(daemon, '#/overview')
  await page.getByText('Numbers as a table').click()
  const at = new Date((await daemon.api('/api/call-records?limit=1000')).calls.at(-1).started_at)
  for (const [title, key, minutes] of [['15 min', '15m', 1], ['6 h', '6h', 5], ['24 h', '24h', 15]]) {
    await page.getByRole('group', { name: 'Span' }).getByRole('button', { name: title, exact: true }).click()
    await soon('the address', () => page.url().includes(`span=${key}`))
    // The bucket of the first call has calls, whatever its length; none is lost.
    const start = new Date(Math.floor(at.getTime() / (minutes * 60_000)) * minutes * 60_000).toLocaleString('sv').slice(0, 16)
    const rows = await soon(`calls at ${start}`, async () => {
      const found = await numbers(page, 'From')
      const [last, before] = [...found.keys()].map((text) => Date.parse(text))
      return last - before === minutes * 60_000 && Number(found.get(start)?.[0]) > 0 && found
    })
    const counts = [...rows.values()].map(([calls]) => Number(calls))
    assert.equal(counts.reduce((sum, count) => sum + count), 13, `${title}: ${counts}`)
  }
  await page.reload()
  await page.getByRole('group', { name: 'Span' }).getByRole('button', { name: '24 h', pressed: true }).waitFor()
  await closePage(page)
})

test('the tools that lead a ranking lead to their calls of the span', async () => {
  const page = await openPage(daemon, '#/overview')
  const ranking = (title) => page.locator('section', { has: page.getByRole('heading', { name: title }) }).getByRole('row')
  const first = async (title) => (await ranking(title).nth(1).locator('th, td').allTextContents()).map((text) => text.trim())
  await ranking('Most called').nth(1).waitFor()
  assert.deepEqual(await first('Most called'), ['alpha/echo', '5', '0 %'])
  assert.deepEqual(await first('Most errors'), ['beta/error', '3', '100 %'])
  assert.equal((await first('Slowest tools'))[0], 'alpha/sleep')
  assert.ok(milliseconds((await first('Slowest tools'))[1]) >= SLEEP_MS * 0.94)
  for (const [title, name, count, query] of [
    ['Most called', 'alpha/echo', 5, 'server=alpha&tool=echo&since=1h'],
    ['Most errors', 'beta/error', 3, 'tool=error&since=1h&status=error'],
    ['Most errors', 'beta: refused', 1, 'server=beta&since=1h&status=refused'],
    ['Most called', 'alpha: resources', 9, 'server=alpha&since=1h'],
  ]) {
    await ranking(title).getByRole('link', { name }).click()
    await page.getByRole('table', { name: 'Calls, the newest first' }).waitFor()
    await soon(`${count} calls`, async () => Number(await page.getByRole('table').getAttribute('aria-rowcount')) === count + 1)
    for (const part of query.split('&')) assert.ok(page.url().includes(part), `${part} in ${page.url()}`)
    await page.goBack()
    await ranking(title).nth(1).waitFor()
  }
  await closePage(page)
})

/** Goes along a lane with the arrow keys, from the end, until the card says this. */
async function keyedTo(page, server, words) {
  const card = page.locator('.span-card')
  await page.getByRole('link', { name: server, exact: true }).last().focus()
  await page.keyboard.press('Tab')
  for (let step = 0; step < 20; step += 1) {
    await card.waitFor()
    const text = await card.innerText()
    if (words.test(text)) return { text, said: await page.evaluate(() => document.activeElement.getAttribute('aria-label')) }
    await page.keyboard.press('ArrowLeft')
  }
  throw new Error(`${server} has no ${words}`)
}

/** The same with the pointer, from the right. */
async function pointedTo(page, server, words) {
  await page.keyboard.press('Escape')
  const box = await page.getByRole('img', { name: new RegExp(`^${server}: now`) }).boundingBox()
  const card = page.locator('.span-card')
  for (let x = box.x + box.width - 1; x > box.x + box.width / 2; x -= 1) {
    await page.mouse.move(x, box.y + box.height / 2)
    const text = (await card.count()) > 0 ? await card.innerText() : ''
    if (words.test(text)) return text
  }
  throw new Error(`${server} has no ${words}`)
}

test('the timeline tells of a crash and of a stop, and why', async () => {
  await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/crash', arguments: {} }).catch(() => {})
  await daemon.connected('alpha')
  const page = await openPage(daemon, '#/overview?span=15m')
  await page.getByRole('img', { name: /^beta: now Stopped, \d+ changes?\./ }).waitFor()
  await page.getByRole('img', { name: /^alpha: now Running, \d+ changes?\./ }).waitFor()

  const crash = /process exited.*code 3/s
  const { text, said } = await keyedTo(page, 'alpha', crash)
  // The pointer leaves another lane, and then this one: the keyboard's card stays.
  for (const lane of [page.getByRole('img', { name: /^beta: now/ }), page.locator('[role=img]:focus')]) {
    await lane.hover()
    await page.mouse.move(5, 5)
    assert.match(await page.locator('.span-card').innerText(), crash)
  }
  assert.match(text, /Its process exited with code 3\./)
  assert.match(text, /Attempt 1 followed/)
  assert.match(said, /from \d\d:\d\d:\d\d to \d\d:\d\d:\d\d: .*exited/)
  assert.match(await pointedTo(page, 'alpha', crash), /Its process exited with code 3\./)

  const stop = /Stopped.*Stopped by its operator/s
  assert.match((await keyedTo(page, 'beta', stop)).said, /^Stopped, from .*: Stopped by its operator/)
  await page.keyboard.press('Escape')
  await page.locator('.span-card').waitFor({ state: 'detached' })
  assert.match(await pointedTo(page, 'beta', stop), /– now/)

  const { servers } = await daemon.api('/api/history')
  const alpha = servers.find((it) => it.server === 'alpha').transitions
  assert.deepEqual(alpha.find((it) => it.exitCode === 3)?.status, 'reconnecting')
  await closePage(page)
})

test('charts stay, and are given new values and another width', async () => {
  const page = await openPage(daemon, '#/overview?span=15m')
  const charts = page.locator('.uplot')
  await charts.nth(2).waitFor()
  const marked = () => page.locator('.uplot[data-marked]').count()
  await charts.evaluateAll((all) => all.forEach((chart) => chart.setAttribute('data-marked', '')))
  const width = await charts.first().evaluate((chart) => chart.clientWidth)
  const figure = page.locator('dl').first().locator('dd').first()
  const before = await figure.textContent()
  const pixels = () => charts.first().locator('canvas').evaluate((canvas) => canvas.toDataURL())
  const drawn = await pixels()
  for (let index = 0; index < 40; index += 1) await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text: 'x' } })
  await soon('a new reading', async () => (await figure.textContent()) !== before)
  await soon('it to be drawn', async () => (await pixels()) !== drawn)
  await page.setViewportSize({ width: 900, height: 850 })
  await soon('another width', async () => (await charts.first().evaluate((chart) => chart.clientWidth)) !== width)
  assert.equal(await marked(), await charts.count())
  await closePage(page)
})

test('the page goes on after a restart, and shows when Mainstay did not run', async () => {
  const page = await openPage(daemon, '#/overview?span=15m')
  await page.getByRole('img', { name: /^alpha: now/ }).waitFor()
  // The charts are loaded when they are drawn first.
  await page.locator('.uplot').last().waitFor()
  await daemon.stop()
  await page.getByText('Mainstay does not answer.').first().waitFor()
  await daemon.run()
  await daemon.connected('alpha')
  await page.getByText('Mainstay does not answer.').first().waitFor({ state: 'detached' })
  const gap = /Mainstay did not run/
  await page.getByRole('button', { name: '1 h', exact: true }).click()
  await page.getByRole('button', { name: '15 min', exact: true }).click()
  await soon('the gap', async () => (await keyedTo(page, 'alpha', gap)).said.startsWith('Mainstay did not run, from'))
  assert.match(await pointedTo(page, 'alpha', gap), /Nothing is known of the servers\./)
  const { daemon: marks } = await daemon.api('/api/history')
  assert.deepEqual(marks.map((mark) => mark.event), ['started', 'stopped', 'started'])
  assert.deepEqual(await axe(page), [])
  await closePage(page)
})
