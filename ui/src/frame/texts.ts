/** Texts of the frame around the screens: the rail, the status bar, banners, the palette and the help. */
import { counted } from '../texts'

export const frameTexts = {
  name: 'Mainstay',
  title: (screen: string, needs: number) => `${needs > 0 ? `(${needs}) ` : ''}${screen} · Mainstay`,
  skip: 'Skip to the content',
  navigation: 'Screens',
  search: 'Search or run a command',
  screenFailed: (screen: string, message: string) => `The screen "${screen}" failed, and is not shown: ${message}`,
  /** Both numbers have the same width, whatever the first one is. */
  summary: (up: number, all: number) => (all === 0 ? 'No servers' : `${String(up).padStart(String(all).length, '\u2007')} of ${all} running`),
  needsYou: (count: number) => `${counted(count, 'needs', 'need')} you`,
  needsOf: (servers: number, requests: number) => `${counted(servers, 'server')}, ${counted(requests, 'request')}`,
  degraded: 'degraded',
  live: 'Connected to Mainstay',
  lastSeen: (time: string, span: string) => `Last seen ${time}; trying again in ${span}.`,
  unreachableHint: 'What you see is how things were. It comes back by itself when Mainstay runs again: run "mainstay serve".',
  noticeRead: 'Understood',
  back: 'Mainstay is back',

  palette: {
    placeholder: 'A screen, a server, a tool or an action',
    empty: 'Nothing fits',
    goTo: 'Go to',
    tool: 'Tool',
    hint: '↑ ↓ to choose, Enter to run, Esc to close',
  },

  /** What the keys do; for keys that open a screen its title is shown. */
  keys: {
    title: 'Keyboard',
    help: 'This help',
    filter: 'Filter what is shown',
    row: 'Next and previous row',
    open: 'Open the row',
    close: 'Close, or clear the filter',
  },
}
