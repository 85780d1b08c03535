// A headless Chromium that signs in. Usage: browser.mjs FOLDER CHROMIUM, where playwright-core is installed in FOLDER.
//
// Each line on standard input is a JSON object with an `id`, a `url` to open and what to do there (`answer`): `allow` or
// `deny` the access, or `elsewhere`: allow it in a browser that reaches only the server of that URL, as on another
// machine; and the `code` to type, if there is one. The line that answers has the `url` at the end, and the `text` of
// that page; or an `error`.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [folder, executablePath] = process.argv.slice(2);
const { chromium } = createRequire(`${folder}/any.js`)('playwright-core');

// How long one step in a page may take, in milliseconds.
const PATIENCE = 20_000;
// More forms than this in a row are a fault of the sign-in.
const MAX_FORMS = 8;
const REDIRECT = /^http:\/\/(127\.0\.0\.1|localhost):\d+\/callback\?/;

// What a person types. Fields that are filled in already stay as they are.
const TYPED = { login: 'ada', password: 'secret' };
// A proxy that no browser reaches.
const NOWHERE = 'http://127.0.0.1:9';

async function fillIn(page, typed) {
  for (const [name, value] of Object.entries(typed)) {
    const field = page.locator(`input[name=${name}]:visible`);
    if ((await field.count()) > 0 && !(await field.inputValue())) await field.fill(value);
  }
}

// Fills in forms until there is none, or the browser is sent to the port of this machine.
async function signIn(page, { answer, code }, isRedirected) {
  for (let forms = 0; forms <= MAX_FORMS; forms++) {
    const button = page.locator('button[type=submit]:visible').first();
    if (isRedirected() || (await button.count()) === 0) return;
    await fillIn(page, code ? { ...TYPED, user_code: code } : TYPED);
    const isConsent = (await page.locator('input[name=prompt][value=consent]').count()) > 0;
    const pressed = answer === 'deny' && isConsent ? page.locator('a[href$="/abort"]') : button;
    // The click leads to another document, even if its URL is the same.
    const isNext = Promise.race([
      page.waitForEvent('domcontentloaded'),
      page.waitForEvent('requestfailed', (failed) => REDIRECT.test(failed.url())),
    ]);
    await pressed.click();
    await isNext;
  }
  throw new Error(`more than ${MAX_FORMS} forms, the last one at ${page.url().split('?')[0]}`);
}

async function open(request) {
  const { url, answer } = request;
  const proxy = { server: NOWHERE, bypass: `<-loopback>,${new URL(url).host}` };
  const context = await browser.newContext(answer === 'elsewhere' ? { proxy } : {});
  context.setDefaultTimeout(PATIENCE);
  try {
    const page = await context.newPage();
    let redirect;
    page.on('request', (sent) => {
      if (REDIRECT.test(sent.url())) redirect = sent.url();
    });
    await page.goto(url, { waitUntil: 'domcontentloaded' });
    await signIn(page, request, () => redirect !== undefined);
    return { url: redirect ?? page.url(), text: await page.locator('body').innerText() };
  } finally {
    await context.close();
  }
}

// As root, Chromium runs only without its sandbox. All pages come from this machine.
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-background-networking'] });
console.log(JSON.stringify({ version: browser.version() }));
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  open(request)
    .catch((error) => ({ error: error.message }))
    .then((outcome) => console.log(JSON.stringify({ id: request.id, ...outcome })));
}
await browser.close();
