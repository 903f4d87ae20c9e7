// What floats above the screens: the palette, dialogs, menus and drawers; and what a setting of the page hides.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import fs from 'node:fs'
import { axe, closeBrowser, closePage, Daemon, fake, folder, openPage, scripted, soon } from './harness.mjs'

const MANY = 20_000
/** Longer than this, and a person who types notices. */
const SLOW_MS = 250

let daemon
const scripts = folder()
before(async () => {
  const tool = (name) => ({ name, inputSchema: { type: 'object' } })
  const twins = scripted(scripts, 'twins', { tools: [tool('twin\u202e'), tool('twin\\u{202e}')] })
  daemon = await Daemon.start({ mcpServers: { alpha: fake(), many: fake('--tools', String(MANY)), twins } })
  await daemon.connected('alpha', 'many', 'twins')
  await soon('all tools to be listed', async () => (await daemon.server('many')).toolCount >= MANY)
  await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text: 'x' } })
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
  fs.rmSync(scripts, { recursive: true, force: true })
})

/** What has the focus: its role or element, and its name. */
const focused = (page) =>
  page.evaluate(() => {
    const it = document.activeElement
    const name = it.getAttribute('aria-label') ?? it.labels?.[0]?.textContent ?? it.textContent
    return `${it.classList.contains('content') ? 'content' : it.localName} ${name.trim().slice(0, 40)}`.trim()
  })
const has = (page, what) => soon(`the focus to be at ${what}`, async () => (await focused(page)) === what)

test('the palette finds tools, among twenty thousand without a pause', async () => {
  const page = await openPage(daemon)
  await page.getByRole('link', { name: 'many', exact: true }).waitFor()
  const read = page.waitForResponse('**/api/mcp-tools')
  await page.keyboard.press('Control+k')
  const palette = page.getByRole('dialog', { name: 'Search or run a command' })
  const field = palette.getByRole('combobox')
  assert.equal(await focused(page), 'input Search or run a command')
  await (await read).finished()
  await field.fill('alpha echo')
  const option = palette.getByRole('option', { name: 'alpha/echo Tool' })
  await option.waitFor()
  assert.deepEqual(await axe(page), [])

  await page.evaluate(() => {
    window.tasks = []
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: 'longtask' })
  })
  await field.fill('')
  await field.pressSequentially('many/ no such tool')
  await palette.getByText('Nothing fits').waitFor()
  await field.fill('many')
  await soon('servers and tools beside each other', async () => {
    const words = await palette.getByRole('option').allTextContents()
    return words.length === 50 && words.some((it) => it.startsWith('many Running')) && words.at(-1).endsWith('Tool')
  })
  const slow = (await page.evaluate(() => window.tasks)).filter((duration) => duration > SLOW_MS)
  assert.deepEqual(slow, [], 'no letter takes long')

  // What was read stays: a palette that is opened again asks for nothing.
  let again = 0
  page.on('request', (request) => (again += Number(request.url().includes('/api/mcp-tools'))))
  await page.keyboard.press('Escape')
  await palette.waitFor({ state: 'detached' })
  await page.keyboard.press('Control+k')
  await field.fill('alpha echo')
  await option.waitFor()
  assert.equal(again, 0)
  await page.keyboard.press('ArrowUp')
  await option.click()
  await page.getByRole('heading', { name: /echo/, level: 1 }).waitFor()
  assert.match(page.url(), /#\/tools\/alpha\/echo$/)
  await closePage(page)
})

