/** Times on an axis. */
const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const STEPS = [MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY]

export interface Tick {
  at: number
  title: string
}

const two = (value: number): string => String(value).padStart(2, '0')

/** `14:30`, and the day at midnight. */
export function tickTitle(at: number): string {
  const date = new Date(at)
  if (date.getHours() === 0 && date.getMinutes() === 0) return `${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${two(date.getHours())}:${two(date.getMinutes())}`
}

/** Round local times, at most so many. */
export function ticks(since: number, until: number, most: number): Tick[] {
  const step = STEPS.find((candidate) => (until - since) / candidate <= most) ?? 7 * DAY
  const found: Tick[] = []
  // Days have 23 to 25 hours: steps count from local midnight.
  const day = new Date(since)
  day.setHours(0, 0, 0, 0)
  while (day.getTime() <= until && found.length <= most) {
    const next = new Date(day)
    next.setDate(day.getDate() + Math.max(1, step / DAY))
    for (let at = day.getTime(); at < next.getTime(); at += Math.min(step, next.getTime() - day.getTime())) {
      if (at >= since && at <= until) found.push({ at, title: tickTitle(at) })
    }
    day.setTime(next.getTime())
  }
  return found
}
