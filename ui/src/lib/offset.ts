/** A `Date` header has whole seconds: the daemon's clock shows up to so much more. */
const GRAIN_MS = 1000

/**
 * How far the daemon's clock is ahead, after an answer with this `Date`. What was known before stays as long as
 * answers agree with it, so that times do not jump.
 */
export function offsetAfter(known: number, date: string | null, sentAt: number, receivedAt: number): number {
  const at = Date.parse(date ?? '')
  if (Number.isNaN(at)) return known
  const [least, most] = [at - receivedAt, at + GRAIN_MS - sentAt]
  return known >= least && known <= most ? known : (least + most) / 2
}
