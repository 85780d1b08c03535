// A server on version 2 of the TypeScript SDK, which speaks 2026-07-28 only.
// Usage: typescript_2.mjs FOLDER http PORT, or typescript_2.mjs FOLDER stdio, where the SDK is installed in FOLDER.

import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const [folder, mode, port] = process.argv.slice(2);
const load = createRequire(`${folder}/any.js`);
const { McpServer, createMcpHandler, inputRequired, inputResponse } = load('@modelcontextprotocol/server');
const { serveStdio } = load('@modelcontextprotocol/server/stdio');
const { toNodeHandler } = load('@modelcontextprotocol/node');
const { z } = load('zod');

const BOARD_URI = 'interop://board';
const ASKED = 'asked';
const added = [];
const cancelled = new Set();
const text = (said) => ({ content: [{ type: 'text', text: said }] });
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

async function work({ steps, seconds, name }, { mcpReq }) {
  const progressToken = mcpReq._meta?.progressToken;
  mcpReq.signal.addEventListener('abort', () => cancelled.add(name));
  for (let progress = 1; progress <= steps && !mcpReq.signal.aborted; progress++) {
    await pause(seconds / steps);
    if (progressToken === undefined) continue;
    const params = { progressToken, progress, total: steps };
    await mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {});
  }
  return text('worked');
}

function askSampling({ prompt }, { mcpReq }) {
  const answer = inputResponse(mcpReq.inputResponses, ASKED);
  if (answer.kind === 'sampling') return text(answer.result.content.text);
  const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
  return inputRequired({ inputRequests: { [ASKED]: inputRequired.createMessage({ messages, maxTokens: 10 }) } });
}

function askElicitation({ mcpReq }) {
  const answer = inputResponse(mcpReq.inputResponses, ASKED);
  if (answer.kind === 'elicit') return text(`${answer.action} ${answer.content?.name ?? ''}`);
  const requestedSchema = z.object({ name: z.string() });
  return inputRequired({ inputRequests: { [ASKED]: inputRequired.elicit({ message: 'Who?', requestedSchema }) } });
}

// One instance serves one request over HTTP, and one connection over stdio.
function build() {
  const server = new McpServer(
    { name: 'typescript-2', version: '1.0.0' },
    { capabilities: { tools: { listChanged: true }, resources: { subscribe: true } } },
  );
  const notify = handler?.notify ?? {
    toolsChanged: () => server.sendToolListChanged(),
    resourceUpdated: (uri) => server.server.sendResourceUpdated({ uri }),
  };
  const tool = (name, input, run) =>
    server.registerTool(name, input ? { inputSchema: z.object(input) } : {}, run);
  tool('echo', { text: z.string() }, ({ text: said }) => text(said));
  tool('work', { steps: z.number(), seconds: z.number(), name: z.string().default('') }, work);
  tool('was_cancelled', { name: z.string() }, ({ name }) => text(cancelled.has(name) ? 'yes' : 'no'));
  tool('ask_sampling', { prompt: z.string() }, askSampling);
  tool('ask_elicitation', undefined, askElicitation);
  tool('touch', undefined, () => {
    notify.resourceUpdated(BOARD_URI);
    return text('touched');
  });
  tool('add_tool', undefined, () => {
    const name = `added_${added.length + 1}`;
    added.push(name);
    notify.toolsChanged();
    return text(name);
  });
  for (const name of added) tool(name, undefined, () => text(name));
  server.registerResource('board', BOARD_URI, {}, () => ({ contents: [{ uri: BOARD_URI, text: 'board' }] }));
  return server;
}

const handler = mode === 'http' ? createMcpHandler(build, { legacy: 'reject' }) : undefined;
if (handler) {
  const serve = toNodeHandler(handler);
  createServer((request, response) => serve(request, response)).listen(Number(port), '127.0.0.1');
} else {
  serveStdio(build, { legacy: 'reject' });
}
