// The list of servers: what it says of each, and everything that can be done from it.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { anotherPage, axe, closeBrowser, closePage, Daemon, fake, FAKE_SERVER, openPage, soon } from './harness.mjs'

/** Waits that a person can watch, and no longer. */
const WATCHED = { reconnect: { initialDelayMs: 3500, multiplier: 1, jitter: 0 } }
const SECRET = 'sk-live-0123456789abcdef'

let daemon
before(async () => {
  daemon = await Daemon.start({
    mcpServers: {
      alpha: { ...fake(), ...WATCHED },
      beta: fake('--tools', '3'),
      gamma: fake(),
      broken: {
        command: 'sh',
        args: ['-c', 'echo "fatal: no database" >&2; exit 3'],
        reconnect: { initialDelayMs: 50_000, maxDelayMs: 50_000, jitter: 0 },
      },
      spent: { ...fake('--crash-at-start', '4'), reconnect: { initialDelayMs: 100, maxAttempts: 2 }, restart: { mode: 'as_reconnect' } },
      // Its last line says what is wrong, below more than an open row shows.
      traced: {
        command: 'sh',
        args: ['-c', `for frame in 1 2 3 4 5 6 7 8 9 10; do echo "  File $frame ${'in a long folder '.repeat(12)}" >&2; done; echo "ValueError: no such table" >&2; exit 1`],
        reconnect: { initialDelayMs: 50_000, maxDelayMs: 50_000, jitter: 0 },
      },
      idle: { ...fake(), autoStart: false },
      wrong: { ...fake('--crash-at-start', '5'), autoStart: false, reconnect: { initialFailure: 'error' } },
    },
  })
  await daemon.connected('alpha', 'beta', 'gamma')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

/** The row of a server. */
const row = (page, name) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) })
const dialog = (page, name) => page.getByRole('dialog', { name })
/** Calls of the last minute, or of the time since the start. */
const CALLED = /^[1-9]\d*( in \d+ s|\/min)$/
const says = (where, text) => where.getByText(text).first().waitFor()
/** A toast, which goes again when it is closed. */
async function toast(page, text) {
  const one = page.getByText(text, { exact: true }).last()
  await one.waitFor()
  await one.locator('xpath=..').getByRole('button', { name: 'Close' }).click()
}
async function fromMenu(page, name, item) {
  await page.getByRole('button', { name: `More actions for ${name}` }).click()
  await page.getByRole('menuitem', { name: item, exact: true }).click()
}
const inFile = (name) => JSON.parse(fs.readFileSync(daemon.config, 'utf8')).mcpServers[name]
const known = async () => (await daemon.api('/api/servers')).servers.map((server) => server.name)
const has = async (name) => (await known()).includes(name)

test('a server that is killed turns, counts down and is back, without a reload', async () => {
  const page = await openPage(daemon)
  const alpha = row(page, 'alpha')
  await says(alpha, 'Running')
  // What the row says from now on, each change of it.
  await alpha.evaluate((element) => {
    window.said = []
    new MutationObserver(() => window.said.push(element.textContent)).observe(element.closest('main'), { subtree: true, childList: true, characterData: true })
  })
  const { pid, crashCount } = await daemon.server('alpha')
  process.kill(pid, 'SIGKILL')
  await says(alpha, 'Starting')
  await says(alpha, 'Reconnecting...')
  await says(alpha, /process ended unexpectedly|signal 9/)
  await says(alpha, 'Running')
  await says(alpha, '1 crash')
  await says(alpha, /answered (just now|\d s ago)/)
  const back = await daemon.server('alpha')
  assert.equal(back.crashCount, crashCount + 1)
  assert.notEqual(back.pid, pid)
  const said = await page.evaluate(() => window.said)
  assert.ok(said, 'the page was not loaded again')
  const left = [...new Set(said.map((text) => /attempt 1 · next in (\d) s/.exec(text)?.[1]).filter(Boolean))]
  assert.ok(left.length >= 3 && left.every((seconds, at) => at === 0 || Number(seconds) < Number(left[at - 1])), `it counts down: ${left}`)
  await closePage(page)
})

test('a server whose program ends at once says why, what it said, and when it is tried again', async () => {
  const page = await openPage(daemon)
  const broken = row(page, 'broken')
  await says(broken, 'Starting')
  await says(broken, 'Reconnecting...')
  // Since when it is down, which its attempts do not change.
  const since = await broken.getByText(/^since \d\d:\d\d:\d\d$/).innerText()
  await says(broken, /process exited unexpectedly \(code 3\)/)
  await says(broken, /fatal: no database/)
  await says(broken, /attempt 1 · next in \d+ s/)
  // The first line has its state and times, the second what happened.
  const middle = async (text) => {
    const { y, height } = await broken.getByText(text).first().boundingBox({ timeout: 2000 })
    return y + height / 2
  }
  await soon('two lines', async () => {
    const [state, time, next, crashes, why] = await Promise.all(['Reconnecting...', /^since /, /^attempt \d/, /^\d+ crash/, /^process exited/].map(middle))
    return [time, next].every((it) => Math.abs(it - state) < 4) && Math.abs(crashes - why) < 4 && crashes > state + 8
  })
  await page.getByRole('button', { name: 'Details of broken' }).click()
  await says(broken, 'Auto-start: Yes · Enabled: Yes')
  await says(broken, /its last words: "fatal: no database"/)
  await says(broken, /sh -c 'echo "fatal: no database" >&2; exit 3'/)
  assert.match(page.url(), /open=broken/)
  // "Now" does not wait: another attempt, another crash.
  const { crashCount } = await daemon.server('broken')
  await broken.getByRole('button', { name: 'Reconnect now' }).click()
  await toast(page, 'Error: process exited unexpectedly (code 3)')
  await soon('the crash to be counted', async () => (await daemon.server('broken')).crashCount > crashCount)
  assert.equal(await broken.getByText(/^since /).innerText(), since)
  await closePage(page)
})

