// The screen of one server, and what happens to its entry: approved, edited, duplicated, deleted, rejected.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, FAKE_SERVER, folder, openPage, scripted, soon } from './harness.mjs'
import { reach } from './keys.mjs'

const SECRET = 'sk-live-0123456789abcdef'
const scripts = folder()
/** A server that lists nothing after `server/discover` is started once more without it, and says everything twice. */
const TOOLS = [{ name: 'talk', inputSchema: { type: 'object' } }]

let daemon
before(async () => {
  daemon = await Daemon.start({
    ownTools: ['control'],
    mcpServers: {
      alpha: { ...fake('--tools', '3', '--stderr', 'alpha says hello'), env: { API_KEY: SECRET, MODE: 'calm' }, reconnect: { initialDelayMs: 500, jitter: 0 } },
      broken: {
        command: 'sh',
        args: ['-c', 'echo "fatal: no database" >&2; exit 3'],
        reconnect: { initialDelayMs: 50_000, maxDelayMs: 50_000, jitter: 0 },
      },
      // It stays lost for as long as the tests run.
      lost: {
        command: 'sh',
        args: ['-c', 'echo "fatal: no database" >&2; exit 3'],
        reconnect: { initialDelayMs: 600_000, maxDelayMs: 600_000, jitter: 0 },
      },
      spent: { ...fake('--crash-at-start', '4'), reconnect: { initialDelayMs: 100, maxAttempts: 1 }, restart: { mode: 'as_reconnect' } },
      odd: { ...fake(), args: 'not a list' },
      copied: { ...fake('--tools', '1'), env: { TOKEN: SECRET } },
      chatty: scripted(scripts, 'chatty', { tools: TOOLS, stderr: Array.from({ length: 600 }, (_, index) => `line ${index}`) }),
      talker: scripted(scripts, 'talker', { tools: TOOLS, stderr: ['the needle', ...Array.from({ length: 1500 }, (_, index) => `line ${index}`)] }),
    },
  })
  await daemon.connected('alpha', 'copied', 'talker', 'chatty')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
  fs.rmSync(scripts, { recursive: true, force: true })
})

const dialog = (page, name) => page.getByRole('dialog', { name })
const row = (page, name) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) })
const says = (where, text) => where.getByText(text).first().waitFor()
const why = (page) => page.getByRole('region', { name: 'Why' })
const state = (page, text) => page.locator('.bar', { has: page.getByRole('heading', { level: 1 }) }).getByText(text, { exact: true }).waitFor()
const inFile = (name) => JSON.parse(fs.readFileSync(daemon.config, 'utf8')).mcpServers[name]
const has = async (name) => (await daemon.api('/api/servers')).servers.some((server) => server.name === name)

/** A small MCP client. */
async function client(route, name) {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization: `Bearer ${daemon.token}` }
  let id = 0
  const send = async (method, params, isNotification = false) => {
    const message = { jsonrpc: '2.0', method, params, ...(isNotification ? {} : { id: ++id }) }
    const response = await fetch(daemon.url + route, { method: 'POST', headers, body: JSON.stringify(message) })
    const session = response.headers.get('mcp-session-id')
    if (session) headers['mcp-session-id'] = session
    const text = await response.text()
    if (!response.ok) throw new Error(`${method}: ${response.status} ${text}`)
    if (isNotification) return undefined
    const json = text.startsWith('{') ? text : text.split('\n').findLast((line) => line.startsWith('data: {')).slice(6)
    const { result, error } = JSON.parse(json)
    if (error) throw new Error(`${method}: ${error.message}`)
    return result
  }
  await send('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name, version: '1.2.3' } })
  await send('notifications/initialized', {}, true)
  return { send, call: (tool, args) => send('tools/call', { name: tool, arguments: args }) }
}

