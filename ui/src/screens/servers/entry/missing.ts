/** Whether an error says that the daemon is older than this page and has no such route. */
import { ApiError } from '../../../api/client'

export function isMissing(error: unknown): boolean {
  return error instanceof ApiError && (error.code === 'not_found' || error.code === 'method_not_allowed')
}
