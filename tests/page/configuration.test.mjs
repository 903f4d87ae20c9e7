// The configuration: its text, what the daemon says of it, saving, profiles.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, beforeEach, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, FAKE_SERVER, openPage, soon } from './harness.mjs'
import { McpClient } from './mcp.mjs'

const SECRET = 'sk-a1B2c3D4e5F6g7H8i9J0'
const TEXT = `// Servers of the team
{
  "mcpServers": {
    /* the first one */
    "alpha": {
      "command": ${JSON.stringify(FAKE_SERVER)},
      "env": { "API_TOKEN": "${SECRET}" }, // from the vault
      "args": ["--tools", "3"]
    },
    "beta": {
      "command": ${JSON.stringify(FAKE_SERVER)},
      "args": ["--tools", "2"]
    }
  }
}
`

let daemon
before(async () => {
  daemon = new Daemon({})
  daemon.config += 'c' // Comments are for .jsonc.
  fs.writeFileSync(daemon.config, TEXT)
  await daemon.run()
  await daemon.connected('alpha', 'beta')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})
beforeEach(async () => {
  if (onDisk() !== TEXT) fs.writeFileSync(daemon.config, TEXT)
  await soon('the file to be in force', async () => (await plan()).summary === 'nothing changes')
})

const onDisk = () => fs.readFileSync(daemon.config, 'utf8')
const plan = () => daemon.api('/api/reload', 'POST', { dryRun: true })
const editorOf = (page) => page.getByRole('textbox', { name: 'Configuration, as JSON' })
const lineOf = (page, text) => editorOf(page).locator('.cm-line').filter({ hasText: text }).first()

async function opened(hash = '#/configuration') {
  const page = await openPage(daemon, hash)
  await lineOf(page, '"beta"').waitFor()
  return page
}

/** Puts the cursor at the end of a line and types. */
async function typeBehind(page, line, text) {
  await lineOf(page, line).click()
  await page.keyboard.press('End')
  await page.keyboard.type(text)
}

/** Puts a text in the place of a line, as deep as it is. */
async function typeOver(page, line, text) {
  await typeBehind(page, line, '')
  await page.keyboard.press('Shift+Home')
  await page.keyboard.type(text)
}

/** The text in the editor; all of it is visible here. */
const shown = async (page) => (await editorOf(page).locator('.cm-line').allInnerTexts()).join('\n').replace(/\u200b|\n(?=\n)/g, (sign) => (sign === '\n' ? sign : ''))

async function review(page) {
  await page.getByRole('button', { name: 'Save…' }).click()
  return page.getByRole('dialog', { name: 'Save the configuration' })
}

test('the file is shown with its comments, its secrets are not', async () => {
  const page = await opened()
  await lineOf(page, '// Servers of the team').waitFor()
  await lineOf(page, '/* the first one */').waitFor()
  await lineOf(page, '${secret:').waitFor()
  assert.ok(!(await page.content()).includes(SECRET))
  assert.ok(!(await shown(page)).includes(SECRET))
  await page.getByText(daemon.config).waitFor()
  await page.getByText('In force').waitFor()
  await page.getByText('No findings').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Save…' }).isDisabled(), true)
  assert.deepEqual(await axe(page), [])
  await closePage(page)
})

