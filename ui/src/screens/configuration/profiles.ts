/** Profiles in the text of a configuration: read for a form, and written back member by member. */
import { setMember } from './edit'
import { find, member, parse, valueOf, type JsonNode } from './jsonc'

export const OWN_TOOLS = ['meta', 'external', 'activity', 'records', 'control'] as const
export const NAMINGS = ['', 'double_underscore', 'mcp_prefix', 'slash', 'none'] as const
export const EXPOSES = ['', 'meta'] as const

/** What the form of a profile shows. Keys that it does not show stay as they are. */
export interface ProfileForm {
  name: string
  /** `undefined` is all servers. */
  servers: string[] | undefined
  allow: string[]
  deny: string[]
  naming: string
  expose: string
  ownTools: string[]
  /** How many keys there are beside. */
  others: number
}

const SHOWN = new Set(['servers', 'tools', 'naming', 'expose', 'ownTools'])

export function emptyProfile(): ProfileForm {
  return { name: '', servers: undefined, allow: [], deny: [], naming: '', expose: '', ownTools: [], others: 0 }
}

/** The profiles of a text, in its order; `undefined` where the text is no JSON. */
export function readProfiles(text: string): ProfileForm[] | undefined {
  const document = parse(text)
  if (document.problems.length > 0 || document.root?.kind !== 'object') return undefined
  const profiles = find(document.root, ['profiles'])
  return (profiles?.members ?? []).flatMap(({ key, value }) => (value?.kind === 'object' && !isNote(key.text) ? [readProfile(key.text, value)] : []))
}

function isNote(name: string): boolean {
  return /^([$_]|\/\/)/.test(name)
}

function readProfile(name: string, node: JsonNode): ProfileForm {
  const tools = member(node, 'tools')?.value
  const servers = member(node, 'servers')?.value
  const word = (key: string): string => {
    const value = member(node, key)?.value
    return value?.kind === 'string' ? value.text : ''
  }
  return {
    name,
    servers: servers?.kind === 'array' ? strings(servers) : undefined,
    allow: strings(member(tools, 'allow')?.value),
    deny: strings(member(tools, 'deny')?.value),
    naming: word('naming'),
    expose: word('expose') === 'direct' ? '' : word('expose'),
    ownTools: strings(member(node, 'ownTools')?.value),
    others: node.members.filter(({ key }) => !SHOWN.has(key.text) && !isNote(key.text)).length,
  }
}

function strings(node: JsonNode | undefined): string[] {
  const value = node && valueOf(node)
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : []
}

/** Writes what the form changes. `before` is the profile as it was, or `undefined` for a new one. */
export function writeProfile(text: string, before: ProfileForm | undefined, after: ProfileForm): string {
  let changed = text
  if (!before) changed = setMember(changed, ['profiles', after.name], {})
  else if (before.name !== after.name) {
    const old = find(parse(changed).root, ['profiles', before.name])
    changed = setMember(changed, ['profiles', after.name], old ? valueOf(old) : {})
    changed = setMember(changed, ['profiles', before.name], undefined)
  }
  const set = (key: string, value: unknown, was: unknown): void => {
    if (JSON.stringify(value) !== JSON.stringify(was)) changed = setMember(changed, ['profiles', after.name, ...key.split('.')], value)
  }
  const list = (values: string[] | undefined): string[] | undefined => (values && values.length > 0 ? values : undefined)
  const was = before ?? emptyProfile()
  set('servers', after.servers, was.servers)
  if (list(after.allow) || list(after.deny)) {
    set('tools.allow', list(after.allow), list(was.allow))
    set('tools.deny', list(after.deny), list(was.deny))
  } else if (list(was.allow) || list(was.deny)) set('tools', undefined, {})
  set('naming', after.naming || undefined, was.naming || undefined)
  set('expose', after.expose || undefined, was.expose || undefined)
  set('ownTools', list(after.ownTools), list(was.ownTools))
  return changed
}

export function deleteProfile(text: string, name: string): string {
  return setMember(text, ['profiles', name], undefined)
}

/** docs/configuration.md, "Names". */
export function isProfileName(name: string): boolean {
  return /^[a-zA-Z0-9_-]+$/.test(name) && !name.includes('__') && !name.startsWith('_') && !name.endsWith('_')
}

/** The lines of a field, each once. */
export function lines(text: string): string[] {
  return [...new Set(text.split('\n').map((line) => line.trim()))].filter(Boolean)
}
