/** The screens, in the order of the rail. A screen's title has no other place: it is given to the screen. */
import type { Component } from 'svelte'

export interface Screen {
  /** The first part of the address: `#/servers`. */
  name: string
  title: string
  /** The key after `g` that opens the screen. */
  key: string
  icon: string
  load: () => Promise<{ default: Component<{ title: string }> }>
}

const SCREENS: readonly Screen[] = [
  { name: 'servers', title: 'Servers', key: 's', icon: 'servers', load: () => import('../screens/servers/Servers.svelte') },
  { name: 'calls', title: 'Calls', key: 'c', icon: 'calls', load: () => import('../screens/calls/Calls.svelte') },
  { name: 'overview', title: 'Overview', key: 'o', icon: 'overview', load: () => import('../screens/overview/Overview.svelte') },
  { name: 'tools', title: 'Tools', key: 't', icon: 'tools', load: () => import('../screens/tools/Tools.svelte') },
  { name: 'requests', title: 'Requests', key: 'r', icon: 'requests', load: () => import('../screens/requests/Requests.svelte') },
  { name: 'clients', title: 'Clients', key: 'l', icon: 'clients', load: () => import('../screens/clients/Clients.svelte') },
  { name: 'events', title: 'Events', key: 'e', icon: 'events', load: () => import('../screens/events/Events.svelte') },
  { name: 'configuration', title: 'Configuration', key: 'f', icon: 'configuration', load: () => import('../screens/configuration/Configuration.svelte') },
  { name: 'settings', title: 'Settings', key: ',', icon: 'settings', load: () => import('../screens/settings/Settings.svelte') },
]

export function screens(): readonly Screen[] {
  return SCREENS
}
