// Logins to remote servers: in a new tab, with a code, with a pasted address; what is refused, and the way out.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { axe, closeBrowser, closePage, Daemon, fake, here, openPage, soon } from './harness.mjs'
import { closeForKeys, enter, has, openForKeys, push } from './keys.mjs'
import { Provider } from './provider.mjs'

const LIFETIME_S = 3600
const PICTURES = process.env.MAINSTAY_SCREENSHOTS !== undefined

let provider
let daemon
before(async () => {
  provider = await Provider.start()
  daemon = await Daemon.start({
    mcpServers: {
      guarded: { url: provider.url },
      each: { url: provider.url, oauth: { perPrincipal: true } },
      keyed: { url: provider.url, headers: { Authorization: 'Bearer of-the-entry' } },
      local: fake('--tools', '1'),
    },
  })
  await daemon.connected('local')
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
  await provider?.stop()
})
beforeEach(async () => {
  await daemon.api('/api/servers/guarded/login', 'DELETE')
  await soon('the server to refuse', async () => (await daemon.server('guarded')).nextAction === 'log_in')
})
afterEach(() => {
  provider.person = 'grants'
  provider.hasRevocation = true
  provider.scopes = 'read'
  provider.lifetimeS = LIFETIME_S
})

const says = (where, text) => where.getByText(text).first().waitFor()
const panel = (page) => page.getByRole('region', { name: 'Login', exact: true })
const button = (where, name) => where.getByRole('button', { name, exact: true })
const row = (page, name) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) })
/** The tab that a click opens. It is another window, which goes to other hosts. */
const tabOf = async (page, click) => {
  const [tab] = await Promise.all([page.context().waitForEvent('page'), click()])
  return tab
}
/** Pictures of the panel in both schemes, wide and narrow; axe-core finds nothing in any of them. */
async function look(page, name) {
  for (const scheme of ['light', 'dark']) {
    for (const width of [1280, 360]) {
      await page.setViewportSize({ width, height: 850 })
      await page.evaluate((wanted) => (document.documentElement.dataset.scheme = wanted), scheme)
      assert.deepEqual(await axe(page), [], `${name}, ${width}, ${scheme}`)
      const overflow = await page.evaluate(() => [document.documentElement, ...document.querySelectorAll('main, section[aria-label^=Login], section[aria-label^=Login] *')].filter((element) => element.clientWidth > 0 && element.tagName !== 'INPUT' && element.scrollWidth > element.clientWidth).map((element) => element.outerHTML.slice(0, 200)))
      assert.deepEqual(overflow, [], `${name} at ${width} px`)
      if (PICTURES) {
        const folder = path.join(here, 'screenshots')
        fs.mkdirSync(folder, { recursive: true })
        await page.screenshot({ path: path.join(folder, `login-${name}-${width}-${scheme}.png`) })
      }
    }
  }
  await page.setViewportSize({ width: 1280, height: 850 })
}

