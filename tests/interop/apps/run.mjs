// Opens the app of a server in a real browser, inside a host that uses the reference implementation, and uses it as a person
// would. Usage: run.mjs SERVER CHROMIUM INSPECTOR AUTHORIZATION, where SERVER is the program, and the last two are folders of
// installed packages: of ext-apps with a bundler, and of playwright-core.

import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const [program, executablePath, packages, withBrowser] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const { chromium } = createRequire(join(withBrowser, 'any.js'))('playwright-core');
const { build } = await import(pathToFileURL(join(packages, 'node_modules/rolldown/dist/index.mjs')));

// How long one step may take, in milliseconds.
const PATIENCE = 20_000;
// What an app may do in the frame of this host.
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; connect-src http://127.0.0.1:*; frame-src 'self'";

function expect(what, found, expected) {
  if (found !== expected) throw new Error(`${what}: ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
  console.log(`ok  ${what}`);
}

async function bundle() {
  const { output } = await build({
    input: join(here, 'host.js'),
    platform: 'browser',
    write: false,
    logLevel: 'silent',
    resolve: { modules: [join(packages, 'node_modules')] },
    output: { format: 'iife', codeSplitting: false },
  });
  return output[0].code;
}

// Serves the page of the host.
async function serveHost(script) {
  const server = createServer((request, response) => {
    const isScript = request.url === '/host.js';
    response.setHeader('Content-Type', isScript ? 'text/javascript; charset=utf-8' : 'text/html; charset=utf-8');
    response.setHeader('Content-Security-Policy', POLICY);
    const frame = '<iframe id="app" sandbox="allow-scripts"></iframe>';
    response.end(isScript ? script : `<!doctype html><title>loading</title>${frame}<script src="/host.js"></script>`);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

const child = spawn(program, ['127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'inherit'] });
const [browser, host] = await Promise.all([
  chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-background-networking'] }),
  bundle().then(serveHost),
]);
try {
  const { value: server } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  const said = [];
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(error.message));
  const parameters = new URLSearchParams({ server, tool: 'dice', arguments: '{"sides":20}' });
  await page.goto(`http://127.0.0.1:${host.address().port}/?${parameters}`);
  await page.waitForFunction(() => document.title !== 'loading').catch(() => {
    throw new Error(`the host shows nothing: ${said.join('; ')}`);
  });
  expect('the host shows the app', await page.title(), 'shown');
  const app = page.frameLocator('#app');
  const shown = async (text) => {
    await app.getByText(text, { exact: true }).waitFor();
    return app.locator('#result').innerText();
  };
  expect('the app shows the result of its tool', await shown('a dice with 20 sides'), 'a dice with 20 sides');
  for (const side of [1, 2]) {
    await app.locator('#throw').click();
    const text = `throw ${side} of 20`;
    expect('the app calls a tool, and shows its result', await shown(text), text);
  }
} finally {
  child.kill();
  host.close();
  await browser.close();
}
