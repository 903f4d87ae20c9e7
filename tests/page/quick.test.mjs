// The daemon takes its time; the page says at once what it does. What was asked for is held back until that is seen.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { closeBrowser, Daemon, fake, FAKE_SERVER, soon } from './harness.mjs'
import { closeForKeys, enter, openForKeys, push, reach } from './keys.mjs'
import { McpClient } from './mcp.mjs'
import { countFrames, framesUntil } from './measure.mjs'

/** A frame takes 17 ms where the machine keeps up: two of them are far below 100 ms. */
const MAX_FRAMES = 2

let daemon
before(async () => {
  daemon = await Daemon.start({ ownTools: ['control'], mcpServers: { alpha: fake(), asking: { ...fake(), serverRequests: 'queue' }, one: fake('--tools', '2'), two: fake('--tools', '3') } })
  await daemon.connected('alpha', 'asking', 'one', 'two')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

const dialog = (page, name) => page.getByRole('dialog', { name })
const button = (where, name) => where.getByRole('button', { name, exact: true })

/** Opens a page whose requests to do something wait until `answer` is called. */
async function slowPage(hash) {
  const page = await openForKeys(daemon, hash)
  const held = []
  await page.route('**/api/**', async (route) => {
    if (route.request().method() === 'GET') return route.fallback()
    await new Promise((resolve) => held.push(resolve))
    await route.continue()
  })
  return {
    page,
    /** Presses a key, and measures the frames until one of `words` stands on the page. The daemon has not answered then. */
    async says(words, key = 'Enter') {
      await countFrames(page, ...words)
      await page.keyboard.press(key)
      const frames = await framesUntil(page)
      await soon('the request to be held', () => held.length > 0)
      assert.ok(frames <= MAX_FRAMES, `${words[0]} is said after ${frames} frames`)
    },
    /** Lets the daemon answer. */
    answer() {
      for (const go of held.splice(0)) go()
    },
  }
}

test('operations on a server, and on several', async () => {
  const { page, says, answer } = await slowPage('#/')
  const row = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'alpha', exact: true }) })
  await reach(page, button(row, 'Restart'))
  await says(['Restarting…'])
  answer()
  await page.getByText('Server "alpha" restarted').waitFor()
  for (const name of ['one', 'two']) await push(page, page.getByRole('checkbox', { name: `Select ${name}` }), 'Space')
  await push(page, button(page.getByRole('toolbar'), 'Stop'), 'Enter', 'Shift+Tab')
  await reach(page, button(dialog(page, 'Stop 2 servers?'), 'Stop'))
  await says(['0 of 2'])
  answer()
  await page.getByText('2 servers done').waitFor()

  await page.goto(`${daemon.url}/#/servers/one`)
  await reach(page, button(page, 'Start'))
  await says(['Starting…'])
  answer()
  await page.getByText('Server "one" started').waitFor()
  await reach(page, button(page, 'Stop'))
  await says(['Stopping…'])
  answer()
  await page.getByText('Server "one" stopped').waitFor()
  await page.goto(`${daemon.url}/#/servers/two?delete=two`)
  await reach(page, button(dialog(page, 'Delete two?'), 'Delete'))
  await says(['Deleting…'])
  answer()
  await page.getByText('Server "two" deleted').waitFor()
  await closeForKeys(page)
})

test('a tool is called', async () => {
  const { page, says, answer } = await slowPage('#/tools/alpha/echo')
  await enter(page, page.getByLabel('text', { exact: true }), 'hello')
  // The first call of a page, which loads the code that checks arguments, too.
  await says(['Checking…', 'Calling…'], 'Control+Enter')
  answer()
  await page.getByText('Answered', { exact: true }).waitFor()
  await closeForKeys(page)
})

test('a server is read, tried, added and edited', async () => {
  const { page, says, answer } = await slowPage('#/servers?add=paste')
  await enter(page, page.getByLabel('A snippet, a command line or an address'), `${FAKE_SERVER} --tools 1`)
  await says(['Reading…'], 'Control+Enter')
  answer()
  const review = dialog(page, 'Review before saving')
  await reach(page, button(review, 'Try it'))
  await says(['Trying…'])
  answer()
  await review.getByText(/answered in/).waitFor()
  await enter(page, review.getByLabel('Name'), 'added')
  await reach(page, button(review, 'Save and start'))
  await says(['Saving and starting…'])
  answer()
  await page.getByText('Server "added" added').waitFor()
  await page.goto(`${daemon.url}/#/servers?edit=added`)
  await reach(page, button(dialog(page, 'Edit added'), 'Save'))
  await says(['Saving…'])
  answer()
  await page.getByText('Server "added" saved').waitFor()
  await closeForKeys(page)
})

