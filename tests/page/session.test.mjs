// Signing in and out, and what a request without the right proof gets.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, fake, openPage } from './harness.mjs'

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: { alpha: fake() } })
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

test('a link signs in, once', async () => {
  const url = await daemon.signInUrl()
  const page = await openPage(daemon, '#/', { signedIn: false })
  await page.getByRole('heading', { name: 'Sign in to Mainstay' }).waitFor()
  await page.goto(url)
  await page.getByRole('link', { name: 'alpha' }).first().waitFor()
  assert.ok(!page.url().includes('code'), 'the code is out of the address')
  await closePage(page)

  const other = await openPage(daemon, '#/', { signedIn: false })
  await other.goto(url)
  await other.getByText('This link does not work any more').waitFor()
  await closePage(other)
})

test('the control token signs in, another does not', async () => {
  const page = await openPage(daemon, '#/', { signedIn: false })
  const field = page.getByLabel('Control token')
  await field.fill('not the token')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('This is not the control token.').waitFor()
  await field.fill(daemon.token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('link', { name: 'alpha' }).first().waitFor()
  await closePage(page)
})

test('a cookie alone changes nothing: a forged token is refused', async () => {
  const page = await openPage(daemon)
  const status = (headers) =>
    page.evaluate(
      async (extra) => {
        const answer = await fetch('/api/servers/alpha/restart', { method: 'POST', headers: extra })
        return [answer.status, (await answer.json()).error]
      },
      headers,
    )
  assert.deepEqual(await status({}), [403, 'csrf_failed'])
  assert.deepEqual(await status({ 'X-CSRF-Token': 'forged' }), [403, 'csrf_failed'])
  const { csrfToken } = await page.evaluate(async () => (await fetch('/api/session')).json())
  const done = await page.evaluate(async (token) => {
    const answer = await fetch('/api/servers/alpha/restart', { method: 'POST', headers: { 'X-CSRF-Token': token } })
    return answer.status
  }, csrfToken)
  assert.equal(done, 200)
  await closePage(page)
})

test('who signs out is asked to sign in, and the cookie opens nothing', async () => {
  const page = await openPage(daemon, '#/settings')
  const cookies = await page.context().cookies()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in to Mainstay' }).waitFor()
  await page.context().addCookies(cookies)
  assert.equal(await page.evaluate(async () => (await fetch('/api/servers')).status), 401)
  await closePage(page)
})
