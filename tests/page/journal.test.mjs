// Without a journal every screen that shows records says so once, and where to turn it on; with one that keeps no
// arguments, a call that is run again says that it lacks them.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, openPage, soon } from './harness.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ journal: { enabled: false }, mcpServers: { alpha: fake() } })
  await daemon.connected('alpha')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

test('each screen says that the journal is off, and none shows an error', async () => {
  const page = await openPage(daemon)
  for (const hash of ['#/overview', '#/calls', '#/servers/alpha/calls']) {
    await page.goto(`${daemon.url}/${hash}`)
    await page.getByRole('heading', { name: 'The journal is off' }).waitFor()
    assert.equal(await page.getByRole('heading', { name: 'The journal is off' }).count(), 1, hash)
    assert.equal(await page.getByRole('alert').count(), 0, hash)
    assert.deepEqual(await axe(page), [], hash)
    await page.getByRole('link', { name: 'Open the configuration' }).click()
    await page.getByRole('heading', { level: 1, name: 'Configuration' }).waitFor()
  }
  for (const hash of ['#/servers/alpha', '#/tools/alpha/echo', '#/settings/about']) {
    await page.goto(`${daemon.url}/${hash}`)
    await page.getByText('The journal is off: calls and states are not recorded.').waitFor()
    assert.equal(await page.getByRole('alert').count(), 0, hash)
  }
  await closePage(page)
})

test('a call that is cancelled says what may be: no record tells', async () => {
  const page = await openPage(daemon, `#/tools/alpha/sleep?arguments=${encodeURIComponent('{"ms": 600000}')}`)
  await page.getByRole('button', { name: 'Call', exact: true }).click()
  const asked = page.waitForResponse((response) => response.url().includes('/api/call-records'))
  await page.getByRole('button', { name: 'Cancel the call' }).click()
  assert.equal((await asked).status(), 503)
  await page.getByText('If the server had the call already, it may have run in part or as a whole.').waitFor()
  assert.equal(await page.getByRole('link', { name: 'The record of this call' }).count(), 0)
  await closePage(page)
})

for (const payloads of ['off', 'digest']) {
  test(`with payloads "${payloads}" a call that is run again says why its form is empty`, async () => {
    const spare = await Daemon.start({ journal: { payloads }, mcpServers: { alpha: fake() } })
    try {
      await spare.connected('alpha')
      await spare.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text: 'once' } })
      const { id } = await soon('its record', async () => (await spare.api('/api/call-records?limit=1')).calls[0])
      const page = await openPage(spare, `#/calls?id=${id}`)
      const drawer = page.getByRole('dialog')
      await drawer.getByText(/^Its arguments were not kept: "journal.payloads" in the configuration was not "full"/).waitFor()
      // A command without them would be another call.
      assert.deepEqual(await drawer.getByRole('group', { name: 'Copy the call as' }).getByRole('button').allTextContents(), ['JSON'])
      assert.equal(await drawer.getByText('It was not kept.').count(), 2)
      await drawer.getByRole('link', { name: 'Run again…' }).click()
      await page.getByText(`The arguments of call ${id} were not kept: "journal.payloads"`).waitFor()
      const field = page.getByLabel('text', { exact: true })
      assert.equal(await field.inputValue(), '')
      await field.fill('again')
      await page.getByRole('button', { name: 'Call', exact: true }).click()
      await page.getByText('Answered', { exact: true }).waitFor()
      await closePage(page)
    } finally {
      await spare.end()
    }
  })
}

test('where a call is missing, Calls says when, and why', async () => {
  const spare = await Daemon.start({ mcpServers: { alpha: fake() } })
  try {
    await spare.connected('alpha')
    const call = (tool, args) => spare.api('/api/mcp-tools/call', 'POST', { tool: `alpha/${tool}`, arguments: args })
    const long = call('sleep', { ms: 3000 })
    await soon('its beginning', async () => (await spare.api('/api/call-records?limit=1')).calls[0]?.status === 'open')
    fs.rmSync(path.join(spare.home, 'state', 'journal'), { recursive: true })
    await call('echo', { text: 'x' })
    await long
    const page = await openPage(spare, '#/calls')
    await page.getByText(/^1 call from .* to .* is not on record: .*removed/).waitFor()
    assert.deepEqual(await axe(page), [])
    await closePage(page)
  } finally {
    await spare.end()
  }
})
