// npm `@modelcontextprotocol/sdk` 1.x as a client.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { answers, capabilities, job, onLog, play, queue } from './script.mjs';

const client = new Client({ name: 'play', version: '1' }, { capabilities });
client.setRequestHandler(CreateMessageRequestSchema, answers['sampling/createMessage']);
client.setRequestHandler(ElicitRequestSchema, answers['elicitation/create']);
client.setRequestHandler(ListRootsRequestSchema, answers['roots/list']);
client.setNotificationHandler(LoggingMessageNotificationSchema, onLog);
let seen = queue();
client.setNotificationHandler(ToolListChangedNotificationSchema, () => seen.push('tools'));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => seen.push(params.uri));

const transport = job.url
  ? new StreamableHTTPClientTransport(new URL(job.url))
  : new StdioClientTransport({ command: job.command[0], args: job.command.slice(1), env: job.env, stderr: 'ignore' });
let revision;
transport.setProtocolVersion = (set => version => {
  revision = version;
  set?.call(transport, version);
})(transport.setProtocolVersion);
await client.connect(transport);

const callTool = client.callTool.bind(client);
client.callTool = (params, options) => callTool(params, undefined, options);

await play({
  client,
  revision: () => revision,
  wantLogs: () => client.setLoggingLevel('info'),
  async changes(uri) {
    seen = queue();
    await client.subscribeResource({ uri });
    return { next: seen.next, end: () => client.unsubscribeResource({ uri }) };
  },
});
