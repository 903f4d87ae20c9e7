// What each Node client does with the play: one JSON line for every step, with what it saw or why it
// failed. The same steps as script.py, in the same words.
//
// The clients differ in how they are made and in how one asks them to be told; `role` is what the
// script needs of that: { client, revision(), wantLogs(), changes(uri) }.

export const job = JSON.parse(process.argv[2]);
export const asked = [];
const PATIENCE = 20_000; // milliseconds for one step
const AGAIN = 10;
const logs = [];

// How the user answers.
export const answers = {
  'sampling/createMessage': ({ params }) => {
    const { text } = [params.messages[0].content].flat()[0];
    asked.push(`model: ${text}`);
    return { role: 'assistant', model: 'play', content: { type: 'text', text: `model on ${text}` } };
  },
  'elicitation/create': ({ params }) => {
    const mode = params.mode ?? 'form';
    asked.push(`${mode}: ${params.message}`);
    return { action: 'accept', ...(mode === 'form' && { content: { name: 'Zoë' } }) };
  },
  'roots/list': () => {
    asked.push('roots');
    return { roots: [{ uri: 'file:///play/r%C3%B6%C3%B6t' }] };
  },
};
export const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} };
export const onLog = ({ params }) => logs.push([params.level, params.data]);

export function queue() {
  const items = [];
  let wake = () => {};
  return {
    push: item => { items.push(item); wake(); },
    async next() {
      while (!items.length) await new Promise(resolve => { wake = resolve; });
      return items.shift();
    },
  };
}

const uri = path => `play://${job.server}/${path}`;
const sorted = names => [...names].sort();
const own = names => names.filter(name => name.startsWith(job.prefix)).map(name => name.slice(job.prefix.length));
const until = async ready => {
  while (!ready()) await new Promise(resolve => setTimeout(resolve, 20));
};

export async function play({ client, revision, wantLogs, changes }) {
  const call = async (tool, args = {}, options = undefined) => {
    const params = { name: job.prefix + tool, arguments: args };
    return client.callTool(params, options);
  };
  const text = async (...question) => (await call(...question)).content[0].text;
  const asking = (tool, args) => async () => {
    asked.length = 0;
    return [await text(tool, args), asked];
  };
  const steps = {
    tools: async () => {
      const { tools } = await client.listTools();
      const names = own(tools.map(tool => tool.name)).filter(name => !name.startsWith('grown_'));
      return [sorted(names), Boolean(tools.find(tool => tool.name === `${job.prefix}add`)?.outputSchema)];
    },
    echo: () => text('echo', { text: 'grüße ☃ 😀\u2028 "quoted" \\ \t end' }),
    structured: async () => {
      const answer = await call('add', { a: 2, b: 3.5 });
      return [answer.structuredContent, JSON.parse(answer.content[0].text)];
    },
    failure: async () => {
      const answer = await call('fail');
      return [answer.isError, answer.content[0].text.includes('deliberate')];
    },
    progress: async () => {
      const seen = [];
      const onprogress = ({ progress, total, message }) => seen.push([progress, total, message]);
      return [await text('steps', { count: 3 }, { onprogress }), seen];
    },
    log: async () => {
      await wantLogs();
      const noted = await text('note', { text: 'nöted' });
      await until(() => logs.length);
      return [noted, logs.shift()];
    },
    resources: async () => {
      const { resources } = await client.listResources();
      const { resourceTemplates } = await client.listResourceTemplates();
      const mine = uris => sorted(uris.filter(known => known.startsWith(uri(''))));
      return [mine(resources.map(known => known.uri)), mine(resourceTemplates.map(known => known.uriTemplate))];
    },
    read: async () => {
      const contents = [];
      for (const path of ['readme', 'bytes', 'notes/7']) {
        const content = (await client.readResource({ uri: uri(path) })).contents[0];
        contents.push(content.text ?? content.blob);
      }
      return contents;
    },
    prompt: async () => {
      const { prompts } = await client.listPrompts();
      const asked = { name: `${job.prefix}greet`, arguments: { name: 'Zoë', language: 'Deutsch' } };
      return [own(prompts.map(prompt => prompt.name)), (await client.getPrompt(asked)).messages[0].content.text];
    },
    complete: async () => {
      const ref = { type: 'ref/prompt', name: `${job.prefix}greet` };
      return (await client.complete({ ref, argument: { name: 'language', value: 'd' } })).completion.values;
    },
    cancel: async () => {
      const stop = new AbortController();
      const options = { signal: stop.signal, onprogress: () => stop.abort() };
      await call('wait', { id: job.id }, options).then(
        () => { throw new Error('never cancelled'); },
        error => { if (!stop.signal.aborted) throw error; },
      );
      let fate;
      do fate = await text('fate', { id: job.id }); while (fate === 'running');
      return fate;
    },
    'tools changed': async () => {
      const seen = await changes(uri('readme'));
      await call('grow', { id: job.id });
      const name = `${job.prefix}grown_${job.id}`;
      while (await seen.next() !== 'tools' || !(await client.listTools()).tools.some(tool => tool.name === name));
      await seen.end();
      return await text(`grown_${job.id}`) === job.id;
    },
    // Again and again: who stops to listen and starts anew at once is told, too.
    updated: async () => {
      let change;
      for (let round = 0; round < AGAIN; round++) {
        const seen = await changes(uri('readme'));
        await call('touch', { uri: uri('readme') });
        do change = await seen.next(); while (change === 'tools');
        await seen.end();
      }
      return change === uri('readme');
    },
    sampling: asking('ask_model', { text: 'Überlege' }),
    form: asking('ask_user', { text: 'Who?' }),
    page: asking('ask_page'),
    roots: asking('ask_roots'),
    'two questions': asking('ask_twice'),
  };
  const say = (step, what) => console.log(JSON.stringify({ step, ...what }));
  say('revision', { seen: revision() });
  for (const [name, step] of Object.entries(steps)) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(reject, PATIENCE, new Error(`nothing within ${PATIENCE} ms`));
    });
    await Promise.race([step(), late]).then(
      seen => say(name, { seen }),
      error => say(name, { error: String(error) }),
    );
    clearTimeout(timer);
  }
  await client.close();
  process.exit();
}
