import { api } from '../../api/client'
import type { Session, Sessions } from '../../api/types'

/** The most that the API gives at once. */
export const PAGE = 1000

/** The newest sessions, so many pages of them; of the endpoint of one server, if it is named. */
export async function readSessions(pages: number, signal: AbortSignal, server?: string): Promise<Sessions> {
  const read = (before?: string): Promise<Sessions> => api.get<Sessions>('/api/sessions', { server, before, limit: PAGE }, signal)
  let answer = await read()
  const sessions: Session[] = answer.sessions
  for (let page = 1; page < pages && answer.next; page += 1) {
    answer = await read(answer.next)
    sessions.push(...answer.sessions)
  }
  return { ...answer, sessions }
}
