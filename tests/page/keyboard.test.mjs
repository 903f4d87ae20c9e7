// A person without a mouse: nothing here is clicked, and no element is given the focus but by keys.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { closeBrowser, Daemon, fake, FAKE_SERVER, soon } from './harness.mjs'
import { closeForKeys as closePage, enter, has, openForKeys as openPage, push, reach } from './keys.mjs'
import { McpClient } from './mcp.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ ownTools: ['control'], mcpServers: { alpha: fake(), asking: { ...fake(), serverRequests: 'queue' } } })
  await daemon.connected('alpha', 'asking')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const inFile = () => JSON.parse(fs.readFileSync(daemon.config, 'utf8'))
const says = (page, text) => page.getByText(text).first().waitFor()
const dialog = (page, name) => page.getByRole('dialog', { name })

test('a tool is found, filled in and called', async () => {
  const page = await openPage(daemon)
  await page.keyboard.press('g')
  await page.keyboard.press('t')
  await page.getByRole('heading', { level: 1, name: 'Tools' }).waitFor()
  await page.getByRole('list', { name: 'Tools' }).getByRole('link').first().waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type('alpha/add')
  await soon('one tool', async () => (await page.getByRole('list', { name: 'Tools' }).getByRole('link').count()) === 1)
  await push(page, page.getByRole('list', { name: 'Tools' }).getByRole('link'))
  const form = page.getByRole('tabpanel', { name: 'Form' })
  await enter(page, form.getByLabel(/^a\b/), '2')
  await enter(page, form.getByLabel(/^b\b/), '40')
  await page.keyboard.press('Control+Enter')
  await page.getByRole('region', { name: 'Result' }).getByText('42').first().waitFor()
  await closePage(page)
})

test('a tool is called right after its screen was opened', async () => {
  const page = await openPage(daemon, '#/tools/alpha/error')
  await page.getByRole('button', { name: 'Call', exact: true }).waitFor()
  await page.keyboard.press('Control+Enter')
  await page.getByRole('region', { name: 'Result' }).waitFor()
  await closePage(page)
})

test('a request of a server is answered', async () => {
  const page = await openPage(daemon)
  const requestedSchema = { type: 'object', required: ['name'], properties: { name: { type: 'string' } } }
  const answer = daemon.api('/api/mcp-tools/call', 'POST', { tool: 'asking/ask', arguments: { method: 'elicitation/create', params: { message: 'Who are you?', requestedSchema } } })
  await page.keyboard.press('g')
  await page.keyboard.press('r')
  const card = page.getByRole('article')
  await enter(page, card.getByLabel(/^name\b/), 'Ada')
  await push(page, card.getByRole('button', { name: 'Send the answer' }))
  assert.deepEqual(JSON.parse((await answer).result.content[0].text).result, { action: 'accept', content: { name: 'Ada' } })
  await closePage(page)
})

test('a server is added, edited and deleted', async () => {
  const page = await openPage(daemon)
  await push(page, page.getByRole('button', { name: 'Add a server' }))
  await enter(page, page.getByLabel('A snippet, a command line or an address'), `${FAKE_SERVER} --tools 1`)
  await page.keyboard.press('Control+Enter')
  const review = dialog(page, 'Review before saving')
  await enter(page, review.getByLabel('Name'), 'typed')
  await push(page, review.getByRole('button', { name: 'Save and start' }))
  await says(page, 'Server "typed" added')
  await has(page, page.getByRole('button', { name: 'Add a server' }))
  assert.deepEqual(inFile().mcpServers.typed.args, ['--tools', '1'])

  await page.keyboard.press('Control+k')
  await page.keyboard.type('edit: typed')
  await page.getByRole('option', { name: 'Edit: typed' }).waitFor()
  await page.keyboard.press('Enter')
  await enter(page, dialog(page, 'Edit typed').getByLabel('Arguments'), '--tools')
  await page.keyboard.press('Enter')
  await page.keyboard.type('2')
  await push(page, dialog(page, 'Edit typed').getByRole('button', { name: 'Save' }))
  await says(page, 'Server "typed" saved')
  assert.deepEqual(inFile().mcpServers.typed.args, ['--tools', '2'])

  // Saved from a menu, the focus is at the menu again.
  const menu = page.getByRole('button', { name: 'More actions for typed' })
  await push(page, menu)
  await reach(page, page.getByRole('menuitem', { name: 'Edit' }), 'ArrowDown')
  await page.keyboard.press('Enter')
  await push(page, dialog(page, 'Edit typed').getByRole('button', { name: 'Save' }))
  await dialog(page, 'Edit typed').waitFor({ state: 'detached' })
  await has(page, menu)

  await push(page, page.getByRole('button', { name: 'More actions for typed' }))
  await reach(page, page.getByRole('menuitem', { name: 'Delete' }), 'ArrowUp')
  await page.keyboard.press('Enter')
  await push(page, dialog(page, 'Delete typed?').getByRole('button', { name: 'Delete' }))
  await says(page, 'Server "typed" deleted')
  assert.equal(inFile().mcpServers.typed, undefined)
  await closePage(page)
})

