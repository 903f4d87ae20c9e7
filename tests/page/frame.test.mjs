// What floats above the screens: dialogs, drawers and menus.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake() } })
  await daemon.connected('alpha')
  await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text: 'x' } })
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

/** What has the focus: its role or element, and its name. */
const focused = (page) =>
  page.evaluate(() => {
    const it = document.activeElement
    const name = it.getAttribute('aria-label') ?? it.labels?.[0]?.textContent ?? it.textContent
    return `${it.classList.contains('content') ? 'content' : it.localName} ${name.trim().slice(0, 40)}`.trim()
  })
const has = (page, what) => soon(`the focus to be at ${what}`, async () => (await focused(page)) === what)

test('a dialog gives the focus to its first field, a confirmation to Cancel', async () => {
  const page = await openPage(daemon, '#/clients/tokens')
  await page.getByRole('button', { name: 'Make a token' }).first().press('Enter')
  await has(page, 'input Name of the client')
  await page.keyboard.type('desk')
  await page.keyboard.press('Enter')
  await page.getByRole('region', { name: 'The token of desk' }).waitFor()
  await page.getByRole('button', { name: 'Remove: desk' }).press('Enter')
  await has(page, 'button Cancel')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await has(page, 'button Remove: desk')
  assert.equal((await daemon.api('/api/tokens')).tokens.length, 1, 'nothing was removed')
  await daemon.api('/api/tokens/desk', 'DELETE')

  await page.goto(`${daemon.url}/#/servers?add=1`)
  await has(page, 'textarea A snippet, a command line or an address')
  await page.goto(`${daemon.url}/#/servers?edit=alpha`)
  await has(page, 'input Command')
  await page.goto(`${daemon.url}/#/servers?delete=alpha`)
  await has(page, 'button Cancel')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await closePage(page)
})

test('drawers and menus give the focus to what comes first in them', async () => {
  const page = await openPage(daemon, '#/clients?switches=somebody')
  await has(page, 'input Filter')
  // A drawer to read: the keys that scroll, scroll it.
  await page.goto(`${daemon.url}/#/calls`)
  await page.getByRole('link', { name: /alpha\/echo/ }).first().press('Enter')
  await page.getByRole('dialog', { name: 'alpha/echo' }).waitFor()
  await soon('the focus to be in the content', async () => (await focused(page)).startsWith('content'))
  await page.keyboard.press('Tab')
  assert.ok(await page.evaluate(() => document.activeElement.closest('dialog .content') !== null), 'the next key leads into it')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })

  await page.getByRole('button', { name: /^Status/ }).press('Enter')
  await soon('the first choice to have the focus', () => page.evaluate(() => document.activeElement.matches('[role=group][aria-label=Status] input')))
  await page.keyboard.press('Escape')
  await has(page, 'button Status')

  await page.goto(`${daemon.url}/#/servers/alpha`)
  await page.getByRole('button', { name: 'More actions' }).press('Enter')
  await soon('the first action to have the focus', () => page.evaluate(() => document.activeElement.matches('li:first-child > [role=menuitem]')))
  await page.keyboard.press('Escape')
  await has(page, 'button More actions')
  await closePage(page)
})
