import { describe, expect, it } from 'vitest'
import { parse, valueOf } from './jsonc'
import { deleteProfile, emptyProfile, isProfileName, lines, readProfiles, writeProfile } from './profiles'

const text = `{
  "mcpServers": { "files": {}, "git": {}, "_note": 1 },
  "profiles": {
    // for reviews
    "review": {
      "servers": ["git", "docs-*"], // two
      "tools": { "deny": ["git/reset"] },
      "rename": { "git/log_all": "history" },
    },
    "all": {},
  },
}
`
const meaning = (changed: string): Record<string, unknown> => valueOf(parse(changed).root!) as Record<string, unknown>

describe('profiles', () => {
  it('are read for the form', () => {
    const [review, all] = readProfiles(text)!
    expect(review).toEqual({
      name: 'review',
      servers: ['git', 'docs-*'],
      allow: [],
      deny: ['git/reset'],
      naming: '',
      expose: '',
      ownTools: [],
      others: 1,
    })
    expect(all).toEqual({ ...emptyProfile(), name: 'all' })
    expect(readProfiles('{"profiles": ')).toBeUndefined()
    expect(readProfiles('{}')).toEqual([])
  })

  it('are written without touching anything else', () => {
    const [review] = readProfiles(text)!
    expect(writeProfile(text, review, review!)).toBe(text)
    const changed = writeProfile(text, review, { ...review!, servers: undefined, deny: [], allow: ['git/*'], naming: 'none' })
    expect(changed).toContain('// for reviews')
    expect(meaning(changed)).toMatchObject({
      profiles: { review: { tools: { allow: ['git/*'] }, rename: { 'git/log_all': 'history' }, naming: 'none' }, all: {} },
    })
    expect(meaning(changed)).not.toHaveProperty('profiles.review.servers')
    expect(meaning(changed)).not.toHaveProperty('profiles.review.tools.deny')
    const without = writeProfile(text, review, { ...review!, deny: [] })
    expect(meaning(without)).not.toHaveProperty('profiles.review.tools')
  })

  it('are added, renamed and deleted', () => {
    const added = writeProfile('{"mcpServers": {}}', undefined, { ...emptyProfile(), name: 'new', servers: [], ownTools: ['meta'] })
    expect(JSON.parse(added)).toEqual({ mcpServers: {}, profiles: { new: { servers: [], ownTools: ['meta'] } } })
    const [review] = readProfiles(text)!
    const renamed = meaning(writeProfile(text, review, { ...review!, name: 'look' })) as { profiles: Record<string, unknown> }
    expect(Object.keys(renamed.profiles)).toEqual(['all', 'look'])
    expect(renamed.profiles.look).toMatchObject({ rename: { 'git/log_all': 'history' } })
    expect(readProfiles(deleteProfile(text, 'review'))?.map((it) => it.name)).toEqual(['all'])
  })

  it.each([
    ['work', true],
    ['a-b_c1', true],
    ['a__b', false],
    ['_a', false],
    ['a_', false],
    ['', false],
    ['a b', false],
  ])('may be named %s: %s', (name, good) => expect(isProfileName(name)).toBe(good))

  it('have lists of lines', () => {
    expect(lines(' a \n\na\nb')).toEqual(['a', 'b'])
  })
})
