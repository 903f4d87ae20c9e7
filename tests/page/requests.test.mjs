// What servers ask and no client could be asked, answered by a person at the page.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'
import { McpClient } from './mcp.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: { ...fake(), serverRequests: 'queue' }, beta: { ...fake(), serverRequests: 'queue' } } })
  await daemon.connected('alpha', 'beta')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

// What a test leaves behind is not asked in the next one.
afterEach(async () => {
  const { requests } = await daemon.api('/api/server-requests')
  for (const { id } of requests) await daemon.api(`/api/server-requests/${id}`, 'POST', { error: 'left behind' })
})

/** Has a server ask; answers what it was answered, once it is. */
function ask(method, params, server = 'alpha') {
  const call = daemon.api('/api/mcp-tools/call', 'POST', { tool: `${server}/ask`, arguments: { method, params } })
  const answer = call.then(({ result }) => result.content[0].text)
  // Where a test fails before, nobody waits for it.
  answer.catch(() => {})
  return answer
}
const schema = {
  type: 'object',
  required: ['name', 'size'],
  properties: {
    name: { type: 'string', title: 'Your name', minLength: 2 },
    size: { type: 'string', enum: ['s', 'm'], enumNames: ['Small', 'Medium'] },
    count: { type: 'integer', minimum: 1, default: 2 },
    sure: { type: 'boolean' },
  },
}
const elicit = (message = 'Who are you?', server = 'alpha') => ask('elicitation/create', { message, requestedSchema: schema }, server)
const card = (page, server = 'alpha') => page.getByRole('article', { name: new RegExp(`^${server} asks`) }).first()
const badge = (page) => page.getByRole('navigation').getByRole('link', { name: /^Requests/ }).first()
const field = (within, name) => within.getByLabel(new RegExp(`^${name}\\b`)).first()
const nothing = (page) => page.getByText('Nothing waits for an answer').waitFor()

test('a question is answered with content, once that fits', async () => {
  const page = await openPage(daemon, '#/requests')
  await nothing(page)
  const answer = elicit()
  const asked = card(page)
  await asked.getByText('Who are you?', { exact: true }).waitFor()
  await soon('the badge', async () => /1/.test(await badge(page).innerText()))
  await soon('the title', async () => (await page.title()).startsWith('(1) '))
  assert.equal(await field(asked, 'count').inputValue(), '2', 'the default stands in its field')
  await asked.getByRole('button', { name: 'Send the answer' }).click()
  await asked.getByText('A value is required.').first().waitFor()
  assert.equal(await asked.getByText('A value is required.').count(), 2)
  assert.equal((await daemon.api('/api/server-requests')).requests.length, 1, 'nothing was sent')
  await field(asked, 'name').fill('Ada')
  await field(asked, 'size').selectOption({ label: 'Medium' })
  await field(asked, 'sure').selectOption({ label: 'yes' })
  await field(asked, 'count').fill('3')
  await asked.getByRole('button', { name: 'Send the answer' }).click()
  await page.getByText('The request of alpha was answered.').waitFor()
  assert.deepEqual(JSON.parse(await answer).result, { action: 'accept', content: { name: 'Ada', size: 'm', count: 3, sure: true } })
  await nothing(page)
  await soon('the title without a number', async () => !(await page.title()).startsWith('('))
  await closePage(page)
})

test('a question says whose call of which tool caused it', async () => {
  const client = await McpClient.open(daemon, '/mcp', { name: 'Cursor' })
  const page = await openPage(daemon, '#/requests')
  const answered = client.call('alpha__ask', { method: 'elicitation/create', params: { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } } })
  await card(page).getByText('in a call of ask by Cursor').waitFor()
  await card(page).getByRole('button', { name: 'Decline' }).click()
  await answered
  await closePage(page)
})

test('a question is declined, or cancelled', async () => {
  const page = await openPage(daemon, '#/requests')
  for (const [button, action] of [['Decline', 'decline'], ['Cancel', 'cancel']]) {
    const answer = elicit()
    await card(page).getByRole('button', { name: button }).click()
    assert.deepEqual(JSON.parse(await answer).result, { action })
    await nothing(page)
  }
  await closePage(page)
})

test('an address to open is text, and is not opened', async () => {
  const page = await openPage(daemon, '#/requests')
  const url = 'https://evil.invalid/sign-in?state=1'
  const answer = ask('elicitation/create', { mode: 'url', elicitationId: 'e1', url, message: 'Sign in there' })
  await card(page).getByText(url, { exact: true }).first().waitFor()
  assert.equal(await page.locator('a[href*="evil.invalid"], iframe').count(), 0)
  await card(page).getByRole('button', { name: 'I opened it' }).click()
  assert.deepEqual(JSON.parse(await answer).result, { action: 'accept' })
  await closePage(page)
})

test('a message of a model is written by hand, or refused', async () => {
  const params = { systemPrompt: 'Be brief.', maxTokens: 1200, messages: [{ role: 'user', content: { type: 'text', text: 'What is two and two?' } }], modelPreferences: { hints: [{ name: 'small' }] } }
  const page = await openPage(daemon, '#/requests')
  const answer = ask('sampling/createMessage', params)
  const asked = card(page)
  for (const text of ['Be brief.', 'What is two and two?', 'at most 1,200 tokens']) await asked.getByText(text).first().waitFor()
  await asked.getByLabel('Answer', { exact: true }).fill('Four.')
  await asked.getByLabel('Model', { exact: true }).fill('me')
  await asked.getByRole('button', { name: 'Send the answer' }).click()
  assert.deepEqual(JSON.parse(await answer).result, { role: 'assistant', content: { type: 'text', text: 'Four.' }, model: 'me', stopReason: 'endTurn' })
  // The card of one that is answered goes before the next one comes.
  await nothing(page)

  const refused = ask('sampling/createMessage', params)
  await card(page).getByLabel('Why it is refused').fill('not today')
  await card(page).getByRole('button', { name: 'Refuse' }).click()
  assert.match(await refused, /not today/)
  await nothing(page)
  await closePage(page)
})

