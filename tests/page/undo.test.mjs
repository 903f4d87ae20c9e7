// What the page changes in the configuration is undone from where it says so: the file and its servers are as before.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'
import { McpClient } from './mcp.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({
    ownTools: ['control'],
    mcpServers: { alpha: fake('--tools', '2'), beta: { ...fake(), env: { API_KEY: 'sk-live-0123456789abcdef' } }, gamma: fake(), delta: fake() },
  })
  await daemon.connected('alpha', 'beta', 'gamma', 'delta')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const onDisk = () => fs.readFileSync(daemon.config, 'utf8')
const newest = (page) => page.locator('.toast').last()
const undo = (page) => newest(page).getByRole('button', { name: 'Undo' })
const says = (page, text) => newest(page).filter({ hasText: text }).waitFor()
const dialog = (page, name) => page.getByRole('dialog', { name })

/** Does something that the page says, and undoes it there: afterwards every byte of the file is as before. */
async function undone(page, said, change) {
  const was = onDisk()
  await change()
  await says(page, said)
  assert.notEqual(onDisk(), was, said)
  await undo(page).click()
  await soon(`${said}: the file as it was`, () => onDisk() === was)
  await says(page, 'Undone: the configuration is as it was before.')
}

async function edit(page, change = async () => {}) {
  await page.goto(`${daemon.url}/#/servers?edit=alpha`)
  const editor = dialog(page, 'Edit alpha')
  await editor.getByLabel('Arguments').waitFor()
  await change(editor)
  await editor.getByRole('button', { name: 'Save' }).click()
  await editor.waitFor({ state: 'hidden' })
  await says(page, 'Server "alpha" saved')
}
const tools = async () => (await daemon.api('/api/mcp-tools?server=alpha')).tools.filter((it) => it.original_name.startsWith('tool_')).length
const withTools = (count) => (editor) => editor.getByLabel('Arguments').fill(`--tools\n${count}`)

async function menu(page, name, item) {
  await page.getByRole('button', { name: `More actions for ${name}` }).click()
  await page.getByRole('menuitem', { name: item }).click()
}
const select = async (page, ...names) => {
  for (const name of names) await page.getByRole('checkbox', { name: `Select ${name}` }).check()
}

test('an edit of an entry', async () => {
  const page = await openPage(daemon, '#/servers')
  await undone(page, 'Server "alpha" saved', async () => {
    await edit(page, withTools(5))
    await soon('five tools', async () => (await tools()) === 5)
  })
  await soon('two tools', async () => (await tools()) === 2)
  await closePage(page)
})

test('a server that is disabled, and several', async () => {
  const page = await openPage(daemon, '#/servers')
  await undone(page, 'Server "gamma" disabled', async () => {
    await menu(page, 'gamma', 'Disable')
    await soon('gamma to be disabled', async () => !(await daemon.server('gamma')).enabled)
  })
  await daemon.connected('gamma')
  await undone(page, '2 servers done', async () => {
    await select(page, 'gamma', 'delta')
    await page.getByRole('toolbar').getByRole('button', { name: 'Disable' }).click()
    await dialog(page, 'Disable 2 servers?').getByRole('button', { name: 'Disable' }).click()
  })
  await daemon.connected('gamma', 'delta')
  // What runs or not is not in the file.
  await select(page, 'gamma')
  await page.getByRole('toolbar').getByRole('button', { name: 'Restart' }).click()
  await says(page, '1 server done')
  await page.waitForTimeout(500)
  assert.equal(await undo(page).count(), 0)
  await closePage(page)
})

test('the switch of auto-start', async () => {
  const page = await openPage(daemon, '#/servers')
  await undone(page, 'gamma is not started with Mainstay.', () => page.getByRole('switch', { name: 'Start gamma with Mainstay' }).click({ force: true }))
  await soon('gamma to start by itself', async () => (await daemon.server('gamma')).autoStart)
  await closePage(page)
})

test('a deletion, of one and of several', async () => {
  const page = await openPage(daemon, '#/servers?delete=delta')
  await undone(page, 'Server "delta" deleted', () => page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click())
  await daemon.connected('delta')
  await undone(page, '2 servers done', async () => {
    await select(page, 'beta', 'delta')
    await page.getByRole('toolbar').getByRole('button', { name: 'Delete' }).click()
    await dialog(page, 'Delete 2 servers?').getByRole('button', { name: 'Delete' }).click()
  })
  await daemon.connected('beta', 'delta')
  await page.getByRole('link', { name: 'beta' }).first().waitFor()
  await closePage(page)
})

test('a replacement: the secrets of the entry are back', async () => {
  const page = await openPage(daemon, '#/servers?add=paste')
  await undone(page, 'Server "beta" replaced', async () => {
    await page.getByLabel('A snippet, a command line or an address').fill(JSON.stringify({ mcpServers: { beta: fake('--tools', '3') } }))
    await page.getByRole('button', { name: 'Read it' }).click()
    await page.getByRole('button', { name: 'Replace beta' }).click()
    await dialog(page, 'Review before saving').getByRole('button', { name: 'Replace beta' }).last().click()
    await soon('the secret to be gone', () => !onDisk().includes('sk-live-0123456789abcdef'))
  })
  assert.ok(onDisk().includes('sk-live-0123456789abcdef'))
  await closePage(page)
})

test('several that are added at once, by one notice', async () => {
  const page = await openPage(daemon, '#/servers?add=paste')
  await undone(page, '2 servers saved: one, two', async () => {
    await page.getByLabel('A snippet, a command line or an address').fill(JSON.stringify({ mcpServers: { one: fake(), two: fake() } }))
    await page.getByRole('button', { name: 'Read it' }).click()
    await dialog(page, 'Review before saving').getByRole('button', { name: 'Save and start 2 servers' }).click()
    await daemon.connected('one', 'two')
    await undo(page).waitFor()
    assert.equal(await page.locator('.toast').count(), 1)
  })
  await closePage(page)
})