test('an open row shows the end of its log, and what events it cannot know', async () => {
  const page = await openPage(daemon, '#/servers?open=traced')
  const traced = row(page, 'traced')
  const log = traced.getByRole('list', { name: 'Log' })
  const last = log.getByText('ValueError: no such table')
  await last.waitFor()
  const below = () => Promise.all([last, log].map((it) => it.boundingBox())).then(([line, box]) => line.y + line.height - (box.y + box.height))
  assert.ok(await log.evaluate((it) => it.scrollHeight > it.clientHeight), 'the log is longer than its box')
  await soon('the last line to be seen', async () => (await below()) <= 0)
  // Who reads further up is left there.
  await log.evaluate((it) => it.scrollTo(0, 0))
  await traced.getByRole('button', { name: 'Reconnect now' }).click()
  await soon('another crash', async () => (await log.getByText('no such table').count()) > 0 && (await daemon.server('traced')).crashCount > 1)
  assert.equal(await log.evaluate((it) => it.scrollTop), 0)
  await closePage(page)

  // What is longer ago than the daemon remembers.
  const later = await openPage(daemon)
  await later.route('**/api/events/recent*', (route) => route.fulfill({ json: { events: [] } }))
  await later.goto(`${daemon.url}/#/servers?open=gamma`)
  await says(row(later, 'gamma'), 'None is remembered: Mainstay keeps the last 1000 events of the last 30 min.')
  assert.equal(await later.getByText('since Mainstay started').count(), 0)
  await row(later, 'gamma').getByRole('link', { name: 'States over time' }).click()
  await later.getByRole('heading', { name: 'gamma', level: 1 }).waitFor()
  await closePage(later)
})

test('one that is given up says so, and can be restarted', async () => {
  const page = await openPage(daemon)
  const spent = row(page, 'spent')
  await says(spent, 'Error')
  await says(spent, 'Connection failed after max retries')
  await says(spent, /the fake crashes at start with code 4/)
  assert.equal((await daemon.server('spent')).status, 'failed')
  await spent.getByRole('button', { name: 'Restart' }).click()
  await toast(page, 'Error: process exited unexpectedly (code 4)')
  await closePage(page)
})

test('start, stop, restart, reconnect, disable and enable, and the words of each', async () => {
  const page = await openPage(daemon)
  const idle = row(page, 'idle')
  await says(idle, 'Stopped')
  await idle.getByRole('button', { name: 'Start', exact: true }).click()
  await toast(page, 'Server "idle" started')
  await says(idle, 'Running')
  const { pid } = await daemon.server('idle')
  await idle.getByRole('button', { name: 'Restart' }).click()
  await toast(page, 'Server "idle" restarted')
  const second = await daemon.server('idle')
  assert.notEqual(second.pid, pid)
  await fromMenu(page, 'idle', 'Reconnect now')
  await toast(page, 'Server "idle" reconnected')
  assert.notEqual((await daemon.server('idle')).pid, second.pid)
  await fromMenu(page, 'idle', 'Stop')
  await toast(page, 'Server "idle" stopped')
  await says(idle, 'Stopped')
  assert.equal((await daemon.server('idle')).connected, false)
  await fromMenu(page, 'idle', 'Disable')
  await toast(page, 'Server "idle" disabled')
  await says(idle, 'Disabled')
  assert.equal(inFile('idle').enabled, false)
  await idle.getByRole('button', { name: 'Enable' }).click()
  await toast(page, 'Server "idle" enabled')
  assert.equal((await daemon.server('idle')).enabled, true)
  assert.notEqual(inFile('idle').enabled, false)

  await row(page, 'wrong').getByRole('button', { name: 'Start', exact: true }).click()
  await toast(page, 'Failed to start: process exited unexpectedly (code 5)')
  // A file that cannot be read cannot be changed.
  const text = fs.readFileSync(daemon.config, 'utf8')
  fs.writeFileSync(daemon.config, `${text}}`)
  await fromMenu(page, 'gamma', 'Disable')
  await page.getByText(/^Error: Invalid configuration: the file cannot be read/).first().waitFor()
  fs.writeFileSync(daemon.config, text)
  assert.equal((await daemon.server('gamma')).enabled, true)
  await closePage(page)
})

