// What both TypeScript clients do: the features of a plan, one after the other, and a line of JSON about each.

const PATIENCE = 30_000;
// How long a call that tells no progress runs before it is cancelled.
const HEAD_START = 500;

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds).unref());

function say(feature, outcome) {
  process.stdout.write(`${JSON.stringify({ feature, ...outcome })}\n`);
}

function within(promise, what) {
  const late = pause(PATIENCE).then(() => {
    throw new Error(`no ${what} within ${PATIENCE / 1000} s`);
  });
  return Promise.race([promise, late]);
}

const textOf = (result) => result.content.map((part) => part.text ?? '').join('');

export async function drive(plan, client) {
  const call = async (params) => ({ text: textOf(await client.call(params)) });

  const features = {
    async tools({ call: params }) {
      const { tools } = await client.listTools();
      return { tools: tools.map((tool) => tool.name), ...(await call(params)) };
    },

    async progress({ call: params }) {
      const steps = [];
      const result = await client.call(params, { onprogress: ({ progress }) => steps.push(progress) });
      return { steps, text: textOf(result) };
    },

    elicitation: ({ call: params }) => call(params),
    resumption: ({ call: params }) => call(params),
    sampling: ({ call: params }) => call(params),

    async cancel({ call: params, after, seen }) {
      const controller = new AbortController();
      const started = new Promise((resolve) => {
        const options = { signal: controller.signal, onprogress: resolve };
        client.call(params, options).then(() => resolve('answered'), () => {});
      });
      const early = await Promise.race([started, pause(HEAD_START)]);
      controller.abort('the user lost interest');
      const outcome = { early: early === 'answered', ...(await call(after)) };
      while (seen && outcome.seen !== 'yes') {
        outcome.seen = (await call(seen)).text;
        await pause(50);
      }
      return outcome;
    },

    async list({ call: params, of }) {
      const { promise, resolve } = resolvers();
      await client.onListChanged(of, () => resolve());
      const outcome = await call(params);
      await promise;
      return outcome;
    },

    async subscription({ call: params, uri }) {
      const { promise, resolve } = resolvers();
      await client.onUpdated(uri, resolve);
      const outcome = await call(params);
      return { ...outcome, uri: await promise };
    },
  };

  // The pauses do not keep the process alive, and neither do idle connections.
  setInterval(() => {}, PATIENCE);
  const revision = await within(client.connect(), 'connection');
  say('connect', { revision });
  for (const feature of plan.features) {
    try {
      say(feature.name, await within(features[feature.name](feature), feature.name));
    } catch (error) {
      say(feature.name, { error: `${error?.name}: ${error?.message}` });
    }
  }
  await within(client.close(), 'end');
  process.exit(0);
}

function resolvers() {
  let resolve;
  const promise = new Promise((resolved) => (resolve = resolved));
  return { promise, resolve };
}
