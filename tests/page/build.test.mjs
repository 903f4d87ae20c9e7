// The builds of the page: which one the program has, and that the page of the last release works with this REST API.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, here, openPage, soon } from './harness.mjs'

const UI = path.join(here, '../../ui')

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake() } })
  await daemon.connected('alpha')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

test('the program has the page of ui/build', { skip: process.env.PAGE_DIST && 'PAGE_DIST names another' }, async () => {
  const build = path.join(UI, 'build/page')
  const assets = fs.readdirSync(path.join(build, 'assets')).map((name) => `assets/${name}`)
  for (const [file, address] of [['index.html', ''], ['favicon.svg', 'favicon.svg'], ...assets.map((name) => [name, name])]) {
    const response = await fetch(`${daemon.url}/${address}`)
    const served = Buffer.from(await response.arrayBuffer())
    const isSame = response.ok && served.equals(fs.readFileSync(path.join(build, file)))
    assert.ok(isSame, `the program has another ${file} than ui/build/page: run ui/fresh, then cargo build`)
  }
})

// A program that is built without Node has that page. Where this fails, the REST API keeps what the page uses until
// the next release; if it cannot, the change commits a new ui/dist (docs/dev/decisions/0021).
test('the page of the last release works with this REST API', async () => {
  await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text: 'of a test' } })
  const page = await openPage(daemon, '#/', { dist: path.join(UI, 'dist') })
  const route = (request) => new URL(request.url()).pathname
  // The stream of events never ends.
  const isRead = (request) => route(request).startsWith('/api/') && route(request) !== '/api/events'
  const reading = new Set()
  page.on('request', (request) => isRead(request) && reading.add(request))
  page.on('requestfinished', (request) => reading.delete(request))
  page.on('requestfailed', (request) => reading.delete(request))
  page.on('response', (response) => {
    if (isRead(response.request()) && !response.ok()) page.faults.push(`${response.status()} of ${route(response.request())}`)
  })
  const screens = await page.getByRole('navigation').first().getByRole('link').evaluateAll((links) => links.map((link) => link.hash).filter(Boolean))
  assert.ok(screens.length >= 9, screens.join(' '))
  for (const screen of [...new Set(screens), '#/servers/alpha']) {
    await page.goto(`${daemon.url}/${screen}`)
    const main = page.getByRole('main')
    await main.getByRole('heading', { level: 1 }).first().waitFor()
    await soon('the answers that the screen waits for', () => reading.size === 0)
    assert.deepEqual(await main.getByRole('alert').allTextContents(), [], screen)
  }
  await page.goto(`${daemon.url}/#/calls`)
  await page.getByRole('main').getByRole('link', { name: 'alpha/echo', exact: true }).first().click()
  await page.getByText('of a test').first().waitFor()
  await closePage(page)
})
