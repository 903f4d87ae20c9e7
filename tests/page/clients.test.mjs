// Clients: their sessions and switches, their tokens, their files.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { axe, closeBrowser, closePage, Daemon, fake, FAKE_SERVER, openPage, soon } from './harness.mjs'
import { McpClient, modernCall } from './mcp.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake(), beta: fake() }, profiles: { docs: { servers: ['alpha'] } } })
  await daemon.connected('alpha', 'beta')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const servers = async (client) => [...new Set((await client.tools()).map((tool) => tool.split('__')[0]))].sort()

test('sessions are listed with what is known of them', async () => {
  const page = await openPage(daemon, '#/clients')
  await page.getByText('No client is connected').waitFor()
  await McpClient.open(daemon, '/mcp/docs', { name: 'desk', version: '1.2.3' })
  const sessions = page.getByRole('list', { name: 'Sessions' })
  const row = sessions.getByRole('listitem').filter({ hasText: 'desk' })
  await row.waitFor()
  for (const words of ['1.2.3', '/mcp/docs', '2025-06-18', 'Streamable HTTP']) await row.getByText(words).first().waitFor()
  await row.getByText(/(just now|\d+ s ago|seconds? ago)/).first().waitFor()
  assert.deepEqual(await axe(page), [])
  await page.getByRole('searchbox').fill('nobody')
  await row.waitFor({ state: 'detached' })
  assert.match(page.url(), /text=nobody/)
  await page.getByRole('searchbox').fill('desk')
  await row.waitFor()
  await closePage(page)
})

test('a session is ended: its client is answered with 404, and opens a new one', async () => {
  const leaver = await McpClient.open(daemon, '/mcp', { name: 'leaver' })
  const stayer = await McpClient.open(daemon, '/mcp', { name: 'stayer' })
  const page = await openPage(daemon, '#/clients')
  await page.getByRole('button', { name: 'End session: leaver' }).click()
  const sure = page.getByRole('dialog', { name: 'End the session of leaver?' })
  assert.deepEqual(await axe(page), [])
  await sure.getByRole('button', { name: 'Cancel' }).click()
  await sure.waitFor({ state: 'detached' })
  assert.ok((await leaver.tools()).length > 0, 'nothing was ended')
  await page.getByRole('button', { name: 'End session: leaver' }).click()
  await sure.getByRole('button', { name: 'End session' }).click()
  await page.getByRole('button', { name: 'End session: leaver' }).waitFor({ state: 'detached' })
  await assert.rejects(leaver.tools(), /404/)
  assert.ok((await stayer.tools()).length > 0)
  await McpClient.open(daemon, '/mcp', { name: 'leaver' })
  await page.getByRole('button', { name: 'End session: leaver' }).waitFor()
  await closePage(page)
})

test('a session of one server is ended on its screen', async () => {
  const visitor = await McpClient.open(daemon, '/servers/alpha/mcp', { name: 'visitor' })
  const page = await openPage(daemon, '#/servers/alpha/sessions')
  await page.getByRole('button', { name: 'End session: visitor 1.2.3' }).click()
  await page.getByRole('dialog', { name: 'End the session of visitor?' }).getByRole('button', { name: 'End session' }).click()
  await page.getByText('No client has a session of its own with this server.').waitFor()
  await assert.rejects(visitor.tools(), /404/)
  await closePage(page)
})

test('where a session cannot be ended, the reason is told; one on stdio has no button for it', async () => {
  await McpClient.open(daemon, '/mcp', { name: 'held' })
  const page = await openPage(daemon, '#/clients')
  await page.route('**/api/sessions?*', async (route) => {
    const response = await route.fetch()
    const answer = await response.json()
    const held = answer.sessions.find((it) => it.client.name === 'held')
    await route.fulfill({ response, json: { ...answer, sessions: [...answer.sessions, { ...held, id: 'piped', client: { name: 'piped', version: '1' }, transport: 'stdio' }] } })
  })
  await page.route('**/api/sessions/*', (route) => route.fulfill({ status: 503, json: { error: 'shutting_down', message: 'Mainstay is shutting down' } }))
  const rows = page.getByRole('list', { name: 'Sessions' }).getByRole('listitem')
  await rows.filter({ hasText: 'piped' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'End session: piped' }).count(), 0)
  await page.getByRole('button', { name: 'End session: held' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'End session' }).click()
  await page.getByText('Error: Mainstay is shutting down').waitFor()
  await page.getByRole('button', { name: 'End session: held' }).waitFor()
  await closePage(page)
})

