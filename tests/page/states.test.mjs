// States that are rare, how a person gets a server out of them, and what is said at once of what was asked for.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, FAKE_SERVER, folder, openPage, soon } from './harness.mjs'
import { countFrames, framesUntil } from './measure.mjs'

let daemon
let scripts
/** A server over HTTP that lets nobody in. */
let locked
before(async () => {
  scripts = folder()
  locked = spawn(FAKE_SERVER, ['http', '--status', '401', '--status-on-all'], { stdio: ['ignore', 'pipe', 'ignore'] })
  let said = ''
  locked.stdout.on('data', (chunk) => (said += chunk))
  const address = await soon('the server over HTTP', () => /listening on (\S+)/.exec(said)?.[1])
  // Starts once the file is there.
  const needing = ['-c', 'test -f "$0" || { echo "fatal: no database" >&2; exit 4; }; exec "$1"', path.join(scripts, 'database'), FAKE_SERVER]
  daemon = await Daemon.start({
    mcpServers: {
      locked: { url: `http://${address}/mcp` },
      fragile: { ...fake(), restart: { mode: 'never' } },
      mute: { ...fake('--ignore-ping'), health: { intervalMs: 100, timeoutMs: 100, threshold: 1, action: 'event' } },
      hanging: { ...fake('--hang-after', '1'), health: { intervalMs: 500, timeoutMs: 500, threshold: 2, action: 'event' } },
      stubborn: fake('--ignore-sigterm', '--ignore-stdin-eof'),
      needing: { command: 'sh', args: needing, reconnect: { initialDelayMs: 100, maxAttempts: 2 }, restart: { mode: 'as_reconnect' } },
      // Its next attempt goes on and on once the file is there.
      retrying: { command: 'sh', args: ['-c', 'test -f "$0" && exec sleep 600; echo "fatal: no database" >&2; exit 3', path.join(scripts, 'hang')], restart: { maxAttempts: 0 }, reconnect: { initialDelayMs: 8000, maxDelayMs: 8000, jitter: 0 } },
      one: fake(),
      two: fake(),
    },
  })
  await daemon.connected('fragile', 'hanging', 'stubborn', 'one', 'two')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
  locked?.kill()
  if (scripts) fs.rmSync(scripts, { recursive: true, force: true })
})

const row = (page, name) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) })
const says = (where, text) => where.getByText(text).first().waitFor()
const inFile = (name) => JSON.parse(fs.readFileSync(daemon.config, 'utf8')).mcpServers[name]
const all = async (names, fits) => (await Promise.all(names.map((name) => daemon.server(name)))).every(fits)

test('Unauthorized: its reason, and the next step', async () => {
  const page = await openPage(daemon)
  await says(row(page, 'locked'), 'Unauthorized')
  await says(row(page, 'locked'), /401/)
  await page.getByRole('button', { name: 'Details of locked' }).click()
  await says(row(page, 'locked'), 'Renew the token in its entry, then reconnect.')
  await page.goto(`${daemon.url}/#/servers/locked`)
  await says(page.getByRole('region', { name: 'Why' }), /401/)
  await says(page.locator('.bar'), 'Unauthorized')
  await closePage(page)
})

test('Crashed: it stays so until a person restarts it', async () => {
  const page = await openPage(daemon)
  const fragile = row(page, 'fragile')
  await says(fragile, 'Running')
  process.kill((await daemon.server('fragile')).pid, 'SIGKILL')
  await says(fragile, 'Crashed')
  await says(fragile, /signal 9/)
  assert.equal((await daemon.server('fragile')).status, 'crashed')
  await fragile.getByRole('button', { name: 'Restart' }).click()
  await says(page, 'Server "fragile" restarted')
  await says(fragile, 'Running')
  await closePage(page)
})

test('Degraded: a server that hangs stands apart from those that run, with why and since when', async () => {
  const page = await openPage(daemon)
  const [hanging, state] = [row(page, 'hanging'), page.getByRole('banner')]
  await says(hanging, 'Running')
  const running = async () => Number(/^\s*(\d+) of \d+ running/.exec(await state.innerText())?.[1])
  const before = await running()
  // It answers one call, and hears nothing any more.
  await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'hanging/echo', arguments: { text: 'x' } })
  await says(hanging, 'Degraded')
  const told = [/^asked, silent for \d+ s$/, /^ping timed out/, /^since \d\d:\d\d:\d\d$/]
  for (const text of told) await says(hanging, text)
  await soon('the line of state to count it', async () => (await running()) === before - 1 && /\d degraded/.test(await state.innerText()))
  // Since when, as the daemon has it; it outlives the evidence and the page.
  const { degradedSince } = await daemon.server('hanging')
  const shown = () => hanging.getByText(told[2])
  assert.equal(Date.parse((await shown().getAttribute('title')).replace('Degraded since ', '')), Date.parse(degradedSince))
  const first = await shown().innerText()
  await page.reload()
  await soon('the same time after a reload', async () => (await shown().innerText()) === first)
  // All of it is in sight at each width, in its own group, above those that run.
  for (const width of [360, 700, 900, 1280, 2560]) {
    await page.setViewportSize({ width, height: 1400 })
    for (const text of told) {
      const part = hanging.getByText(text)
      assert.ok(await part.evaluate((it) => it.scrollWidth <= it.clientWidth || getComputedStyle(it).display === 'inline'), `${text} at ${width} px`)
      const { x, width: wide } = await part.boundingBox()
      assert.ok(wide > 50 && x + wide <= width, `${text} at ${width} px`)
    }
  }
  const headings = await page.getByRole('list', { name: 'Servers' }).getByRole('heading', { level: 2 }).allInnerTexts()
  const place = (name) => headings.findIndex((it) => it.startsWith(name))
  assert.ok(place('Degraded') >= 0 && place('Degraded') < place('Running'), headings.join())
  await state.getByRole('link', { name: /degraded/ }).click()
  const names = page.getByRole('list', { name: 'Servers' }).locator('a[href^="#/servers/"]')
  await soon('those alone', async () => (await names.allTextContents()).sort().join() === 'hanging,mute')
  assert.equal(await page.getByRole('button', { name: /^Degraded \d/, pressed: true }).count(), 1)

  await page.goto(`${daemon.url}/#/servers/hanging`)
  const why = page.getByRole('region', { name: 'Why' })
  await says(why, /It runs, but not well: ping timed out/)
  await says(why, /Restart it if it does not recover/)
  await why.getByText('Since', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Restart' }).click()
  await page.goto(`${daemon.url}/#/servers`)
  await says(hanging, 'Running')
  assert.equal(await shown().count(), 0)
  await closePage(page)
})

