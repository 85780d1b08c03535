// A client on the TypeScript SDK 1.x: typescript_1.mjs FOLDER PLAN {COMMAND…|URL}, where the SDK is installed in FOLDER.
// README.md tells what it does and prints.

import { createRequire } from 'node:module';
import { drive } from './typescript.mjs';

const [folder, plan, command, ...args] = process.argv.slice(2);
const load = (path) => createRequire(`${folder}/any.js`)(`@modelcontextprotocol/sdk/${path}`);
const { Client } = load('client/index.js');
const { StdioClientTransport } = load('client/stdio.js');
const { StreamableHTTPClientTransport } = load('client/streamableHttp.js');
const types = load('types.js');

const { answers } = JSON.parse(plan);
const capabilities = { sampling: {}, elicitation: {} };
const client = new Client({ name: 'typescript-1', version: '1.0.0' }, { capabilities });
client.setRequestHandler(types.CreateMessageRequestSchema, () => answers.sampling);
client.setRequestHandler(types.ElicitRequestSchema, () => answers.elicitation);

const isHttp = /^https?:/.test(command);
const transport = isHttp
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, stderr: 'inherit', env: process.env });
await drive(JSON.parse(plan), {
  async connect() {
    // The transport is told the revision once it is agreed.
    let revision;
    const tell = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (agreed) => {
      revision = agreed;
      tell?.(agreed);
    };
    await client.connect(transport);
    return revision;
  },
  async close() {
    if (isHttp) await transport.terminateSession();
    await client.close();
  },
  listTools: () => client.listTools(),
  call: (params, options) => client.callTool(params, undefined, options),
  async onListChanged(of, notify) {
    const schema = { tools: types.ToolListChangedNotificationSchema, resources: types.ResourceListChangedNotificationSchema };
    client.setNotificationHandler(schema[of], notify);
  },
  async onUpdated(uri, notify) {
    client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => notify(params.uri));
    await client.subscribeResource({ uri });
  },
});