test('tools whose names look alike are both found', async () => {
  const page = await openPage(daemon)
  await page.keyboard.press('Control+k')
  const options = page.getByRole('option', { name: 'twins/twin\\u{202e} Tool' })
  await page.getByRole('combobox', { name: 'Search or run a command' }).fill('twins/')
  await soon('both', async () => (await options.count()) === 2)
  await options.last().click()
  await page.waitForURL(/#\/tools\/twins\//)
  await closePage(page)
})

test('the palette finds parts of screens, and what is set for this browser', async () => {
  const page = await openPage(daemon)
  const palette = page.getByRole('dialog', { name: 'Search or run a command' })
  const run = async (word, name) => {
    await page.keyboard.press('Control+k')
    await palette.getByRole('combobox').fill(word)
    await palette.getByRole('option', { name, exact: true }).waitFor()
    await page.keyboard.press('Enter')
    await palette.waitFor({ state: 'detached' })
  }
  const shown = () => page.evaluate(() => document.documentElement.dataset.scheme)
  for (const scheme of ['Dark', 'Light']) {
    await run(`colours ${scheme.toLowerCase()}`, `Colours: ${scheme}`)
    assert.equal(await shown(), scheme.toLowerCase())
  }
  for (const [word, name, hash] of [
    ['about', 'About Go to', '#/settings/about'],
    ['token', 'Tokens Go to', '#/clients/tokens'],
    ['connect a', 'Connect a client Go to', '#/clients/connect'],
    ['profiles', 'Profiles Go to', '#/configuration/profiles'],
  ]) {
    await run(word, name)
    assert.equal(new URL(page.url()).hash, hash)
  }
  await run('sign out', 'Sign out')
  await page.getByText('mainstay ui').first().waitFor()
  await closePage(page)
})

test('an open palette ends a reading of the tools before the next, however often they change', async () => {
  const page = await openPage(daemon)
  // The first answer is quick, so that the rest is short.
  await page.route('**/api/mcp-tools', (route) => route.fulfill({ json: { tools: [] } }), { times: 1 })
  const read = page.waitForResponse('**/api/mcp-tools')
  await page.keyboard.press('Control+k')
  await (await read).finished()
  let reads = 0
  let go
  await page.route('**/api/mcp-tools', async (route) => {
    reads += 1
    await new Promise((resolve) => (go = resolve))
    await route.continue()
  })
  await daemon.api('/api/servers/alpha/restart', 'POST')
  await soon('another reading', () => go)
  for (let times = 0; times < 3; times += 1) await daemon.api('/api/servers/alpha/restart', 'POST')
  await daemon.api('/api/servers/alpha/stop', 'POST')
  await page.getByRole('option', { name: 'Start: alpha' }).waitFor()
  assert.equal(reads, 1)
  go()
  await daemon.api('/api/servers/alpha/start', 'POST')
  await closePage(page)
})

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

test('a setting hides the tools of servers everywhere', async () => {
  const page = await openPage(daemon)
  const rail = page.getByRole('navigation', { name: 'Screens' }).first()
  await rail.getByRole('link', { name: 'Tools' }).waitFor()
  await page.route('**/api/about', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...(await response.json()), externalTools: false } })
  })
  await page.reload()
  await rail.getByRole('link', { name: 'Calls' }).waitFor()

  let reads = 0
  page.on('request', (request) => (reads += Number(request.url().includes('/api/mcp-tools'))))
  await page.keyboard.press('Control+k')
  const palette = page.getByRole('dialog', { name: 'Search or run a command' })
  await palette.getByRole('combobox').fill('alpha')
  await palette.getByRole('option', { name: /^alpha/ }).first().waitFor()
  assert.equal(await palette.getByRole('option', { name: /Tool/ }).count(), 0)
  await page.keyboard.press('Escape')

  // The setting names tools alone: prompts and resources stay.
  const isChosen = async (name) => {
    await page.getByRole('tab', { name, selected: true }).waitFor()
    await page.getByRole('tabpanel', { name }).getByText(/\S/).first().waitFor()
    assert.equal(await page.getByRole('tab', { name: /^Tools/ }).count(), 0)
  }
  await rail.getByRole('link', { name: 'Tools' }).click()
  await isChosen('Prompts')
  await page.getByRole('tab', { name: 'Resources' }).click()
  await isChosen('Resources')
  await page.goto(`${daemon.url}/#/tools/alpha/echo`)
  await isChosen('Prompts')
  await page.goto(`${daemon.url}/#/servers/alpha/tools`)
  await isChosen('Overview')
  await page.goto(`${daemon.url}/#/clients?switches=somebody`)
  await page.getByRole('switch', { name: 'alpha for somebody' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Tools of alpha' }).count(), 0)
  await page.goto(`${daemon.url}/#/calls?id=1`)
  await page.getByRole('dialog', { name: 'alpha/echo' }).getByText('It ran and answered.').waitFor()
  assert.equal(await page.getByRole('link', { name: 'Run again…' }).count(), 0)
  assert.equal(reads, 0, 'nothing reads them either')
  await closePage(page)
})

test('a screen that fails says so, and can be tried again; the rest of the page goes on', async () => {
  const page = await openPage(daemon, '#/servers')
  const rail = page.getByRole('navigation').first()
  // An answer that the page does not expect.
  await page.route('**/api/about', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...(await response.json()), revisions: null } })
  })
  const failed = page.getByRole('main').getByRole('alert').filter({ hasText: 'The screen "Settings" failed, and is not shown: ' })
  const tryAgain = failed.getByRole('button', { name: 'Try again' })
  await page.goto(`${daemon.url}/#/settings/about`)
  await tryAgain.waitFor()
  assert.deepEqual(await axe(page), [])
  await rail.getByRole('link', { name: 'Servers' }).click()
  await page.getByRole('list', { name: 'Servers' }).waitFor()
  await page.goto(`${daemon.url}/#/settings/about`)
  await tryAgain.waitFor()
  // Another part of the same screen is shown.
  await page.goto(`${daemon.url}/#/settings`)
  await page.getByRole('radiogroup', { name: 'Colours' }).waitFor()
  await page.goto(`${daemon.url}/#/settings/about`)
  await tryAgain.waitFor()
  await page.unroute('**/api/about')
  await tryAgain.click()
  await page.getByText('State directory').first().waitFor()
  assert.deepEqual(page.faults.map((it) => it.split(':', 2).join(':')), Array(3).fill('console: TypeError'), 'the browser has the reason')
  page.faults.length = 0
  await closePage(page)
})