test('on a narrow page the list scrolls with the screen, its filters are one line, and a row says what it runs', async () => {
  const page = await openPage(daemon, '#/servers', { width: 360, height: 780 })
  await says(row(page, 'beta'), /^fake-server$/)
  const list = page.getByRole('list', { name: 'Servers' })
  assert.equal(await list.evaluate((it) => getComputedStyle(it).overflowY), 'visible')
  const scrolls = await page.getByRole('main').evaluate((it) => it.scrollHeight > it.clientHeight + 300)
  assert.ok(scrolls, 'the screen is longer than the window')
  const last = row(page, (await known()).at(-1))
  await page.getByRole('main').evaluate((it) => it.scrollTo(0, it.scrollHeight))
  await soon('the last rows', async () => (await list.getByRole('listitem').last().boundingBox()).y < 780)
  assert.ok((await last.count()) <= 1)
  await page.getByRole('main').evaluate((it) => it.scrollTo(0, 0))
  await page.getByLabel('Groups').selectOption({ label: `Running ${(await daemon.api('/api/servers')).servers.filter((it) => it.status === 'connected' && it.healthStatus !== 'degraded').length}` })
  assert.match(page.url(), /state=well/)
  await says(row(page, 'beta'), 'Running')
  assert.equal(await row(page, 'broken').count(), 0)
  await closePage(page)
})

test('the switch of auto-start is kept in the file', async () => {
  const page = await openPage(daemon)
  const toggle = row(page, 'beta').getByRole('switch', { name: 'Start beta with Mainstay' })
  assert.equal(await toggle.isChecked(), true)
  await toggle.click({ force: true })
  await soon('the file to say it', () => inFile('beta').autoStart === false)
  await soon('the switch', async () => !(await toggle.isChecked()) && (await toggle.isEnabled()))
  assert.equal((await daemon.server('beta')).connected, true, 'it goes on running')
  await page.reload()
  await soon('the switch after a reload', async () => (await toggle.count()) === 1 && !(await toggle.isChecked()))
  await toggle.click({ force: true })
  await soon('the file to say it', () => inFile('beta').autoStart !== false)
  for (const [turn, words] of [['off', 'beta is not started with Mainstay.'], ['on', 'beta is started with Mainstay.']]) {
    await soon('the switch to be at rest', () => toggle.isEnabled())
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox', { name: 'Search or run a command' }).fill(`auto-start ${turn}: beta`)
    await page.getByRole('option', { name: `Auto-start ${turn}: beta` }).waitFor()
    await page.keyboard.press('Enter')
    await soon('the file to say it', () => (inFile('beta').autoStart !== false) === (turn === 'on'))
    await page.getByText(words).last().waitFor()
  }
  await closePage(page)
})

test('an entry that another hand changes meanwhile is not overwritten by the switch', async () => {
  const page = await openPage(daemon)
  const beta = row(page, 'beta')
  const toggle = beta.getByRole('switch', { name: 'Start beta with Mainstay' })
  const text = fs.readFileSync(daemon.config, 'utf8')
  const config = JSON.parse(text)
  config.mcpServers.beta.timeout = 45_000
  await page.route('**/api/servers/beta', async (route) => {
    if (route.request().method() === 'PUT') fs.writeFileSync(daemon.config, JSON.stringify(config, null, 2))
    await route.continue()
  })
  await toggle.click({ force: true })
  await says(beta, "The entry of server 'beta' has changed since it was read")
  assert.deepEqual(inFile('beta'), config.mcpServers.beta)
  await soon('the switch as it was', async () => (await toggle.isChecked()) && (await toggle.isEnabled()))
  // Once more, over what is there now.
  await page.unroute('**/api/servers/beta')
  await soon('the file to be in force', async () => (await daemon.api('/api/servers/beta')).entry.timeout === 45_000)
  await toggle.click({ force: true })
  await soon('the file to say it', () => inFile('beta').autoStart === false)
  assert.equal(inFile('beta').timeout, 45_000)
  await soon('the switch', async () => !(await toggle.isChecked()) && (await toggle.isEnabled()))
  fs.writeFileSync(daemon.config, text)
  await soon('the file to be in force', async () => (await daemon.api('/api/servers/beta')).entry.timeout === undefined)
  await closePage(page)
})

test('the figures of all rows stand in columns, at each width, and nothing moves when they change', async () => {
  const page = await openPage(daemon)
  await says(row(page, 'beta'), '0/min')
  for (let call = 0; call < 12; call += 1) await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'beta/echo', arguments: { text: 'x' } })
  await says(row(page, 'beta'), CALLED)
  await says(row(page, 'gamma'), '0/min')
  for (const width of [360, 700, 900, 1280, 2560]) {
    await page.setViewportSize({ width, height: 1400 })
    const lefts = await soon('all rows to have figures', async () => {
      const rows = await page.locator('.figures').evaluateAll((found) => found.map((it) => [...it.children].map((cell) => Math.round(cell.getBoundingClientRect().left))))
      return rows.length >= 3 && rows
    })
    for (const row of lefts) assert.deepEqual(row, lefts[0], `at ${width} px`)
    assert.equal(new Set(lefts[0]).size, width < 750 ? 2 : 4, `at ${width} px: ${lefts[0]}`)
  }
  await closePage(page)
})

