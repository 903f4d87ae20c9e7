// What the tests of the page share: a daemon of their own, a browser, and a page that is signed in.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

export const here = path.dirname(fileURLToPath(import.meta.url))
export const FAKE_SERVER = process.env.FAKE_SERVER
const MAINSTAY = process.env.MAINSTAY

/** Nothing that is waited for takes longer on a busy machine. */
export const LIMIT_MS = 40_000

/** Waits until `condition` answers something that is true, and answers that. */
export async function soon(what, condition, limit = LIMIT_MS) {
  const end = Date.now() + limit
  let last
  for (;;) {
    try {
      const answer = await condition()
      if (answer) return answer
      last = undefined
    } catch (error) {
      last = error
    }
    if (Date.now() > end) throw new Error(`waited in vain for ${what}${last ? `: ${last.message}` : ''}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** An entry that starts the fake server. */
export function fake(...args) {
  return { command: FAKE_SERVER, args }
}

/** An entry that starts a server which says what `script` says (scripted.mjs); `folder` keeps it. */
export function scripted(folder, name, script) {
  const file = path.join(folder, `${name}.json`)
  fs.writeFileSync(file, JSON.stringify(script))
  return { command: process.execPath, args: [path.join(here, 'scripted.mjs'), file] }
}

/** A folder of its own for the scripts of a file of tests. */
export function folder() {
  return fs.mkdtempSync(path.join(os.tmpdir(), 'mainstay-page-scripts-'))
}

/** A running Mainstay with a home, a state directory and a configuration of its own. */
export class Daemon {
  constructor(config) {
    this.home = fs.mkdtempSync(path.join(os.tmpdir(), 'mainstay-page-'))
    this.config = path.join(this.home, 'servers.json')
    fs.writeFileSync(this.config, JSON.stringify(config, null, 2))
    this.port = 0
  }

  static async start(config) {
    const daemon = new Daemon(config)
    await daemon.run()
    return daemon
  }

  async run() {
    const env = { ...process.env, HOME: this.home, MAINSTAY_HOME: path.join(this.home, 'state') }
    delete env.MAINSTAY
    const args = ['serve', '--config', this.config, '--listen', `127.0.0.1:${this.port}`]
    this.process = spawn(MAINSTAY, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    this.output = ''
    const listen = (chunk) => {
      this.output += chunk
    }
    this.process.stdout.on('data', listen)
    this.process.stderr.on('data', listen)
    this.ended = once(this.process, 'exit')
    this.url = await soon('the daemon to listen', () => {
      if (this.process.exitCode !== null) throw new Error(`mainstay ended:\n${this.output}`)
      return /http:\/\/127\.0\.0\.1:\d+/.exec(this.output)?.[0]
    })
    this.port = Number(new URL(this.url).port)
    this.token = fs.readFileSync(path.join(this.home, 'state', 'token'), 'utf8').trim()
  }

  /** A REST request with the control token. */
  async api(route, method = 'GET', body = undefined) {
    const headers = { authorization: `Bearer ${this.token}` }
    if (body !== undefined) headers['content-type'] = 'application/json'
    const response = await fetch(this.url + route, { method, headers, body: body && JSON.stringify(body) })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${route}: ${response.status} ${text}`)
    return text ? JSON.parse(text) : undefined
  }

  async server(name) {
    return (await this.api(`/api/servers/${name}`)).server
  }

  async connected(...names) {
    for (const name of names) await soon(`${name} to be connected`, async () => (await this.server(name)).connected)
  }

  async signInUrl() {
    return this.url + (await this.api('/api/session/links', 'POST', {})).path
  }

  async stop(signal = 'SIGTERM') {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill(signal)
      await this.ended
    }
  }

  async restart(signal = 'SIGTERM') {
    await this.stop(signal)
    await this.run()
  }

  async end() {
    await this.stop()
    fs.rmSync(this.home, { recursive: true, force: true })
  }
}

let browser
/** The browser of this file of tests. */
export async function launched() {
  browser ??= await chromium.launch({
    executablePath: process.env.MAINSTAY_CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--no-first-run',
    ],
  })
  return browser
}

export async function closeBrowser() {
  await browser?.close()
  browser = undefined
}

