// More actions without a mouse, each by itself: what it does, and that the focus is not lost.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { closeBrowser, Daemon, fake, FAKE_SERVER, folder, scripted, soon } from './harness.mjs'
import { closeForKeys, enter, escape, has, openForKeys, push, reach } from './keys.mjs'

/** A tool with a list and a choice of kinds. */
const CHOOSY = {
  name: 'choosy',
  inputSchema: {
    type: 'object',
    properties: {
      list: { type: 'array', items: { type: 'string' } },
      either: { oneOf: [{ type: 'string', title: 'By name' }, { type: 'object', title: 'By number', properties: { number: { type: 'integer' } }, required: ['number'] }] },
    },
  },
}

let daemon, scripts
before(async () => {
  scripts = folder()
  daemon = await Daemon.start({
    mcpServers: {
      alpha: fake('--tool', JSON.stringify(CHOOSY)),
      beta: fake('--tools', '2'),
      asking: { ...fake(), serverRequests: 'queue' },
      written: scripted(scripts, 'written', {
        resources: [{ uri: 'notes://today', name: 'today' }],
        contents: { 'notes://today': [{ uri: 'notes://today', mimeType: 'text/plain', text: 'buy milk' }] },
        prompts: [{ name: 'greet', arguments: [{ name: 'who', required: true }] }],
        messages: [{ role: 'user', content: { type: 'text', text: 'Say hello' } }],
      }),
    },
    profiles: { few: { servers: ['alpha'] } },
  })
  await daemon.connected('alpha', 'beta', 'asking', 'written')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
  if (scripts) fs.rmSync(scripts, { recursive: true, force: true })
})

const inFile = () => JSON.parse(fs.readFileSync(daemon.config, 'utf8'))
const says = (where, text) => where.getByText(text).first().waitFor()
const dialog = (page, name) => page.getByRole('dialog', { name })
const button = (where, name) => where.getByRole('button', { name, exact: true })
const newest = async (query) => (await daemon.api(`/api/call-records?limit=1&${query}`)).calls[0]

test('a server is duplicated', async () => {
  const page = await openForKeys(daemon)
  const menu = button(page, 'More actions for beta')
  await push(page, menu)
  await push(page, page.getByRole('menuitem', { name: 'Duplicate' }), 'Enter', 'ArrowDown')
  const form = dialog(page, 'Duplicate beta')
  await enter(page, form.getByLabel('Name', { exact: true }), 'twin')
  await push(page, button(form, 'Review'))
  await push(page, button(dialog(page, 'Review before saving'), 'Save and start'))
  await says(page, 'Server "twin" added')
  await daemon.connected('twin')
  assert.deepEqual(inFile().mcpServers.twin, inFile().mcpServers.beta)
  await has(page, menu)
  await closeForKeys(page)
})

test('a server is added by the form', async () => {
  const page = await openForKeys(daemon)
  const add = button(page, 'Add a server')
  await push(page, add)
  const form = dialog(page, 'Add a server')
  await reach(page, form.getByRole('tab', { name: 'Paste' }), 'Shift+Tab')
  await page.keyboard.press('ArrowRight')
  await has(page, form.getByRole('tab', { name: 'Form' }))
  await enter(page, form.getByLabel('Name', { exact: true }), 'formed')
  await enter(page, form.getByLabel('Command'), FAKE_SERVER)
  await enter(page, form.getByLabel('Arguments'), '--tools')
  await page.keyboard.press('Enter')
  await page.keyboard.type('1')
  await push(page, button(form, 'Review'))
  await push(page, button(dialog(page, 'Review before saving'), 'Save and start'))
  await says(page, 'Server "formed" added')
  await daemon.connected('formed')
  assert.deepEqual(inFile().mcpServers.formed, fake('--tools', '1'))
  await has(page, add)
  await closeForKeys(page)
})

test('a profile is edited', async () => {
  const page = await openForKeys(daemon, '#/configuration/profiles')
  await push(page, button(page, 'Edit: few'))
  const form = dialog(page, 'Profile few')
  await push(page, form.getByRole('checkbox', { name: 'beta' }), 'Space')
  await enter(page, form.getByLabel('Without these tools'), 'beta/tool_2')
  await push(page, button(form, 'Review and save'))
  const review = dialog(page, 'Save the configuration')
  await says(review, 'beta/tool_2')
  await has(page, button(review, 'Cancel'))
  await reach(page, button(review, 'Save and put in force'))
  await page.keyboard.press('Enter')
  await review.waitFor({ state: 'detached' })
  await has(page, page.locator('main:focus, main :focus'))
  assert.deepEqual(inFile().profiles.few.servers, ['alpha', 'beta'])
  await closeForKeys(page)
})

