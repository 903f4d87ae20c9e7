/** Why a server is as it is, and what happens next, in sentences. */
import type { Server, ServerFigures } from '../api/types'
import { serverTexts } from '../screens/server/texts'
import { serversTexts } from '../screens/servers/texts'
import { texts } from '../texts'
import { ago, span, time } from './format'
import { isRejected } from './operations'
import type { Row } from './row.svelte'
import type { StateWord } from './status'

/** A sentence about failed calls of a connected server, which may answer pings while its calls fail. */
export function failing(figures: ServerFigures | undefined): string | undefined {
  if (!figures) return undefined
  const { recent } = figures
  if (recent.errors > 0) return recent.errors < recent.calls ? serverTexts.someFail(recent.errors, recent.calls) : serverTexts.allFail(recent.calls)
  return recent.calls === 0 && figures.calls > 0 && figures.errors === figures.calls ? serverTexts.noneEver(figures.calls) : undefined
}

export function why(server: Server, word: StateWord, now: number, figures?: ServerFigures): string {
  switch (word) {
    case 'pending':
      return serverTexts.pendingWhy
    case 'disabled':
      return serverTexts.disabledWhy
    case 'stopped':
      // Crashes, and lists of this run, show that the server has run.
      return server.lastError ?? (server.autoStart || server.crashCount > 0 || (server.toolsReady && !server.listsStale) ? serverTexts.stoppedWhy : serverTexts.notStartedWhy)
    case 'connected': {
      const lastSuccessAt = time(server.lastSuccessAt)
      const lastError = server.lastError ? `${server.lastError}. ` : ''
      const wrong = failing(figures)
      if (wrong !== undefined && lastSuccessAt !== undefined) return lastError + serverTexts.answersBut(ago(lastSuccessAt, now), wrong)
      return lastError + (lastSuccessAt === undefined ? serverTexts.wellNever : serverTexts.well(ago(lastSuccessAt, now)))
    }
    case 'degraded':
      return serverTexts.degraded(server.lastError ?? serverTexts.noReason)
    case 'starting': {
      const start = server.starting ? serverTexts.starting(server.starting) : texts.state.starting
      return server.lastError ? `${server.lastError}. ${start}` : start
    }
    default:
      return server.lastError ?? serverTexts.noReason
  }
}

/** How the process of a server ended, unless the reason says it. */
export function endingOf(server: Server): string | undefined {
  if (/\b(code|signal)\b/.test(server.lastError ?? '')) return undefined
  if (server.exitCode != null) return serverTexts.exit(server.exitCode)
  return server.exitSignal == null ? undefined : serverTexts.signal(server.exitSignal)
}

/** What happens next and what a person can do, for a row that is open. */
export function outlook(server: Server, word: StateWord, login?: Row['login']): string {
  const { nextSteps } = serversTexts
  if (word === 'unauthorized' && login) return nextSteps.login
  if (isRejected(server)) return nextSteps.rejected
  if ((word === 'error' || word === 'unauthorized') && !server.retried) return nextSteps[`${word}Final`]
  return nextSteps[word]
}

/** What Mainstay does next by itself; `undefined` where there is nothing to wait for. */
export function next(server: Server, word: StateWord, nextAttemptAt: number | undefined, now: number): string | undefined {
  if (word === 'reconnecting' || word === 'unauthorized' || word === 'error' || word === 'crashed') {
    const attempt = Math.max(server.reconnectAttempt ?? 1, 1)
    if (nextAttemptAt !== undefined && nextAttemptAt > now) return serverTexts.attempt(attempt, span(nextAttemptAt - now + 999))
    return server.retried ? serverTexts.attemptNow(attempt, server.starting ?? '') : serverTexts.notRetried
  }
  if (word === 'degraded') return serversTexts.nextSteps.degraded
  return word === 'failed' ? serverTexts.notRetried : undefined
}
