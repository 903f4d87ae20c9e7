/** The screens, in the order of the rail, with their keys after `g`. */
import type { Component } from 'svelte'
import { texts } from '../texts'

export type ScreenName = keyof typeof texts.screens

export interface Screen {
  name: ScreenName
  key: string
  icon: string
  load: () => Promise<{ default: Component }>
}

const SCREENS: readonly Screen[] = [
  { name: 'servers', key: 's', icon: 'servers', load: () => import('../screens/servers/Servers.svelte') },
  { name: 'calls', key: 'c', icon: 'calls', load: () => import('../screens/calls/Calls.svelte') },
  { name: 'overview', key: 'o', icon: 'overview', load: () => import('../screens/overview/Overview.svelte') },
  { name: 'tools', key: 't', icon: 'tools', load: () => import('../screens/tools/Tools.svelte') },
  { name: 'requests', key: 'r', icon: 'requests', load: () => import('../screens/requests/Requests.svelte') },
  { name: 'clients', key: 'l', icon: 'clients', load: () => import('../screens/clients/Clients.svelte') },
  { name: 'events', key: 'e', icon: 'events', load: () => import('../screens/events/Events.svelte') },
  { name: 'configuration', key: 'f', icon: 'configuration', load: () => import('../screens/configuration/Configuration.svelte') },
  { name: 'settings', key: ',', icon: 'settings', load: () => import('../screens/settings/Settings.svelte') },
]

export function screens(): readonly Screen[] {
  return SCREENS
}
