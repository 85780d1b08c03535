// A client on the TypeScript SDK 2.x: typescript_2.mjs FOLDER PLAN {COMMAND…|URL}, where the SDK is installed in FOLDER.
// README.md tells what it does and prints.

import { createRequire } from 'node:module';
import { drive } from './typescript.mjs';

const [folder, plan, command, ...args] = process.argv.slice(2);
const load = (path) => createRequire(`${folder}/any.js`)(`@modelcontextprotocol/client${path}`);
const { Client, StreamableHTTPClientTransport } = load('');
const { StdioClientTransport } = load('/stdio');

const { answers, mode } = JSON.parse(plan);
const isModern = mode === 'modern';
const client = new Client(
  { name: 'typescript-2', version: '1.0.0' },
  {
    capabilities: { sampling: {}, elicitation: {} },
    versionNegotiation: { mode: isModern ? 'auto' : 'legacy' },
  },
);
client.setRequestHandler('sampling/createMessage', () => answers.sampling);
client.setRequestHandler('elicitation/create', () => answers.elicitation);

const isHttp = /^https?:/.test(command);
const transport = isHttp
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, stderr: 'inherit', env: process.env });
await drive(JSON.parse(plan), {
  async connect() {
    await client.connect(transport);
    return client.getNegotiatedProtocolVersion();
  },
  async close() {
    if (isHttp && !isModern) await transport.terminateSession();
    await client.close();
  },
  listTools: () => client.listTools(),
  call: (params, options) => client.callTool(params, options),
  async onListChanged(of, notify) {
    client.setNotificationHandler(`notifications/${of}/list_changed`, notify);
    if (isModern) await client.listen({ [`${of}ListChanged`]: true });
  },
  async onUpdated(uri, notify) {
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => notify(params.uri));
    await (isModern ? client.listen({ resourceSubscriptions: [uri] }) : client.subscribeResource({ uri }));
  },
});