test('an approval: the server is gone', async () => {
  const client = await McpClient.open(daemon, '/mcp', { name: 'Cursor', version: '1', token: daemon.token })
  await client.call('add_server', { name: 'asked', ...fake() })
  const page = await openPage(daemon, '#/servers?review=asked')
  await undone(page, 'Server "asked" approved', async () => {
    await dialog(page, 'Approve asked?').getByRole('button', { name: 'Approve and start' }).click()
    await daemon.connected('asked')
  })
  await soon('asked to be gone', async () => !(await daemon.api('/api/servers')).servers.some((it) => it.name === 'asked'))
  await closePage(page)
})

test('a tool that is switched off, where it is listed and on its screen', async () => {
  const page = await openPage(daemon, '#/servers/alpha/tools')
  const isListed = async () => (await daemon.api('/api/mcp-tools?server=alpha')).tools.some((it) => it.original_name === 'tool_1')
  await page.getByRole('searchbox').fill('tool_1')
  await undone(page, 'alpha/tool_1 is switched off', () => page.getByRole('switch', { name: 'alpha/tool_1 available to clients' }).click({ force: true }))
  await soon('the tool', isListed)
  await page.goto(`${daemon.url}/#/tools/alpha/tool_1`)
  await undone(page, 'alpha/tool_1 is switched off', () => page.getByRole('switch', { name: 'Available to clients' }).click({ force: true }))
  await soon('the tool', isListed)
  await closePage(page)
})

test('a text that is saved in the editor', async () => {
  const page = await openPage(daemon, '#/configuration')
  const editor = page.getByRole('textbox', { name: 'Configuration, as JSON' })
  await undone(page, 'Saved and put in force.', async () => {
    await editor.locator('.cm-line').filter({ hasText: '"2"' }).click()
    await page.keyboard.press('End')
    await page.keyboard.press('Shift+Home')
    await page.keyboard.type('"4"')
    await page.getByRole('button', { name: 'Save…' }).click()
    await dialog(page, 'Save the configuration').getByRole('button', { name: 'Save and put in force' }).click()
    await soon('four tools', async () => (await tools()) === 4)
  })
  await soon('two tools', async () => (await tools()) === 2)
  await editor.locator('.cm-line').filter({ hasText: '"2"' }).waitFor()
  await closePage(page)
})

test('what another hand has changed since stays', async () => {
  const page = await openPage(daemon, '#/servers')
  await edit(page, withTools(3))
  await undo(page).waitFor()
  const was = onDisk()
  // The page has not heard of it yet when Undo is pressed.
  await page.route('**/api/config/history', async (route) => {
    const answer = await route.fetch()
    await route.fulfill({ json: { ...(await answer.json()), changed: true } })
  })
  await undo(page).click()
  await says(page, 'Not undone: the configuration has changed since.')
  await page.unroute('**/api/config/history')
  assert.equal(onDisk(), was)
  // Once it has, the notice goes by itself.
  await edit(page, withTools(4))
  await undo(page).waitFor()
  const changed = onDisk().replace('"mcpServers"', '"health": {"intervalMs": 60000},\n  "mcpServers"')
  fs.writeFileSync(daemon.config, changed)
  await undo(page).waitFor({ state: 'detached' })
  assert.equal(onDisk(), changed)
  await closePage(page)
})

test('of two changes only the newer has an undo', async () => {
  const page = await openPage(daemon, '#/servers')
  await edit(page, withTools(5))
  await undo(page).waitFor()
  await menu(page, 'gamma', 'Disable')
  await says(page, 'Server "gamma" disabled')
  await undo(page).waitFor()
  await page.locator('.toast').filter({ hasText: 'Server "alpha" saved' }).waitFor({ state: 'detached' })
  assert.equal(await page.locator('.toasts').getByRole('button', { name: 'Undo' }).count(), 1)
  await undo(page).click()
  await daemon.connected('gamma')
  await closePage(page)
})

test('what another hand has changed before stays, too', async () => {
  const page = await openPage(daemon, '#/servers')
  fs.writeFileSync(daemon.config, onDisk().replace('60000', '61000'))
  await soon('the daemon to read it', async () => (await daemon.api('/api/config/history')).versions[0].by === 'hand')
  await undone(page, 'Server "alpha" saved', () => edit(page, withTools(4)))
  assert.ok(onDisk().includes('61000'))
  await closePage(page)
})

test('what changed nothing has nothing to be undone, whatever the page changed before', async () => {
  const page = await openPage(daemon, '#/servers')
  await edit(page, withTools(6))
  await undo(page).waitFor()
  const was = onDisk()
  await page.locator('.toast').getByRole('button', { name: 'Close' }).click()
  await edit(page)
  assert.equal(onDisk(), was)
  await page.waitForTimeout(500)
  assert.equal(await undo(page).count(), 0)
  await closePage(page)
})

test('there is no undo where no version is kept', async () => {
  const page = await openPage(daemon, '#/servers')
  await page.route('**/api/config/history', (route) => route.fulfill({ json: { versions: [], changed: false } }))
  await edit(page, withTools(7))
  await page.waitForTimeout(500)
  assert.equal(await undo(page).count(), 0)
  await closePage(page)
})

test('a refusal is told', async () => {
  const page = await openPage(daemon, '#/servers')
  await page.route('**/api/config/undo', (route) => route.fulfill({ status: 409, json: { error: 'config_changed', message: 'the file has changed' } }))
  await edit(page, withTools(8))
  await undo(page).click()
  await says(page, 'Not undone: the file has changed')
  await closePage(page)
})
