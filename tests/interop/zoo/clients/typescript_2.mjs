// A client on the TypeScript SDK 2.x: typescript_2.mjs FOLDER MODE COMMAND…, where the SDK is installed in FOLDER, and the
// mode is `legacy` or `auto`.

import { createRequire } from 'node:module';
import { answer, visit } from './visit.mjs';

const [folder, mode, command, ...args] = process.argv.slice(2);
const load = (path) => createRequire(`${folder}/any.js`)(`@modelcontextprotocol/client${path}`);
const { Client } = load('');
const { StdioClientTransport } = load('/stdio');

const client = new Client(
  { name: 'typescript-2', version: '1.0.0' },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
);
client.setRequestHandler('elicitation/create', ({ params }) => answer(params));
await client.connect(new StdioClientTransport({ command, args, stderr: 'inherit', env: process.env }));
// The result as it is: a Standard Schema that accepts all.
const anything = { '~standard': { version: 1, vendor: 'zoo', validate: (value) => ({ value }) } };
await visit(client, (request) => client.request(request, anything));
