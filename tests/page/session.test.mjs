// Signing in and out, and what a request without the right proof gets.
import assert from 'node:assert/strict'
import http from 'node:http'
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

test('a cookie alone opens nothing: the page key is missing, forged, or of another port', async () => {
  const page = await openPage(daemon)
  const answers = (headers) =>
    page.evaluate(async (extra) => {
      const asked = [['POST', '/api/servers/alpha/restart'], ['GET', '/api/servers'], ['GET', '/api/session']]
      const answers = await Promise.all(asked.map(([method, path]) => fetch(path, { method, headers: extra })))
      return answers.map((answer) => answer.status)
    }, headers)
  assert.deepEqual(await answers({}), [403, 403, 403])
  assert.deepEqual(await answers({ 'X-Page-Key': 'forged' }), [403, 403, 403])
  const key = await page.evaluate(() => localStorage.getItem('mainstay.pageKey'))
  assert.deepEqual(await answers({ 'X-Page-Key': key }), [200, 200, 200])
  // A program at another port gets the cookie from the browser, and nothing else.
  const seen = []
  const thief = http.createServer((request, response) => {
    seen.push(request.headers)
    response.end('hello')
  })
  await new Promise((resolve) => thief.listen(0, '127.0.0.1', resolve))
  const elsewhere = `http://127.0.0.1:${thief.address().port}/`
  await page.goto(elsewhere)
  const cookie = seen[0].cookie
  assert.match(cookie, /mainstay-/)
  assert.equal(await page.evaluate(() => localStorage.getItem('mainstay.pageKey')), null)
  for (const path of ['/api/session', '/api/servers', '/api/config']) {
    assert.equal((await fetch(daemon.url + path, { headers: { cookie } })).status, 403, path)
  }
  assert.deepEqual([...new Set(page.faults)], [`request to ${elsewhere}`])
  page.faults = []
  await closePage(page)
  thief.close()
  thief.closeAllConnections()
})

test('who has the cookie and no page key is asked to sign in', async () => {
  const page = await openPage(daemon)
  await page.evaluate(() => localStorage.removeItem('mainstay.pageKey'))
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in to Mainstay' }).waitFor()
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
