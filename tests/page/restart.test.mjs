// The page while the daemon is gone, and when it is back.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, openPage } from './harness.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake(), beta: fake() } })
  await daemon.connected('alpha', 'beta')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

test('everything stays readable while the daemon is gone, and comes back by itself', async () => {
  for (const signal of ['SIGTERM', 'SIGKILL']) {
    const page = await openPage(daemon)
    await page.evaluate(() => (window.sameDocument = true))
    await page.getByText('2 of 2 running').waitFor()
    await daemon.stop(signal)
    await page.getByText('Mainstay does not answer.').first().waitFor()
    assert.ok(await page.getByRole('link', { name: 'alpha' }).first().isVisible(), 'what was known is shown')
    await daemon.run()
    await page.getByText('Mainstay does not answer.').first().waitFor({ state: 'detached' })
    await page.getByText('2 of 2 running').waitFor()
    assert.ok(await page.evaluate(() => window.sameDocument), 'the page was not loaded again')
    await closePage(page)
  }
})