test('a server that is down says why, what it said, and what comes next', async () => {
  const page = await openPage(daemon, '#/servers/broken')
  await state(page, 'Starting')
  await says(why(page), 'process exited unexpectedly (code 3)')
  await says(why(page), 'Reconnecting...')
  await says(why(page), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \(\d+ (ms|s|min)\)$/)
  await says(why(page), /^attempt \d+ in \d+ s$/)
  // Its last lines stand beside the reason, stderr first, and what can be done is one button.
  await soon('stderr to come first', async () => (await page.getByLabel('Source').inputValue()) === 'stderr')
  await says(page.getByRole('list', { name: 'Log lines' }), 'fatal: no database')
  await page.goto(`${daemon.url}/#/servers/spent`)
  await state(page, 'Error')
  await says(why(page), 'Connection failed after max retries')
  await says(page.getByRole('region', { name: 'Log', exact: true }), 'the fake crashes at start with code 4')
  assert.equal(await page.getByRole('main').getByRole('button', { name: 'Restart' }).count(), 1)
  await says(why(page), 'It is not tried again by itself.')
  await page.goto(`${daemon.url}/#/servers/no-such`)
  await says(page, 'There is no server "no-such".')
  await closePage(page)
})

test('a crash: the screen turns, recovers, and its timeline has it with its signal', async () => {
  const page = await openPage(daemon, '#/servers/alpha')
  await state(page, 'Running')
  process.kill((await daemon.server('alpha')).pid, 'SIGKILL')
  await says(why(page), 'Reconnecting...')
  await state(page, 'Running')
  const details = page.getByRole('region', { name: 'Details' })
  await says(details, /^1, last crash/)
  const lane = page.getByRole('img', { name: /alpha/ })
  await soon('the timeline to have the crash', async () => / [2-9] changes/.test(await lane.getAttribute('aria-label')))
  await lane.focus()
  await page.keyboard.press('End')
  await page.keyboard.press('ArrowLeft')
  await says(page, /ended by signal 9/)

  // The next server's has nothing of it.
  await page.goto(`${daemon.url}/#/servers/broken`)
  const its = page.getByRole('img', { name: /broken/ })
  await its.waitFor()
  assert.equal(await page.getByText(/ended by signal 9/).count(), 0)
  await its.focus()
  await page.keyboard.press('End')
  await says(page, 'Its process exited with code 3.')
  await says(page.locator('.span-card'), 'fatal: no database')
  await closePage(page)
})