test('a click in the list logs in: a tab goes through the provider, and the server is connected', async () => {
  const page = await openPage(daemon)
  // Of two that accept no credentials, one has a login.
  await button(row(page, 'keyed'), 'Reconnect now').waitFor()
  await button(row(page, 'guarded'), 'Log in').waitFor()
  await look(page, 'list')
  const tab = await tabOf(page, () => button(row(page, 'guarded'), 'Log in').click())
  await tab.getByRole('heading', { name: 'Logged in' }).waitFor()
  assert.equal(new URL(tab.url()).origin + new URL(tab.url()).pathname, `${daemon.url}/oauth/callback`)
  assert.equal(await tab.evaluate(() => window.opener), null)
  await tab.close()
  assert.match(page.url(), /#\/servers\/guarded$/)
  await says(panel(page), /^●Logged in until (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d, renewed automatically\.$/)
  await says(panel(page), 'read')
  await says(panel(page), provider.origin)
  await says(page.getByRole('region', { name: 'Why' }), /^It runs and answers/)
  assert.equal((await daemon.server('guarded')).connected, true)
  assert.equal(provider.requests.at(-1).redirect_uri, `${daemon.url}/oauth/callback`)
  await look(page, 'valid')
  await closePage(page)
})

test('while a login is under way its link is there, and the address of a browser elsewhere completes it', async () => {
  provider.person = 'reads'
  const page = await openPage(daemon, '#/servers/guarded')
  await says(panel(page), /^.Not logged in. The server asks for a login.$/)
  await look(page, 'none')
  const tab = await tabOf(page, () => button(panel(page), 'Log in').click())
  await tab.getByRole('heading', { name: 'May Mainstay in?' }).waitFor()
  await says(panel(page), /^.Waits for you to log in.$/)
  const link = await panel(page).getByRole('link', { name: 'Open it' }).getAttribute('href')
  assert.equal(link, tab.url())
  await tab.close()
  await look(page, 'pending')

  const field = panel(page).getByLabel('Paste the address at which your browser arrived')
  await field.fill(`${daemon.url}/oauth/callback?code=x&state=of-nobody`)
  await button(panel(page), 'Complete').click()
  await says(panel(page).getByRole('alert'), /belongs to no login/)
  await field.fill(`${daemon.url}/oauth/callback?code=${provider.code()}&state=${new URL(link).searchParams.get('state')}`)
  await button(panel(page), 'Complete').click()
  await says(panel(page), /^●Logged in until/)
  await daemon.connected('guarded')
  await closePage(page)
})

test('a blocked tab leaves the link', async () => {
  provider.person = 'reads'
  const page = await openPage(daemon, '#/servers/guarded')
  await page.evaluate(() => (window.open = () => null))
  await button(panel(page), 'Log in').click()
  const tab = await tabOf(page, () => panel(page).getByRole('link', { name: 'Open it' }).click())
  await tab.getByRole('heading', { name: 'May Mainstay in?' }).waitFor()
  await closePage(page)
})

test('a login that is refused says why', async () => {
  provider.person = 'refuses'
  const page = await openPage(daemon, '#/servers/guarded')
  const tab = await tabOf(page, () => button(panel(page), 'Log in').click())
  await tab.getByRole('heading', { name: 'Not logged in' }).waitFor()
  await says(tab, /the person refuses/)
  await says(panel(page).getByRole('alert'), /^The login failed: .*the person refuses/)
  await says(panel(page), /^.Not logged in. The server asks for a login.$/)
  await look(page, 'refused')
  await closePage(page)
})

test('a login that cannot begin closes its tab, and says why', async () => {
  const page = await openPage(daemon, '#/servers/guarded')
  const reason = 'a browser comes back from a login to an address of this machine or one with https only'
  await page.route('**/api/servers/guarded/login', (route) => (route.request().method() === 'POST' ? route.fulfill({ status: 502, json: { error: 'login_failed', message: reason } }) : route.continue()))
  const tab = await tabOf(page, () => button(panel(page), 'Log in').click())
  await says(panel(page).getByRole('alert'), reason)
  await soon('the tab to close', () => tab.isClosed())
  // Somebody logs in elsewhere, as by the command: what failed here is over.
  const { authorizationUrl } = await daemon.api('/api/servers/guarded/login', 'POST', {})
  assert.equal((await fetch(authorizationUrl)).status, 200)
  await says(panel(page), /^●Logged in until/)
  assert.equal(await panel(page).getByRole('alert').count(), 0)
  await closePage(page)
})

test('a code for another device, by keyboard, and the way out', async () => {
  const page = await openForKeys(daemon, '#/servers/guarded')
  await push(page, button(panel(page), 'Log in with a code'))
  await says(panel(page), 'WXYZ-1234')
  await says(panel(page), `${provider.origin}/enter`)
  await has(page, button(panel(page), 'Log in with a code'))
  await look(page, 'code')
  provider.enter('WXYZ-1234')
  await says(panel(page), /^●Logged in until/)
  await has(page, button(panel(page), 'Log in with a code'))
  await daemon.connected('guarded')

  await push(page, button(panel(page), 'Log out'))
  const sure = page.getByRole('dialog', { name: 'Log out of guarded?' })
  await has(page, button(sure, 'Cancel'))
  const revoked = provider.revoked.length
  await push(page, button(sure, 'Log out'))
  await says(panel(page), 'Logged out. The tokens are revoked.')
  assert.ok(provider.revoked.length > revoked)
  await says(panel(page), /^.Not logged in/)
  await soon('the server to be down', async () => !(await daemon.server('guarded')).connected)
  await closeForKeys(page)
})

test('a scope that the login lacks, and a provider that cannot revoke', async () => {
  provider.hasRevocation = false
  const page = await openPage(daemon, '#/servers/guarded')
  await (await tabOf(page, () => button(panel(page), 'Log in').click())).getByRole('heading', { name: 'Logged in' }).waitFor()
  await page.route('**/api/servers/guarded/login', async (route) => {
    if (route.request().method() !== 'GET') return route.continue()
    const response = await route.fetch()
    return route.fulfill({ response, json: { ...(await response.json()), missingScopes: ['write'], saveError: 'no space left on device', lastRefresh: { at: new Date().toISOString(), error: 'HTTP 503' } } })
  })
  await page.reload()
  await says(panel(page), 'write. Log in again to get them.')
  await says(panel(page), 'no space left on device. The login lasts until Mainstay ends.')
  await says(panel(page), /^just now: HTTP 503|ago: HTTP 503$/)
  await look(page, 'trouble')
  await button(panel(page), 'Log out').click()
  await button(page.getByRole('dialog'), 'Log out').click()
  await says(panel(page), 'Logged out. The authorization server cannot revoke tokens: they stay valid there until they expire.')
  await closePage(page)
})

test('a login that ended says so, and begins again', async () => {
  const page = await openPage(daemon, '#/servers/guarded')
  const logIn = async () => {
    const tab = await tabOf(page, () => button(panel(page), 'Log in').click())
    await tab.getByRole('heading', { name: 'Logged in' }).waitFor()
    await tab.close()
  }
  // Its token is renewed soon, which the provider refuses.
  provider.lifetimeS = 4
  await logIn()
  await daemon.connected('guarded')
  provider.endLogins()
  provider.lifetimeS = LIFETIME_S
  await says(panel(page), /^.Login ended: .*invalid_grant/)
  await says(page.getByRole('region', { name: 'Why' }), 'Log in to it.')
  await look(page, 'ended')
  await logIn()
  await says(panel(page), /^●Logged in until/)
  await daemon.connected('guarded')
  await closePage(page)
})

test('a process and an entry with credentials have no login', async () => {
  const page = await openPage(daemon, '#/servers/keyed')
  await says(page.getByRole('region', { name: 'Why' }), 'Renew the token in its entry.')
  await page.goto(`${daemon.url}/#/servers/local`)
  await says(page.getByRole('region', { name: 'Why' }), /^It runs/)
  assert.equal(await panel(page).count(), 0)
  await page.goto(`${daemon.url}/#/servers?open=guarded`)
  await says(page, 'Log in to it.')
  await says(page, 'It connects by itself when you have logged in.')
  await closePage(page)
})

test('clients that log in for themselves are listed, and logged out one by one', async () => {
  for (const name of ['laptop', 'build-machine']) {
    await daemon.api('/api/tokens', 'POST', { name })
    const { authorizationUrl } = await daemon.api(`/api/servers/each/login?client=${name}`, 'POST', {})
    assert.equal((await fetch(authorizationUrl)).status, 200)
  }
  const page = await openPage(daemon, '#/servers/each')
  const clients = page.getByRole('region', { name: 'Logins of clients' })
  await says(clients, 'build-machine')
  assert.equal(await clients.getByText('Logged in until').count(), 2)
  await says(clients, 'Each client logs in to each for itself')
  await look(page, 'clients')
  await button(clients, 'Log out: laptop').click()
  await says(page.getByRole('dialog'), 'Log out of laptop?')
  await button(page.getByRole('dialog'), 'Log out').click()
  await says(clients, 'Logged out. The tokens are revoked.')
  await clients.getByText('laptop').waitFor({ state: 'detached' })
  assert.equal((await daemon.api('/api/servers/each/login?client=build-machine')).status, 'valid')
  await closePage(page)
})
