/** Code of the page that is loaded later than its first screen. */

async function textAt(url: string): Promise<string | undefined> {
  try {
    const answer = await fetch(url, { cache: 'no-store' })
    return answer.ok ? await answer.text() : undefined
  } catch {
    return undefined
  }
}

const own = (): string => document.querySelector('script[src]')?.getAttribute('src') ?? '/'

/** Whether Mainstay serves another build than the one that this page runs: its files are gone then. */
export async function isReplaced(): Promise<boolean> {
  const index = await textAt('/')
  return index !== undefined && !index.includes(own())
}

/** Whether what could not be loaded can be now. Browsers name its address in the error, or none. */
export async function canBeLoaded(error: unknown): Promise<boolean> {
  return (await textAt(/\S*\/assets\/[\w.-]+/.exec(String(error))?.[0] ?? own())) !== undefined
}
