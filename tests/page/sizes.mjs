// How much script the page brings, gzipped: the first screen, and everything. Fails above the budget.
import fs from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'

const FIRST_LIMIT = 90_000
const ALL_LIMIT = 316_000

const dist = process.argv[2] ?? 'ui/build/page'
const assets = path.join(dist, 'assets')
const scripts = fs.readdirSync(assets).filter((name) => name.endsWith('.js'))
const size = new Map(scripts.map((name) => [name, gzipSync(fs.readFileSync(path.join(assets, name)), { level: 9 }).length]))

/** Scripts that a script imports before it runs. */
function imports(name) {
  const text = fs.readFileSync(path.join(assets, name), 'utf8')
  const found = [...text.matchAll(/(?:from|^import|;import)\s*["']\.\/([^"']+\.js)["']/g)]
  return found.map((match) => match[1])
}

const first = new Set()
function add(name) {
  if (first.has(name)) return
  first.add(name)
  for (const other of imports(name)) add(other)
}
const index = fs.readFileSync(path.join(dist, 'index.html'), 'utf8')
const entry = /src="\/assets\/([^"]+\.js)"/.exec(index)?.[1]
if (!entry) throw new Error('index.html names no script')
add(entry)
// The start page is in this file (ui/vite.config.ts).
if (![...first].some((name) => name.startsWith('first-'))) throw new Error('the start page is not in the file of the first screen')

const sum = (names) => [...names].reduce((total, name) => total + size.get(name), 0)
const [firstSize, allSize] = [sum(first), sum(scripts)]
const kB = (bytes) => `${(bytes / 1000).toFixed(1)} kB`
console.log(`scripts, gzipped: first screen ${kB(firstSize)} of ${kB(FIRST_LIMIT)}, all ${kB(allSize)} of ${kB(ALL_LIMIT)}`)
for (const [name, bytes] of [...size].sort((a, b) => b[1] - a[1]).slice(0, 12)) console.log(`  ${kB(bytes).padStart(9)}  ${name}`)
process.exitCode = firstSize > FIRST_LIMIT || allSize > ALL_LIMIT ? 1 : 0
