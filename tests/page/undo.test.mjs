// What the page changes in the configuration is undone from where it says so. The versions of the file are the daemon's;
// here the answers about them are the test's own, so that other hands are known to the second.
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'

let daemon
/** Newest first, as `GET /api/config/history` has them. */
let versions
let changed
let asked
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake('--tools', '2'), beta: fake(), gamma: fake(), delta: fake() } })
  await daemon.connected('alpha', 'beta', 'gamma', 'delta')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})
beforeEach(() => {
  versions = [3, 2, 1].map((version) => ({ version, at: '2026-11-28T12:00:00Z', reason: 'r', by: 'page' }))
  changed = false
  asked = []
})

async function opened(hash) {
  const page = await openPage(daemon, hash)
  await page.route('**/api/config/history', (route) => route.fulfill({ json: { versions, changed } }))
  await page.route('**/api/config/undo', (route) => {
    asked.push(route.request().postDataJSON())
    return route.fulfill({ json: { success: true, restored: 2, version: 4, summary: '' } })
  })
  return page
}

const toast = (page, text) => page.locator('.toast').filter({ hasText: text })
const undo = (page, text) => toast(page, text).getByRole('button', { name: 'Undo' })

async function edit(page) {
  await page.goto(`${daemon.url}/#/servers?edit=alpha`)
  const dialog = page.getByRole('dialog', { name: 'Edit alpha' })
  await dialog.getByLabel('Working folder').waitFor()
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.waitFor({ state: 'hidden' })
  await toast(page, 'Server "alpha" saved').last().waitFor()
}

test('an edit is undone by the version before it', async () => {
  const page = await opened('#/servers')
  await edit(page)
  await undo(page, 'Server "alpha" saved').click()
  await toast(page, 'Undone: the configuration is as it was before.').waitFor()
  assert.deepEqual(asked, [{ version: 2 }])
  await closePage(page)
})

test('what another hand has changed since is not undone', async () => {
  const page = await opened('#/servers')
  await edit(page)
  await undo(page, 'Server "alpha" saved').waitFor()
  versions = [{ ...versions[0], version: 4, by: 'hand' }, ...versions]
  await undo(page, 'Server "alpha" saved').click()
  await toast(page, 'Not undone: the configuration has changed since.').waitFor()
  assert.deepEqual(asked, [])
  await closePage(page)
})

test('there is no undo where the last change is another hand\'s, or no version is kept', async () => {
  const page = await opened('#/servers')
  versions[0].by = 'hand'
  await edit(page)
  changed = true
  versions[0].by = 'page'
  await edit(page)
  changed = false
  versions = []
  await edit(page)
  await page.waitForTimeout(500)
  assert.equal(await page.getByRole('button', { name: 'Undo' }).count(), 0)
  await closePage(page)
})

test('a deletion of several is undone at once, and one of one', async () => {
  const page = await opened('#/servers')
  for (const name of ['beta', 'gamma']) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
  await page.getByRole('toolbar').getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('dialog', { name: 'Delete 2 servers?' }).getByRole('button', { name: 'Delete' }).click()
  await undo(page, '2 servers done').click()
  await soon('the undo', () => asked.length === 1)
  assert.deepEqual(asked, [{ version: 1 }])
  await page.goto(`${daemon.url}/#/servers?delete=delta`)
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await undo(page, 'Server "delta" deleted').click()
  await soon('the undo', () => asked.length === 2)
  assert.deepEqual(asked[1], { version: 2 })
  await closePage(page)
})

test('a tool that was switched off where it is listed is switched back', async () => {
  const page = await opened('#/servers/alpha/tools')
  await page.getByRole('searchbox').fill('tool_1')
  await page.getByRole('switch', { name: 'alpha/tool_1 available to clients' }).click({ force: true })
  await undo(page, 'alpha/tool_1 is switched off').click()
  await soon('the undo', () => asked.length === 1)
  assert.deepEqual(asked, [{ version: 2 }])
  await closePage(page)
})

test('a refusal is told', async () => {
  const page = await opened('#/servers')
  await page.unroute('**/api/config/undo')
  await page.route('**/api/config/undo', (route) => route.fulfill({ status: 409, json: { error: 'config_changed', message: 'the file has changed' } }))
  await edit(page)
  await undo(page, 'Server "alpha" saved').click()
  await toast(page, 'Not undone: the file has changed').waitFor()
  await closePage(page)
})
