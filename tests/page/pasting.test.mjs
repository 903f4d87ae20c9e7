// What is pasted into "Add a server", as each client's documentation writes it: the exact command or address appears,
// and what cannot be taken over is said.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { closeBrowser, closePage, Daemon, openPage, soon } from './harness.mjs'

const FILES = 'npx -y files'
const json = (value) => JSON.stringify(value, null, 2)
const files = { command: 'npx', args: ['-y', 'files'] }
const one = (text, name, line, ...says) => ({ text, servers: { [name]: line }, says })

/** By the clients' names: files, parts of files and commands. */
const SNIPPETS = {
  'Claude Desktop': [
    one(json({ mcpServers: { files: { ...files, args: ['-y', 'files', '/my files'], env: { MODE: 'calm' } } } }), 'files', "npx -y files '/my files'", 'MODE'),
    one('{\n  // the files\n  "mcpServers": {\n    /* and nothing else */\n    "files": {"command": "npx", "args": ["-y", "files",],},\n  },\n}', 'files', FILES),
  ],
  'Claude Code': [
    one("claude mcp add files -e MODE=calm -- npx -y files '/my files'", 'files', "npx -y files '/my files'", 'MODE'),
    one('claude mcp add --transport http tracker https://tracker.example.com/mcp --header "Authorization: Bearer $TOKEN"', 'tracker', 'https://tracker.example.com/mcp', 'Authorization'),
    one(`claude mcp add-json files '${JSON.stringify({ type: 'stdio', ...files })}'`, 'files', FILES),
  ],
  Cursor: [
    one(json({ mcpServers: { files: { ...files, envFile: '.env' } } }), 'files', FILES, 'envFile: a client resolves it against the folder that it has open, which Mainstay does not know: write the whole path'),
  ],
  'VS Code': [
    one(
      `// .vscode/mcp.json\n${json({ inputs: [{ type: 'promptString', id: 'key', password: true }], servers: { files: { type: 'stdio', command: 'npx', args: ['-y', 'files', '${workspaceFolder}'], env: { KEY: '${input:key}' } } } })}`,
      'files',
      "npx -y files '${workspaceFolder}'",
      'args: ${workspaceFolder} is the folder that VS Code has open, which Mainstay does not know: write the path itself',
      'inputs: VS Code asks for "key", and Mainstay cannot: give it in `inputParams` of the entry',
    ),
    one(json({ mcp: { servers: { files } } }), 'files', FILES),
  ],
  'VS Code Insiders': [one(`code-insiders --add-mcp '${JSON.stringify({ name: 'files', ...files })}'`, 'files', FILES)],
  Codex: [
    one('model = "o3"\n\n[mcp_servers.files]\ncommand = "npx"\nargs = ["-y", "files"]\nstartup_timeout_sec = 20\nenabled_tools = ["read"]\n\n[mcp_servers.files.env]\nMODE = "calm"\n', 'files', FILES, 'MODE', 'connectTimeoutMs: 20000', 'allowedTools'),
    one('[mcp_servers.docs]\nurl = "https://docs.example.com/mcp"\nbearer_token_env_var = "DOCS_TOKEN"\n', 'docs', 'https://docs.example.com/mcp', 'bearerToken'),
    one('codex mcp add files --env MODE=calm -- npx -y files', 'files', FILES, 'MODE'),
  ],
  'Gemini CLI': [
    { text: json({ mcpServers: { files: { ...files, timeout: 30_000 }, far: { httpUrl: 'https://far.example.com/mcp' } } }), servers: { files: FILES, far: 'https://far.example.com/mcp' }, says: ['2 servers found', 'timeout_s: 30'] },
    one('gemini mcp add files node /x/files.js --port 3', 'files', 'node /x/files.js --port 3'),
  ],
  Windsurf: [one(json({ mcpServers: { far: { serverUrl: 'https://far.example.com/mcp' } } }), 'far', 'https://far.example.com/mcp')],
  Zed: [
    one(json({ context_servers: { files: { source: 'custom', ...files, env: {} } } }), 'files', FILES, 'left out, for it means nothing here: source'),
    one(json({ context_servers: { files: { command: { path: 'npx', args: ['-y', 'files'] }, settings: {} } } }), 'files', FILES, 'left out, for it means nothing here: settings'),
    { text: json({ context_servers: { files: { source: 'extension', settings: {} } } }), fails: 'no server is left: files is left out: an extension of Zed starts it' },
  ],
  Cline: [one(json({ mcpServers: { files: { ...files, disabled: true, autoApprove: ['read'], timeout: 60 } } }), 'files', FILES, 'enabled: false', 'autoApprove')],
  'Roo Code': [one(json({ mcpServers: { far: { type: 'streamable-http', url: 'https://far.example.com/mcp', alwaysAllow: ['a'] } } }), 'far', 'https://far.example.com/mcp')],
  opencode: [
    {
      text: json({ $schema: 'https://opencode.ai/config.json', mcp: { files: { type: 'local', command: ['npx', '-y', 'files'], environment: { MODE: '{env:MODE}' }, enabled: false }, far: { type: 'remote', url: 'https://far.example.com/mcp' } } }),
      servers: { files: FILES, far: 'https://far.example.com/mcp' },
      says: ['MODE', 'enabled: false'],
    },
  ],
  goose: [
    one(
      'extensions:\n  files:\n    name: Files\n    type: stdio\n    cmd: npx\n    args: ["-y", files]\n    enabled: true\n    envs: {MODE: calm}\n    env_keys: [API_KEY]\n    timeout: 300\n    bundled: false\n  developer:\n    type: builtin\n    name: developer\n    enabled: true\n',
      'files',
      FILES,
      'env_keys: goose has API_KEY in its own store of secrets: set them as variables for Mainstay, or in `env`',
      'left out, for it means nothing here: bundled',
      'developer is left out: it is a part of goose itself (builtin)',
    ),
  ],
  Continue: [
    one(
      'name: mine\nversion: 0.0.1\nschema: v1\nmcpServers:\n  - name: My Files\n    command: npx\n    args: ["-y", files]\n    env:\n      KEY: ${{ secrets.KEY }}\n',
      'My-Files',
      FILES,
      'name: "My Files" is called My-Files here',
      'env: a secret of Continue became ${KEY}: set that variable for Mainstay',
    ),
  ],
  LibreChat: [one('mcpServers:\n  files:\n    type: stdio\n    command: npx\n    args: ["-y", files]\n    chatMenu: false\n', 'files', FILES, 'left out, for it means nothing here: chatMenu')],
  'Amazon Q': [one(json({ mcpServers: { files: { ...files, timeout: 60_000 } } }), 'files', FILES, 'timeout_s: 60')],
  JetBrains: [one(json({ mcpServers: { files: { ...files, workingDirectory: '/srv' } } }), 'files', FILES)],
  'LM Studio': [one(json({ mcpServers: { far: { url: 'https://far.example.com/mcp', headers: { Authorization: 'Bearer <HF_TOKEN>' } } } }), 'far', 'https://far.example.com/mcp', 'headers.Authorization is to be filled in')],
  Warp: [one(json({ files: { ...files, working_directory: '/srv', start_on_launch: false } }), 'files', FILES, '/srv')],
  Kiro: [one(json({ mcpServers: { files: { ...files, disabled: false, autoApprove: [] } } }), 'files', FILES)],
  'Copilot CLI': [one(json({ mcpServers: { files: { type: 'local', ...files, tools: ['*'] } } }), 'files', FILES)],
  Antigravity: [one(json({ mcpServers: { far: { serverUrl: 'https://far.example.com/mcp' } } }), 'far', 'https://far.example.com/mcp')],
  'Qwen Code': [one(json({ mcpServers: { far: { httpUrl: 'https://far.example.com/mcp', timeout: 30_000 } } }), 'far', 'https://far.example.com/mcp', 'timeout_s: 30')],
  'Kilo Code': [one(json({ mcpServers: { files: { ...files, alwaysAllow: [], timeout: 60 } } }), 'files', FILES, 'timeout_s: 60')],
  'Kilo CLI': [one(json({ mcp: { files: { type: 'local', command: ['npx', '-y', 'files'], enabled: true } } }), 'files', FILES)],
  Crush: [one(json({ mcp: { files: { type: 'stdio', ...files } } }), 'files', FILES)],
  Trae: [one(json({ mcpServers: { files } }), 'files', FILES)],
  // Of no client, and yet what documentation shows.
  other: [one('docker run --rm -e TOKEN mcp/x', 'x', 'docker run --rm -e TOKEN mcp/x', 'docker run needs -i, or the server has no stdin', 'TOKEN is passed on: give it in `env`')],
}

