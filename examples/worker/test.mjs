// Tests the worker under Node: test.mjs WASM CLIENT, where CLIENT is a program that lists the tools of the server at a
// URL and calls one of them.
import { execFile } from "node:child_process";
import { strict as assert } from "node:assert";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { promisify } from "node:util";

import { start } from "./worker.mjs";

const [wasm, client] = process.argv.slice(2);
const worker = await start(await readFile(wasm));

const post = (message, headers = {}) =>
  worker.fetch(
    new Request("http://localhost/mcp", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    }),
  );

async function answersStatelessRequests() {
  const version = "2026-07-28";
  const meta = {
    "io.modelcontextprotocol/protocolVersion": version,
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const call = (name) =>
    post(
      { id: 1, method: "tools/call", params: { name, _meta: meta } },
      { "mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": name },
    );
  const { result } = await (await call("hello")).json();
  assert.equal(result.content[0].text, "Hello!");
  const { error } = await (await call("other")).json();
  assert.equal(error.code, -32602);
}

async function servesSessions() {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const opened = await post({ id: 1, method: "initialize", params });
  const session = { "mcp-session-id": opened.headers.get("mcp-session-id"), "mcp-protocol-version": "2025-11-25" };
  assert.equal((await opened.json()).result.protocolVersion, "2025-11-25");
  assert.equal((await post({ method: "notifications/initialized" }, session)).status, 202);
  const { result } = await (await post({ id: 2, method: "tools/list" }, session)).json();
  assert.deepEqual(result.tools.map((tool) => tool.name), ["hello"]);
  const other = await post({ id: 3, method: "tools/list" }, { ...session, "mcp-session-id": "another" });
  assert.equal(other.status, 404);
}

async function refusesOtherHostsAndStreams() {
  const get = (url) => worker.fetch(new Request(url, { headers: { accept: "text/event-stream" } }));
  assert.equal((await get("http://evil.example/mcp")).status, 403);
  assert.equal((await get("http://localhost/mcp")).status, 405);
}

async function refusesInvalidUtf8() {
  const valid = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping", params: { text: "?" } });
  const body = Buffer.from(valid);
  body[body.indexOf("?")] = 0xff;
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const response = await worker.fetch(new Request("http://localhost/mcp", { method: "POST", headers, body }));
  assert.equal(response.status, 400);
  assert.equal((await response.json()).error.code, -32700);
}

// The module has no response to a request that it cannot read. `http` limits the length of a URL.
async function reportsRequestsThatCannotBeRead() {
  const response = await worker.fetch(new Request(`http://localhost/${"a".repeat(1 << 16)}`));
  assert.equal(response.status, 500);
}

// A client over real sockets, in the newest revision.
async function servesAClient() {
  const server = createServer(async (incoming, outgoing) => {
    const chunks = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const { method, url, headers } = incoming;
    const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
    const response = await worker.fetch(new Request(`http://${headers.host}${url}`, { method, headers, body }));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(Buffer.from(await response.arrayBuffer()));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { stdout } = await promisify(execFile)(client, [`http://127.0.0.1:${server.address().port}/mcp`, "hello"]);
  assert.equal(stdout, "revision 2026-07-28\nhello: Says hello.\nHello!\n");
  server.close();
}

for (const test of [
  answersStatelessRequests,
  servesSessions,
  refusesOtherHostsAndStreams,
  refusesInvalidUtf8,
  reportsRequestsThatCannotBeRead,
  servesAClient,
]) {
  await test();
  console.log(`${test.name}: ok`);
}