test('folders are given', async () => {
  const page = await openPage(daemon, '#/requests')
  const answer = ask('roots/list', {})
  await card(page).getByLabel('Folders').fill('/not/a/uri')
  await card(page).getByText('Each line must be a file:// URI.').waitFor()
  assert.ok(await card(page).getByRole('button', { name: 'Send the answer' }).isDisabled())
  await card(page).getByLabel('Folders').fill('file:///home/ada\n\nfile:///tmp')
  await card(page).getByRole('button', { name: 'Send the answer' }).click()
  assert.deepEqual(JSON.parse(await answer).result, { roots: [{ uri: 'file:///home/ada' }, { uri: 'file:///tmp' }] })
  await closePage(page)
})

test('the badge counts on every screen', async () => {
  const page = await openPage(daemon, '#/events')
  const answers = [elicit('first'), elicit('second', 'beta')]
  await soon('two', async () => /2/.test(await badge(page).innerText()))
  await badge(page).click()
  await card(page, 'beta').getByRole('button', { name: 'Decline' }).click()
  await soon('one', async () => /1/.test(await badge(page).innerText()))
  await card(page, 'alpha').getByText('first', { exact: true }).waitFor()
  await card(page, 'alpha').getByRole('button', { name: 'Decline' }).click()
  await Promise.all(answers)
  await soon('none', async () => !/\d/.test(await badge(page).innerText()))
  const types = (await daemon.api('/api/events/recent')).events.map((it) => it.type)
  assert.ok(types.includes('server_request_waiting') && types.includes('server_request_settled'))
  await closePage(page)
})

test('a narrow page says that requests wait: at "More", and in the line of state', async () => {
  const page = await openPage(daemon, '#/servers', { width: 360, height: 780 })
  const more = page.getByRole('button', { name: /^More( \d+)?$/ })
  const need = page.getByRole('banner').getByRole('link', { name: /need/ })
  await page.getByRole('link', { name: 'alpha', exact: true }).waitFor()
  assert.deepEqual([(await more.innerText()).trim(), await need.count()], ['More', 0])
  const answers = [elicit('first'), elicit('second', 'beta')]
  await soon('both at "More"', async () => /^More\s+2$/.test((await more.innerText()).trim()))
  await soon('both in the line of state', async () => (await need.innerText()) === '2 need you')
  for (const it of [more, need]) {
    const { x, width } = await it.boundingBox()
    assert.ok(x >= 0 && x + width <= 360)
  }
  // No server needs anybody: the line of state leads to the requests.
  await need.click()
  for (const message of ['first', 'second']) await page.getByText(message, { exact: true }).waitFor()
  // With a server that needs somebody, it counts both.
  await daemon.api('/api/servers', 'POST', { name: 'spent', command: 'sh', args: ['-c', 'exit 3'], reconnect: { initialFailure: 'error' } })
  await soon('all three', async () => (await need.innerText()) === '3 need you')
  assert.equal(await need.getAttribute('title'), '1 server, 2 requests')
  await need.click()
  await page.getByRole('heading', { level: 1, name: 'Servers' }).waitFor()
  await more.click()
  await soon('the badge in the menu', async () => /2/.test(await page.getByRole('navigation').getByRole('link', { name: /^Requests/ }).last().innerText()))
  await daemon.api('/api/servers/spent', 'DELETE')
  for (const { id } of (await daemon.api('/api/server-requests')).requests) await daemon.api(`/api/server-requests/${id}`, 'POST', { error: 'left behind' })
  await Promise.all(answers)
  await soon('none', async () => (await more.innerText()).trim() === 'More')
  await closePage(page)
})

test('a request that somebody else answers is not taken away from who types', async () => {
  const page = await openPage(daemon, '#/requests')
  const answer = elicit()
  await field(card(page), 'name').fill('half a na')
  const { requests } = await daemon.api('/api/server-requests')
  await daemon.api(`/api/server-requests/${requests[0].id}`, 'POST', { result: { action: 'decline' } })
  await page.getByText('It has ended: somebody else answered it').waitFor()
  await page.getByRole('button', { name: 'Put away' }).click()
  await nothing(page)
  assert.deepEqual(JSON.parse(await answer).result, { action: 'decline' })
  await closePage(page)
})

test('the list is read when something happens, and not again and again', async () => {
  const page = await openPage(daemon, '#/requests')
  await nothing(page)
  let reads = 0
  page.on('request', (request) => {
    if (request.url().endsWith('/api/server-requests')) reads += 1
  })
  const answer = elicit()
  await card(page).getByRole('button', { name: 'Decline' }).click()
  await answer
  await nothing(page)
  await soon('the last event', async () => reads >= 2)
  assert.ok(reads <= 4, `${reads} reads for two events`)
  await closePage(page)
})

test('numbers begin anew with the daemon: the new request is shown, not the old one', async () => {
  const page = await openPage(daemon, '#/requests')
  await daemon.restart()
  await daemon.connected('alpha')
  elicit('before the restart')
  await card(page).getByText('before the restart', { exact: true }).waitFor()
  await daemon.restart()
  await daemon.connected('alpha')
  await page.getByText('before the restart', { exact: true }).waitFor({ state: 'detached' })
  const answer = elicit('after it')
  await card(page).getByText('after it', { exact: true }).waitFor()
  await card(page).getByRole('button', { name: 'Decline' }).click()
  assert.deepEqual(JSON.parse(await answer).result, { action: 'decline' })
  await closePage(page)
})
