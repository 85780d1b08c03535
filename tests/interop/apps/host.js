// A host of MCP Apps in a web page: the client of the TypeScript SDK, and the host's side of @modelcontextprotocol/ext-apps. It
// shows the app of a tool, and passes on what the app asks for. Its parameters are `server`, `tool` and `arguments`.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { AppBridge, PostMessageTransport, getToolUiResourceUri } from '@modelcontextprotocol/ext-apps/app-bridge';

const parameters = new URLSearchParams(location.search);
const INFO = { name: 'interop-host', version: '1.0.0' };
const MIME_TYPE = 'text/html;profile=mcp-app';

async function run() {
  const extensions = { 'io.modelcontextprotocol/ui': { mimeTypes: [MIME_TYPE] } };
  const client = new Client(INFO, { capabilities: { extensions } });
  await client.connect(new StreamableHTTPClientTransport(new URL(parameters.get('server'))));
  const { tools } = await client.listTools();
  const tool = tools.find(({ name }) => name === parameters.get('tool'));
  const {
    contents: [page],
  } = await client.readResource({ uri: getToolUiResourceUri(tool) });
  if (page.mimeType !== MIME_TYPE) throw new Error(`the page is ${page.mimeType}`);

  const frame = document.getElementById('app');
  const bridge = new AppBridge(client, INFO, { serverTools: {} });
  const input = JSON.parse(parameters.get('arguments'));
  bridge.oninitialized = async () => {
    await bridge.sendToolInput({ arguments: input });
    await bridge.sendToolResult(await client.callTool({ name: tool.name, arguments: input }));
    document.title = 'shown';
  };
  // The document that the frame has at first has the same window.
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = page.text;
}

run().catch((error) => {
  document.title = `failed: ${error.message}`;
});
