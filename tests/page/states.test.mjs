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
      stubborn: fake('--ignore-sigterm', '--ignore-stdin-eof'),
      needing: { command: 'sh', args: needing, reconnect: { initialDelayMs: 100, maxAttempts: 2 }, restart: { mode: 'as_reconnect' } },
      // Its next attempt goes on and on once the file is there.
      retrying: { command: 'sh', args: ['-c', 'test -f "$0" && exec sleep 600; echo "fatal: no database" >&2; exit 3', path.join(scripts, 'hang')], reconnect: { initialDelayMs: 8000, maxDelayMs: 8000, jitter: 0 } },
      one: fake(),
      two: fake(),
    },
  })
  await daemon.connected('fragile', 'stubborn', 'one', 'two')
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

test('Degraded: it runs, and what is wrong is said', async () => {
  const page = await openPage(daemon)
  await says(row(page, 'mute'), 'Degraded')
  await says(row(page, 'mute'), /did not answer|no answer|silent/)
  await page.goto(`${daemon.url}/#/servers/mute`)
  await says(page.getByRole('region', { name: 'Why' }), /It runs, but not well/)
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
