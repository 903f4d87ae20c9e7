// Settings of this browser, the daemon's configuration and control token, and what the daemon says of itself.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'

const CONFIG = { mcpServers: { alpha: fake() } }
let daemon
before(async () => {
  daemon = await Daemon.start(CONFIG)
  await daemon.connected('alpha')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

test('the colours are as chosen, at once and after a reload', async () => {
  const page = await openPage(daemon, '#/settings')
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
  const scheme = () => page.evaluate(() => document.documentElement.dataset.scheme)
  const group = page.getByRole('radiogroup', { name: 'Colours' })
  await group.getByRole('radio', { name: 'Light' }).check()
  const light = await background()
  await group.getByRole('radio', { name: 'Dark' }).check()
  const dark = await background()
  assert.notEqual(light, dark)
  assert.deepEqual(await axe(page), [])
  await page.reload()
  await group.waitFor()
  assert.equal(await scheme(), 'dark')
  assert.equal(await background(), dark)
  assert.equal(await group.getByRole('radio', { name: 'Dark' }).isChecked(), true)

  // As the system has it, and when that changes.
  await group.getByRole('radio', { name: 'As the system has it' }).check()
  await page.emulateMedia({ colorScheme: 'light' })
  await soon('light', async () => (await background()) === light)
  await page.emulateMedia({ colorScheme: 'dark' })
  await soon('dark', async () => (await background()) === dark)
  await page.reload()
  await group.waitFor()
  assert.equal(await scheme(), 'dark')
  await closePage(page)
})

test('About says what the daemon says of itself', async () => {
  await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text: 'x' } })
  const about = await soon('the call to be on record', async () => {
    const answer = await daemon.api('/api/about')
    return answer.journal.records > 0 && answer
  })
  const page = await openPage(daemon, '#/settings')
  await page.getByRole('tab', { name: 'About' }).click()
  const fact = (name) => page.locator('dt').filter({ hasText: new RegExp(`^${name}$`) }).locator('xpath=following-sibling::dd[1]')
  await fact('Version').getByText(about.version, { exact: true }).waitFor()
  await fact('State directory').getByText(about.stateDirectory, { exact: true }).waitFor()
  await fact('Configuration').getByText(daemon.config, { exact: true }).waitFor()
  await fact('Listens on').getByText(about.listen[0], { exact: true }).waitFor()
  await fact('Process').getByText(String(about.pid), { exact: true }).waitFor()
  await fact('MCP revisions').getByText(/2025-06-18/).waitFor()
  await fact('Size').getByText(/^[\d.]+ [kM]?B of 2\.1 GB \(0 %\)$/).waitFor()
  await fact('Records').getByText(String(about.journal.records), { exact: true }).waitFor()
  await fact('Lost').getByText('none', { exact: true }).waitFor()
  await page.getByText('Every call is recorded.').waitFor()
  assert.deepEqual(await axe(page), [])
  await closePage(page)
})

test('the configuration is read again after a look at what would change', async () => {
  const page = await openPage(daemon, '#/settings')
  await page.getByRole('button', { name: 'Preview changes' }).click()
  await page.getByText('The file is in force; nothing would change.').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Put it in force' }).count(), 0)

  // The daemon reads a file by itself when it changes. So the look is at one that waits.
  await page.route('**/api/reload', async (route) => {
    if (route.request().postDataJSON().dryRun) fs.writeFileSync(daemon.config, JSON.stringify({ mcpServers: { alpha: fake(), beta: fake() } }))
    await route.continue()
  })
  await page.getByRole('button', { name: 'Preview changes' }).click()
  await page.getByText('Added and started').waitFor()
  await page.getByRole('button', { name: 'Put it in force' }).click()
  await page.getByText('The file is in force.').waitFor()
  await daemon.connected('beta')

  // A file that cannot be used.
  await page.unroute('**/api/reload')
  fs.writeFileSync(daemon.config, '{')
  await page.getByRole('button', { name: 'Preview changes' }).click()
  await page.getByRole('main').getByText(/the configuration stays as it was: .*unterminated object/).first().waitFor()
  fs.writeFileSync(daemon.config, JSON.stringify(CONFIG))
  await closePage(page)
})

test('the control token is replaced: this browser stays, everything else that was signed in does not', async () => {
  const other = await openPage(daemon, '#/settings')
  const page = await openPage(daemon, '#/settings')
  const old = daemon.token
  await page.getByRole('button', { name: 'Replace…' }).click()
  const sure = page.getByRole('dialog', { name: 'Replace the control token?' })
  assert.deepEqual(await axe(page), [])
  await sure.getByRole('button', { name: 'Cancel' }).click()
  assert.equal((await fetch(`${daemon.url}/api/servers`, { headers: { authorization: `Bearer ${old}` } })).status, 200)
  await page.getByRole('button', { name: 'Replace…' }).click()
  await sure.getByRole('button', { name: 'Replace the token' }).click()
  await page.getByText('The control token is replaced.').waitFor()
  const shown = (await page.getByRole('figure').filter({ hasText: 'New control token' }).locator('pre').innerText()).trim()
  daemon.token = fs.readFileSync(`${daemon.home}/state/token`, 'utf8').trim()
  assert.equal(shown, daemon.token)
  assert.notEqual(shown, old)
  assert.equal((await fetch(`${daemon.url}/api/servers`, { headers: { authorization: `Bearer ${old}` } })).status, 401)
  assert.ok((await daemon.api('/api/servers')).servers.length > 0)

  // This browser goes on, with its stream; the other one is asked to sign in.
  await page.getByRole('navigation').first().getByRole('link', { name: 'Servers' }).click()
  await page.getByRole('link', { name: 'alpha' }).first().waitFor()
  await daemon.api('/api/servers/alpha/stop', 'POST')
  await page.getByText('Stopped').first().waitFor()
  await daemon.api('/api/servers/alpha/start', 'POST')
  await other.getByRole('heading', { name: 'Sign in to Mainstay' }).waitFor()
  await closePage(page)
  await closePage(other)
})

test('signed out, the page asks to sign in, also after a reload', async () => {
  const page = await openPage(daemon, '#/settings')
  await page.getByText(/Signed in until/).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in to Mainstay' }).waitFor()
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in to Mainstay' }).waitFor()
  assert.equal(await page.evaluate(async () => (await fetch('/api/servers')).status), 401)
  await closePage(page)
})
