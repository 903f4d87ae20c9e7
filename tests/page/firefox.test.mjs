// A second engine: Firefox, by WebDriver BiDi (https://www.w3.org/TR/webdriver-bidi/). Signs in, sees the
// servers, sees one turn when it is killed, and logs in to another in a new tab.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import WebSocket from 'ws'
import { Daemon, fake, soon } from './harness.mjs'
import { Provider } from './provider.mjs'

const FIREFOX = process.env.MAINSTAY_FIREFOX ?? 'firefox-esr'
const isThere = spawnSync(FIREFOX, ['--version']).status === 0
/** Where nothing may be left out, a missing program fails. */
const isOptional = !process.env.CI

/** Sends commands and hears events of one session. */
class Bidi {
  #socket
  #last = 0
  #waiting = new Map()
  logs = []

  static async open(url) {
    const bidi = new Bidi()
    bidi.#socket = new WebSocket(url)
    await once(bidi.#socket, 'open')
    bidi.#socket.on('message', (data) => {
      const message = JSON.parse(data)
      if (message.method === 'log.entryAdded') bidi.logs.push(message.params)
      bidi.#waiting.get(message.id)?.(message)
      bidi.#waiting.delete(message.id)
    })
    return bidi
  }

  async send(method, params) {
    const id = ++this.#last
    const answered = new Promise((resolve) => this.#waiting.set(id, resolve))
    this.#socket.send(JSON.stringify({ id, method, params }))
    const message = await answered
    if (message.type === 'error') throw new Error(`${method}: ${message.error}: ${message.message}`)
    return message.result
  }

  close() {
    this.#socket.close()
  }
}

test('the page works in Firefox', { skip: !isThere && isOptional && 'Firefox is not installed' }, async () => {
  assert.ok(isThere, `${FIREFOX} is not installed`)
  const provider = await Provider.start()
  const daemon = await Daemon.start({ mcpServers: { alpha: fake(), beta: fake(), guarded: { url: provider.url } } })
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'mainstay-firefox-'))
  const firefox = spawn(FIREFOX, ['--headless', '--no-remote', '--profile', profile, '--remote-debugging-port', '0'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, HOME: profile, MOZ_REMOTE_SETTINGS_DEVTOOLS: '1' },
  })
  const ended = once(firefox, 'exit')
  let said = ''
  firefox.stderr.on('data', (chunk) => (said += chunk))
  try {
    await daemon.connected('alpha', 'beta')
    const address = await soon('Firefox to listen', () => /ws:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0], 60_000)
    const bidi = await Bidi.open(`${address}/session`)
    await bidi.send('session.new', { capabilities: {} })
    await bidi.send('session.subscribe', { events: ['log.entryAdded'] })
    const { contexts } = await bidi.send('browsingContext.getTree', {})
    const context = contexts[0].context
    await bidi.send('browsingContext.navigate', { context, url: await daemon.signInUrl(), wait: 'complete' })

    const text = async () => {
      const { result } = await bidi.send('script.evaluate', {
        expression: 'document.body.innerText',
        target: { context },
        awaitPromise: false,
      })
      return result.value ?? ''
    }
    await soon('both servers to be shown', async () => /2 of 3 running/.test(await text()))
    const before = (await daemon.server('alpha')).pid
    process.kill(before, 'SIGKILL')
    await soon('alpha to be back with another process', async () => {
      const server = await daemon.server('alpha')
      return server.connected && server.pid !== before
    })
    await soon('the page to tell of the crash', async () => /1 crash/.test(await text()))

    const click = (label) => `(() => { const button = [...document.querySelectorAll('main button')].find(({ textContent }) => textContent.trim() === '${label}'); button?.click(); return button !== undefined })()`
    await soon('a button to log in', async () => {
      // Without a person's click Firefox blocks the tab.
      const { result } = await bidi.send('script.evaluate', { expression: click('Log in'), target: { context }, awaitPromise: false, userActivation: true })
      return result.value
    })
    await daemon.connected('guarded')
    // A page behind another tab reads nothing.
    await bidi.send('browsingContext.activate', { context })
    await soon('the page to be logged in', async () => /Logged in until/.test(await text()))
    const tabs = (await bidi.send('browsingContext.getTree', {})).contexts.map(({ url }) => url)
    assert.ok(tabs.some((url) => url.startsWith(`${daemon.url}/oauth/callback`)), tabs.join())
    const faults = bidi.logs.filter((entry) => entry.level === 'error' && entry.source.context === context).map((entry) => entry.text)
    assert.deepEqual(faults, [])
    bidi.close()
  } finally {
    firefox.kill()
    await ended
    await daemon.end()
    await provider.stop()
    fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
  }
})
