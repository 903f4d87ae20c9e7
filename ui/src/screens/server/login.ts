/** The state of a login, for people. */
import type { Login } from '../../api/types'
import { clockTime, day, time } from '../../lib/format'
import type { Tone } from '../../lib/status'
import { serversTexts } from '../servers/texts'
import { loginTexts } from './texts'

export interface LoginLook {
  symbol: string
  tone: Tone
  sentence: string
  /** Whether a person has to log in before the server can be used. */
  isWanted: boolean
  /** What the button says that logs in. */
  action: string
  canLogOut: boolean
}

export function loginLook(login: Login, now: number): LoginLook {
  const { status, pending, grant } = login
  const action = grant !== 'person' ? loginTexts.token : status === 'valid' || pending ? loginTexts.again : serversTexts.logIn
  const canLogOut = status !== 'none' && status !== 'pending'
  const look = (symbol: string, tone: Tone, sentence: string, isWanted = false): LoginLook => ({ symbol, tone, sentence, isWanted, action, canLogOut })
  const { states } = loginTexts
  switch (status) {
    case 'pending':
      return look('↻', 'busy', states.pending)
    case 'valid': {
      const end = time(login.expiresAt)
      const until = end === undefined ? '' : `${day(end) === day(now) ? '' : `${day(end)} `}${clockTime(end)}`
      return look('●', 'well', states.valid(until, login.renewable))
    }
    case 'expired':
      return login.renewable ? look('◐', 'wary', states.renewable) : look('✕', 'bad', states.expired, true)
    case 'ended':
      return look('✕', 'bad', states.ended(login.reason ?? ''), true)
    case 'none':
      return login.required ? look('✕', 'bad', states.required, true) : look('○', 'off', states.none)
  }
}

/** What is known beside the state: title, text, time. */
export function factsOf(login: Login): [string, string, number | undefined][] {
  const { scopes, missingScopes = [], lastRefresh } = login
  const facts: [string, string | null | undefined, string | null | undefined][] = [
    [loginTexts.since, '', login.loggedInAt],
    [loginTexts.refreshed, lastRefresh?.error ? `: ${lastRefresh.error}` : '', lastRefresh?.at],
    [loginTexts.notSaved, login.saveError ? loginTexts.notSavedHint(login.saveError) : '', ''],
    [loginTexts.scopes, scopes?.join(' '), ''],
    [loginTexts.missing, missingScopes.length > 0 ? loginTexts.missingHint(missingScopes.join(' ')) : '', ''],
    [loginTexts.issuer, login.issuer, ''],
  ]
  return facts.filter(([, text, at]) => text || at).map(([title, text, at]) => [title, text ?? '', time(at)])
}
