/** What an event says, in words: docs/cli.md, "events". */
import type { Event, EventType } from '../../api/types'
import { span, visible } from '../../lib/format'
import type { Tone } from '../../lib/status'
import { texts } from '../../texts'
import { eventsTexts } from './texts'

export interface EventText {
  /** The name of the event in one word. */
  word: string
  detail: string
  symbol: string
  tone: Tone
}

const LOOKS: Record<EventType, { symbol: string; tone: Tone }> = {
  server_added: { symbol: '+', tone: 'off' },
  server_removed: { symbol: '−', tone: 'off' },
  server_starting: { symbol: '↻', tone: 'busy' },
  server_connected: { symbol: '●', tone: 'well' },
  server_disconnected: { symbol: '✕', tone: 'bad' },
  server_reconnecting: { symbol: '↻', tone: 'busy' },
  server_reconnected: { symbol: '●', tone: 'well' },
  server_health_degraded: { symbol: '◐', tone: 'wary' },
  server_health_restored: { symbol: '●', tone: 'well' },
  server_failed: { symbol: '✕', tone: 'bad' },
  call_refused: { symbol: '⊖', tone: 'wary' },
  call_allowed: { symbol: '●', tone: 'well' },
  tools_changed: { symbol: '≠', tone: 'off' },
  config_reloaded: { symbol: '≠', tone: 'off' },
  config_rejected: { symbol: '✕', tone: 'bad' },
  certificate_replaced: { symbol: '●', tone: 'well' },
  certificate_expiring: { symbol: '◐', tone: 'wary' },
  certificate_expired: { symbol: '✕', tone: 'bad' },
  certificate_rejected: { symbol: '✕', tone: 'bad' },
  server_request_waiting: { symbol: '?', tone: 'wary' },
  server_request_settled: { symbol: '●', tone: 'off' },
}

const isType = (type: string): type is EventType => type in LOOKS

type Data = Record<string, unknown>
const text = (data: Data, key: string): string => (typeof data[key] === 'string' ? visible(data[key]) : '')
const number = (data: Data, key: string): number | undefined => (typeof data[key] === 'number' ? data[key] : undefined)
const names = (data: Data, key: string): string[] => (Array.isArray(data[key]) ? data[key].map((name) => visible(String(name))) : [])

/** How many names stand in a line; the rest are counted. */
const MAX_NAMES = 5
function listed(all: readonly string[]): string {
  const first = all.slice(0, MAX_NAMES).join(', ')
  return all.length > MAX_NAMES ? eventsTexts.andMore(first, all.length - MAX_NAMES) : first
}

function joined(...parts: (string | undefined | false)[]): string {
  return parts.filter(Boolean).join('; ')
}

export function describeEvent(event: Event): EventText {
  const { type } = event
  const data = event.data as Data
  if (!isType(type)) return { word: visible(type), detail: visible(JSON.stringify(data)), symbol: '·', tone: 'off' }
  const word = eventsTexts.words[type]
  const because = text(data, 'lastError') || text(data, 'reason') || eventsTexts.noReason
  const eventText = (detail: string): EventText => ({ word, detail, ...LOOKS[type] })
  switch (type) {
    case 'server_disconnected':
      if (data.wasIntentional === true) return { word: eventsTexts.stoppedWord, detail: eventsTexts.intended, symbol: '○', tone: 'off' }
      return eventText(because)
    case 'server_reconnecting': {
      const next = number(data, 'nextRetryMs')
      return eventText(joined(because, eventsTexts.attempt(number(data, 'attempt') ?? 1, next === undefined ? '' : span(next))))
    }
    case 'server_reconnected':
      return eventText(eventsTexts.afterAttempts(number(data, 'attemptsTaken') ?? 1))
    case 'server_health_degraded':
      return eventText(joined(because, eventsTexts.failures(number(data, 'consecutiveFailures') ?? 1)))
    case 'server_failed':
      return eventText(joined(because, eventsTexts.notAgain))
    case 'call_refused': {
      const after = number(data, 'retryAfterMs')
      return eventText(eventsTexts.refused(text(data, 'tool') || text(data, 'method'), number(data, 'crashes') ?? 0, after === undefined ? '' : span(after)))
    }
    case 'call_allowed':
      return eventText(eventsTexts.allowed(text(data, 'tool') || text(data, 'method')))
    case 'tools_changed': {
      const [added, removed] = [names(data, 'added'), names(data, 'removed')]
      return eventText(joined(texts.toolCount(number(data, 'count') ?? 0), added.length > 0 && eventsTexts.added(listed(added)), removed.length > 0 && eventsTexts.removed(listed(removed))))
    }
    case 'config_reloaded': {
      const parts = [
        ['added', eventsTexts.added],
        ['changed', eventsTexts.changed],
        ['removed', eventsTexts.removed],
      ] as const
      const found = parts.map(([key, words]) => [names(data, key), words] as const).filter(([list]) => list.length > 0)
      return eventText(found.length > 0 ? joined(...found.map(([list, words]) => words(listed(list)))) : eventsTexts.nothingChanged)
    }
    case 'config_rejected':
      return eventText(joined(because, eventsTexts.oldHolds))
    case 'certificate_replaced':
    case 'certificate_expired':
    case 'certificate_expiring':
      return eventText(joined(text(data, 'path'), eventsTexts.certificateEnd(text(data, 'expiresAt'))))
    case 'certificate_rejected':
      return eventText(joined(text(data, 'path'), because, eventsTexts.oldHolds))
    case 'server_request_waiting':
      return eventText(joined(text(data, 'method'), eventsTexts.byHand))
    case 'server_request_settled': {
      const outcome = text(data, 'outcome')
      return eventText(joined(text(data, 'method'), eventsTexts.outcomes[outcome] ?? outcome))
    }
    default:
      return eventText('')
  }
}