test('a row that is opened keeps its name in sight, however narrow the page is', async () => {
  const page = await openPage(daemon, '#/', { width: 360, height: 780 })
  for (const name of ['beta', 'broken', 'gamma']) {
    await page.getByRole('button', { name: `Details of ${name}` }).click()
    await says(row(page, name), 'Last events')
    const link = row(page, name).getByRole('link', { name, exact: true })
    await soon(`the name of ${name} in sight`, async () =>
      link.evaluate((it) => {
        const { left, top, width, height } = it.getBoundingClientRect()
        return it.contains(document.elementFromPoint(left + width / 2, top + height / 2))
      }),
    )
    // What is read after it is opened does not push it away.
    await row(page, name).getByRole('list', { name: 'Log' }).or(row(page, name).getByText('It has not said anything yet.')).first().waitFor()
    const { y, height } = await link.boundingBox()
    const list = await page.getByRole('list', { name: 'Servers' }).boundingBox()
    assert.ok(y >= list.y - 1 && y + height <= list.y + list.height, `${name} at ${y} in ${JSON.stringify(list)}`)
  }
  await closePage(page)
})

test('a menu lies within the window, and nothing cuts it', async () => {
  const page = await openPage(daemon, '#/servers/gamma', { width: 360, height: 700 })
  const isWhole = async (opener, height) => {
    await page.setViewportSize({ width: 360, height })
    await opener.click()
    const items = page.getByRole('menu').getByRole('menuitem')
    await items.first().waitFor()
    for (const item of await items.all()) {
      const box = await item.boundingBox()
      const hit = await item.evaluate((it) => {
        const { left, right, top, bottom } = it.getBoundingClientRect()
        return [left + 2, right - 2].every((x) => it.contains(document.elementFromPoint(x, (top + bottom) / 2)))
      })
      assert.ok(box.x >= 0 && box.x + box.width <= 360 && box.y >= 0 && box.y + box.height <= height, JSON.stringify(box))
      assert.ok(hit, `${await item.innerText()} is covered`)
    }
    await page.keyboard.press('Escape')
  }
  await isWhole(page.getByRole('button', { name: 'More actions' }), 700)
  // A list of one row is lower than the menu of its row.
  await page.goto(`${daemon.url}/#/servers?q=gamma`)
  await row(page, 'gamma').waitFor()
  await isWhole(page.getByRole('button', { name: 'More actions for gamma' }), 700)
  await isWhole(page.getByRole('button', { name: 'More actions for gamma' }), 480)
  await closePage(page)
})

