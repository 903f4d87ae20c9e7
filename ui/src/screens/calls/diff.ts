/** Which lines two texts share: a longest common subsequence, bounded. */

export type DiffLine =
  | { kind: 'same'; left: string; right: string }
  | { kind: 'changed'; left: string | undefined; right: string | undefined }

/** Cells of the table that is compared by; larger middles count as changed as a whole. */
const MAX_CELLS = 2_000_000

export function diff(before: readonly string[], after: readonly string[]): DiffLine[] {
  let start = 0
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1
  let end = 0
  while (end < before.length - start && end < after.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1
  const same = (line: string): DiffLine => ({ kind: 'same', left: line, right: line })
  return [
    ...before.slice(0, start).map(same),
    ...middle(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...before.slice(before.length - end).map(same),
  ]
}

function middle(before: readonly string[], after: readonly string[]): DiffLine[] {
  const [rows, columns] = [before.length, after.length]
  if (rows === 0 || columns === 0 || (rows + 1) * (columns + 1) > MAX_CELLS) return paired(before, after)
  const width = columns + 1
  const lengths = new Uint16Array((rows + 1) * width)
  const at = (row: number, column: number): number => lengths[row * width + column] ?? 0
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      lengths[row * width + column] =
        before[row] === after[column] ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1))
    }
  }
  const lines: DiffLine[] = []
  let [left, right]: [string[], string[]] = [[], []]
  let [row, column] = [0, 0]
  while (row < rows || column < columns) {
    const line = before[row]
    if (row < rows && column < columns && line === after[column]) {
      lines.push(...paired(left, right), { kind: 'same', left: line ?? '', right: line ?? '' })
      ;[left, right] = [[], []]
      row += 1
      column += 1
    } else if (column >= columns || (row < rows && at(row + 1, column) >= at(row, column + 1))) {
      left.push(before[row] ?? '')
      row += 1
    } else {
      right.push(after[column] ?? '')
      column += 1
    }
  }
  return [...lines, ...paired(left, right)]
}

/** Changed lines beside each other. */
function paired(left: readonly string[], right: readonly string[]): DiffLine[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, index) => ({
    kind: 'changed',
    left: left[index],
    right: right[index],
  }))
}

/** Lines with those that are far from a change folded away. */
export type Folded = DiffLine | { kind: 'fold'; count: number }

/** Fewer lines are not worth a fold. */
const MIN_FOLD = 3

export function fold(lines: readonly DiffLine[], context = 3): Folded[] {
  const near = new Uint8Array(lines.length)
  lines.forEach((line, index) => {
    if (line.kind === 'changed') near.fill(1, Math.max(index - context, 0), index + context + 1)
  })
  const folded: Folded[] = []
  let hidden: DiffLine[] = []
  const flush = (): void => {
    if (hidden.length >= MIN_FOLD) folded.push({ kind: 'fold', count: hidden.length })
    else folded.push(...hidden)
    hidden = []
  }
  lines.forEach((line, index) => {
    if (near[index]) {
      flush()
      folded.push(line)
    } else hidden.push(line)
  })
  flush()
  return folded
}
