// npm `@modelcontextprotocol/client` 2.x as a client.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answers, capabilities, job, onLog, play, queue } from './script.mjs';

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const mode = job.legacy ? 'legacy' : 'auto';
const client = new Client({ name: 'play', version: '1' }, { capabilities, versionNegotiation: { mode } });
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
client.setNotificationHandler('notifications/message', onLog);
let seen = queue();
client.setNotificationHandler('notifications/tools/list_changed', () => seen.push('tools'));
client.setNotificationHandler('notifications/resources/updated', ({ params }) => seen.push(params.uri));

await client.connect(job.url
  ? new StreamableHTTPClientTransport(new URL(job.url))
  : new StdioClientTransport({ command: job.command[0], args: job.command.slice(1), env: job.env, stderr: 'ignore' }));

// At 2026-07-28 a log level is asked for with each request.
const callTool = client.callTool.bind(client);
client.callTool = (params, options) =>
  callTool(job.legacy ? params : { ...params, _meta: { [LOG_LEVEL]: 'info' } }, options);

await play({
  client,
  revision: () => client.getNegotiatedProtocolVersion(),
  wantLogs: () => job.legacy && client.setLoggingLevel('info'),
  async changes(uri) {
    seen = queue();
    if (job.legacy) {
      await client.subscribeResource({ uri });
      return { next: seen.next, end: () => client.unsubscribeResource({ uri }) };
    }
    const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
    return { next: seen.next, end: () => subscription.close() };
  },
});