/**
 * A page that is signed in, at an address such as `#/calls`. `page.faults` collects what must not happen:
 * errors of scripts, violations of the content security policy, and requests to other hosts. `dist` is a folder with
 * a build of the page: its files are served in place of those in the program, under the same headers.
 */
export async function openPage(daemon, hash = '#/', { width = 1280, height = 850, scheme = 'light', notice = false, signedIn = true, dist = PAGE_DIST } = {}) {
  const context = await (await launched()).newContext({ viewport: { width, height }, permissions: ['clipboard-read', 'clipboard-write'] })
  await context.addInitScript(
    ([wanted, noticeRead]) => {
      // What a person chooses meanwhile stays when the page is loaded again.
      localStorage['mainstay.settings'] ??= JSON.stringify({ scheme: wanted, noticeRead })
    },
    [scheme, !notice],
  )
  if (dist) await context.route((url) => url.origin === daemon.url && /^\/(assets\/|favicon|$)/.test(url.pathname), (route) => serveBuild(route, dist))
  const page = await watchedPage(context, daemon)
  if (signedIn) {
    await page.goto(await daemon.signInUrl())
    await page.getByRole('navigation').first().waitFor()
  }
  await page.goto(`${daemon.url}/${hash}`)
  if (signedIn) await page.getByRole('main').waitFor()
  return page
}

/** A page of a context, which is watched for what must not happen. */
async function watchedPage(context, daemon) {
  const page = await context.newPage()
  page.setDefaultTimeout(LIMIT_MS)
  page.faults = []
  page.on('pageerror', (error) => page.faults.push(`script: ${error.message}`))
  page.on('console', (message) => {
    // A request that is answered with an error is one that a test asks for, or shows up in the page.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) page.faults.push(`console: ${message.text()}`)
  })
  page.on('request', (request) => {
    const url = new URL(request.url())
    if (url.protocol.startsWith('http') && url.host !== new URL(daemon.url).host) page.faults.push(`request to ${url}`)
  })
  return page
}

/** One more page of the same browser as another, and signed in like it. */
export async function anotherPage(page, daemon, hash = '#/') {
  const another = await watchedPage(page.context(), daemon)
  await another.goto(`${daemon.url}/${hash}`)
  await another.getByRole('main').waitFor()
  return another
}

/** Ends a page, and fails where something happened on it that must not. */
export async function closePage(page) {
  const { faults } = page
  // Requests that are still on their way are not missed.
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  await page.context().unrouteAll({ behavior: 'ignoreErrors' })
  await page.context().close()
  if (faults.length > 0) throw new Error(`on the page:\n${[...new Set(faults)].join('\n')}`)
}

/** The build to test in place of the one in the program: a change of ui/src is tried without building Mainstay. */
const PAGE_DIST = process.env.PAGE_DIST && path.resolve(process.env.PAGE_DIST)

/** Answers a request for a file of the page from the folder `dist`. */
async function serveBuild(route, dist) {
  const { pathname } = new URL(route.request().url())
  // A page that is closed meanwhile waits for no file.
  const embedded = await route.fetch({ url: new URL('/', route.request().url()).href }).catch(() => undefined)
  if (!embedded) return route.abort().catch(() => {})
  const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' }
  const file = pathname === '/' ? 'index.html' : pathname.slice(1)
  const headers = { ...embedded.headers(), 'content-type': types[path.extname(file)] }
  delete headers['content-encoding']
  delete headers['content-length']
  await route.fulfill({ status: 200, headers, body: fs.readFileSync(path.join(dist, file)) })
}

const axeSource = fs.readFileSync(path.join(here, 'node_modules/axe-core/axe.min.js'), 'utf8')

/** What axe-core finds, a line each; with `rules` by these alone. */
export async function axe(page, rules) {
  // A document keeps it: it is large.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axeSource)
  // What stands behind a dialog is out of reach, and looked at without it.
  const violations = await page.evaluate(async (runOnly) => {
    const options = { resultTypes: ['violations'], ...(runOnly && { runOnly }) }
    return (await window.axe.run(document.querySelector('dialog[open]') ?? document, options)).violations
  }, rules)
  return violations.flatMap((violation) => violation.nodes.map((node) => `${violation.id}: ${node.html.slice(0, 200)}`))
}