test('a profile is deleted', async () => {
  const page = await openForKeys(daemon, '#/configuration/profiles')
  const remove = button(page, 'Delete: few')
  await push(page, remove)
  const sure = page.getByRole('dialog', { name: /^Delete/ })
  await has(page, button(sure, 'Cancel'))
  await page.keyboard.press('Enter')
  await has(page, remove)
  await page.keyboard.press('Enter')
  await push(page, button(sure, 'Delete'))
  const review = dialog(page, 'Save the configuration')
  await has(page, button(review, 'Cancel'))
  await remove.waitFor({ state: 'detached' })
  await reach(page, button(review, 'Save and put in force'))
  await page.keyboard.press('Enter')
  await review.waitFor({ state: 'detached' })
  await has(page, page.locator('main:focus, main :focus'))
  assert.equal(inFile().profiles?.few, undefined)
  await closeForKeys(page)
})

test('the file changed meanwhile: it is compared, loaded, or written over', async () => {
  const page = await openForKeys(daemon, '#/configuration')
  const editor = page.getByRole('textbox', { name: 'Configuration, as JSON' })
  const notice = page.getByRole('alert').filter({ hasText: 'The file has changed meanwhile.' })
  const text = fs.readFileSync(daemon.config, 'utf8')
  /** Types a line in front, while another hand gives a server this timeout; goes to a button of the notice. */
  async function meet(timeout, name) {
    await reach(page, editor)
    await page.keyboard.press('Control+Home')
    await page.keyboard.press('Enter')
    const config = inFile()
    config.mcpServers.beta.timeout = timeout
    fs.writeFileSync(daemon.config, JSON.stringify(config, null, 2))
    await notice.waitFor()
    await has(page, editor)
    await escape(page)
    await reach(page, button(notice, name), 'Shift+Tab')
  }
  const isSaveable = async () => !(await button(page, 'Save…').isDisabled())

  await meet(41_000, 'Show the difference')
  await page.keyboard.press('Enter')
  await notice.getByRole('region', { name: 'From the file to your text' }).getByText('41000').waitFor()
  await has(page, button(notice, 'Show the difference'))
  await push(page, button(notice, 'Load the file, drop my changes'))
  await notice.waitFor({ state: 'detached' })
  await has(page, page.locator('main:focus, main :focus'))
  assert.equal(await isSaveable(), false)
  assert.equal(inFile().mcpServers.beta.timeout, 41_000)

  await meet(42_000, 'Keep my text, save over it')
  await page.keyboard.press('Enter')
  await notice.waitFor({ state: 'detached' })
  await has(page, page.locator('main:focus, main :focus'))
  await soon('the text to be saveable', isSaveable)
  await push(page, button(page, 'Save…'), 'Enter', 'Shift+Tab')
  const review = dialog(page, 'Save the configuration')
  await push(page, button(review, 'Save and put in force'))
  await review.waitFor({ state: 'detached' })
  assert.equal(inFile().mcpServers.beta.timeout, 41_000)
  fs.writeFileSync(daemon.config, text)
  await closeForKeys(page)
})

test('an entry that changed while it was edited is written over', async () => {
  const page = await openForKeys(daemon, '#/servers/beta')
  const edit = button(page, 'Edit')
  await push(page, edit)
  const form = dialog(page, 'Edit beta')
  await enter(page, form.getByLabel('Arguments'), '--tools')
  await page.keyboard.press('Enter')
  await page.keyboard.type('3')
  const config = inFile()
  config.mcpServers.beta.timeout = 43_000
  fs.writeFileSync(daemon.config, JSON.stringify(config, null, 2))
  await soon('the file to be in force', async () => (await daemon.api('/api/servers/beta')).entry.timeout === 43_000)
  await push(page, button(form, 'Save'))
  await says(form.getByRole('alert'), 'The entry has changed meanwhile.')
  await has(page, button(form, 'Save'))
  await push(page, button(form, 'Keep my changes, save over it'), 'Enter', 'Shift+Tab')
  await form.waitFor({ state: 'detached' })
  assert.deepEqual(inFile().mcpServers.beta, fake('--tools', '3'))
  await has(page, edit)
  await closeForKeys(page)
})

