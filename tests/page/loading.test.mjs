// Code that is loaded later and cannot be: what the page says, and how it goes on.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake() } })
  await daemon.connected('alpha')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const abort = (route) => route.abort()
const row = (page, name) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) })
const again = (where) => where.getByRole('alert').getByRole('button', { name: 'Try again' })

/** The start page, whose own code is there; no other code comes. */
async function cutOff() {
  const page = await openPage(daemon)
  await row(page, 'alpha').waitFor()
  await page.route('**/assets/**', abort)
  return page
}
const reconnect = (page) => page.unroute('**/assets/**', abort)

test('a dialog that cannot be loaded says so, tries again, and can be closed', async () => {
  const page = await cutOff()
  await page.getByRole('button', { name: 'Add a server' }).click()
  const failed = page.getByRole('dialog', { name: 'Not loaded' })
  await failed.getByText('This part of the page could not be loaded.').waitFor()
  assert.equal(await failed.getByRole('button', { name: 'Reload the page' }).count(), 0)
  assert.deepEqual(await axe(page), [])
  await page.keyboard.press('Escape')
  await failed.waitFor({ state: 'detached' })
  await soon('the address', () => !page.url().includes('add='))

  for (const name of ['Edit', 'Duplicate']) {
    await page.getByRole('button', { name: 'More actions for alpha' }).click()
    await page.getByRole('menuitem', { name, exact: true }).click()
    await failed.waitFor()
    await failed.getByRole('button', { name: 'Close' }).click()
    await failed.waitFor({ state: 'detached' })
  }
  await page.getByRole('button', { name: 'Add a server' }).click()
  await again(failed).click()
  await failed.getByText('This part of the page could not be loaded again.').waitFor()
  await again(failed).waitFor()
  // While it is tried, the button says so.
  let go
  const slow = async (route) => {
    await new Promise((resolve) => (go = resolve))
    await route.abort()
  }
  await page.route(`${daemon.url}/`, slow)
  await again(failed).click()
  const trying = failed.getByRole('button', { name: 'Trying…' })
  await trying.waitFor()
  await soon('a request', () => go)
  go()
  await trying.waitFor({ state: 'detached' })
  await page.unroute(`${daemon.url}/`, slow)
  await reconnect(page)
  await again(failed).click()
  const add = page.getByRole('dialog', { name: 'Add a server' })
  await add.getByLabel('A snippet, a command line or an address').waitFor()
  await failed.waitFor({ state: 'detached' })
  await closePage(page)
})

test('so do the details of a row, a screen and the charts, with their styles', async () => {
  const page = await cutOff()
  await page.getByRole('button', { name: 'Details of alpha' }).click()
  await again(row(page, 'alpha')).waitFor()
  await page.getByRole('link', { name: 'Calls' }).first().click()
  const main = page.getByRole('main')
  await again(main).waitFor()
  await reconnect(page)
  await again(main).click()
  await page.getByRole('heading', { level: 1, name: 'Calls' }).waitFor()
  // Its sheet of styles failed as well.
  assert.equal(await page.locator('.screen.calls').evaluate((element) => getComputedStyle(element).minHeight), '512px')

  // A chart without a value is words, and loads nothing.
  for (const tool of ['echo', 'error']) await daemon.api('/api/mcp-tools/call', 'POST', { tool: `alpha/${tool}`, arguments: {} })
  await page.route(/uPlot/, abort)
  await page.getByRole('link', { name: 'Overview' }).first().click()
  await again(main).nth(2).waitFor()
  assert.deepEqual(await axe(page), [])
  await page.unroute(/uPlot/, abort)
  await again(main).first().click()
  await page.locator('.uplot').first().waitFor()
  await closePage(page)
})

test('where Mainstay is another version, the page can be loaded again', async () => {
  const page = await cutOff()
  const index = (route) => route.fulfill({ contentType: 'text/html', body: '<script src="/assets/index-other.js"></script>' })
  await page.route(`${daemon.url}/`, index)
  await page.getByRole('button', { name: 'Add a server' }).click()
  const failed = page.getByRole('dialog', { name: 'Not loaded' })
  await failed.getByText('Mainstay has another version now than this page.').waitFor()
  await page.unroute(`${daemon.url}/`, index)
  await reconnect(page)
  await failed.getByRole('button', { name: 'Reload the page' }).click()
  await page.getByRole('dialog', { name: 'Add a server' }).waitFor()
  await closePage(page)
})
