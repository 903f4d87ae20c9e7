/**
 * Texts that several screens show, in English. A screen's own texts stand in a `texts.ts` in its folder. Another
 * language is another object of the same type for each of these files.
 */
import type { Operation } from './lib/row.svelte'

const done: Record<Operation, string> = {
  start: 'started',
  stop: 'stopped',
  restart: 'restarted',
  reconnect: 'reconnected',
  enable: 'enabled',
  disable: 'disabled',
}

/** A number with its noun: "1 tool", "2 tools". */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`
}

export const texts = {
  /** How numbers and times are written; spans and sizes are numbers with a unit. */
  format: {
    locale: 'en',
    spans: { ms: 'ms', s: 's', min: 'min', h: 'h', d: 'd' },
    sizes: ['B', 'kB', 'MB', 'GB', 'TB'],
    justNow: 'just now',
    ago: (span: string) => `${span} ago`,
  },

  /** Of parts whose code is loaded when they are shown (ui/Loaded.svelte). */
  part: {
    title: 'Not loaded',
    failed: 'This part of the page could not be loaded.',
    failedAgain: 'This part of the page could not be loaded again. Mainstay does not send it.',
    outdated: 'Mainstay has another version now than this page. The page must be loaded again.',
    reload: 'Reload the page',
  },

  notice: {
    title: 'Security notice',
    text: 'MCP servers execute commands on your computer. Only use servers from trusted sources. Review configuration carefully before starting servers.',
  },

  common: {
    loading: 'Loading…',
    unreachable: 'Mainstay does not answer.',
    lastSeen: (what: string) => `Last seen: ${what}`,
    showMore: 'More',
    cancel: 'Cancel',
    close: 'Close',
    save: 'Save',
    reset: 'Reset',
    delete: 'Delete',
    edit: 'Edit',
    show: 'Show',
    hide: 'Hide',
    copy: 'Copy',
    copied: 'Copied',
    copyFailed: 'The browser did not allow it',
    retry: 'Try again',
    trying: 'Trying…',
    checking: 'Checking…',
    reading: 'Reading…',
    saving: 'Saving…',
    details: 'Details',
    filter: 'Filter',
    all: 'All',
    none: 'None',
    yes: 'Yes',
    no: 'No',
    unknown: 'unknown',
    hint: 'Next step',
    more: 'More actions',
    showAll: 'Show all',
    nothingFits: 'Nothing fits this filter.',
    clearFilter: 'Clear the filter',
    filterOrAdd: 'Filter, or type a name and Enter',
    live: 'Live',
    follow: 'Follow',
    since: (time: string) => `since ${time}`,
    selected: (count: number) => `${count} selected`,
    unselect: 'Clear the selection',
    chosen: (count: number) => `${count} chosen`,
    download: 'Download',
    openServer: 'Open the server',
  },

  figures: { calls: 'Calls', errors: 'Errors', p50: 'p50', p95: 'p95', p99: 'p99' },
  toolCount: (count: number) => counted(count, 'tool'),
  offers: (tools: number, resources: number, prompts: number) =>
    [counted(tools, 'tool'), counted(resources, 'resource'), counted(prompts, 'prompt')].join(', '),

  /** The words of a server's state. */
  state: {
    pending: 'Awaits approval',
    disabled: 'Disabled',
    stopped: 'Stopped',
    starting: 'Starting',
    connected: 'Running',
    degraded: 'Degraded',
    reconnecting: 'Starting',
    stopping: 'Stopping',
    unauthorized: 'Unauthorized',
    error: 'Error',
    failed: 'Error',
    crashed: 'Crashed',
  },

  /** Shown beside the word of a state. */
  stateNote: {
    reconnecting: 'Reconnecting...',
    failed: 'Connection failed after max retries',
  } as Partial<Record<string, string>>,

  operations: {
    start: 'Start',
    stop: 'Stop',
    restart: 'Restart',
    reconnect: 'Reconnect now',
    enable: 'Enable',
    disable: 'Disable',
    remove: 'Delete',
    approve: 'Approve',
  },

  doing: {
    start: 'Starting…',
    stop: 'Stopping…',
    restart: 'Restarting…',
    reconnect: 'Reconnecting…',
    enable: 'Enabling…',
    disable: 'Disabling…',
    remove: 'Deleting…',
    approve: 'Approving…',
  },

  toasts: {
    done: (name: string, operation: Operation) => `Server "${name}" ${done[operation]}`,
    failed: (error: string) => `Failed to start: ${error}`,
    error: (message: string) => `Error: ${message}`,
  },

  undo: {
    undo: 'Undo',
    undone: 'Undone: the configuration is as it was before.',
    failed: (message: string) => `Not undone: ${message}`,
    changedSince: 'Not undone: the configuration has changed since. "mainstay config history" lists its versions.',
  },

  journal: {
    title: 'The journal is off',
    off: 'The journal is off: calls and states are not recorded.',
    hint: 'Calls and states of servers are not recorded. Set "journal": {"enabled": true} in the configuration, and start Mainstay again.',
    open: 'Open the configuration',
  },
}