test('calls of one server are chosen', async () => {
  for (const server of ['alpha', 'beta']) await daemon.api('/api/mcp-tools/call', 'POST', { tool: `${server}/echo`, arguments: { text: 'x' } })
  const page = await openForKeys(daemon, '#/calls')
  const list = page.getByRole('table', { name: 'Calls, the newest first' })
  await list.getByRole('link', { name: 'alpha/echo' }).waitFor()
  const menu = page.getByRole('button', { name: /^Server/ })
  await push(page, menu)
  const box = page.getByRole('group', { name: 'Server' }).getByRole('checkbox', { name: 'beta' })
  await push(page, box, 'Space', 'ArrowDown')
  await list.getByRole('link', { name: 'alpha/echo' }).waitFor({ state: 'detached' })
  await list.getByRole('link', { name: 'beta/echo' }).waitFor()
  await has(page, box)
  await escape(page)
  await has(page, menu)
  await box.waitFor({ state: 'detached' })
  assert.match(page.url(), /server=beta/)
  await closeForKeys(page)
})

test('events of one type are chosen', async () => {
  await daemon.api('/api/servers/beta/restart', 'POST')
  await daemon.connected('beta')
  const page = await openForKeys(daemon, '#/events')
  const rows = page.getByRole('table', { name: 'Events, the newest first' }).getByRole('row').filter({ has: page.getByRole('cell') })
  await rows.first().waitFor()
  const menu = page.getByRole('button', { name: /^Type/ })
  await push(page, menu)
  const box = page.getByRole('group', { name: 'Type' }).getByRole('checkbox', { name: 'Server lost or stopped' })
  await push(page, box, 'Space', 'ArrowDown')
  const { events } = await daemon.api('/api/events/recent?type=server_disconnected')
  assert.ok(events.length > 0)
  await soon('these events alone', async () => (await rows.count()) === events.length)
  await has(page, box)
  await escape(page)
  await has(page, menu)
  assert.match(page.url(), /type=server_disconnected/)
  await closeForKeys(page)
})

/** Has a server ask; answers what it was answered, once it is. */
function ask(method, params) {
  const answer = daemon.api('/api/mcp-tools/call', 'POST', { tool: 'asking/ask', arguments: { method, params } }).then(({ result }) => JSON.parse(result.content[0].text).result)
  // Where a test fails before, nobody waits for it.
  answer.catch(() => {})
  return answer
}

test('a question of a server is declined', async () => {
  const page = await openForKeys(daemon, '#/requests')
  const answer = ask('elicitation/create', { message: 'Who are you?', requestedSchema: { type: 'object', properties: { name: { type: 'string' } } } })
  await push(page, button(page.getByRole('article'), 'Decline'))
  assert.deepEqual(await answer, { action: 'decline' })
  await says(page, 'Nothing waits for an answer')
  await has(page, page.locator('main:focus, main :focus'))
  await closeForKeys(page)
})

test('a message of a model is written', async () => {
  const page = await openForKeys(daemon, '#/requests')
  const answer = ask('sampling/createMessage', { maxTokens: 100, messages: [{ role: 'user', content: { type: 'text', text: 'What is two and two?' } }] })
  const card = page.getByRole('article')
  await enter(page, card.getByLabel('Answer', { exact: true }), 'Four.')
  await enter(page, card.getByLabel('Model', { exact: true }), 'me')
  await push(page, button(card, 'Send the answer'))
  assert.deepEqual(await answer, { role: 'assistant', content: { type: 'text', text: 'Four.' }, model: 'me', stopReason: 'endTurn' })
  await says(page, 'Nothing waits for an answer')
  await has(page, page.locator('main:focus, main :focus'))
  await closeForKeys(page)
})

test('folders are given', async () => {
  const page = await openForKeys(daemon, '#/requests')
  const answer = ask('roots/list', {})
  const card = page.getByRole('article')
  await enter(page, card.getByLabel('Folders'), 'file:///home/ada')
  await page.keyboard.press('Enter')
  await page.keyboard.type('file:///tmp')
  await push(page, button(card, 'Send the answer'))
  assert.deepEqual(await answer, { roots: [{ uri: 'file:///home/ada' }, { uri: 'file:///tmp' }] })
  await says(page, 'Nothing waits for an answer')
  await has(page, page.locator('main:focus, main :focus'))
  await closeForKeys(page)
})