test('calls of a client without a name are those of its session', async () => {
  const nameless = await McpClient.open(daemon, '/mcp', { name: '' })
  await nameless.call('alpha__echo', { text: 'of the nameless' })
  const named = await McpClient.open(daemon, '/mcp', { name: 'named' })
  await named.call('beta__echo', { text: 'of another' })
  const page = await openPage(daemon, '#/clients')
  await page.getByRole('link', { name: 'Calls: unnamed client' }).click()
  await page.getByRole('link', { name: /alpha\/echo/ }).waitFor()
  assert.match(page.url(), /session=/)
  assert.equal(await page.getByRole('link', { name: /beta\/echo/ }).count(), 0)
  await closePage(page)
})

test('clients without a session are seen lately, with their switches', async () => {
  const quiet = await Daemon.start({ mcpServers: { alpha: fake() }, profiles: { docs: { servers: ['alpha'] } } })
  try {
    await quiet.connected('alpha')
    const page = await openPage(quiet, '#/clients')
    await page.getByRole('heading', { name: 'No client is connected' }).waitFor()
    for (let calls = 0; calls < 3; calls += 1) await modernCall(quiet, '/mcp/docs', { name: 'modern', version: '3.1' }, 'alpha__echo', { text: 'hello' })
    const row = page.getByRole('list', { name: 'Seen lately' }).getByRole('listitem')
    await row.waitFor()
    assert.equal(await page.getByText('No client is connected').count(), 0)
    for (const words of ['modern', '3.1', '/mcp/docs', '2026-07-28', '3 calls', /^(just now|\d+ (s|min) ago)$/]) await row.getByText(words).first().waitFor()
    assert.deepEqual(await axe(page), [])
    assert.equal(await row.getByRole('button', { name: /^End session/ }).count(), 0, 'it has none')
    assert.equal(await row.getByRole('link', { name: 'Calls: modern' }).getAttribute('href'), '#/calls?client=modern')
    await row.getByRole('button', { name: 'Switches: modern' }).click()
    assert.match(page.url(), /switches=modern/)
    await page.getByRole('switch', { name: 'alpha for modern' }).uncheck({ force: true })
    await soon('alpha to be off', async () => (await quiet.api('/api/switches')).clients.modern?.servers[0] === 'alpha')
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    assert.equal(await page.getByRole('heading', { name: 'Not connected now' }).count(), 0, 'it is there once')
    await closePage(page)
  } finally {
    await quiet.end()
  }
})

test('a server is switched off for one client alone, and on again', async () => {
  const one = await McpClient.open(daemon, '/mcp', { name: 'one' })
  const two = await McpClient.open(daemon, '/mcp', { name: 'two' })
  assert.deepEqual(await servers(one), ['alpha', 'beta'])
  const page = await openPage(daemon, '#/clients')
  await page.getByRole('button', { name: 'Switches: one' }).click()
  const drawer = page.getByRole('dialog', { name: 'Servers of one' })
  const beta = drawer.getByRole('switch', { name: 'beta for one' })
  assert.equal(await beta.isChecked(), true)
  assert.deepEqual(await axe(page), [])
  await beta.uncheck({ force: true })
  await drawer.getByText(/1 server$/).waitFor()
  assert.deepEqual(await servers(one), ['alpha'])
  assert.deepEqual(await servers(two), ['alpha', 'beta'])
  assert.deepEqual((await daemon.api('/api/switches')).clients, { one: { servers: ['beta'], tools: [] } })

  // The filter is in the address, and goes with the drawer.
  const filter = drawer.getByRole('searchbox')
  await filter.fill('bet')
  await soon('alpha to be out of sight', async () => (await drawer.getByRole('switch').count()) === 1)
  assert.match(page.url(), /server=bet/)
  await page.reload()
  await beta.waitFor()
  assert.equal(await filter.inputValue(), 'bet')
  assert.equal(await drawer.getByRole('switch').count(), 1)
  await drawer.getByRole('button', { name: 'Close' }).click()
  await page.getByRole('button', { name: 'Switches: one' }).click()
  await soon('all servers', async () => (await drawer.getByRole('switch').count()) === 2)
  assert.doesNotMatch(page.url(), /server=/)

  // One tool of the other server.
  await drawer.getByRole('button', { name: 'Tools of alpha' }).click()
  await drawer.getByRole('switch', { name: 'echo', exact: true }).uncheck({ force: true })
  await soon('echo to be gone', async () => !(await one.tools()).includes('alpha__echo'))
  assert.ok((await two.tools()).includes('alpha__echo'))

  await drawer.getByRole('button', { name: 'Close' }).click()
  await page.getByRole('listitem').filter({ hasText: 'one' }).getByText('1 server, 1 tool').waitFor()
  await page.getByRole('button', { name: 'Switches: one' }).click()
  await beta.check({ force: true })
  await drawer.getByText('1 tool', { exact: false }).first().waitFor()
  await soon('beta to be on again', async () => (await servers(one)).includes('beta'))
  await drawer.getByRole('button', { name: 'Switch everything on' }).click()
  await drawer.getByText('Everything is on', { exact: true }).waitFor()
  assert.ok((await one.tools()).includes('alpha__echo'))
  await closePage(page)
})

