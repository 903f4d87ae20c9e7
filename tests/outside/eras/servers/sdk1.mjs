// The play on npm `@modelcontextprotocol/sdk` 1.x, which knows the revisions up to 2025-11-25:
// sdk1.mjs NAME [PORT] (without a port: stdio).

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  CreateMessageResultSchema, ElicitResultSchema, ListRootsResultSchema, SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const [name, port] = process.argv.slice(2);
// Milliseconds between progress and what follows; a Node client drops progress that comes along with the answer.
const PACE = 100;
const fates = new Map();
const grown = new Set();
const open = new Set(); // one instance for each session; what one of them learns, all announce

const say = text => ({ content: [{ type: 'text', text }] });
const progress = (extra, done, total, message) => extra.sendNotification({
  method: 'notifications/progress',
  params: { progressToken: extra._meta.progressToken, progress: done, total, message },
});
const elicit = (extra, params) => extra.sendRequest({ method: 'elicitation/create', params }, ElicitResultSchema);
const form = (extra, message) => elicit(extra, {
  message,
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
});
const sampled = async (extra, text) => {
  const messages = [{ role: 'user', content: { type: 'text', text } }];
  const params = { messages, maxTokens: 100 };
  return (await extra.sendRequest({ method: 'sampling/createMessage', params }, CreateMessageResultSchema)).content.text;
};

async function serve(transport) {
  const server = new McpServer(
    { name, version: '1' },
    { capabilities: { logging: {}, resources: { subscribe: true } } },
  );
  const tool = (name, inputSchema, run) => server.registerTool(name, { inputSchema }, run);
  server.grow = id => tool(`grown_${id}`, {}, () => say(id)); // announces itself
  server.subscribed = new Set();

  tool('echo', { text: z.string() }, ({ text }) => say(text));
  server.registerTool(
    'add',
    { inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } },
    ({ a, b }) => ({ ...say(JSON.stringify({ sum: a + b })), structuredContent: { sum: a + b } }),
  );
  tool('fail', {}, () => { throw new Error('deliberate'); });
  tool('steps', { count: z.number() }, async ({ count }, extra) => {
    for (let step = 1; step <= count; step++) {
      await progress(extra, step, count, `step ${step}`);
      await new Promise(resolve => setTimeout(resolve, PACE));
    }
    return say('done');
  });
  tool('note', { text: z.string() }, async ({ text }, extra) => {
    await extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data: text } });
    return say('noted');
  });
  tool('wait', { id: z.string() }, async ({ id }, extra) => {
    fates.set(id, 'running');
    await progress(extra, 0, 1, 'waiting');
    await new Promise(resolve => {
      const timer = setTimeout(resolve, 60_000);
      extra.signal.addEventListener('abort', () => {
        clearTimeout(timer);
        fates.set(id, 'cancelled');
        resolve();
      });
    });
    return say('never cancelled');
  });
  tool('fate', { id: z.string() }, ({ id }) => say(fates.get(id) ?? 'unknown'));
  tool('grow', { id: z.string() }, ({ id }) => {
    grown.add(id);
    open.forEach(server => server.grow(id));
    return say('grown');
  });
  tool('touch', { uri: z.string() }, async ({ uri }) => {
    for (const server of open) {
      if (server.subscribed.has(uri)) await server.server.sendResourceUpdated({ uri });
    }
    return say('touched');
  });
  tool('ask_model', { text: z.string() }, async ({ text }, extra) => say(await sampled(extra, text)));
  tool('ask_user', { text: z.string() }, async ({ text }, extra) => {
    const answer = await form(extra, text);
    return say(`${answer.action} ${answer.content?.name ?? 'nobody'}`);
  });
  tool('ask_roots', {}, async (_, extra) => {
    const { roots } = await extra.sendRequest({ method: 'roots/list' }, ListRootsResultSchema);
    return say(roots.map(root => root.uri).join(', '));
  });
  tool('ask_page', {}, async (_, extra) => {
    const page = { mode: 'url', message: 'Look', url: 'https://example.org/page', elicitationId: 'elicitation-1' };
    return say((await elicit(extra, page)).action);
  });
  // The user first, and then the model about the answer.
  tool('ask_twice', {}, async (_, extra) => {
    const who = (await form(extra, 'Who?')).content.name;
    return say(`${who}: ${await sampled(extra, `Hello ${who}`)}`);
  });

  const language = completable(z.string(), start =>
    ['Deutsch', 'dansk'].filter(word => word.toLowerCase().startsWith(start)));
  server.registerPrompt('greet', { argsSchema: { name: z.string(), language } }, ({ name, language }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name} in ${language}` } }],
  }));
  const resource = (path, mimeType, content) => server.registerResource(
    path, `play://${name}/${path}`, { mimeType },
    uri => ({ contents: [{ uri: uri.href, mimeType, ...content }] }),
  );
  resource('readme', 'text/plain', { text: 'grüße ☃' });
  resource('bytes', 'application/octet-stream', { blob: 'AP8=' });
  server.registerResource(
    'notes', new ResourceTemplate(`play://${name}/notes/{id}`, { list: undefined }), { mimeType: 'text/plain' },
    (uri, { id }) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: `note ${id}` }] }),
  );
  server.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
    server.subscribed.add(params.uri);
    return {};
  });
  server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
    server.subscribed.delete(params.uri);
    return {};
  });
  grown.forEach(server.grow);
  open.add(server);
  server.server.onclose = () => open.delete(server);
  await server.connect(transport);
}

if (port) {
  const sessions = new Map();
  createServer(async (request, response) => {
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (!transport && request.headers['mcp-session-id']) {
      response.writeHead(404).end();
      return;
    }
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: id => { sessions.set(id, transport); },
        onsessionclosed: id => { sessions.delete(id); },
      });
      await serve(transport);
    }
    await transport.handleRequest(request, response);
  }).listen(Number(port), '127.0.0.1');
} else {
  await serve(new StdioServerTransport());
}
