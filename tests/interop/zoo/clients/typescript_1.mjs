// A client on the TypeScript SDK 1.x: typescript_1.mjs FOLDER COMMAND…, where the SDK is installed in FOLDER.

import { createRequire } from 'node:module';
import { answer, visit } from './visit.mjs';

const [folder, command, ...args] = process.argv.slice(2);
const load = (path) => createRequire(`${folder}/any.js`)(`@modelcontextprotocol/sdk/${path}`);
const { Client } = load('client/index.js');
const { StdioClientTransport } = load('client/stdio.js');
const { ElicitRequestSchema, ResultSchema } = load('types.js');

const client = new Client({ name: 'typescript-1', version: '1.0.0' }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, ({ params }) => answer(params));
await client.connect(new StdioClientTransport({ command, args, stderr: 'inherit', env: process.env }));
await visit(client, (request) => client.request(request, ResultSchema));