test('the schema completes keys and values', async () => {
  const page = await opened()
  await typeBehind(page, '"--tools", "2"', ',\n"startT')
  const list = page.getByRole('listbox', { name: 'Completions' })
  await list.getByRole('option', { name: 'startTimeoutMs' }).waitFor()
  assert.equal(await editorOf(page).getAttribute('aria-activedescendant'), 'completions-0')
  assert.deepEqual(await axe(page), [])
  await page.keyboard.press('Enter')
  await list.waitFor({ state: 'detached' })
  await page.keyboard.type('5000')
  await lineOf(page, /"startTimeoutMs": 5000$/).waitFor()

  // Behind a key its words are offered; one is chosen by the arrows.
  await typeBehind(page, /^\{$/, '\n"naming')
  await list.getByRole('option', { name: /^naming/ }).click()
  await list.getByRole('option', { name: 'slash' }).waitFor()
  await soon('the word to be chosen', async () => {
    if ((await list.getByRole('option', { selected: true }).innerText()) === 'slash') return true
    await page.keyboard.press('ArrowDown')
    return false
  })
  await page.keyboard.press('Enter')
  await lineOf(page, /^  "naming": "slash",$/).waitFor()
  await page.getByText('No findings').waitFor()

  // Escape closes the list, and Ctrl-Space opens it.
  await typeBehind(page, '"startTimeoutMs"', ',\n"c')
  await list.waitFor()
  await page.keyboard.press('Escape')
  await list.waitFor({ state: 'detached' })
  await page.keyboard.press('Control+Space')
  await list.getByRole('option', { name: /^cwd/ }).waitFor()
  assert.equal(onDisk(), TEXT)
  await closePage(page)
})

test('what is typed before an entry leaves the entry alone', async () => {
  const page = await opened()
  const list = page.getByRole('listbox', { name: 'Completions' })
  const typeBefore = async (line, text) => {
    await typeBehind(page, line, '')
    await page.keyboard.press('Home')
    await page.keyboard.type(text)
  }
  await typeBefore('"beta"', '"n": {"a": "b"},')
  await lineOf(page, /^    "n": \{"a": "b"\},"beta": \{$/).waitFor()
  assert.equal(await list.count(), 0)
  await page.keyboard.press('Enter')
  await lineOf(page, /^    "beta": \{$/).waitFor()

  // A completion replaces what was typed, and nothing behind it.
  await typeBefore('"env"', '"cw')
  await list.getByRole('option', { name: /^cwd/ }).waitFor()
  await page.keyboard.press('Enter')
  // The quotes that it put in are typed over, those of the neighbour are not.
  await page.keyboard.type('/x",')
  await lineOf(page, '"cwd": "/x",,"env": { "API_TOKEN"').waitFor()
  // So are those that were put in while something was typed where nothing follows.
  await typeBehind(page, '"--tools", "2"', ',\n"x": {"y": ["z"]}')
  await lineOf(page, /^      "x": \{"y": \["z"\]\}$/).waitFor()
  await closePage(page)
})

test('what is wrong is shown with its line and column, and is refused by no save', async () => {
  const page = await opened()
  // The text is no JSON: the daemon says where.
  await typeBehind(page, '"--tools", "2"', ' x')
  const findings = page.getByRole('list', { name: 'Findings' })
  await findings.getByText('line 12, column 31').waitFor()
  await page.getByText('1 error', { exact: true }).waitFor()
  await editorOf(page).locator('.cm-found-error').waitFor()
  const dialog = await review(page)
  await dialog.getByText('It cannot be saved before the errors are mended.').waitFor()
  assert.equal(await dialog.getByRole('button', { name: 'Save and put in force' }).isDisabled(), true)
  await dialog.getByRole('button', { name: 'Cancel' }).click()

  await lineOf(page, '"--tools", "2"').click()
  await page.keyboard.press('End')
  for (const _ of ' x') await page.keyboard.press('Backspace')
  await page.getByText('No findings').waitFor()

  // A key that nobody knows is a warning, with what was meant.
  await typeBehind(page, '"--tools", "2"', ',\n"tiemout": 5')
  const unknown = findings.getByRole('button', { name: /Warning: unknown key.*mcpServers\.beta\.tiemout.*line 13, column 7/s })
  await unknown.waitFor()
  await unknown.getByText('timeout', { exact: false }).first().waitFor()
  await page.getByText('1 warning', { exact: true }).waitFor()

  // A click goes to the place.
  await lineOf(page, '/* the first one */').click()
  await unknown.click()
  await editorOf(page).locator('.cm-activeLine').filter({ hasText: 'tiemout' }).waitFor()
  assert.equal(onDisk(), TEXT)
  await closePage(page)
})

test('before saving there are the difference and the plan; saved, comments and secrets are as they were', async () => {
  const page = await opened()
  await typeOver(page, '"--tools", "2"', '"args": ["--tools", "5"]')
  await page.getByText('No findings').waitFor()
  await page.keyboard.press('Control+s')
  const dialog = page.getByRole('dialog', { name: 'Save the configuration' })
  const changes = dialog.getByRole('region', { name: 'Changed lines' })
  await changes.getByRole('row').filter({ hasText: 'added' }).getByText('"args": ["--tools", "5"]').waitFor()
  await changes.getByRole('row').filter({ hasText: 'removed' }).getByText('"args": ["--tools", "2"]').waitFor()
  await dialog.getByText('1 line added, 1 removed').waitFor()
  const restarted = dialog.getByText('Restarted if it runs')
  await restarted.waitFor()
  await dialog.getByRole('listitem').filter({ hasText: /^beta\s+args/ }).waitFor()
  await dialog.getByText('1 server stays as it is.').waitFor()
  assert.deepEqual(await axe(page), [])
  assert.equal(onDisk(), TEXT)
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await closePage(page)
})

test('saved text keeps comments and secrets byte for byte, and is in force', async () => {
  const page = await opened()
  const pid = (await daemon.server('alpha')).pid
  await typeOver(page, '"--tools", "2"', '"args": ["--tools", "4"]')
  await page.getByText('No findings').waitFor()
  const dialog = await review(page)
  await dialog.getByRole('button', { name: 'Save and put in force' }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByText('Saved and put in force.').waitFor()
  assert.equal(onDisk(), TEXT.replace('"--tools", "2"', '"--tools", "4"'))
  await soon('four tools of beta', async () =>
    (await daemon.api('/api/mcp-tools?server=beta')).tools.some((tool) => tool.name === 'beta/tool_4'),
  )
  assert.equal((await daemon.server('alpha')).pid, pid, 'alpha was not touched')
  await page.getByText('In force', { exact: true }).waitFor()
  await closePage(page)
})

test('a configuration that cannot be used is refused, and nothing changes', async () => {
  const page = await opened()
  await typeOver(page, '"--tools", "2"', '"args": 5')
  const reason = page.getByRole('list', { name: 'Findings' }).getByText(/Server beta: args must be an array/)
  await reason.waitFor()
  await page.getByText('line 12, column 15').waitFor()
  // Even if the page had not asked: the daemon refuses what is put.
  const dialog = await review(page)
  assert.equal(await dialog.getByRole('button', { name: 'Save and put in force' }).isDisabled(), true)
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  assert.equal(onDisk(), TEXT)

  await page.getByRole('button', { name: 'Reset' }).click()
  await page.getByRole('dialog', { name: 'Throw your changes away?' }).getByRole('button', { name: 'Reset' }).click()
  await lineOf(page, '"--tools", "2"').waitFor()
  await page.getByText('In force', { exact: true }).waitFor()

  // Where the check found nothing yet, the refused save says why.
  await page.route('**/api/config/check', (route) => route.fulfill({ json: { valid: true, findings: [] } }))
  await typeOver(page, '"--tools", "2"', '"args": 5')
  await review(page)
  await dialog.getByRole('button', { name: 'Save and put in force' }).click()
  await dialog.getByText(/Server beta: args must be an array/).waitFor()
  assert.equal(onDisk(), TEXT)
  assert.equal((await daemon.server('beta')).connected, true)
  await closePage(page)
})

test('a file that another program breaks is shown as rejected, and what runs goes on', async () => {
  const page = await opened()
  fs.writeFileSync(daemon.config, `${TEXT}}`)
  await page.getByText('Rejected', { exact: true }).waitFor()
  await page.getByText(/The file cannot be used\..*text cannot contain more than one JSON value/is).first().waitFor()
  assert.equal((await daemon.server('beta')).connected, true)
  // Whoever opens the screen now sees why there is no text.
  await page.reload()
  await page.getByText(/cannot contain more than one JSON value/i).first().waitFor()
  fs.writeFileSync(daemon.config, TEXT)
  await lineOf(page, '"--tools", "2"').waitFor()
  await page.getByText('In force', { exact: true }).waitFor()
  await closePage(page)
})

test('a change of comments, which changes nothing else, is seen by who comes back to the window', async () => {
  const page = await opened()
  fs.writeFileSync(daemon.config, TEXT.replace('Servers of the team', 'Servers of all'))
  await page.evaluate(() => dispatchEvent(new Event('focus')))
  await lineOf(page, '// Servers of all').waitFor()
  await closePage(page)
})

test('the file changed meanwhile: see the difference, load it, or keep what was typed', async () => {
  const page = await opened()
  const theirs = TEXT.replace('Servers of the team', 'Servers of all').replace('"--tools", "3"', '"--tools", "9"')
  await typeOver(page, '"--tools", "2"', '"args": ["--tools", "6"]')
  fs.writeFileSync(daemon.config, theirs)
  const conflict = page.getByRole('alert').filter({ hasText: 'The file has changed meanwhile.' })
  await conflict.getByRole('button', { name: 'Show the difference' }).click()
  const changes = conflict.getByRole('region', { name: 'From the file to your text' })
  await changes.getByText('// Servers of all').waitFor()
  await changes.getByText('// Servers of the team').waitFor()
  await conflict.getByRole('button', { name: 'Load the file, drop my changes' }).click()
  await lineOf(page, '// Servers of all').waitFor()
  await lineOf(page, '"--tools", "2"').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Save…' }).isDisabled(), true)

  // It changes between the look at it and the save: the daemon refuses, and what was typed can be kept.
  await typeOver(page, '"--tools", "2"', '"args": ["--tools", "6"]')
  await page.getByText('No findings').waitFor()
  const dialog = await review(page)
  await page.route('**/api/config/text', async (route) => {
    if (route.request().method() === 'PUT') fs.writeFileSync(daemon.config, TEXT)
    await route.continue()
  })
  const refused = page.waitForResponse((response) => response.status() === 409)
  await dialog.getByRole('button', { name: 'Save and put in force' }).click()
  assert.equal((await (await refused).json()).error, 'config_changed')
  await dialog.getByText('The file has changed meanwhile.').waitFor()
  assert.equal(onDisk(), TEXT)
  await page.unroute('**/api/config/text')
  await dialog.getByRole('button', { name: 'Keep my text, save over it' }).click()
  await dialog.getByRole('button', { name: 'Save and put in force' }).click()
  await dialog.waitFor({ state: 'detached' })
  assert.equal(onDisk(), theirs.replace('"--tools", "2"', '"--tools", "6"'))
  await closePage(page)
})

test('saved is saved, also where the file cannot be read right after it', async () => {
  const page = await opened()
  const save = async () => {
    await page.getByText('No findings').waitFor()
    const dialog = await review(page)
    await dialog.getByRole('button', { name: 'Save and put in force' }).click()
    await dialog.waitFor({ state: 'detached' })
  }
  await typeOver(page, '"--tools", "2"', '"args": ["--tools", "7"]')
  await page.route('**/api/config/text', (route) => (route.request().method() === 'GET' ? route.abort() : route.continue()))
  await save()
  await page.getByText('Saved and put in force.').waitFor()
  await page.getByRole('alert').getByRole('button', { name: 'Try again' }).waitFor()
  await soon('the file to say so', () => onDisk().includes('"--tools", "7"'))
  await page.unroute('**/api/config/text')

  // The next save knows what the file says now.
  await typeOver(page, '"--tools", "7"', '"args": ["--tools", "8"]')
  await save()
  assert.ok(onDisk().includes('"--tools", "8"'))
  await page.getByText('In force', { exact: true }).waitFor()
  assert.equal(await page.getByRole('alert').count(), 0)
  await closePage(page)
})

test('unsaved text outlives other screens, and the browser asks before it is lost', async () => {
  const page = await opened()
  await typeOver(page, '"--tools", "2"', '"args": ["--tools", "7"]')
  await page.getByText('Not saved').waitFor()
  await page.getByRole('navigation').first().getByRole('link', { name: 'Servers' }).click()
  await page.getByRole('link', { name: 'alpha' }).first().waitFor()
  await page.goBack()
  await lineOf(page, '"--tools", "7"').waitFor()
  const asked = page.waitForEvent('dialog')
  const leaving = page.reload().catch(() => {})
  const dialog = await asked
  assert.equal(dialog.type(), 'beforeunload')
  await dialog.dismiss()
  await lineOf(page, '"--tools", "7"').waitFor()
  page.once('dialog', (again) => again.accept())
  await page.reload()
  await leaving
  await lineOf(page, '"--tools", "2"').waitFor()
  await closePage(page)
})

test('the editor does not keep the focus', async () => {
  const page = await opened()
  const isInside = () => editorOf(page).evaluate((element) => element.matches(':focus'))
  await page.getByRole('tab', { name: 'File', exact: true }).focus()
  await soon('the editor to have the focus', async () => {
    if (await isInside()) return true
    await page.keyboard.press('Tab')
    return false
  })
  // Tab indents.
  await page.keyboard.press('Control+Home')
  await page.keyboard.press('Tab')
  await lineOf(page, /^  \/\/ Servers of the team/).waitFor()
  assert.equal(await isInside(), true)
  await page.keyboard.press('Control+z')
  await lineOf(page, /^\/\/ Servers of the team/).waitFor()
  await page.keyboard.press('Tab')
  await lineOf(page, /^  \/\/ Servers of the team/).waitFor()
  await page.keyboard.press('Shift+Tab')
  await lineOf(page, /^\/\/ Servers of the team/).waitFor()
  await page.keyboard.press('Escape')
  await page.keyboard.press('Tab')
  assert.equal(await isInside(), false)
  await page.keyboard.press('Shift+Tab')
  assert.equal(await isInside(), true)
  await page.keyboard.press('Escape')
  await page.keyboard.press('Shift+Tab')
  assert.equal(await isInside(), false)
  await closePage(page)
})

test('a profile of many servers names the first of them', async () => {
  const mcpServers = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`s${index + 10}`, { ...fake(), autoStart: false }]))
  const many = await Daemon.start({ mcpServers, profiles: { most: { servers: Object.keys(mcpServers).slice(0, 11) } } })
  const page = await openPage(many, '#/configuration/profiles')
  const rows = page.getByRole('list', { name: 'Profiles' }).getByRole('listitem')
  await rows.filter({ hasText: 'most' }).getByText('s10, s11, s12, s13, s14, s15, s16, s17 … and 3 more', { exact: true }).waitFor()
  await rows.filter({ hasText: 'default' }).getByText('all servers (20)', { exact: true }).waitFor()
  await closePage(page)
  await many.end()
})

test('profiles are added, edited and deleted by forms, and clients see what the form says', async () => {
  const page = await opened()
  await page.getByRole('tab', { name: 'Profiles' }).click()
  const profiles = page.getByRole('list', { name: 'Profiles' })
  await profiles.getByRole('listitem').filter({ hasText: 'default' }).getByText(`${daemon.url}/mcp`).waitFor()
  await page.getByRole('button', { name: 'Add a profile' }).click()
  let form = page.getByRole('dialog', { name: 'New profile' })
  const name = form.getByLabel('Name', { exact: true })
  await name.fill('no__good')
  await form.getByText('This name cannot be used.').waitFor()
  assert.equal(await form.getByRole('button', { name: 'Review and save' }).isDisabled(), true)
  await name.fill('docs')
  await form.getByLabel('Only these', { exact: true }).check()
  await form.getByRole('checkbox', { name: 'beta' }).check()
  await form.getByLabel('Only these tools').fill('beta/tool_*\nbeta/echo')
  await form.getByLabel('Without these tools').fill('*/tool_2')
  assert.deepEqual(await axe(page), [])
  await form.getByRole('button', { name: 'Review and save' }).click()
  const dialog = page.getByRole('dialog', { name: 'Save the configuration' })
  await dialog.getByText('profiles', { exact: false }).first().waitFor()
  await dialog.getByRole('button', { name: 'Save and put in force' }).click()
  await dialog.waitFor({ state: 'detached' })
  const row = profiles.getByRole('listitem').filter({ hasText: 'docs' })
  await row.getByText('2 tools', { exact: false }).waitFor()
  await row.getByText(`${daemon.url}/mcp/docs`).waitFor()
  assert.ok(onDisk().startsWith('// Servers of the team') && onDisk().includes(SECRET) && onDisk().includes('/* the first one */'))
  const client = await McpClient.open(daemon, '/mcp/docs')
  assert.deepEqual((await client.tools()).sort(), ['beta__echo', 'beta__tool_1'])

  await page.getByRole('button', { name: 'Edit: docs' }).click()
  form = page.getByRole('dialog', { name: 'Profile docs' })
  await form.getByLabel('Without these tools').fill('')
  await form.getByLabel('Names of tools').selectOption({ label: 'files/read' })
  await form.getByRole('button', { name: 'Review and save' }).click()
  await dialog.getByRole('button', { name: 'Save and put in force' }).click()
  await dialog.waitFor({ state: 'detached' })
  await row.getByText('3 tools', { exact: false }).waitFor()
  await soon('the client to see the edited profile', async () => {
    const again = await McpClient.open(daemon, '/mcp/docs')
    return (await again.tools()).sort().join() === 'beta/echo,beta/tool_1,beta/tool_2'
  })

  await page.getByRole('button', { name: 'Delete: docs' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await dialog.getByRole('button', { name: 'Save and put in force' }).click()
  await dialog.waitFor({ state: 'detached' })
  await row.waitFor({ state: 'detached' })
  await assert.rejects(McpClient.open(daemon, '/mcp/docs'), /404/)
  await closePage(page)
})