test('the button of a server keeps the focus while it works', async () => {
  const page = await openPage(daemon, '#/servers/alpha')
  const button = (name) => page.getByRole('button', { name, exact: true }).first()
  let go
  await page.route('**/api/servers/alpha/restart', async (route) => {
    await new Promise((resolve) => (go = resolve))
    await route.continue()
  })
  await push(page, button('Restart'))
  const working = page.locator('[aria-busy=true]')
  await has(page, working)
  assert.equal(await working.getAttribute('aria-disabled'), 'true')
  await page.keyboard.press('Enter')
  go()
  await says(page, 'Server "alpha" restarted')
  await has(page, button('Restart'))
  assert.equal(await page.getByText('Server "alpha" restarted').count(), 1, 'a second Enter did nothing')
  await daemon.api('/api/servers/alpha/stop', 'POST')
  await has(page, button('Start'))
  await page.keyboard.press('Enter')
  await says(page, 'Server "alpha" started')
  await has(page, button('Restart'))
  await closePage(page)
})

test('what a client adds is approved', async () => {
  const client = await McpClient.open(daemon, '/mcp', { token: daemon.token })
  await client.call('add_server', { name: 'asked', ...fake('--tools', '1') })
  const page = await openPage(daemon)
  await push(page, page.getByRole('button', { name: 'Review' }))
  await push(page, dialog(page, 'Approve asked?').getByRole('button', { name: 'Approve and start' }))
  await says(page, 'Server "asked" approved')
  await soon('the focus to stay in the page', () => page.evaluate(() => document.activeElement.closest('main') !== null))
  assert.ok((await daemon.server('asked')).connected)
  await closePage(page)
})

test('two calls are compared', async () => {
  for (const text of ['one', 'two']) await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text } })
  const page = await openPage(daemon, '#/calls?tool=echo')
  const boxes = page.getByRole('checkbox', { name: /^Select call \d+ of/ })
  await soon('both calls', async () => (await boxes.count()) === 2)
  await push(page, boxes.nth(0), 'Space')
  await push(page, boxes.nth(1), 'Space')
  await push(page, page.getByRole('button', { name: 'Compare', exact: true }))
  const both = page.getByRole('dialog')
  await both.getByText(/"one"/).first().waitFor()
  await both.getByText(/"two"/).first().waitFor()
  await page.keyboard.press('Escape')
  await both.waitFor({ state: 'detached' })
  await closePage(page)
})

test('a token is made and removed', async () => {
  const page = await openPage(daemon, '#/clients')
  await reach(page, page.getByRole('tab', { name: 'Sessions' }))
  await page.keyboard.press('ArrowRight')
  await has(page, page.getByRole('tab', { name: 'Tokens' }))
  await push(page, page.getByRole('button', { name: 'Make a token' }))
  await enter(page, dialog(page, 'Make a token').getByLabel('Name of the client'), 'laptop')
  await push(page, dialog(page, 'Make a token').getByRole('button', { name: 'Make a token' }))
  await page.getByRole('region', { name: 'The token of laptop' }).waitFor()
  assert.equal((await daemon.api('/api/tokens')).tokens.length, 1)
  await push(page, page.getByRole('button', { name: 'Remove: laptop' }))
  await push(page, dialog(page, 'Remove the token of laptop?').getByRole('button', { name: 'Remove' }))
  await soon('no token', async () => (await daemon.api('/api/tokens')).tokens.length === 0)
  await closePage(page)
})

test('a profile is added', async () => {
  const page = await openPage(daemon, '#/configuration/profiles')
  await push(page, page.getByRole('button', { name: 'Add a profile' }))
  const form = dialog(page, 'New profile')
  await enter(page, form.getByLabel('Name', { exact: true }), 'few')
  await reach(page, form.getByRole('radio', { name: /^All servers/ }))
  await page.keyboard.press('ArrowDown')
  await push(page, form.getByRole('checkbox', { name: 'alpha' }), 'Space')
  await push(page, form.getByRole('button', { name: 'Review and save' }))
  await push(page, dialog(page, 'Save the configuration').getByRole('button', { name: 'Save and put in force' }))
  await soon('the profile in the file', () => inFile().profiles?.few)
  assert.deepEqual(inFile().profiles.few.servers, ['alpha'])
  await closePage(page)
})
