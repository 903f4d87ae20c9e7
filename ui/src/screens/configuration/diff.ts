/** What differs between two texts, by lines. */
export interface DiffLine {
  kind: 'same' | 'added' | 'removed'
  text: string
  /** Numbers of the line in the old and in the new text. */
  before: number | undefined
  after: number | undefined
}

/** Lines that are shown together; what is between two hunks is the same. */
export type Hunk = DiffLine[]

/** Beyond so many differences the search for the shortest difference ends. */
const MAX_EDITS = 600

export function diffLines(before: string, after: string): DiffLine[] {
  const a = before.split(/\r?\n/)
  const b = after.split(/\r?\n/)
  let head = 0
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1
  let tail = 0
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1
  const lines: DiffLine[] = []
  const same = (index: number, other: number): void => {
    lines.push({ kind: 'same', text: a[index] ?? '', before: index + 1, after: other + 1 })
  }
  for (let index = 0; index < head; index += 1) same(index, index)
  for (const step of shortest(a.slice(head, a.length - tail), b.slice(head, b.length - tail))) {
    if (step.kind === 'same') same(head + step.a, head + step.b)
    else if (step.kind === 'removed') lines.push({ kind: 'removed', text: a[head + step.a] ?? '', before: head + step.a + 1, after: undefined })
    else lines.push({ kind: 'added', text: b[head + step.b] ?? '', before: undefined, after: head + step.b + 1 })
  }
  for (let left = tail; left > 0; left -= 1) same(a.length - left, b.length - left)
  return lines
}

interface Step {
  kind: DiffLine['kind']
  a: number
  b: number
}

/** Myers' algorithm: the path with the fewest additions and removals. */
function shortest(a: string[], b: string[]): Step[] {
  const max = Math.min(a.length + b.length, MAX_EDITS)
  let furthest = new Map<number, number>([[1, 0]])
  const trace: Map<number, number>[] = []
  for (let edits = 0; edits <= max; edits += 1) {
    trace.push(furthest)
    const next = new Map<number, number>()
    for (let k = -edits; k <= edits; k += 2) {
      const left = furthest.get(k - 1) ?? -1
      const right = furthest.get(k + 1) ?? -1
      let x = k === -edits || (k !== edits && left < right) ? right : left + 1
      let y = x - k
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1
        y += 1
      }
      next.set(k, x)
      if (x >= a.length && y >= b.length) return walkBack(trace, a.length, b.length)
    }
    furthest = next
  }
  return [
    ...a.map((_, index): Step => ({ kind: 'removed', a: index, b: 0 })),
    ...b.map((_, index): Step => ({ kind: 'added', a: a.length, b: index })),
  ]
}

function walkBack(trace: Map<number, number>[], endA: number, endB: number): Step[] {
  const steps: Step[] = []
  let x = endA
  let y = endB
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const furthest = trace[edits]!
    const k = x - y
    const left = furthest.get(k - 1) ?? -1
    const right = furthest.get(k + 1) ?? -1
    const cameFrom = k === -edits || (k !== edits && left < right) ? k + 1 : k - 1
    const fromX = edits === 0 ? 0 : (furthest.get(cameFrom) ?? 0)
    const fromY = edits === 0 ? 0 : fromX - cameFrom
    while (x > fromX && y > fromY) {
      x -= 1
      y -= 1
      steps.push({ kind: 'same', a: x, b: y })
    }
    if (edits === 0) break
    if (x > fromX) {
      x -= 1
      steps.push({ kind: 'removed', a: x, b: y })
    } else {
      y -= 1
      steps.push({ kind: 'added', a: x, b: y })
    }
  }
  return steps.reverse()
}

/** The differing lines with some lines around them. */
export function hunks(lines: DiffLine[], around = 3): Hunk[] {
  const found: Hunk[] = []
  let end = -1
  lines.forEach((line, index) => {
    if (line.kind === 'same') return
    const from = Math.max(index - around, 0)
    const to = Math.min(index + around + 1, lines.length)
    const last = found.at(-1)
    if (last && from <= end) last.push(...lines.slice(end, to))
    else found.push(lines.slice(from, to))
    end = Math.max(end, to)
  })
  return found
}

export function counts(lines: DiffLine[]): { added: number; removed: number } {
  return {
    added: lines.filter((line) => line.kind === 'added').length,
    removed: lines.filter((line) => line.kind === 'removed').length,
  }
}