test('several at once', async () => {
  const page = await openPage(daemon)
  const before = [await daemon.server('alpha'), await daemon.server('beta')]
  for (const name of ['alpha', 'beta']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
  const bar = page.getByRole('toolbar')
  await says(bar, '2 selected')
  await bar.getByRole('button', { name: 'Restart' }).click()
  await toast(page, '2 servers done')
  const now = [await daemon.server('alpha'), await daemon.server('beta')]
  for (const at of [0, 1]) assert.notEqual(now[at].pid, before[at].pid)
  await bar.waitFor({ state: 'detached' })

  // What failed is counted, and stays selected.
  for (const name of ['gamma', 'wrong']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
  await bar.getByRole('button', { name: 'Restart' }).click()
  await toast(page, '1 server done, 1 failed; see their rows')
  await bar.getByRole('button', { name: 'Clear the selection' }).click()

  for (const name of ['one', 'two']) await daemon.api('/api/servers', 'POST', { name, ...fake(), persist: true })
  await daemon.connected('one', 'two')
  await page.getByRole('searchbox', { name: 'Filter by name, state or reason' }).fill('fake-server')
  for (const name of ['one', 'two']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
  // What ends more than one asks first.
  await says(row(page, 'two'), 'Running')
  await bar.getByRole('button', { name: 'Stop' }).click()
  const sure = dialog(page, 'Stop 2 servers?')
  await says(sure, /one, two/)
  await sure.getByRole('button', { name: 'Cancel' }).click()
  await sure.waitFor({ state: 'detached' })
  assert.ok((await daemon.server('one')).connected)
  await bar.getByRole('button', { name: 'Disable' }).click()
  await says(dialog(page, 'Disable 2 servers?'), /one, two/)
  await page.keyboard.press('Escape')
  await bar.getByRole('button', { name: 'Stop' }).click()
  await sure.getByRole('button', { name: 'Stop' }).click()
  await toast(page, '2 servers done')
  assert.equal((await daemon.server('one')).connected, false)
  for (const name of ['one', 'two']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()

  await bar.getByRole('button', { name: 'Delete' }).click()
  await says(dialog(page, 'Delete 2 servers?'), /one, two/)
  await dialog(page, 'Delete 2 servers?').getByRole('button', { name: 'Cancel' }).click()
  assert.ok(await has('one'))
  await bar.getByRole('button', { name: 'Delete' }).click()
  await dialog(page, 'Delete 2 servers?').getByRole('button', { name: 'Delete' }).click()
  await toast(page, '2 servers done')
  await row(page, 'one').waitFor({ state: 'detached' })
  assert.deepEqual([await has('one'), await has('two'), inFile('one')], [false, false, undefined])
  await closePage(page)
})

test('filters and the order are in the address', async () => {
  const page = await openPage(daemon)
  const shown = () => page.getByRole('list', { name: 'Servers' }).locator('a[href^="#/servers/"]').allTextContents()
  await soon('all rows', async () => (await shown()).length >= 7)
  await page.getByRole('searchbox').fill('no-such exit')
  await says(page, 'Nothing fits this filter.')
  await page.getByRole('button', { name: 'Clear the filter' }).click()
  await page.getByRole('searchbox').fill('code 3')
  await soon('one row', async () => (await shown()).join() === 'broken')
  assert.match(page.url(), /q=code(\+|%20)3/)
  await page.getByRole('searchbox').fill('')
  await page.getByRole('button', { name: /^Running \d/ }).click()
  await soon('those that run', async () => (await shown()).join() === 'alpha,beta,gamma')
  assert.match(page.url(), /state=well/)
  const other = await anotherPage(page, daemon, new URL(page.url()).hash)
  await row(other, 'alpha').waitFor()
  assert.equal(await row(other, 'broken').count(), 0, 'a link leads to the same rows')
  await other.close()
  await page.getByRole('button', { name: /^All \d/ }).click()

  await page.getByLabel('Sort').selectOption('Sort: name')
  assert.match(page.url(), /sort=name/)
  for (let call = 0; call < 20; call += 1) await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'gamma/echo', arguments: { text: 'x' } })
  await says(row(page, 'gamma'), CALLED)
  await page.getByLabel('Sort').selectOption('Sort: calls')
  await soon('the busiest first', async () => (await shown()).filter((name) => ['alpha', 'beta', 'gamma'].includes(name))[0] === 'gamma')
  await closePage(page)
})

test('a snippet that is pasted is reviewed and tried before anything is saved', async () => {
  const page = await openPage(daemon)
  await page.getByRole('button', { name: 'Add a server' }).click()
  const add = dialog(page, 'Add a server')
  const text = add.getByLabel('A snippet, a command line or an address')
  const snippet = { mcpServers: { pasted: { ...fake('--tools', '2', '--name', 'Pasted'), env: { API_KEY: SECRET } } } }
  await text.fill(JSON.stringify(snippet))
  await add.getByRole('button', { name: 'Read it' }).click()
  const review = dialog(page, 'Review before saving')
  await says(review, `${FAKE_SERVER} --tools 2 --name Pasted`)
  await says(review, 'MCP servers execute commands on your computer.')
  await says(review, 'API_KEY')
  assert.equal(await review.getByText(SECRET).count(), 0, 'a secret is not shown')
  await review.getByRole('button', { name: 'Try it' }).click()
  await says(review, /^● Pasted .*answered in .*, protocol 2025-11-25\./)
  await says(review, 'tool_2')
  assert.deepEqual([await has('pasted'), inFile('pasted')], [false, undefined], 'a trial saves nothing')
  await page.keyboard.press('Escape')
  await review.waitFor({ state: 'detached' })
  assert.deepEqual([await has('pasted'), inFile('pasted')], [false, undefined], 'nor does a dialog that is closed')

  // The same once more, and saved.
  await page.getByRole('button', { name: 'Add a server' }).click()
  await text.fill(JSON.stringify(snippet))
  await text.press('Control+Enter')
  await review.getByRole('button', { name: 'Save and start' }).click()
  await toast(page, 'Server "pasted" added')
  await says(row(page, 'pasted'), 'Running')
  assert.deepEqual(inFile('pasted'), snippet.mcpServers.pasted)
  await closePage(page)
})

test('a command line becomes a server; what cannot be read and what exists is said', async () => {
  const page = await openPage(daemon, '#/servers?add=paste')
  const add = dialog(page, 'Add a server')
  const text = add.getByLabel('A snippet, a command line or an address')
  await text.fill('{"mcpServers": ')
  await add.getByRole('button', { name: 'Read it' }).click()
  await add.getByRole('alert').waitFor()
  await text.fill(`API_KEY=abc ${FAKE_SERVER} --tools 1`)
  await add.getByRole('button', { name: 'Read it' }).click()
  const review = dialog(page, 'Review before saving')
  await says(review, `${FAKE_SERVER} --tools 1`)
  await review.getByLabel('Name').fill('alpha')
  // What exists is not replaced by the button that saves.
  await says(review, 'A server "alpha" exists. Give this one another name')
  assert.equal(await review.getByRole('button', { name: 'Save and start' }).getAttribute('aria-disabled'), 'true')
  await review.getByLabel('Name').fill('typed')
  await review.getByRole('button', { name: 'Save and start' }).click()
  await toast(page, 'Server "typed" added')
  await soon('it to run', async () => (await daemon.server('typed')).connected)
  assert.deepEqual(inFile('typed').args, ['--tools', '1'])
  await closePage(page)
})

test('a server of a name that exists is added beside it; replacing is a choice of its own', async () => {
  await daemon.api('/api/servers', 'POST', { name: 'old', ...fake('--tools', '4'), env: { API_KEY: SECRET }, persist: true })
  const page = await openPage(daemon, '#/servers?add=paste')
  const text = page.getByLabel('A snippet, a command line or an address')
  const review = dialog(page, 'Review before saving')
  const read = async (entry) => {
    await text.fill(JSON.stringify({ mcpServers: { old: entry } }))
    await page.getByRole('button', { name: 'Read it' }).click()
    await says(review, 'A server "old" exists. This one is added beside it, as "old-')
  }
  await read(fake('--tools', '5'))
  assert.equal(await review.getByLabel('Name').inputValue(), 'old-2')
  await review.getByRole('button', { name: 'Save and start' }).click()
  await toast(page, 'Server "old-2" added')
  assert.deepEqual([inFile('old').args, inFile('old-2').args], [['--tools', '4'], ['--tools', '5']])

  // Chosen by hand, with what changes, and taken back.
  await page.getByRole('button', { name: 'Add a server' }).click()
  await read({ ...fake('--tools', '6'), env: { OTHER: 'of-the-new-one' } })
  assert.equal(await review.getByLabel('Name').inputValue(), 'old-3')
  await review.getByRole('button', { name: 'Replace old' }).click()
  assert.equal(await review.getByLabel('Name').inputValue(), 'old')
  const changes = review.getByRole('region', { name: 'What changes in the entry' })
  const changed = await changes.innerText()
  for (const part of ['"4"', '"6"', 'API_KEY', 'OTHER']) assert.ok(changed.includes(part), changed)
  for (const secret of [SECRET, 'of-the-new-one']) assert.equal(await review.getByText(secret).count(), 0)
  assert.deepEqual(await axe(page), [])
  await review.getByRole('button', { name: 'Keep both' }).click()
  assert.equal(await review.getByLabel('Name').inputValue(), 'old-3')
  await review.getByRole('button', { name: 'Save and start' }).waitFor()
  await review.getByRole('button', { name: 'Replace old' }).click()
  // Another name takes the choice back, too.
  await review.getByLabel('Name').fill('older')
  await review.getByRole('button', { name: 'Save and start' }).waitFor()
  await review.getByLabel('Name').fill('old')
  const replace = review.getByRole('button', { name: 'Replace old' })
  await replace.waitFor()
  await replace.click()
  await toast(page, 'Server "old" replaced')
  assert.deepEqual(inFile('old'), { ...fake('--tools', '6'), env: { OTHER: 'of-the-new-one' } })
  for (const name of ['old', 'old-2']) await daemon.api(`/api/servers/${name}?persist=true`, 'DELETE')
  await closePage(page)
})

test('a name that exists is dealt with in the form as in what was pasted', async () => {
  await daemon.api('/api/servers', 'POST', { name: 'same', ...fake('--tools', '4'), persist: true })
  const page = await openPage(daemon, '#/servers?add=form')
  const add = dialog(page, 'Add a server')
  const review = dialog(page, 'Review before saving')
  await add.getByLabel('Name', { exact: true }).first().fill('same')
  await says(add, 'There is a server of this name already. The review offers another name, or to replace it.')
  await add.getByLabel('Command').fill(FAKE_SERVER)
  await add.getByLabel('Arguments').fill('--tools\n5')
  await add.getByRole('button', { name: 'Review' }).click()
  await says(review, 'A server "same" exists. This one is added beside it, as "same-2".')
  await review.getByRole('button', { name: 'Save and start' }).waitFor()
  await review.getByRole('button', { name: 'Replace same' }).click()
  await review.getByRole('region', { name: 'What changes in the entry' }).waitFor()
  await review.getByRole('button', { name: 'Replace same' }).click()
  await toast(page, 'Server "same" replaced')
  assert.deepEqual(inFile('same'), fake('--tools', '5'))
  await daemon.api('/api/servers/same?persist=true', 'DELETE')
  await closePage(page)
})

test('of several in one snippet, those that are new are saved', async () => {
  const page = await openPage(daemon, '#/servers?add=paste')
  const snippet = { mcpServers: { alpha: fake(), 'new-one': fake('--tools', '31'), 'new-two': fake('--tools', '32') } }
  await page.getByLabel('A snippet, a command line or an address').fill(JSON.stringify(snippet))
  await page.getByRole('button', { name: 'Read it' }).click()
  const review = dialog(page, 'Review before saving')
  await says(review, '3 servers found')
  assert.equal(await review.getByRole('checkbox', { name: /alpha/ }).isChecked(), false, 'what is there is not replaced unasked')
  await says(review, 'Left out, for a server "alpha" exists. Tick it to add it beside that one, or to replace it.')
  await review.getByRole('checkbox', { name: /new-two/ }).uncheck()
  await review.getByRole('button', { name: 'Save and start' }).click()
  await toast(page, 'Server "new-one" added')
  assert.deepEqual([await has('new-one'), await has('new-two')], [true, false])
  assert.equal(inFile('alpha').reconnect.initialDelayMs, WATCHED.reconnect.initialDelayMs)
  await closePage(page)
})

test('a trial that is stopped, or whose dialog is closed, leaves no process', async () => {
  const page = await openPage(daemon, '#/servers?add=paste')
  const file = path.join(daemon.home, 'trial.pid')
  const snippet = { command: 'sh', args: ['-c', `echo $$ > ${file}; exec sleep 600`] }
  await page.getByLabel('A snippet, a command line or an address').fill(JSON.stringify({ mcpServers: { slow: snippet } }))
  await page.getByRole('button', { name: 'Read it' }).click()
  const begin = async () => {
    fs.rmSync(file, { force: true })
    await page.getByRole('button', { name: /^Try (it|again)$/ }).click()
    return Number(await soon('the trial to run', () => fs.existsSync(file) && fs.readFileSync(file, 'utf8').trim()))
  }
  const gone = (pid) =>
    soon('its process to be gone', () => {
      try {
        process.kill(pid, 0)
        return false
      } catch {
        return true
      }
    })
  const first = await begin()
  await page.getByRole('button', { name: 'Stop the trial' }).click()
  await gone(first)
  const second = await begin()
  await page.keyboard.press('Escape')
  await gone(second)
  assert.equal(await has('slow'), false)
  await closePage(page)
})

test('a form adds a server; a trial that fails shows what it said', async () => {
  const page = await openPage(daemon, '#/servers?add=form')
  const add = dialog(page, 'Add a server')
  await add.getByRole('button', { name: 'Review' }).click()
  await says(add, 'A server needs a name.')
  await says(add, 'A process needs a command.')
  await add.getByLabel('Name', { exact: true }).first().fill('formed')
  await add.getByLabel('Command').fill(FAKE_SERVER)
  await add.getByLabel('Arguments').fill('--crash-at-start\n7')
  await add.getByRole('button', { name: 'Review' }).click()
  const review = dialog(page, 'Review before saving')
  await review.getByRole('button', { name: 'Try it' }).click()
  await says(review.getByRole('alert'), /code 7/)
  await says(review, 'What it wrote on stderr')
  await says(review, 'the fake crashes at start with code 7')
  assert.equal(await has('formed'), false)
  await review.getByRole('button', { name: 'Back' }).click()
  await add.getByLabel('Arguments').fill('--tools\n1')
  await add.getByRole('button', { name: 'Add a variable' }).click()
  await add.getByRole('textbox', { name: 'Name', exact: true }).last().fill('MODE')
  await add.getByLabel('Value of MODE').fill('calm')
  await add.getByRole('button', { name: 'Review' }).click()
  await review.getByRole('button', { name: 'Save and start' }).click()
  await toast(page, 'Server "formed" added')
  await says(row(page, 'formed'), 'Running')
  assert.deepEqual(inFile('formed'), { ...fake('--tools', '1'), env: { MODE: 'calm' } })
  await closePage(page)
})

test('another address of the open dialog shows its way to add', async () => {
  const page = await openPage(daemon, '#/servers?add=1')
  const add = dialog(page, 'Add a server')
  const chosen = (name) => add.getByRole('tablist', { name: 'Ways to add a server' }).getByRole('tab', { name, selected: true }).waitFor()
  await chosen('Paste')
  await page.goto(`${daemon.url}/#/servers?add=form`)
  await chosen('Form')
  await add.getByLabel('Command').waitFor()
  await page.goto(`${daemon.url}/#/servers?add=clients`)
  await chosen('From my clients')
  await page.goBack()
  await chosen('Form')
  // A tab is in the address, too; and what is reviewed makes room for another way.
  await add.getByRole('tab', { name: 'Paste' }).click()
  assert.match(page.url(), /add=paste/)
  await add.getByLabel('A snippet, a command line or an address').fill(FAKE_SERVER)
  await add.getByRole('button', { name: 'Read it' }).click()
  await dialog(page, 'Review before saving').waitFor()
  await page.goto(`${daemon.url}/#/servers?add=form`)
  await chosen('Form')
  await closePage(page)
})

test('servers of a client are taken over', async () => {
  const file = path.join(daemon.home, '.cursor', 'mcp.json')
  fs.mkdirSync(path.dirname(file), { recursive: true })
  const away = { url: 'https://example.com/mcp?key=hidden' }
  const content = JSON.stringify({ mcpServers: { 'cursor-one': fake('--tools', '21'), 'cursor-two': fake('--api-key', 'hidden'), 'cursor-gamma': fake(), 'cursor-away': away } })
  fs.writeFileSync(file, content)
  const page = await openPage(daemon)
  await page.goto(`${daemon.url}/#/servers?add=1`)
  await page.getByRole('tab', { name: 'From my clients' }).click()
  const cursor = page.getByRole('region', { name: 'Cursor' })
  await says(cursor, file)
  await says(page.getByRole('dialog').getByRole('note'), 'MCP servers execute commands on your computer.')
  // Nothing is taken over that was not shown, and no secret is shown.
  await says(cursor.getByRole('listitem').filter({ hasText: 'cursor-one' }), `${FAKE_SERVER} --tools 21`)
  await says(cursor.getByRole('listitem').filter({ hasText: 'cursor-two' }), `${FAKE_SERVER} --api-key '***'`)
  await says(cursor.getByRole('listitem').filter({ hasText: 'cursor-away' }), 'https://example.com/mcp?***')
  assert.equal(await cursor.getByText('hidden').count(), 0)
  await cursor.getByRole('checkbox', { name: 'cursor-away' }).uncheck()
  await cursor.getByRole('checkbox', { name: 'cursor-two' }).uncheck()
  await cursor.getByRole('button', { name: 'Take over 2 servers' }).click()
  await says(cursor, 'Added: cursor-one')
  await says(cursor, 'cursor-gamma was left out: gamma is the same and is there already')
  await dialog(page, 'Add a server').getByRole('button', { name: 'Close' }).last().click()
  await says(row(page, 'cursor-one'), 'Running')
  assert.deepEqual([inFile('cursor-one').command, await has('cursor-two')], [FAKE_SERVER, false])
  assert.equal(fs.readFileSync(file, 'utf8'), content, 'the client’s file stays as it is')
  await closePage(page)
})

test('without a server there are three ways to begin', async () => {
  const empty = await Daemon.start({ mcpServers: {} })
  try {
    fs.mkdirSync(path.join(empty.home, '.cursor'))
    fs.writeFileSync(path.join(empty.home, '.cursor', 'mcp.json'), JSON.stringify({ mcpServers: { here: fake() } }))
    const page = await openPage(empty)
    await says(page, 'No servers yet')
    await says(page, '1 server found at Cursor.')
    await says(page, 'mainstay serve --demo')
    await page.getByRole('button', { name: 'Take over what your clients have' }).click()
    await page.getByRole('button', { name: 'Take over 1 server' }).click()
    await says(page, 'Added: here')
    await page.keyboard.press('Escape')
    await says(row(page, 'here'), 'Running')
    await closePage(page)
  } finally {
    await empty.end()
  }
})

test('the notice stands on the first visit, until it is read', async () => {
  const page = await openPage(daemon, '#/', { notice: true })
  const notice = page.getByText(
    'MCP servers execute commands on your computer. Only use servers from trusted sources. Review configuration carefully before starting servers.',
    { exact: true },
  )
  await notice.waitFor()
  await page.getByRole('button', { name: 'Understood' }).click()
  await notice.waitFor({ state: 'detached' })
  assert.equal(await page.evaluate(() => JSON.parse(localStorage.getItem('mainstay.settings')).noticeRead), true)
  await closePage(page)
})

test('by keyboard alone', async () => {
  const page = await openPage(daemon)
  await row(page, 'alpha').waitFor()
  const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent)
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve())
  await press('j')
  const first = await focused()
  assert.match(first, /^Details of /)
  await press('j')
  const second = await focused()
  assert.notEqual(second, first)
  await press('k')
  assert.equal(await focused(), first)
  await press('j', 'Enter')
  await page.getByRole('button', { name: second, expanded: true }).waitFor()
  await press('Enter')
  await page.getByRole('button', { name: second, expanded: false }).waitFor()
  await press('Enter')
  await page.getByRole('button', { name: second, expanded: true }).waitFor()
  await press('Tab', 'Escape')
  await page.getByRole('button', { name: second, expanded: false }).waitFor()
  assert.equal(await focused(), second)

  await press('/')
  await page.keyboard.type('gamma')
  await soon('one row', async () => (await page.getByRole('list', { name: 'Servers' }).locator('[data-row]').count()) === 1)
  await press('Escape')
  await row(page, 'alpha').waitFor()
  await press('Escape', '?')
  await dialog(page, 'Keyboard').waitFor()
  await press('Escape')
  await dialog(page, 'Keyboard').waitFor({ state: 'detached' })

  const { pid } = await daemon.server('gamma')
  await press('Control+k')
  await page.getByRole('combobox', { name: 'Search or run a command' }).waitFor()
  await page.keyboard.type('restart gamma')
  await page.getByRole('option', { name: 'Restart: gamma' }).waitFor()
  await press('Enter')
  await toast(page, 'Server "gamma" restarted')
  assert.notEqual((await daemon.server('gamma')).pid, pid)

  // What the palette switches off stays so, as it does from a row.
  await press('Control+k')
  await page.keyboard.type('disable: gamma')
  await press('Enter')
  await toast(page, 'Server "gamma" disabled')
  assert.equal(inFile('gamma').enabled, false)
  await press('Control+k')
  await page.keyboard.type('enable: gamma')
  await page.getByRole('option', { name: 'Enable: gamma' }).waitFor()
  await press('Enter')
  await toast(page, 'Server "gamma" enabled')

  // A menu: down to its end, and out of it again.
  await page.getByRole('button', { name: 'More actions for beta' }).focus()
  await press('Enter')
  await soon('the first item to have the focus', async () => (await focused()) === 'Open')
  await press('End')
  assert.equal(await focused(), 'Delete')
  await press('Escape')
  assert.equal(await focused(), 'More actions for beta')
  await press('g', 'c')
  await page.getByRole('heading', { level: 1, name: 'Calls' }).waitFor()
  await closePage(page)
})

