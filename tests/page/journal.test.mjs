// Without a journal: every screen that shows records says so once, and where to turn it on.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, openPage } from './harness.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ journal: { enabled: false }, mcpServers: { alpha: fake() } })
  await daemon.connected('alpha')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

test('each screen says that the journal is off, and none shows an error', async () => {
  const page = await openPage(daemon)
  for (const hash of ['#/overview', '#/calls', '#/servers/alpha/calls']) {
    await page.goto(`${daemon.url}/${hash}`)
    await page.getByRole('heading', { name: 'The journal is off' }).waitFor()
    assert.equal(await page.getByRole('heading', { name: 'The journal is off' }).count(), 1, hash)
    assert.equal(await page.getByRole('alert').count(), 0, hash)
    assert.deepEqual(await axe(page), [], hash)
    await page.getByRole('link', { name: 'Open the configuration' }).click()
    await page.getByRole('heading', { level: 1, name: 'Configuration' }).waitFor()
  }
  for (const hash of ['#/servers/alpha', '#/tools/alpha/echo', '#/settings/about']) {
    await page.goto(`${daemon.url}/${hash}`)
    await page.getByText('The journal is off: calls and states are not recorded.').waitFor()
    assert.equal(await page.getByRole('alert').count(), 0, hash)
  }
  await closePage(page)
})