test('an entry of a client is copied, and the servers of its file are imported', async () => {
  const file = path.join(daemon.home, '.cursor', 'mcp.json')
  const theirs = JSON.stringify({ mcpServers: { memory: { command: FAKE_SERVER, args: ['--tools', '1'] }, alpha: { command: 'other' } } }, null, 2)
  fs.mkdirSync(path.dirname(file))
  fs.writeFileSync(file, theirs)
  const page = await openPage(daemon, '#/clients/connect')
  const choice = page.getByRole('navigation', { name: 'Clients' })
  await choice.getByRole('link', { name: /^Cursor/ }).click()
  await page.getByRole('heading', { name: 'Cursor', level: 2 }).waitFor()
  await page.getByText(file).first().waitFor()
  await page.getByRole('figure').filter({ hasText: 'mainstay' }).getByRole('button', { name: 'Copy' }).click()
  await page.getByText('Copied').waitFor()
  const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()))
  assert.deepEqual(copied, { mcpServers: { mainstay: { url: `${daemon.url}/mcp` } } })
  assert.deepEqual(await axe(page), [])

  // Another client, in its own format.
  await choice.getByRole('link', { name: /^Codex/ }).click()
  await page.getByText('[mcp_servers.mainstay]').waitFor()
  await choice.getByRole('link', { name: 'Any other client' }).click()
  await page.getByLabel('Profile').selectOption({ label: '/mcp/docs' })
  await page.getByText(`${daemon.url}/mcp/docs`).first().waitFor()

  await choice.getByRole('link', { name: /^Cursor/ }).click()
  await page.getByRole('note').getByText('MCP servers execute commands on your computer.').waitFor()
  assert.equal(await page.getByRole('checkbox', { name: 'alpha' }).isChecked(), false, 'its name is taken')
  await page.getByRole('button', { name: 'Take over 1 server' }).click()
  await page.getByText('Added: memory').waitFor()
  await daemon.connected('memory')
  assert.ok(JSON.parse(fs.readFileSync(daemon.config, 'utf8')).mcpServers.memory)
  assert.equal(fs.readFileSync(file, 'utf8'), theirs, 'the file of the client is as it was')

  // A name that is taken by another server.
  await page.getByRole('checkbox', { name: 'alpha' }).check()
  await page.getByRole('button', { name: 'Take over 1 server' }).click()
  await page.getByText(/alpha/).filter({ hasText: /left out|Added/ }).first().waitFor()
  await closePage(page)
})

const run = promisify(execFile)

/** Every client's entry on the page is that of `mainstay export`; answers the clients. */
async function entriesFit(page, flag) {
  const { clients } = await daemon.api('/api/client-files')
  const env = { ...process.env, HOME: daemon.home, MAINSTAY_HOME: path.join(daemon.home, 'state') }
  delete env.MAINSTAY
  const differ = []
  for (const { id, title } of clients) {
    await page.goto(`${daemon.url}/#/clients?connect=${id}`)
    await page.getByRole('heading', { name: title, exact: true, level: 2 }).waitFor()
    const shown = await page.getByRole('figure').filter({ hasText: 'Entry' }).locator('pre').first().innerText()
    const { stdout } = await run(process.env.MAINSTAY, ['export', '--for', id, ...flag(id)], { env })
    if (shown.trim() !== stdout.trim()) differ.push(`${id}: ${shown}\n--- mainstay export:\n${stdout}`)
  }
  assert.deepEqual(differ, [])
  return clients
}

test('the entry of every client is that of mainstay export, with and without tokens', async () => {
  const page = await openPage(daemon, '#/clients/connect')
  const byUrl = new Set((await daemon.api('/api/client-files')).clients.filter(({ snippet }) => snippet.text.includes(`${daemon.url}/mcp`)).map(({ id }) => id))
  const clients = await entriesFit(page, (id) => (byUrl.has(id) ? ['--http', `${daemon.url}/mcp`] : ['--connect']))
  assert.ok(clients.length >= 15 && byUrl.size >= 10 && byUrl.size < clients.length, `${byUrl.size} of ${clients.length} by URL`)

  // Once a token is asked for, none has the address alone: it would be refused.
  await daemon.api('/api/tokens', 'POST', { name: 'somebody' })
  try {
    await page.reload()
    for (const { id, snippet } of await entriesFit(page, () => ['--connect'])) assert.ok(!snippet.text.includes(daemon.url) && snippet.text.includes('connect'), `${id}: ${snippet.text}`)
  } finally {
    await daemon.api('/api/tokens/somebody', 'DELETE')
  }
  await closePage(page)
})