test('servers of a client are taken over', async () => {
  const file = path.join(daemon.home, '.cursor', 'mcp.json')
  fs.mkdirSync(path.dirname(file), { recursive: true })
  fs.writeFileSync(file, JSON.stringify({ mcpServers: { taken: fake('--tools', '21') } }))
  const { page, says, answer } = await slowPage('#/servers?add=clients')
  await reach(page, button(page, 'Take over 1 server'))
  await says(['Taking over…'])
  answer()
  await page.getByText('Added: taken').waitFor()
  await closeForKeys(page)
})

test('what a client adds is approved; its session is ended', async () => {
  const client = await McpClient.open(daemon, '/mcp', { name: 'leaver', token: daemon.token })
  await client.call('add_server', { name: 'asked', ...fake('--tools', '4') })
  const { page, says, answer } = await slowPage('#/servers?review=asked')
  await reach(page, button(dialog(page, 'Approve asked?'), 'Approve and start'))
  await says(['Approving…'])
  answer()
  await page.getByText('Server "asked" approved').waitFor()
  await page.goto(`${daemon.url}/#/clients`)
  await push(page, page.getByRole('button', { name: 'End session: leaver' }))
  await reach(page, button(dialog(page, 'End the session of leaver?'), 'End session'))
  await says(['Ending…'])
  answer()
  await page.getByRole('button', { name: 'End session: leaver' }).waitFor({ state: 'detached' })
  await closeForKeys(page)
})

test('a request of a server is answered', async () => {
  const requestedSchema = { type: 'object', required: ['name'], properties: { name: { type: 'string' } } }
  const answered = daemon.api('/api/mcp-tools/call', 'POST', { tool: 'asking/ask', arguments: { method: 'elicitation/create', params: { message: 'Who are you?', requestedSchema } } })
  const { page, says, answer } = await slowPage('#/requests')
  const card = page.getByRole('article')
  await enter(page, card.getByLabel(/^name\b/), 'Ada')
  await reach(page, button(card, 'Send the answer'))
  await says(['Checking…', 'Answering…'])
  answer()
  assert.deepEqual(JSON.parse((await answered).result.content[0].text).result, { action: 'accept', content: { name: 'Ada' } })
  await closeForKeys(page)
})

test('a token is made; the configuration is looked at', async () => {
  const { page, says, answer } = await slowPage('#/clients/tokens')
  await push(page, button(page, 'Make a token').first())
  await enter(page, dialog(page, 'Make a token').getByLabel('Name of the client'), 'laptop')
  await reach(page, button(dialog(page, 'Make a token'), 'Make a token'))
  await says(['Making…'])
  answer()
  await page.getByRole('region', { name: 'The token of laptop' }).waitFor()
  await push(page, page.getByRole('button', { name: 'Remove: laptop' }))
  await reach(page, button(dialog(page, 'Remove the token of laptop?'), 'Remove'))
  await says(['Removing…'])
  answer()
  await page.getByRole('heading', { name: 'No tokens yet' }).waitFor()
  await page.goto(`${daemon.url}/#/settings`)
  await reach(page, button(page, 'Preview changes'))
  await says(['Reading…'])
  answer()
  await page.getByText('The file is in force; nothing would change.').waitFor()
  await closeForKeys(page)
})

test('the configuration is saved', async () => {
  const { page, says, answer } = await slowPage('#/configuration')
  const editor = page.getByRole('textbox', { name: 'Configuration, as JSON' })
  await reach(page, editor)
  await page.keyboard.press('Control+Home')
  await page.keyboard.press('End')
  await page.keyboard.press('Enter')
  await page.getByText('Not saved').waitFor()
  await page.keyboard.press('Control+s')
  await reach(page, button(dialog(page, 'Save the configuration'), 'Save and put in force'))
  await says(['Saving…'])
  await soon('the file to be written', () => {
    // The check of the text was held, too.
    answer()
    return /^\{\n\s*\n/.test(fs.readFileSync(daemon.config, 'utf8'))
  })
  await page.getByText('Saved and put in force.').waitFor()
  await closeForKeys(page)
})
