/** In a file of its own, because workers load it without the texts of the page. */

/**
 * Text from servers with control and direction characters made visible, as `mainstay` does in a terminal.
 * Tabs and line breaks stay.
 */
export function visible(text: string): string {
  return text.replace(
    // eslint-disable-next-line no-control-regex
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (character) => (character === '\r' ? '' : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`),
  )
}

/** Without the colours that programs write for terminals. */
export function uncoloured(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/\u001b\[[0-9;:]*m/g, '')
}