test('a prompt is got', async () => {
  const page = await openForKeys(daemon, '#/tools')
  await reach(page, page.getByRole('tab', { name: 'Tools' }))
  await page.keyboard.press('ArrowRight')
  await has(page, page.getByRole('tab', { name: 'Prompts' }))
  const row = page.getByRole('button', { name: /written\/greet/ })
  await push(page, row)
  const drawer = dialog(page, 'Prompt written/greet')
  await enter(page, drawer.getByLabel(/^who\b/).first(), 'Ada')
  await push(page, button(drawer, 'Get the prompt'))
  await says(drawer, 'Say hello')
  await has(page, button(drawer, 'Get the prompt'))
  const record = await soon('a record', () => newest('server=written&tool=greet'))
  assert.deepEqual((await daemon.api(`/api/call-records/${record.id}`)).arguments, { who: 'Ada' })
  await escape(page)
  await has(page, row)
  await closeForKeys(page)
})

test('a resource is read', async () => {
  const page = await openForKeys(daemon, '#/tools')
  await reach(page, page.getByRole('tab', { name: 'Tools' }))
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('ArrowRight')
  await has(page, page.getByRole('tab', { name: 'Resources' }))
  const row = page.getByRole('button', { name: /notes:\/\/today/ })
  await push(page, row)
  const drawer = dialog(page, 'Resource today')
  await says(drawer, 'buy milk')
  await push(page, button(drawer, 'Read again'))
  await has(page, button(drawer, 'Read again'))
  await escape(page)
  await has(page, row)
  await closeForKeys(page)
})

test('a form with a list and a choice is filled in', async () => {
  const page = await openForKeys(daemon, '#/tools/alpha/choosy')
  const form = page.getByRole('tabpanel', { name: 'Form' })
  const list = form.getByRole('group', { name: /^list\b/ }).first()
  const add = list.getByRole('button', { name: 'Add an item' })
  for (const [index, text] of ['first', 'gone', 'third'].entries()) {
    await push(page, add)
    await enter(page, list.getByRole('textbox', { name: new RegExp(`^Item ${index + 1}\\b`) }), text)
  }
  await push(page, list.getByRole('button', { name: 'Remove Item 2' }), 'Enter', 'Shift+Tab')
  await soon('two items', async () => (await list.getByRole('button', { name: /^Remove Item/ }).count()) === 2)
  await has(page, list.locator(':focus'))

  const either = form.getByRole('group', { name: /^either\b/ }).first()
  await push(page, either.getByRole('button', { name: 'Add' }))
  const kind = either.getByLabel('Which kind')
  await reach(page, kind)
  await page.keyboard.type('By number')
  await has(page, kind)
  await enter(page, either.getByLabel(/^number\b/).first(), '12')
  await push(page, button(page, 'Call'))
  await says(page.getByRole('region', { name: 'Result' }), 'Answered')
  const record = await soon('a record', () => newest('server=alpha&tool=choosy'))
  assert.deepEqual((await daemon.api(`/api/call-records/${record.id}`)).arguments, { list: ['first', 'third'], either: { number: 12 } })
  await has(page, button(page, 'Call'))
  await closeForKeys(page)
})

test('the colours are chosen', async () => {
  const page = await openForKeys(daemon, '#/settings')
  const scheme = () => page.evaluate(() => document.documentElement.dataset.scheme)
  const radio = (name) => page.getByRole('radiogroup', { name: 'Colours' }).getByRole('radio', { name })
  await reach(page, radio('Light'))
  await page.keyboard.press('ArrowRight')
  await soon('dark', async () => (await scheme()) === 'dark')
  await has(page, radio('Dark'))
  await page.keyboard.press('ArrowLeft')
  await soon('light', async () => (await scheme()) === 'light')
  await has(page, radio('Light'))
  await closeForKeys(page)
})

// The last one: the daemon has another token afterwards.
test('who is signed out since the token was replaced signs in with the new one', async () => {
  const page = await openForKeys(daemon, '#/clients/tokens')
  await reach(page, page.getByRole('tab', { name: 'Tokens' }))
  const old = daemon.token
  daemon.token = (await daemon.api('/api/token/rotate', 'POST')).token
  await page.getByRole('heading', { name: 'Sign in to Mainstay' }).waitFor()
  const field = page.getByLabel('Control token')
  await enter(page, field, old)
  await page.keyboard.press('Enter')
  await says(page.getByRole('alert'), 'This is not the control token.')
  await has(page, field)
  await enter(page, field, daemon.token)
  await push(page, button(page, 'Sign in'))
  await page.getByRole('heading', { level: 1, name: 'Clients' }).waitFor()
  await has(page, page.locator('main:focus, main :focus, nav :focus'))
  assert.match(page.url(), /clients\/tokens$/)
  await closeForKeys(page)
})
