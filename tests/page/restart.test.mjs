// The page while the daemon is gone, and when it is back.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { anotherPage, closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'

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
    await page.getByText('Last seen: 2 of 2 running').waitFor()
    const state = page.getByRole('listitem').getByText('Last seen: Running').first()
    await state.waitFor()
    assert.match(await state.locator('..').getAttribute('class'), /tone-off/)
    assert.equal(await page.locator('main > .screen').evaluate((it) => getComputedStyle(it).filter), 'grayscale(1)')
    await daemon.run()
    await page.getByText('Mainstay does not answer.').first().waitFor({ state: 'detached' })
    await page.getByText('2 of 2 running').waitFor()
    assert.equal(await page.getByText('Last seen: ').count(), 0)
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

/** Addresses, and what stands there once the daemon has answered. */
const OPENED = {
  '#/calls': (page) => page.getByRole('row').filter({ hasText: 'echo' }),
  '#/calls?id=1': (page) => page.getByRole('dialog', { name: 'echo' }).getByText('It ran'),
  '#/calls?compare=1,2&side=1': (page) => page.getByRole('dialog').getByText('hello again'),
  '#/clients/tokens': (page) => page.getByText('No tokens'),
  '#/clients/connect': (page) => page.getByRole('link', { name: 'Cursor' }),
  '#/configuration': (page) => page.locator('.cm-content').getByText('mcpServers'),
  '#/configuration/profiles': (page) => page.getByText('/mcp/meta'),
  '#/servers/alpha/entry': (page) => page.getByRole('tabpanel').getByText('"command"'),
  '#/servers?edit=alpha': (page) => page.getByRole('dialog').getByLabel('Command', { exact: true }),
  '#/servers?copy=alpha': (page) => page.getByRole('dialog').getByLabel('Command', { exact: true }),
  '#/servers?add=clients': (page) => page.getByRole('dialog').getByText('No client with servers was found on this computer.'),
}

test('what is opened while the daemon is gone comes when it is back', async () => {
  for (const text of ['hello', 'hello again']) await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text } })
  // The code of all screens is there.
  const pages = [await openPage(daemon, '#/overview')]
  while (pages.length < Object.keys(OPENED).length) pages.push(await anotherPage(pages[0], daemon, '#/overview'))
  for (const page of pages) await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await daemon.stop()
  for (const [index, address] of Object.keys(OPENED).entries()) await pages[index].goto(`${daemon.url}/${address}`)
  for (const page of pages) await page.getByText('Mainstay does not answer.').first().waitFor()
  await daemon.run()
  for (const [index, [address, content]] of Object.entries(OPENED).entries()) {
    await content(pages[index]).first().waitFor().catch(async (error) => assert.fail(`${address}: ${error.message}\n${await pages[index].locator('body').innerText()}`))
    await soon(address, async () => (await pages[index].getByText('Mainstay does not answer.').count()) === 0)
  }
  await closePage(pages[0])
})

test('a screen and a dialog whose code was not there come when the daemon is back', async () => {
  for (const [address, name] of [['#/calls', 'heading'], ['#/servers?edit=alpha', 'dialog']]) {
    const page = await openPage(daemon)
    await page.getByText('2 of 2 running').waitFor()
    await daemon.stop()
    await page.goto(`${daemon.url}/${address}`)
    await page.getByText('This part of the page could not be loaded.').waitFor()
    await page.getByText('Mainstay does not answer.').first().waitFor()
    await daemon.run()
    await page.getByRole(name, { name: name === 'heading' ? 'Calls' : 'Edit alpha' }).waitFor()
    await closePage(page)
  }
})