test('ten pages of one browser share one stream, and go on when the one that reads it is closed', async () => {
  const first = await openPage(daemon)
  await row(first, 'alpha').waitFor()
  const streams = []
  first.context().on('request', (request) => {
    const { pathname, search } = new URL(request.url())
    if (pathname === '/api/events') streams.push(search)
  })
  const pages = [first, ...(await Promise.all(Array.from({ length: 9 }, () => anotherPage(first, daemon))))]
  const running = (rows) => Promise.all(rows.map((page) => says(row(page, 'alpha'), 'Running')))
  const kill = async (rows) => {
    const seen = Promise.all(rows.map((page) => says(row(page, 'alpha'), 'Reconnecting...')))
    process.kill((await daemon.server('alpha')).pid, 'SIGKILL')
    await seen
  }
  await running(pages)
  await kill(pages)
  await running(pages)
  assert.deepEqual(streams, [], 'the first reads the stream for all')
  await first.close()
  await soon('another to read it', () => streams.length > 0)
  await kill(pages.slice(1))
  await running(pages.slice(1))
  assert.equal(streams.length, 1)
  assert.match(streams[0], /^\?after=\d+$/, 'it goes on where the first was')
  for (const page of pages.slice(1)) assert.equal(await page.getByText('Mainstay does not answer.').count(), 0)
  const faults = pages.flatMap((page) => page.faults)
  await closePage(pages[1])
  assert.deepEqual(faults, [])
})