test('a token is shown once, opens the MCP addresses under its name, and nothing after it is removed', async () => {
  for (const name of ['without-one', 'without-two']) await McpClient.open(daemon, '/mcp', { name })
  const page = await openPage(daemon, '#/clients/tokens')
  const sent = []
  page.on('request', (request) => sent.push(request.url() + (request.postData() ?? '')))
  await page.getByRole('heading', { name: 'No tokens yet' }).waitFor()
  await page.getByRole('button', { name: 'Make a token' }).first().click()
  const dialog = page.getByRole('dialog', { name: 'Make a token' })
  const make = dialog.getByRole('button', { name: 'Make a token' })
  // The first token shuts out who has none.
  await soon('their names', async () => (await dialog.getByText('will be refused').innerText()).includes('without-two'))
  const { sessions } = await daemon.api('/api/sessions')
  const names = [...new Set(sessions.map((it) => it.client?.name || 'unnamed client'))]
  assert.ok(names.includes('without-one') && names.includes('without-two'), names.join())
  const said = await dialog.getByText(`${sessions.length} clients are connected without a token and will be refused: `).innerText()
  assert.deepEqual(said.replace(/^.*refused: |\.$/gs, '').split(', ').sort(), names.sort())
  assert.deepEqual(await axe(page), [])
  await dialog.getByLabel('Name of the client').fill('not good')
  assert.equal(await make.isDisabled(), true)
  await dialog.getByLabel('Name of the client').fill('laptop')
  await dialog.getByLabel('Works for').selectOption({ label: '30 days' })
  await make.click()
  const made = page.getByRole('region', { name: 'The token of laptop' })
  await made.getByText('it is not shown again').waitFor()
  const token = (await made.getByRole('figure').filter({ hasText: 'Token' }).locator('pre').first().innerText()).trim()
  assert.match(token, /^mst_/)
  // The entry to paste has the token that was just made, in the words of each client that takes a URL.
  const entryOf = async (title) => {
    await made.getByLabel('Its entry for').selectOption({ label: title })
    return (await made.getByRole('figure').last().locator('pre').innerText()).trim()
  }
  const [url, headers] = [`${daemon.url}/mcp`, { Authorization: `Bearer ${token}` }]
  assert.deepEqual(JSON.parse(await entryOf('Any other client')).mcpServers.mainstay, { type: 'http', url, headers })
  const inCursor = JSON.parse(await entryOf('Cursor')).mcpServers.mainstay
  assert.deepEqual([inCursor.url, inCursor.headers], [url, headers])
  assert.deepEqual(JSON.parse(await entryOf('VS Code')).servers.mainstay, { type: 'http', url, headers })
  for (const title of await made.getByLabel('Its entry for').locator('option').allInnerTexts()) {
    const text = await entryOf(title)
    assert.ok(text.includes(url) && text.includes(token) && !text.includes('mst_TOKEN'), `${title}: ${text}`)
  }
  assert.deepEqual(sent.filter((it) => it.includes(token)), [], 'no address has the token')
  const row = page.getByRole('row').filter({ hasText: 'laptop' })
  await row.getByText(/in (29|30) d/).waitFor()
  // The second one shuts nobody out.
  await page.getByRole('button', { name: 'Make a token' }).first().click()
  await dialog.getByLabel('Name of the client').waitFor()
  assert.equal(await dialog.getByText('will be refused').count(), 0)
  await page.keyboard.press('Escape')
  assert.deepEqual(await axe(page), [])

  await assert.rejects(McpClient.open(daemon), /401/)
  const client = await McpClient.open(daemon, '/mcp', { name: 'desk', token })
  assert.ok((await client.tools()).includes('alpha__echo'))

  // It is not shown again, and the session goes by the name of the token.
  await page.reload()
  await row.waitFor()
  assert.ok(!(await page.content()).includes(token))
  await page.getByRole('tab', { name: 'Sessions' }).click()
  await page.getByText('token laptop').waitFor()
  await page.getByRole('button', { name: 'Switches: laptop' }).click()
  await page.getByRole('switch', { name: 'beta for laptop' }).uncheck({ force: true })
  await soon('beta to be off for the token', async () => !(await servers(client)).includes('beta'))
  await page.getByRole('dialog').getByRole('button', { name: 'Switch everything on' }).click()
  await soon('beta to be on', async () => (await servers(client)).includes('beta'))
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()

  await page.getByRole('tab', { name: 'Tokens' }).click()
  await page.getByRole('button', { name: 'Remove: laptop' }).click()
  const sure = page.getByRole('dialog', { name: 'Remove the token of laptop?' })
  await sure.getByText('It is the last token').waitFor()
  await sure.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('heading', { name: 'No tokens yet' }).waitFor()
  await assert.rejects(client.tools(), /401/)
  await closePage(page)
})