test('Stopping: while a process that does not end is waited for', async () => {
  const page = await openPage(daemon)
  const stubborn = row(page, 'stubborn')
  await says(stubborn, 'Running')
  const stopped = daemon.api('/api/servers/stubborn/stop', 'POST')
  await says(stubborn, 'Stopping')
  await stopped
  await says(stubborn, 'Stopped')
  await closePage(page)
})

test('one that was given up is restarted once the cause is repaired, and runs', async () => {
  const page = await openPage(daemon)
  const needing = row(page, 'needing')
  await says(needing, 'Connection failed after max retries')
  await says(needing, /fatal: no database/)
  assert.equal((await daemon.server('needing')).status, 'failed')
  fs.writeFileSync(path.join(scripts, 'database'), '')
  await needing.getByRole('button', { name: 'Restart' }).click()
  await says(page, 'Server "needing" restarted')
  await says(needing, 'Running')
  assert.equal((await daemon.server('needing')).connected, true)
  assert.equal(await needing.getByText('Connection failed after max retries').count(), 0)
  await closePage(page)
})

test('while an attempt runs, the row says why the last one failed and what this one does', async () => {
  const page = await openPage(daemon)
  const retrying = row(page, 'retrying')
  const widths = [360, 700, 900, 1280, 2560]
  const heights = async () => {
    const all = []
    for (const width of widths) {
      await page.setViewportSize({ width, height: 1400 })
      all.push((await retrying.boundingBox()).height)
    }
    return all
  }
  await says(retrying, /^attempt \d+ · next in \d/)
  const before = await heights()
  fs.writeFileSync(path.join(scripts, 'hang'), '')
  const start = retrying.getByText(/^Starting: (at work|silent|no sign of work) for \d+ s/)
  await start.waitFor()
  const reason = retrying.getByText('process exited unexpectedly (code 3)')
  for (const width of widths) {
    await page.setViewportSize({ width, height: 1400 })
    for (const part of [reason, start]) {
      const { x, width: wide } = await part.boundingBox()
      assert.ok(wide > 100 && x + wide <= width, `at ${width} px`)
    }
  }
  assert.deepEqual(await heights(), before, 'the row is as high as it was')
  await page.goto(`${daemon.url}/#/servers/retrying`)
  await says(page.getByRole('region', { name: 'Why' }), 'process exited unexpectedly (code 3)')
  await says(page.getByRole('region', { name: 'Why' }), /^attempt \d+ is under way: (at work|silent|no sign of work) for \d+ s/)
  await closePage(page)
})

test('several at once: stopped, started, reconnected, disabled and enabled', async () => {
  const names = ['one', 'two']
  const page = await openPage(daemon)
  const bar = page.getByRole('toolbar')
  const together = async (button) => {
    for (const name of names) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
    await bar.getByRole('button', { name: button, exact: true }).click()
    // What ends them asks first.
    if (button === 'Stop' || button === 'Disable') await page.getByRole('dialog').getByRole('button', { name: button, exact: true }).click()
    await bar.waitFor({ state: 'detached' })
  }
  const show = async (word) => {
    for (const name of names) await says(row(page, name), word)
  }
  await show('Running')
  await together('Stop')
  await show('Stopped')
  assert.ok(await all(names, (it) => !it.connected))
  await together('Start')
  await show('Running')
  const before = await Promise.all(names.map((name) => daemon.server(name)))
  await together('Reconnect now')
  await show('Running')
  const now = await Promise.all(names.map((name) => daemon.server(name)))
  for (const at of [0, 1]) assert.notEqual(now[at].pid, before[at].pid)
  await together('Disable')
  await show('Disabled')
  assert.deepEqual(names.map((name) => inFile(name).enabled), [false, false])
  await together('Enable')
  await show('Running')
  assert.ok(names.every((name) => inFile(name).enabled !== false))
  await closePage(page)
})

test('what was asked for is said at once, though the daemon takes its time', async () => {
  const DELAY_MS = 1000
  const page = await openPage(daemon)
  const one = row(page, 'one')
  await says(one, 'Running')
  let isAnswered = false
  await page.route('**/api/servers/one/restart', async (route) => {
    const answer = await route.fetch()
    await new Promise((resolve) => setTimeout(resolve, DELAY_MS))
    isAnswered = true
    await route.fulfill({ response: answer })
  })
  await countFrames(page, 'Restarting…')
  await one.getByRole('button', { name: 'Restart' }).click()
  await says(one, 'Restarting…')
  assert.equal(isAnswered, false, 'it is said before the answer')
  assert.ok((await framesUntil(page)) <= 2)
  await says(page, 'Server "one" restarted')
  assert.ok(isAnswered)
  await closePage(page)
})
