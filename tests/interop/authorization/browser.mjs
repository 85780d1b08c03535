// A headless Chromium that signs in. Usage: browser.mjs FOLDER CHROMIUM, where playwright-core is installed in FOLDER.
//
// Each line on standard input is a JSON object with an `id`, a `url` to open and what to do there (`answer`): `allow` or
// `deny` the access, or `elsewhere`: allow it in a browser that cannot reach this machine. The line that answers has
// the `url` at the end, and the `text` of that page; or an `error`.

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

async function fillIn(page) {
  for (const [name, value] of Object.entries(TYPED)) {
    const field = page.locator(`input[name=${name}]:visible`);
    if ((await field.count()) > 0 && !(await field.inputValue())) await field.fill(value);
  }
}

async function signIn(page, answer) {
  for (let forms = 0; forms <= MAX_FORMS; forms++) {
    if (REDIRECT.test(page.url())) return;
    const button = page.locator('button[type=submit]:visible').first();
    if ((await button.count()) === 0) return;
    await fillIn(page);
    const isConsent = (await page.locator('input[name=prompt][value=consent]').count()) > 0;
    const pressed = answer === 'deny' && isConsent ? page.locator('a[href$="/abort"]') : button;
    // The click leads to another document, even if its URL is the same.
    const isNext = page.waitForEvent('domcontentloaded');
    await pressed.click();
    await isNext;
  }
  throw new Error(`more than ${MAX_FORMS} forms, the last one at ${page.url().split('?')[0]}`);
}

async function open({ url, answer }) {
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE);
  try {
    const page = await context.newPage();
    let redirect;
    if (answer === 'elsewhere') {
      await context.route(REDIRECT, async (route) => {
        redirect = route.request().url();
        await route.fulfill({ status: 502, contentType: 'text/plain', body: 'not reachable' });
      });
    }
    await page.goto(url, { waitUntil: 'domcontentloaded' });
    await signIn(page, answer);
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