test('a token with limits opens its profile alone, and the screen says what each client sees, and why', async () => {
  const before = await daemon.api('/api/config/text')
  const config = JSON.parse(before.text)
  config.access = {
    groups: { agents: ['ci'] },
    rules: [
      { name: 'no sums', servers: ['beta'], tools: ['sum*'], allow: false },
      { name: 'agents read', who: ['group:agents'], readOnly: true },
      { name: 'laptops', who: ['laptop'] },
    ],
  }
  await daemon.api('/api/config/text', 'PUT', { text: JSON.stringify(config), digest: before.digest })
  const page = await openPage(daemon, '#/clients/tokens')
  await page.getByRole('button', { name: 'Make a token' }).first().click()
  const dialog = page.getByRole('dialog', { name: 'Make a token' })
  await dialog.getByLabel('Name of the client').fill('ci')
  await dialog.getByLabel('Read-only').check()
  await dialog.getByLabel('docs').check()
  assert.deepEqual(await axe(page), [])
  await dialog.getByRole('button', { name: 'Make a token' }).click()
  const made = page.getByRole('region', { name: 'The token of ci' })
  const token = (await made.getByRole('figure').filter({ hasText: 'Token' }).locator('pre').first().innerText()).trim()
  const row = page.getByRole('row').filter({ hasText: 'ci' })
  for (const limit of ['Read-only', '/mcp/docs']) await row.getByText(limit).waitFor()
  await assert.rejects(McpClient.open(daemon, '/mcp', { name: 'ci', token }), /404/)
  const client = await McpClient.open(daemon, '/mcp/docs', { name: 'ci', token })
  assert.deepEqual(await client.tools(), [], 'no tool of alpha says that it only reads')

  await page.getByRole('tab', { name: 'Access' }).click()
  const clients = page.getByRole('table', { name: 'What each client sees' })
  const cells = async (name) => (await clients.getByRole('row').filter({ hasText: name }).getByRole('cell').allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim())
  await clients.waitFor()
  assert.deepEqual(await cells('without a token'), ['without a token', '', 'nothing'])
  const { servers: all } = await daemon.api('/api/servers')
  assert.deepEqual(await cells('ci'), ['ci Read-only /mcp/docs', 'agents', all.map(({ name }) => name).join(', ')])
  const rules = page.getByRole('table', { name: 'Rules, in their order' })
  assert.deepEqual(await rules.getByRole('row').filter({ hasText: 'no sums' }).getByRole('cell').allInnerTexts(), ['no sums', 'everybody', 'beta; tools sum*', 'refused'])
  assert.deepEqual(await rules.getByRole('row').last().getByRole('cell').allInnerTexts(), ['What no rule is about', 'refused'])
  assert.deepEqual(await axe(page), [])

  const question = page.getByRole('form', { name: 'May a client use it?' })
  const ask = async (client, server, tool) => {
    await question.getByLabel('Client').selectOption(client)
    await question.getByLabel('Servers').selectOption(server)
    await question.getByLabel('Tool').fill(tool)
    await question.getByRole('button', { name: 'Explain' }).click()
  }
  await ask('anonymous', 'alpha', '')
  await question.getByText('without a token may not use alpha').waitFor()
  await question.getByText('no rule concerns it, and `access.default` decides').waitFor()
  await daemon.api('/api/tokens', 'POST', { name: 'laptop' })
  await page.reload()
  await ask('laptop', 'beta', 'echo')
  await question.getByText('laptop may use beta/echo').waitFor()
  await question.getByText('The tool may be destructive').waitFor()
  await ask('laptop', 'beta', 'sums')
  await question.getByText('the rule "no sums" decides').waitFor()

  const after = await daemon.api('/api/config/text')
  await daemon.api('/api/config/text', 'PUT', { text: before.text, digest: after.digest })
  // The removal of a token closes its connections, which requests of this process share. So it comes last.
  for (const name of ['laptop', 'ci']) await daemon.api(`/api/tokens/${name}`, 'DELETE')
  await closePage(page)
})
