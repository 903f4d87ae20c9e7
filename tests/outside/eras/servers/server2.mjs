// The play on npm `@modelcontextprotocol/server` 2.x, for clients of 2026-07-28 only:
// server2.mjs NAME [PORT] (without a port: stdio).

import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  McpServer, ResourceTemplate, acceptedContent, completable, createMcpHandler, inputRequired,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const [name, port] = process.argv.slice(2);
// Milliseconds between progress and what follows; a Node client drops progress that comes along with the answer.
const PACE = 100;
const fates = new Map();
const grown = new Set();
let http; // where there is one: over HTTP each request is served by an instance of its own

const say = text => ({ content: [{ type: 'text', text }] });
const text = z.object({ text: z.string() });
const id = z.object({ id: z.string() });
const form = message => inputRequired.elicit({
  message,
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
});
const sampling = words => inputRequired.createMessage({
  messages: [{ role: 'user', content: { type: 'text', text: words } }],
  maxTokens: 100,
});
const progress = (ctx, done, total, message) => ctx.mcpReq.notify({
  method: 'notifications/progress',
  params: { progressToken: ctx.mcpReq._meta.progressToken, progress: done, total, message },
});

function build() {
  const server = new McpServer(
    { name, version: '1' },
    { capabilities: { logging: {}, tools: { listChanged: true }, resources: { subscribe: true } } },
  );
  const tool = (name, inputSchema, run) => server.registerTool(name, { inputSchema }, run);
  const grow = id => tool(`grown_${id}`, z.object({}), () => say(id));

  tool('echo', text, ({ text }) => say(text));
  server.registerTool(
    'add',
    { inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ sum: z.number() }) },
    ({ a, b }) => ({ ...say(JSON.stringify({ sum: a + b })), structuredContent: { sum: a + b } }),
  );
  tool('fail', z.object({}), () => { throw new Error('deliberate'); });
  tool('steps', z.object({ count: z.number() }), async ({ count }, ctx) => {
    for (let step = 1; step <= count; step++) {
      await progress(ctx, step, count, `step ${step}`);
      await new Promise(resolve => setTimeout(resolve, PACE));
    }
    return say('done');
  });
  tool('note', text, async ({ text }, ctx) => {
    await ctx.mcpReq.log('info', text);
    return say('noted');
  });
  tool('wait', id, async ({ id }, ctx) => {
    fates.set(id, 'running');
    await progress(ctx, 0, 1, 'waiting');
    await new Promise(resolve => {
      const timer = setTimeout(resolve, 60_000);
      ctx.mcpReq.signal.addEventListener('abort', () => {
        clearTimeout(timer);
        fates.set(id, 'cancelled');
        resolve();
      });
    });
    return say('never cancelled');
  });
  tool('fate', id, ({ id }) => say(fates.get(id) ?? 'unknown'));
  tool('grow', id, ({ id }) => {
    grown.add(id);
    if (http) http.notify.toolsChanged();
    else grow(id); // announces itself
    return say('grown');
  });
  tool('touch', z.object({ uri: z.string() }), async ({ uri }) => {
    if (http) http.notify.resourceUpdated(uri);
    else await server.server.sendResourceUpdated({ uri });
    return say('touched');
  });

  const ask = (requestState, inputRequests) => inputRequired({ inputRequests, requestState });
  tool('ask_model', text, ({ text }, ctx) => {
    const answers = ctx.mcpReq.inputResponses;
    return answers ? say(answers.model.content.text) : ask('modèl', { model: sampling(text) });
  });
  tool('ask_user', text, ({ text }, ctx) => {
    const answer = ctx.mcpReq.inputResponses?.user;
    return answer ? say(`${answer.action} ${answer.content?.name ?? 'nobody'}`) : ask('user', { user: form(text) });
  });
  tool('ask_roots', z.object({}), (_, ctx) => {
    const answers = ctx.mcpReq.inputResponses;
    if (!answers) return ask('roots', { roots: inputRequired.listRoots() });
    return say(answers.roots.roots.map(root => root.uri).join(', '));
  });
  tool('ask_page', z.object({}), (_, ctx) => {
    const answers = ctx.mcpReq.inputResponses;
    const page = () => inputRequired.elicitUrl({ message: 'Look', url: 'https://example.org/page' });
    return answers ? say(answers.page.action) : ask('page', { page: page() });
  });
  // The user first, and then the model about the answer.
  tool('ask_twice', z.object({}), (_, ctx) => {
    const answers = ctx.mcpReq.inputResponses;
    if (!answers) return ask('first', { user: form('Who?') });
    const who = acceptedContent(answers, 'user')?.name;
    if (who) return ask(who, { model: sampling(`Hello ${who}`) });
    return say(`${ctx.mcpReq.requestState()}: ${answers.model.content.text}`);
  });

  const language = completable(z.string(), start =>
    ['Deutsch', 'dansk'].filter(word => word.toLowerCase().startsWith(start)));
  server.registerPrompt(
    'greet',
    { argsSchema: z.object({ name: z.string(), language }) },
    ({ name, language }) => ({
      messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name} in ${language}` } }],
    }),
  );
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
  grown.forEach(grow);
  return server;
}

if (port) {
  http = createMcpHandler(build, { legacy: 'reject' });
  createServer(toNodeHandler(http)).listen(Number(port), '127.0.0.1');
} else {
  serveStdio(build, { legacy: 'reject' });
}
