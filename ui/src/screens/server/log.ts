/** The lines of a log as they come: bounded, numbered, searched. */
import type { LogLine } from '../../api/types'

export interface Line extends LogLine {
  /** Grows by one with each line that came to this page. */
  number: number
}

/** Lines that the page keeps, and the most that the API reads; older ones stand in the file. */
export const MAX_LINES = 10_000

/** Adds lines and lets the oldest go. */
export function append(lines: readonly Line[], added: readonly Line[]): Line[] {
  const all = lines.length + added.length > MAX_LINES ? lines.slice(lines.length + added.length - MAX_LINES) : lines
  return [...all, ...added]
}

/** The lines of a source that contain a word, whatever its case. */
export function matching(lines: readonly Line[], source: string, word: string): Line[] {
  const lower = word.toLowerCase()
  return lines.filter((line) => (source === 'all' || line.source === source) && (lower === '' || line.text.toLowerCase().includes(lower)))
}

/** Lines as a text file. */
export function written(lines: readonly Line[]): string {
  return lines.map((line) => `${line.time} ${line.source} ${line.text}\n`).join('')
}
