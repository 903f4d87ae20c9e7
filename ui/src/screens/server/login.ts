/** The state of a login, for people. */
import type { Login } from '../../api/types'
import { clockTime, day, time } from '../../lib/format'
import type { Tone } from '../../lib/status'
import { loginTexts } from './texts'

export interface LoginLook {
  symbol: string
  tone: Tone
  sentence: string
  /** Whether a person has to log in before the server can be used. */
  isWanted: boolean
}

export function loginLook(login: Login, now: number): LoginLook {
  const look = (symbol: string, tone: Tone, sentence: string, isWanted = false): LoginLook => ({ symbol, tone, sentence, isWanted })
  const { states } = loginTexts
  switch (login.status) {
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