test('the timeline tells of each state what happened, by mouse and by keyboard', async () => {
  const page = await openPage(daemon, '#/servers/lost')
  // Its name is that of the state that the keyboard is at.
  const lane = page.getByRole('region', { name: 'States' }).getByRole('img')
  await lane.waitFor()
  const card = page.locator('.span-card')
  // Within the window, beside the lane and not on it.
  const isBeside = async () => {
    const [box, at] = [await card.boundingBox(), await lane.boundingBox()]
    assert.ok(box.x >= 0 && box.x + box.width <= 1280 && (box.y >= at.y + at.height || box.y + box.height <= at.y), JSON.stringify([box, at]))
  }
  const tells = async () => {
    await card.getByText('Reconnecting...').waitFor()
    await says(card, /^process exited unexpectedly \(code 3\)/)
    await says(card, 'Its process exited with code 3.')
    await says(card, 'fatal: no database')
    await says(card, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d.* – now \(/)
    await isBeside()
  }
  const { width, height } = await lane.boundingBox()
  await lane.hover({ position: { x: width - 2, y: height / 2 } })
  // A pixel is some seconds wide: which of the first states is there depends on the time.
  await says(card, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d.* – /)
  await isBeside()
  await page.getByRole('heading', { level: 1 }).hover()
  await card.waitFor({ state: 'detached' })

  await reach(page, lane)
  await tells()
  await page.keyboard.press('Home')
  await soon('the first state', async () => !/ – now \(/.test(await card.innerText()))
  await page.keyboard.press('End')
  await tells()
  // Those who do not see the card are told the same.
  assert.match(await page.locator('[aria-live=polite]').filter({ hasText: 'process exited' }).textContent(), /^Starting, from .*: process exited unexpectedly \(code 3\)/)
  await page.keyboard.press('Escape')
  await card.waitFor({ state: 'detached' })
  await closePage(page)
})

test('the log is followed and searched', async () => {
  const page = await openPage(daemon, '#/servers/alpha')
  await page.getByRole('tab', { name: 'Log' }).click()
  assert.match(page.url(), /#\/servers\/alpha\/log/)
  const log = page.getByRole('list', { name: 'Log lines' })
  await says(log, 'alpha says hello')
  const lines = await log.getByText('alpha says hello').count()
  await daemon.api('/api/servers/alpha/restart', 'POST')
  await soon('the lines of the new start', async () => (await log.getByText('alpha says hello').count()) > lines)
  await says(log, /started pid/)
  await page.getByRole('searchbox', { name: 'Search in the log' }).fill('SAYS hello')
  await soon('only what fits', async () => (await log.getByText(/started pid/).count()) === 0 && (await log.getByText('alpha says hello').count()) > 0)
  assert.match(page.url(), /text=SAYS(\+|%20)hello/)
  await page.getByRole('searchbox', { name: 'Search in the log' }).fill('nothing says this')
  await says(page, 'Nothing fits this filter.')
  await page.getByRole('searchbox', { name: 'Search in the log' }).fill('')
  await page.getByLabel('Source').selectOption('Mainstay')
  await soon('the source', async () => (await log.getByText('alpha says hello').count()) === 0 && (await log.getByText(/started pid/).count()) > 0)
  await closePage(page)
})

test('its buttons and its menu', async () => {
  const page = await openPage(daemon, '#/servers/copied')
  await state(page, 'Running')
  await page.getByRole('button', { name: 'Stop' }).click()
  await says(page, 'Server "copied" stopped')
  await state(page, 'Stopped')
  await page.getByRole('button', { name: 'Start', exact: true }).first().click()
  await says(page, 'Server "copied" started')
  await state(page, 'Running')
  await page.getByRole('button', { name: 'More actions' }).click()
  assert.deepEqual(await page.getByRole('menuitem').allTextContents(), ['Reconnect now', 'Disable', 'Duplicate', 'Delete'])
  await page.getByRole('menuitem', { name: 'Disable' }).click()
  await state(page, 'Disabled')
  assert.equal(inFile('copied').enabled, false)
  await page.getByRole('button', { name: 'Enable' }).first().click()
  await state(page, 'Running')
  await closePage(page)
})

test('its tools, and the switch of one', async () => {
  const page = await openPage(daemon, '#/servers/alpha')
  await page.getByRole('tab', { name: /^Tools/ }).click()
  assert.match(page.url(), /#\/servers\/alpha\/tools/)
  const tool = page.getByRole('link', { name: /^tool_2/ })
  const filter = page.getByRole('main').getByRole('searchbox')
  await filter.fill('tool_2')
  await tool.click()
  await page.getByRole('heading', { level: 1 }).waitFor()
  const toggle = page.getByRole('switch').first()
  assert.equal(await toggle.isChecked(), true)
  await toggle.click({ force: true })
  const offered = async () => (await daemon.api('/api/mcp-tools?server=alpha')).tools.some((it) => it.original_name === 'tool_2')
  await soon('the tool to be gone', async () => !(await offered()))
  assert.equal(inFile('alpha').env.API_KEY, SECRET, 'the secret stays')
  await page.goto(`${daemon.url}/#/servers/alpha/tools`)
  await filter.fill('tool_2')
  await says(tool, /off/i)
  await tool.click()
  await soon('the switch to be off', async () => (await toggle.count()) > 0 && !(await toggle.isChecked()))
  await toggle.click({ force: true })
  await soon('the tool to be back', offered)
  await closePage(page)
})

test('the entry has placeholders; edited, its secret stays', async () => {
  const page = await openPage(daemon, '#/servers/alpha/entry')
  const panel = page.getByRole('tabpanel', { name: 'Entry' })
  await says(panel, /\$\{secret:\/mcpServers\/alpha\/env\/API_KEY\}/)
  assert.equal((await page.content()).includes(SECRET), false)
  await panel.getByRole('button', { name: 'Edit' }).click()
  const edit = dialog(page, 'Edit alpha')
  assert.equal(await edit.getByLabel('Value of API_KEY').inputValue(), '')
  assert.equal(await edit.getByLabel('Value of API_KEY').getAttribute('placeholder'), 'unchanged')
  // The notice is for what is new to run.
  const notice = edit.getByRole('note', { name: 'Security notice' })
  assert.equal(await notice.count(), 0)
  await edit.getByText('Show what I type (stored values are not sent to the browser)').waitFor()
  await edit.getByLabel('Arguments').fill('--tools\n5')
  await notice.waitFor()
  await edit.getByLabel('Value of MODE').fill('loud')
  await edit.getByRole('button', { name: 'Save' }).click()
  await says(page, 'Server "alpha" saved')
  const { args, env } = inFile('alpha')
  assert.deepEqual([args, env], [['--tools', '5'], { API_KEY: SECRET, MODE: 'loud' }])
  await soon('its tools', async () => (await daemon.server('alpha')).connected)
  await says(panel, /"5"/)

  // What is wrong stands at its field, and nothing is written.
  await panel.getByRole('button', { name: 'Edit' }).click()
  await edit.getByRole('tab', { name: 'JSON' }).click()
  const json = edit.getByLabel('The entry as JSON')
  await json.fill('{"command": ')
  await says(edit, /This is no JSON/)
  assert.equal(await edit.getByRole('button', { name: 'Save' }).isDisabled(), true)
  await json.fill(JSON.stringify({ command: FAKE_SERVER, env: { A: ['x'] } }))
  await edit.getByRole('button', { name: 'Save' }).click()
  await says(edit.getByRole('alert'), 'A: expected a string, found an array')
  await edit.getByRole('button', { name: 'Cancel' }).click()
  assert.equal(inFile('alpha').env.API_KEY, SECRET)
  await closePage(page)
})

test('an entry that another hand changes while it is edited: load it, or save over it', async () => {
  const page = await openPage(daemon, '#/servers/alpha?edit=alpha')
  const edit = dialog(page, 'Edit alpha')
  const args = edit.getByLabel('Arguments')
  const notice = edit.getByRole('alert').filter({ hasText: 'The entry has changed meanwhile.' })
  /** Another hand gives it so many tools. */
  const change = async (tools) => {
    const config = JSON.parse(fs.readFileSync(daemon.config, 'utf8'))
    config.mcpServers.alpha.args = ['--tools', tools]
    fs.writeFileSync(daemon.config, JSON.stringify(config, null, 2))
    await soon('the file to be in force', async () => (await daemon.api('/api/servers/alpha')).entry.args[1] === tools)
  }
  await args.fill('--tools\n6')
  await change('7')
  await edit.getByRole('button', { name: 'Save' }).click()
  await notice.getByRole('button', { name: 'Load the entry, drop my changes' }).click()
  await soon('the entry of the file', async () => (await args.inputValue()) === '--tools\n7')
  await notice.waitFor({ state: 'detached' })
  assert.deepEqual(inFile('alpha').args, ['--tools', '7'])

  await args.fill('--tools\n8')
  await change('9')
  await edit.getByRole('button', { name: 'Save' }).click()
  await notice.waitFor()
  assert.deepEqual(inFile('alpha').args, ['--tools', '9'])
  await notice.getByRole('button', { name: 'Keep my changes, save over it' }).click()
  await says(page, 'Server "alpha" saved')
  assert.deepEqual([inFile('alpha').args, inFile('alpha').env.API_KEY], [['--tools', '8'], SECRET])
  await closePage(page)
})

test('a duplicate has the secret of the first; a server is deleted when that is confirmed', async () => {
  const page = await openPage(daemon)
  await page.getByRole('button', { name: 'More actions for copied' }).click()
  await page.getByRole('menuitem', { name: 'Duplicate' }).click()
  const copy = dialog(page, 'Duplicate copied')
  await soon('a free name', async () => (await copy.getByRole('textbox', { name: 'Name' }).first().inputValue()) === 'copied-2')
  await copy.getByRole('button', { name: 'Review' }).click()
  await dialog(page, 'Review before saving').getByRole('button', { name: 'Save and start' }).click()
  await says(page, 'Server "copied-2" added')
  await says(row(page, 'copied-2'), 'Running')
  assert.equal(inFile('copied-2').env.TOKEN, SECRET)

  await page.goto(`${daemon.url}/#/servers/copied-2`)
  await page.getByRole('button', { name: 'More actions' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  const ask = dialog(page, 'Delete copied-2?')
  await ask.getByRole('button', { name: 'Cancel' }).click()
  assert.ok(await has('copied-2'))
  await page.getByRole('button', { name: 'More actions' }).click()
  await page.getByRole('menuitem', { name: 'Delete' }).click()
  await ask.getByRole('button', { name: 'Delete' }).click()
  await says(page, 'Server "copied-2" deleted')
  await page.getByRole('heading', { level: 1, name: 'Servers' }).waitFor()
  assert.deepEqual([await has('copied-2'), inFile('copied-2')], [false, undefined])
  assert.equal(await row(page, 'copied-2').count(), 0)
  await closePage(page)
})

test('an entry that is rejected shows its finding, and is mended', async () => {
  const page = await openPage(daemon)
  await says(row(page, 'odd'), 'Error')
  await says(row(page, 'odd'), /args must be an array/)
  await row(page, 'odd').getByRole('link', { name: 'odd', exact: true }).click()
  await says(why(page), /args must be an array/)
  await says(why(page), /[Cc]orrect its entry/)
  await page.getByRole('button', { name: 'Edit' }).first().click()
  const edit = dialog(page, 'Edit odd')
  await edit.getByLabel('Arguments').fill('--tools\n1')
  await edit.getByRole('button', { name: 'Save' }).click()
  await says(page, 'Server "odd" saved')
  await state(page, 'Running')
  assert.deepEqual(inFile('odd').args, ['--tools', '1'])
  await closePage(page)
})

test('a client of its own address is among its sessions, without a reload', async () => {
  const page = await openPage(daemon, '#/servers/alpha/sessions', { width: 360, height: 780 })
  await says(page, 'No client has a session of its own with this server.')
  await says(page, `${daemon.url}/servers/alpha/mcp`)
  const { send } = await client('/servers/alpha/mcp', 'visitor')
  assert.ok((await send('tools/list', {})).tools.length > 3)
  const its = page.getByRole('row', { name: /visitor 1\.2\.3/ })
  await its.waitFor()
  await says(its, '2025-06-18')
  assert.deepEqual(await axe(page), [], 'a table that is wider than the page is reached by keyboard')
  await closePage(page)
})

test('what a client adds waits to be approved, is shown whole, and is approved or declined', async () => {
  const page = await openPage(daemon)
  await row(page, 'alpha').waitFor()
  const { call } = await client('/mcp', 'adder')
  const answer = await call('add_server', { name: 'asked', ...fake('--tools', '2'), env: { LD_PRELOAD: '/tmp/evil.so' } })
  assert.equal(JSON.parse(answer.content[0].text).status, 'pending')
  await call('add_server', { name: 'unwanted', command: 'sh', args: ['-c', 'touch "$HOME/was-run"'] })
  await says(row(page, 'unwanted'), 'Awaits approval')
  await says(row(page, 'unwanted'), `sh -c 'touch "$HOME/was-run"'`)
  const names = await page.getByRole('list', { name: 'Servers' }).locator('a[href^="#/servers/"]').allTextContents()
  assert.deepEqual(names.slice(0, 2), ['asked', 'unwanted'], 'they come first')

  await row(page, 'asked').getByRole('button', { name: 'Review' }).click()
  const ask = dialog(page, 'Approve asked?')
  await says(ask, `${FAKE_SERVER} --tools 2`)
  await says(ask, 'LD_PRELOAD=/tmp/evil.so')
  await says(ask.getByRole('note'), 'MCP servers execute commands on your computer.')
  // A client that changes what it asks for meanwhile is told of, and what was shown cannot be approved.
  await call('remove_server', { name: 'asked' })
  await call('add_server', { name: 'asked', ...fake('--tools', '4') })
  await says(ask, 'A client has changed what it asks for since you opened this.')
  assert.equal(await ask.getByRole('button', { name: 'Approve and start' }).isDisabled(), true)
  await ask.getByRole('button', { name: 'Show what it asks for now' }).click()
  await says(ask, `${FAKE_SERVER} --tools 4`)
  await ask.getByRole('button', { name: 'Approve and start' }).click()
  await says(page, 'Server "asked" approved')
  await says(row(page, 'asked'), 'Running')
  assert.equal((await daemon.server('asked')).connected, true)
  assert.deepEqual(inFile('asked'), fake('--tools', '4'))

  await row(page, 'unwanted').getByRole('button', { name: 'Review' }).click()
  await dialog(page, 'Approve unwanted?').getByRole('button', { name: 'Decline' }).click()
  await says(page, 'Server "unwanted" declined')
  await row(page, 'unwanted').waitFor({ state: 'detached' })
  assert.equal(await has('unwanted'), false)
  assert.equal(fs.existsSync(`${daemon.home}/was-run`), false)
  await closePage(page)
})

test('the log says how far its search reaches, loads older lines, and is saved as it is shown', async () => {
  const page = await openPage(daemon, '#/servers/talker/log')
  await says(page, '1,000 lines; the search covers the last 1,000')
  await page.getByRole('searchbox').fill('needle')
  await says(page, 'Nothing fits this filter.')
  const save = page.getByRole('button', { name: 'Download the lines that are shown' })
  assert.equal(await save.isDisabled(), true)
  await page.getByRole('button', { name: 'Load older lines' }).click()
  await says(page.getByRole('list', { name: 'Log lines' }), 'the needle')
  await page.getByRole('button', { name: 'Load older lines' }).waitFor({ state: 'detached' })
  assert.equal(await page.getByText('the search covers').count(), 0, 'it covers all there is')
  assert.deepEqual(await axe(page), [])
  const saving = page.waitForEvent('download')
  await save.click()
  const saved = await saving
  assert.equal(saved.suggestedFilename(), 'talker.log')
  assert.match(fs.readFileSync(await saved.path(), 'utf8'), /^[-0-9]{10}T\S+ stderr the needle\n$/)
  await closePage(page)
})

test('a short log that was followed for long is whole, and is not shown twice after a restart of the daemon', async () => {
  const page = await openPage(daemon, '#/servers/chatty/log')
  const lines = async () => Number(/^[\d,]+/.exec(await page.getByText(/^[\d,]+ lines/).textContent())[0].replace(',', ''))
  await soon('the first lines', async () => (await lines()) > 600)
  const first = await lines()
  await daemon.api('/api/servers/chatty/restart', 'POST')
  await soon('as many again', async () => (await lines()) > first + 600)
  assert.ok((await lines()) > 1000)
  assert.equal(await page.getByText('the search covers').count(), 0)
  assert.equal(await page.getByRole('button', { name: 'Load older lines' }).count(), 0)

  await daemon.restart()
  await daemon.connected('chatty')
  const all = (await daemon.api('/api/servers/chatty/logs?tail=1000')).lines.length
  await soon('the end of the log, which is part of it', async () => (await lines()) >= all && (await page.getByText('the search covers').count()) > 0)
  // The last 1,000, and what one start says.
  const now = await lines()
  assert.ok(now <= 1000 + first, `${now} lines: those of before are not shown beside it`)
  await closePage(page)
})

test('calls of a server end in the words of the screen of calls', async () => {
  await assert.rejects(daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/no_such_tool', arguments: {} }))
  const page = await openPage(daemon, '#/servers/alpha/calls')
  const call = page.getByRole('row', { name: /no_such_tool/ })
  await says(call, 'did not run')
  assert.equal(await call.getByText('refused', { exact: true }).count(), 0)
  // Who called without a name, too, and from a record the way leads back.
  await call.getByRole('cell', { name: 'REST', exact: true }).waitFor()
  await call.getByRole('link').click()
  await page.getByRole('dialog').getByRole('link', { name: 'Open the server' }).click()
  await page.getByRole('heading', { level: 1, name: 'alpha' }).waitFor()
  await closePage(page)
})
