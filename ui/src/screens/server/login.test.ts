import { expect, it } from 'vitest'
import type { Login, Server } from '../../api/types'
import { clockTime, day } from '../../lib/format'
import { isWebAddress } from '../../lib/login.svelte'
import { mainAction } from '../../lib/operations'
import { outlook } from '../../lib/reason'
import { factsOf, loginLook } from './login'

const now = Date.parse('2026-11-30T12:00:00Z')
const login = (more: Partial<Login>): Login => ({ server: 'files', status: 'none', required: false, pending: false, grant: 'person', renewable: false, ...more })
const sentence = (more: Partial<Login>): string => loginLook(login(more), now).sentence

it('says until when a login lasts, and what comes then', () => {
  const end = now + 60_000
  const expiresAt = new Date(end).toISOString()
  expect(sentence({ status: 'valid', expiresAt, renewable: true })).toBe(`Logged in until ${clockTime(end)}, renewed automatically.`)
  expect(sentence({ status: 'valid', expiresAt })).toBe(`Logged in until ${clockTime(end)}. Then log in again.`)
  expect(sentence({ status: 'valid', renewable: true })).toBe('Logged in.')
  const later = now + 3 * 86_400_000
  expect(sentence({ status: 'valid', expiresAt: new Date(later).toISOString(), renewable: true })).toBe(`Logged in until ${day(later)} ${clockTime(later)}, renewed automatically.`)
})

it.each<[string, Partial<Login>, string, boolean]>([
  ['nobody has logged in', {}, 'Not logged in. The server has not asked for a login.', false],
  ['the server refuses without a login', { required: true }, 'Not logged in. The server asks for a login.', true],
  ['a person is at it', { status: 'pending', pending: true, required: true }, 'Waits for you to log in.', false],
  ['the login ended', { status: 'ended', reason: 'invalid_grant' }, 'Login ended: invalid_grant', true],
  ['the login ended, nobody knows why', { status: 'ended' }, 'Login ended', true],
  ['the token is too old and is renewed', { status: 'expired', renewable: true }, 'The token has expired. It is renewed when the server is next asked.', false],
  ['the token is too old', { status: 'expired' }, 'The login has expired. Log in again.', true],
])('%s', (_, more, said, isWanted) => {
  expect(loginLook(login(more), now)).toMatchObject({ sentence: said, isWanted })
})

it('offers to log in where a server accepts no credentials and has a login', () => {
  const server = { name: 'files', enabled: true, connected: false, status: 'error', nextAction: 'set_credentials', url: 'https://x' } as Server
  expect(mainAction(server, 'unauthorized', 'person')).toBe('login')
  expect(mainAction(server, 'unauthorized', null)).toBe('reconnect')
  expect(outlook(server, 'unauthorized', 'person')).toBe('It connects by itself when you have logged in.')
  expect(outlook(server, 'unauthorized', null)).toMatch(/Renew the token in its entry/)
})

it('opens addresses of the web alone', () => {
  for (const address of ['https://login.example', 'http://127.0.0.1:7/x', 'HTTPS://login.example']) expect(isWebAddress(address)).toBe(true)
  for (const address of ['javascript:alert(1)', 'data:text/html,x', ' https://x', '', undefined, null]) expect(isWebAddress(address)).toBe(false)
})

it('tells what is known of a login, and nothing of what is not', () => {
  expect(factsOf(login({}))).toEqual([])
  const at = '2026-11-30T11:59:00Z'
  expect(factsOf(login({ loggedInAt: at, lastRefresh: { at, error: 'HTTP 503' }, saveError: 'the disk is full', scopes: ['read', 'list'], missingScopes: ['write'], issuer: 'https://login.example' }))).toEqual([
    ['Logged in', '', Date.parse(at)],
    ['Last renewal', ': HTTP 503', Date.parse(at)],
    ['Not saved', 'the disk is full. The login lasts until Mainstay ends.', undefined],
    ['Scopes', 'read list', undefined],
    ['Missing scopes', 'write. Log in again to get them.', undefined],
    ['Issuer', 'https://login.example', undefined],
  ])
})

it('names its button by what it does', () => {
  expect(loginLook(login({}), now)).toMatchObject({ action: 'Log in', canLogOut: false })
  expect(loginLook(login({ status: 'valid' }), now)).toMatchObject({ action: 'Log in again', canLogOut: true })
  expect(loginLook(login({ status: 'ended', pending: true }), now)).toMatchObject({ action: 'Log in again', canLogOut: true })
  expect(loginLook(login({ grant: 'clientCredentials' }), now)).toMatchObject({ action: 'Get a token' })
})
