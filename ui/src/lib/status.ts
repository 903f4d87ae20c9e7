/** What a server's state means for a person: its word, symbol, colour, and group on the start page. */
import type { Server, ServerFigures } from '../api/types'
import { texts } from '../texts'

export type Tone = 'well' | 'wary' | 'busy' | 'bad' | 'off'

/** Groups of the start page, in their order: by what servers need from a person. */
export type Group = 'needs' | 'degraded' | 'coming' | 'well' | 'off'
export const GROUPS: readonly Group[] = ['needs', 'degraded', 'coming', 'well', 'off']

export interface ServerLook {
  /** The state in words; of the texts (`texts.state`). */
  word: StateWord
  /** Each tone has a shape of its own, for those who see no colours. */
  symbol: string
  tone: Tone
  group: Group
}

export type StateWord =
  | 'pending'
  | 'disabled'
  | 'stopped'
  | 'starting'
  | 'connected'
  | 'degraded'
  | 'reconnecting'
  | 'stopping'
  | 'unauthorized'
  | 'error'
  | 'failed'
  | 'crashed'

const LOOKS: Record<StateWord, Omit<ServerLook, 'word'>> = {
  pending: { symbol: '‖', tone: 'wary', group: 'needs' },
  unauthorized: { symbol: '✕', tone: 'bad', group: 'needs' },
  error: { symbol: '✕', tone: 'bad', group: 'needs' },
  failed: { symbol: '✕', tone: 'bad', group: 'needs' },
  crashed: { symbol: '✕', tone: 'bad', group: 'needs' },
  reconnecting: { symbol: '↻', tone: 'busy', group: 'coming' },
  starting: { symbol: '↻', tone: 'busy', group: 'coming' },
  stopping: { symbol: '↻', tone: 'busy', group: 'coming' },
  degraded: { symbol: '◐', tone: 'wary', group: 'degraded' },
  connected: { symbol: '●', tone: 'well', group: 'well' },
  stopped: { symbol: '○', tone: 'off', group: 'off' },
  disabled: { symbol: '○', tone: 'off', group: 'off' },
}

export const WORDS = Object.keys(LOOKS) as StateWord[]

export function wordOf(server: Server): StateWord {
  if (server.status === 'pending' || server.pending) return 'pending'
  if (!server.enabled || server.status === 'disabled') return 'disabled'
  switch (server.status) {
    case 'connected':
      return server.healthStatus === 'degraded' || server.healthStatus === 'unhealthy' ? 'degraded' : 'connected'
    case 'connecting':
      return 'starting'
    case 'reconnecting':
      return 'reconnecting'
    case 'stopping':
      return 'stopping'
    case 'failed':
      return 'failed'
    case 'crashed':
      return 'crashed'
    case 'error':
      return server.nextAction === 'set_credentials' || server.nextAction === 'log_in' ? 'unauthorized' : 'error'
    default:
      return 'stopped'
  }
}

/** One object a word: what depends on a look is drawn again only when the word changes. */
const BUILT = Object.fromEntries(Object.entries(LOOKS).map(([word, look]) => [word, { word, ...look }])) as Record<StateWord, ServerLook>

export function look(word: StateWord): ServerLook {
  return BUILT[word]
}

/** A connected server that is shown as doubtful: it does not answer, or none of its calls succeeds. */
const DOUBTED: ServerLook = { ...BUILT.connected, symbol: BUILT.degraded.symbol, tone: BUILT.degraded.tone }

/** From this many failed calls on, the server is doubted. A single failure may be due to its arguments. */
const MIN_FAILED = 3

function isDoubted(server: Server, figures: ServerFigures | undefined): boolean {
  if ((server.consecutiveHealthFailures ?? 0) > 0) return true
  const recent = figures?.recent
  return recent !== undefined && recent.errors >= MIN_FAILED && recent.errors === recent.calls
}

export function lookOf(server: Server, figures?: ServerFigures): ServerLook {
  const word = wordOf(server)
  return word === 'connected' && isDoubted(server, figures) ? DOUBTED : look(word)
}
