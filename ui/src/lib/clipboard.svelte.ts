import { texts } from '../texts'

/** How long the result of a copy is shown. */
const NOTICE_MS = 2000

/** Copies texts for one button, and says for a moment whether the browser did it. */
export class Clipboard {
  notice = $state('')

  get hasCopied(): boolean {
    return this.notice === texts.common.copied
  }

  async copy(text: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text)
      this.notice = texts.common.copied
    } catch {
      this.notice = texts.common.copyFailed
    }
    setTimeout(() => (this.notice = ''), NOTICE_MS)
  }
}
