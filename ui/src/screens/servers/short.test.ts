import { describe, expect, it } from 'vitest'
import { shortOf } from './short'

describe('the telling half of an entry', () => {
  it.each([
    ['npx', ['-y', '@modelcontextprotocol/server-everything'], '@modelcontextprotocol/server-everything'],
    ['/usr/bin/python3', ['/srv/reports.py', '--db', 'x'], 'reports.py'],
    ['python3', ['-m', 'my_server'], 'my_server'],
    ['docker', ['run', '-i', '--rm', '-e', 'TOKEN', 'ghcr.io/a/b'], 'ghcr.io/a/b'],
    ['uv', ['--directory', '/srv/x', 'run', 'server.py'], 'server.py'],
    ['sh', ['-c', 'echo secret; exit 3'], 'sh'],
    ['/opt/tools/bin/fake-server', ['--token', 'secret'], 'fake-server'],
    ['C:\\Program Files\\node\\npx.cmd', ['server'], 'server'],
    ['node', [], 'node'],
  ])('%s %j', (command, args, short) => {
    expect(shortOf({ command, args })).toBe(short)
  })

  it.each([
    ['http://127.0.0.1:9/mcp', '127.0.0.1:9'],
    ['https://api.example.org/v1/github?key=secret', 'api.example.org/v1/github'],
    ['no address', 'no address'],
  ])('%s', (url, short) => {
    expect(shortOf({ url })).toBe(short)
  })

  it('knows nothing of an entry without either', () => {
    expect(shortOf({})).toBeUndefined()
    expect(shortOf(undefined)).toBeUndefined()
  })
})
