import { api, messageOf } from '../api/client'
import { toasts } from './toasts.svelte'

/** Has the browser save something under a name. It has a type that no program runs. */
export function download(content: BlobPart, name: string): void {
  const address = URL.createObjectURL(new Blob([content], { type: 'application/octet-stream' }))
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 10_000)
}

/** Has the browser download what its link names, by an address that is good once: a link sends no page key. */
export async function downloadFrom(event: Event & { currentTarget: HTMLAnchorElement }, name: string): Promise<void> {
  event.preventDefault()
  const link = document.createElement('a')
  const path = event.currentTarget.getAttribute('href') ?? ''
  try {
    link.href = (await api.post<{ path: string }>('/api/session/downloads', { path })).path
    link.download = name
    link.click()
  } catch (error) {
    toasts.show(messageOf(error), 'bad')
  }
}
