/** The telling half of what a server runs: its package or script, or its host. Pure. */
import { isMembers, type Members } from '../../forms/schema'
import { visible } from '../../lib/format'

/** Programs that run what their first argument names. */
const RUNNERS = /^(npx|bunx|uvx|pnpx|node|nodejs|deno|bun|python[\d.]*|pypy[\d.]*|ruby|java|php|bash|sh|zsh|uv|pnpm|yarn|npm|pipx|docker|podman|dotnet|go|cargo|env|cmd|powershell|pwsh)$/
/** Words of runners that stand before what they run. */
const VERBS = new Set(['run', 'exec', 'x', 'dlx', 'tool', 'start', 'container', '--'])
/** Their options that take a word of their own. */
const VALUED = /^(-e|-v|-p|-w|-u|--env|--volume|--mount|--network|--name|--from|--with|--python|--directory|--project|--package|--user|--publish|--env-file|--entrypoint)$/
/** What follows is a program's text, not its name. */
const TEXT = /^(-c|-e|--eval|\/c|-command)$/i

function lastPart(path: string): string {
  return path.split(/[\\/]/).filter(Boolean).at(-1) ?? path
}

function nameOf(program: string): string {
  return lastPart(program).replace(/\.(exe|cmd|bat)$/i, '')
}

/** A path is shown by its file; a package (`@scope/name`) or an image (`ghcr.io/a/b`) whole. */
function shortWord(word: string): string {
  return /^([./~]|[a-z]:[\\/])/i.test(word) || /\.(py|m?js|ts|rb|jar|sh|dll|php)$/.test(word) ? lastPart(word) : word
}

/** `@scope/server` of npx, `reports.py` of python3, `ghcr.io/a/b` of docker, `127.0.0.1:9`; `undefined` where an entry says neither. */
export function shortOf(entry: unknown): string | undefined {
  if (!isMembers(entry)) return undefined
  const { command } = entry
  if (typeof command === 'string' && command !== '') return visible(shortCommand(command, entry))
  const url = entry['url'] ?? entry['serverUrl'] ?? entry['httpUrl']
  return typeof url === 'string' && url !== '' ? shortUrl(url) : undefined
}

function shortCommand(command: string, entry: Members): string {
  const program = nameOf(command)
  const args = Array.isArray(entry['args']) ? entry['args'].filter((arg) => typeof arg === 'string') : []
  if (!RUNNERS.test(program)) return program
  const isContainer = /^(docker|podman)$/.test(program)
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at] ?? ''
    if (!isContainer && TEXT.test(word)) return program
    if (VALUED.test(word)) at += 1
    else if (!word.startsWith('-') && !VERBS.has(word)) return shortWord(word)
  }
  return program
}

/** The host and the port of an address, with the path where it says more than "mcp". */
export function shortUrl(url: string): string {
  try {
    const { host, pathname } = new URL(url)
    return visible(host + (/^\/(mcp|sse)?\/?$/.test(pathname) ? '' : pathname))
  } catch {
    return visible(url)
  }
}
