/** Draws a lane of the timeline. Each tone has a height or pattern of its own beside its colour. */
import { look, WORDS, type Tone, type StateWord } from '../lib/status'
import { texts } from '../texts'
import type { Tick } from './axis'
import type { Gap, StateSpan } from './history'

const HEIGHT = 22

/** A tone, or `waits`: a state that waits for a person has the colour of another one. */
export type Shape = Tone | 'waits'

export function shapeOf(word: StateWord): Shape {
  return word === 'pending' ? 'waits' : look(word).tone
}

/** From the top of the lane to the top of the bar, and its height; `hollow` is that of the gap in the middle. */
const SHAPES: Record<Shape, { top: number; height: number; hollow?: number }> = {
  well: { top: 5, height: 12 },
  wary: { top: 3, height: 16 },
  waits: { top: 3, height: 16, hollow: 8 },
  busy: { top: 8, height: 6 },
  bad: { top: 1, height: 20 },
  off: { top: 10, height: 2 },
}
/** What each shape stands for: all states that are drawn by it. */
export function shapeKey(): { shape: Shape; tone: Tone; title: string }[] {
  return (Object.keys(SHAPES) as Shape[]).map((shape) => {
    const words = WORDS.filter((word) => shapeOf(word) === shape)
    return { shape, tone: look(words[0]!).tone, title: [...new Set(words.map((word) => texts.state[word]))].join(', ') }
  })
}

/** What is narrower than a pixel is seen by what needs people most. */
const WEIGHT: Record<Tone, number> = { bad: 4, wary: 3, busy: 2, well: 1, off: 0 }

let colours: { scheme: string | undefined; of: Map<string, string> } | undefined

/** A custom property of the page: read once for each scheme, for many lanes ask. */
function colour(name: string): string {
  const scheme = document.documentElement.dataset.scheme
  if (!colours || colours.scheme !== scheme) colours = { scheme, of: new Map() }
  let value = colours.of.get(name)
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()
    colours.of.set(name, value)
  }
  return value
}

interface Drawing {
  spans: readonly StateSpan[]
  gaps: readonly Gap[]
  marks: readonly Tick[]
  since: number
  until: number
  /** What the keyboard is at. */
  chosen: Gap | undefined
}

export function drawLane(canvas: HTMLCanvasElement, width: number, drawing: Drawing): void {
  const context = canvas.getContext('2d')
  if (!context) return
  const scale = devicePixelRatio || 1
  const [wide, high] = [Math.round(width * scale), Math.round(HEIGHT * scale)]
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide
    canvas.height = high
    canvas.style.width = `${width}px`
    canvas.style.height = `${HEIGHT}px`
  }
  context.setTransform(scale, 0, 0, scale, 0, 0)
  context.clearRect(0, 0, width, HEIGHT)
  const { since, until, spans, gaps, marks, chosen } = drawing
  const x = (at: number): number => ((at - since) / (until - since)) * width

  context.fillStyle = colour('line')
  for (const mark of marks) context.fillRect(Math.round(x(mark.at)), 0, 1, HEIGHT)
  for (const gap of gaps) hatch(context, x(gap.from), Math.max(x(gap.to) - x(gap.from), 1.5), colour('line-strong'))

  // Quieter ones first, so that a short outage is drawn over what is around it.
  const order = spans.map((span) => ({ span, tone: look(span.word).tone })).sort((one, other) => WEIGHT[one.tone] - WEIGHT[other.tone])
  for (const { span, tone } of order) {
    const { top, height, hollow = 0 } = SHAPES[shapeOf(span.word)]
    const left = x(span.from)
    const wide = Math.max(x(span.to) - left, tone === 'well' || tone === 'off' ? 0.5 : 1.5)
    const thick = (height - hollow) / 2
    context.fillStyle = colour(tone)
    context.fillRect(left, top, wide, thick)
    context.fillRect(left, top + height - thick, wide, thick)
  }
  if (chosen) {
    context.strokeStyle = colour('ink')
    context.lineWidth = 1.5
    context.strokeRect(x(chosen.from) + 0.75, 0.75, Math.max(x(chosen.to) - x(chosen.from) - 1.5, 2), HEIGHT - 1.5)
  }
}

function hatch(context: CanvasRenderingContext2D, left: number, width: number, colour: string): void {
  context.save()
  context.beginPath()
  context.rect(left, 3, width, HEIGHT - 6)
  context.clip()
  context.strokeStyle = colour
  context.globalAlpha = 0.6
  context.lineWidth = 1
  context.beginPath()
  for (let at = left - HEIGHT; at < left + width; at += 5) {
    context.moveTo(at, HEIGHT)
    context.lineTo(at + HEIGHT, 0)
  }
  context.stroke()
  context.restore()
}