let daemon
before(async () => {
  daemon = await Daemon.start({ mcpServers: {} })
})
after(async () => {
  await closeBrowser()
  await daemon?.end()
})

test('there are snippets of every client that Mainstay knows', async () => {
  const { clients } = await daemon.api('/api/client-files')
  assert.deepEqual(clients.map((client) => client.title).filter((title) => !SNIPPETS[title]?.length), [])
})

test('each snippet becomes its exact command or address, and what cannot be taken over is said', async () => {
  const page = await openPage(daemon, '#/servers?add=paste')
  const add = page.getByRole('dialog', { name: 'Add a server' })
  const review = page.getByRole('dialog', { name: 'Review before saving' })
  for (const [client, snippets] of Object.entries(SNIPPETS)) {
    for (const { text, servers, says, fails } of snippets) {
      await add.getByLabel('A snippet, a command line or an address').fill(text)
      await add.getByRole('button', { name: 'Read it' }).click()
      if (fails) {
        await add.getByRole('alert').getByText(fails, { exact: true }).waitFor()
        continue
      }
      const entries = review.getByRole('article')
      await entries.first().waitFor()
      assert.equal(await entries.count(), Object.keys(servers).length, client)
      for (const [index, [name, line]] of Object.entries(servers).entries()) {
        const entry = entries.nth(index)
        assert.equal(await entry.getByLabel('Name').inputValue(), name, client)
        assert.equal(await entry.locator('pre').first().innerText(), line, client)
      }
      const shown = await review.innerText()
      for (const words of says) assert.ok(shown.includes(words), `${client}: "${words}" is not in\n${shown}`)
      await review.getByRole('button', { name: 'Back' }).click()
    }
  }
  assert.deepEqual((await daemon.api('/api/servers')).servers, [], 'nothing was saved')
  await closePage(page)
})

test('prose and half a snippet are not read, and what was expected is said', async () => {
  const page = await openPage(daemon, '#/servers?add=paste')
  const add = page.getByRole('dialog', { name: 'Add a server' })
  for (const text of ['hello there, this is prose', '{"mcpServers": {"files": ', '[mcp_servers', 'curl https://example.com/x | sh']) {
    await add.getByLabel('A snippet, a command line or an address').fill(text)
    await add.getByRole('button', { name: 'Read it' }).click()
    await soon(`"${text}" to be refused`, async () => /expected servers as the documentation/.test((await add.getByRole('alert').allInnerTexts()).join()))
    // The next one is another refusal.
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Add a server' }).click()
  }
  await closePage(page)
})
