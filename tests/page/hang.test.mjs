// The page while the daemon hangs: no connection is closed, and nothing is answered.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, openPage } from './harness.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake() } })
  await daemon.connected('alpha')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

/** The daemon, and the process below it that serves. */
function processes() {
  const pid = daemon.process.pid
  const below = execFileSync('ps', ['-o', 'pid=,comm=', '--ppid', String(pid)], { encoding: 'utf8' }).matchAll(/(\d+) mainstay/g)
  return [pid, ...Array.from(below, ([, child]) => Number(child))]
}

test('a daemon that hangs is noticed in two tabs, and so is its return', async () => {
  const [page, other] = [await openPage(daemon), await openPage(daemon, '#/events')]
  const stopped = processes()
  assert.ok(stopped.length > 1, 'the process that serves')
  for (const pid of stopped) process.kill(pid, 'SIGSTOP')
  try {
    for (const tab of [page, other]) await tab.getByText('Mainstay does not answer.').first().waitFor({ timeout: 60_000 })
  } finally {
    for (const pid of stopped) process.kill(pid, 'SIGCONT')
  }
  for (const tab of [page, other]) await tab.getByText('Mainstay does not answer.').first().waitFor({ state: 'detached' })
  await page.getByText('1 of 1 running').waitFor()
  await closePage(other)
  await closePage(page)
})
