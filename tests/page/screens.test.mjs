// Every screen at every width in both schemes: axe-core finds nothing, nothing overflows, and with
// MAINSTAY_SCREENSHOTS=1 there is a picture of each.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, here, openPage, soon } from './harness.mjs'

/** Addresses of all screens, their dialogs and drawers. */
const SCREENS = {
  servers: '#/servers',
  'servers-add': '#/servers?add=1',
  'servers-edit': '#/servers?edit=alpha',
  server: '#/servers/alpha',
  'server-down': '#/servers/broken',
  'server-tools': '#/servers/alpha/tools',
  'server-entry': '#/servers/alpha/entry',
  calls: '#/calls',
  call: '#/calls?id=1',
  overview: '#/overview',
  tools: '#/tools',
  tool: '#/tools/alpha/echo',
  requests: '#/requests',
  clients: '#/clients',
  events: '#/events',
  configuration: '#/configuration',
  settings: '#/settings',
}
const WIDTHS = [360, 1280, 2560]
const SCHEMES = ['light', 'dark']

let daemon
let page
before(async () => {
  daemon = await Daemon.start({
    mcpServers: {
      alpha: fake('--tools', '12'),
      broken: { command: 'sh', args: ['-c', 'echo "fatal: no database" >&2; exit 3'] },
      missing: { command: 'no-such-program' },
      off: { ...fake(), enabled: false },
    },
  })
  await daemon.connected('alpha')
  for (const text of ['one', 'two', 'three']) await daemon.api('/api/mcp-tools/call', 'POST', { tool: 'alpha/echo', arguments: { text } })
  page = await openPage(daemon)
})
after(async () => {
  await closePage(page)
  await closeBrowser()
  await daemon?.end()
})

/** Shows a scheme as the page does when a person chooses it. */
function show(scheme) {
  document.documentElement.dataset.scheme = scheme
  dispatchEvent(new CustomEvent('schemechange'))
}

for (const [name, hash] of Object.entries(SCREENS)) {
  test(`${name}`, async () => {
    await page.setViewportSize({ width: 1280, height: 900 })
    await page.goto(`${daemon.url}/${hash}`)
    await page.getByRole('heading', { level: 1 }).first().waitFor()
    await soon('the screen to be loaded', async () => (await page.getByText('Loading…').count()) === 0)
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: width < 500 ? 780 : 900 })
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      assert.ok(overflow <= 0, `${name} at ${width} px is ${overflow} px too wide`)
      for (const scheme of SCHEMES) {
        await page.evaluate(show, scheme)
        assert.deepEqual(await axe(page), [], `${name} at ${width} px, ${scheme}`)
        if (process.env.MAINSTAY_SCREENSHOTS) {
          const folder = path.join(here, 'screenshots')
          fs.mkdirSync(folder, { recursive: true })
          await page.screenshot({ path: path.join(folder, `${name}-${width}-${scheme}.png`) })
        }
      }
    }
  })
}
