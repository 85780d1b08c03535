// A client on the TypeScript SDK 1.x: typescript.mjs FOLDER http|sse URL, where the SDK is installed in FOLDER.
// Exits with 0 if the server did all it was asked.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, kind, url] = process.argv.slice(2);
const installed = createRequire(`${folder}/any.js`);
const load = (path) => import(pathToFileURL(installed.resolve(`@modelcontextprotocol/sdk/${path}`)).href);
const { Client } = await load('client/index.js');
const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js');
const { SSEClientTransport } = await load('client/sse.js');
const { CreateMessageRequestSchema, ElicitRequestSchema } = await load('types.js');

setTimeout(() => process.exit(9), 30_000).unref();

const Transport = kind === 'http' ? StreamableHTTPClientTransport : SSEClientTransport;
const transport = new Transport(new URL(url));
const client = new Client({ name: 'typescript', version: '1' }, { capabilities: { sampling: {}, elicitation: {} } });
client.setRequestHandler(CreateMessageRequestSchema, async () => ({
  role: 'assistant',
  model: 'none',
  content: { type: 'text', text: 'sampled here' },
}));
client.setRequestHandler(ElicitRequestSchema, async () => ({
  action: 'accept',
  content: { username: 'ada', email: 'ada@example.com' },
}));

const text = (result) => result.content.map((part) => part.text ?? '').join('');
const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, undefined, options);

await client.connect(transport);
console.log('server', client.getServerVersion()?.name);
const tools = (await client.listTools()).tools.map((tool) => tool.name);
assert(tools.includes('test_simple_text'), tools.join());
const steps = [];
await call('test_tool_with_progress', {}, { onprogress: ({ progress }) => steps.push(progress) });
assert.deepEqual(steps, [0, 50, 100]);
assert.match(text(await call('test_sampling', { prompt: 'p' })), /sampled here/);
assert.match(text(await call('test_elicitation', { message: 'm' })), /ada/);
assert((await call('test_error_handling')).isError);
const many = await Promise.all(Array.from({ length: 20 }, () => call('test_simple_text')));
assert.equal(new Set(many.map(text)).size, 1);
await client.ping();
if (kind === 'http') await transport.terminateSession();
await client.close();
process.exit(0);
