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

test('a row does not say that Mainstay does not answer once it does', async () => {
  const page = await openPage(daemon)
  const row = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'alpha', exact: true }) })
  await row.getByText('Running').waitFor()
  await daemon.stop()
  await row.getByRole('button', { name: 'Restart' }).click()
  await row.getByText('Mainstay does not answer.').waitFor()
  await daemon.run()
  await row.getByText('Mainstay does not answer.').waitFor({ state: 'detached' })
  await row.getByText('Running').waitFor()
  await closePage(page)
})
