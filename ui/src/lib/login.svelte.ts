/** Logins to remote servers that a person begins on this page: docs/login.md. */
import { SvelteMap } from 'svelte/reactivity'
import { api, path } from '../api/client'
import type { BegunLogin } from '../api/types'
import { texts } from '../texts'
import { clock } from './clock.svelte'

/** A login that is being begun has neither `begun` nor `failure`. */
export interface LoginAttempt {
  /** When it began. */
  at: number
  begun?: BegunLogin
  failure?: unknown
}

/** `none`: Mainstay logs in with credentials of its own. */
export type LoginWay = 'browser' | 'device' | 'none'

/** The last attempt at each server. It stays when its screen is left. */
export const attempts = new SvelteMap<string, LoginAttempt>()

/** Whether an address that a server gave may be opened. */
export function isWebAddress(address: string | null | undefined): address is string {
  return /^https?:\/\//i.test(address ?? '')
}

/** Begins a login. Must be called while a click is handled: browsers block tabs that are opened later. */
export async function beginLogin(name: string, way: LoginWay): Promise<void> {
  const tab = way === 'browser' ? open('', '_blank') : null
  if (tab) {
    tab.opener = null
    tab.document.body.textContent = texts.common.loading
  }
  const at = clock.exact()
  attempts.set(name, { at })
  try {
    const begun = await api.post<BegunLogin>(path`/api/servers/${name}/login`, way === 'device' ? { device: true } : { origin: location.origin })
    attempts.set(name, { at, begun })
    if (isWebAddress(begun.authorizationUrl)) tab?.location.replace(begun.authorizationUrl)
    else tab?.close()
  } catch (failure) {
    attempts.set(name, { at, failure })
    tab?.close()
  }
}
