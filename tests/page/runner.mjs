// Runs files of tests: node runner.mjs REPORT FILE... prints TAP, and writes a report for people to REPORT.
// The longest files are first, so that none runs alone at the end. Each has a browser and a daemon of its own.
import { createWriteStream, statSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { run } from 'node:test'
import { spec, tap } from 'node:test/reporters'

/** The limit of a file. What a test waits for has its own (harness.mjs). */
const FILE_LIMIT_MS = 600_000
const SLOWEST = 10

const [report, ...files] = process.argv.slice(2)
files.sort((a, b) => statSync(b).size - statSync(a).size)
const concurrency = os.availableParallelism()
const milliseconds = new Map()

const events = run({ files: files.map((file) => path.resolve(file)), concurrency, timeout: FILE_LIMIT_MS })
const note = ({ file, nesting, details }) => {
  if (file && nesting === 0) milliseconds.set(file, (milliseconds.get(file) ?? 0) + details.duration_ms)
}
events.on('test:pass', note)
events.on('test:fail', (test) => {
  note(test)
  process.exitCode = 1
})
events.compose(tap).on('end', () => {
  const slowest = [...milliseconds].sort((a, b) => b[1] - a[1]).slice(0, SLOWEST)
  for (const [file, ms] of slowest) console.log(`# ${(ms / 1000).toFixed(0).padStart(4)} s ${path.basename(file)}`)
}).pipe(process.stdout)
events.compose(new spec()).pipe(createWriteStream(report))
