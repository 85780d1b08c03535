// An authorization server on oidc-provider, and beside it a protected MCP server that accepts its tokens.
// Usage: provider.mjs FOLDER ISSUER_PORT SERVER_PORT SETTINGS, where the packages are installed in FOLDER. The settings
// are JSON: `lifetime` of access tokens in seconds, `dpop` (the server accepts only bound tokens), `unlisted` (clients
// cannot register the scopes of the server), and `jwtResource`, the URL of another server, whose access tokens are JWTs.
//
// Beside MCP, the server has `GET /counts`, with the number of requests of each kind that both have answered, and
// `POST /refuse`: from then on, it refuses the access tokens that it has accepted so far.

import { createHash, generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, issuerPort, serverPort, settings] = process.argv.slice(2);
const { lifetime = 3600, dpop = false, unlisted = false, jwtResource } = JSON.parse(settings ?? '{}');
// Both packages are ECMAScript modules, which only `import` loads.
const load = (name) => import(pathToFileURL(createRequire(`${folder}/any.js`).resolve(name)).href);
const { Provider } = await load('oidc-provider');
const { EmbeddedJWK, calculateJwkThumbprint, jwtVerify } = await load('jose');

const issuer = `http://127.0.0.1:${issuerPort}`;
const origin = `http://127.0.0.1:${serverPort}`;
const resource = `${origin}/mcp`;
const metadataPath = '/.well-known/oauth-protected-resource/mcp';
// What every request needs, and what the tool `write` needs.
const CALL = 'tools:call';
const WRITE = 'tools:write';
// How old a proof may be, in seconds.
const PROOF_AGE = 60;

const counts = {};
const count = (name) => (counts[name] = (counts[name] ?? 0) + 1);

// The authorization server.

const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
const provider = new Provider(issuer, {
  jwks: { keys: [{ ...key, alg: 'RS256', use: 'sig', kid: 'interop' }] },
  cookies: { keys: ['interop'] },
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  clientDefaults: { id_token_signed_response_alg: 'RS256' },
  rotateRefreshToken: true,
  scopes: ['openid', 'offline_access', ...(unlisted ? [] : [CALL, WRITE])],
  ttl: { AccessToken: lifetime, Grant: 86400, Interaction: 600, RefreshToken: 86400, Session: 86400, IdToken: 600 },
  features: {
    deviceFlow: { enabled: true },
    devInteractions: { enabled: true },
    dPoP: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo(_, indicator) {
        const isJwt = indicator === jwtResource;
        return {
          scope: `${CALL} ${WRITE}`,
          audience: indicator,
          accessTokenTTL: lifetime,
          accessTokenFormat: isJwt ? 'jwt' : 'opaque',
          jwt: isJwt ? { sign: { alg: 'RS256' } } : undefined,
        };
      },
    },
    revocation: { enabled: true },
  },
});
provider.use(async (context, next) => {
  await next();
  const { route, params } = context.oidc ?? {};
  if (!route) return;
  const kind = route === 'token' ? `token ${params?.grant_type}` : route;
  count(context.status < 400 ? kind : `${kind} refused`);
});
provider.listen(Number(issuerPort), '127.0.0.1');

// The MCP server.

const seen = new Set();
const refused = new Set();
const proofs = new Set();

// The access token of a request, if it is valid.
async function authenticate(request) {
  const [scheme, token] = (request.headers.authorization ?? '').split(' ');
  const found = token && !refused.has(token) ? await provider.AccessToken.find(token) : undefined;
  if (!found?.isValid || found.aud !== resource) return undefined;
  if (scheme !== (dpop ? 'DPoP' : 'Bearer') || dpop !== Boolean(found.jkt)) return undefined;
  if (dpop && !(await isProven(request, token, found.jkt))) return undefined;
  seen.add(token);
  return found;
}

// Whether the proof of a request is one for this request, this token and its key, and was not used before.
async function isProven(request, token, thumbprint) {
  try {
    const options = { typ: 'dpop+jwt', algorithms: ['ES256'], maxTokenAge: PROOF_AGE };
    const { payload, protectedHeader } = await jwtVerify(request.headers.dpop, EmbeddedJWK, options);
    const isNew = !proofs.has(payload.jti);
    proofs.add(payload.jti);
    const hash = createHash('sha256').update(token).digest('base64url');
    const isForThis = payload.htm === request.method && payload.htu === resource && payload.ath === hash;
    return isNew && isForThis && (await calculateJwkThumbprint(protectedHeader.jwk)) === thumbprint;
  } catch {
    return false;
  }
}

const text = (said) => ({ content: [{ type: 'text', text: said }] });
const tool = (name) => ({ name, inputSchema: { type: 'object' } });

function answer({ method, params }, token) {
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'protected', version: '1.0.0' },
      };
    case 'ping':
      return {};
    case 'tools/list':
      return { tools: [tool('whoami'), tool('write')] };
    case 'tools/call':
      return text(params.name === 'write' ? 'written' : `Hello, ${token.accountId}!`);
    default:
      return undefined;
  }
}

function reply(response, status, body, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

function challenge(response, status, parameters) {
  count(`mcp ${status}`);
  const all = { ...parameters, resource_metadata: origin + metadataPath, ...(dpop ? { algs: 'ES256' } : {}) };
  const list = Object.entries(all).map(([name, value]) => `${name}="${value}"`);
  reply(response, status, undefined, { 'www-authenticate': `${dpop ? 'DPoP' : 'Bearer'} ${list.join(', ')}` });
}

async function serve(request, response) {
  const token = await authenticate(request);
  if (!token) {
    const error = request.headers.authorization ? { error: 'invalid_token' } : {};
    return challenge(response, 401, { ...error, scope: CALL });
  }
  if (request.method !== 'POST') return reply(response, 405);
  const chunks = await request.toArray();
  const message = JSON.parse(Buffer.concat(chunks).toString());
  const needed = message.method === 'tools/call' && message.params.name === 'write' ? `${CALL} ${WRITE}` : CALL;
  if (!needed.split(' ').every((scope) => token.scopes.has(scope))) {
    return challenge(response, 403, { error: 'insufficient_scope', scope: needed });
  }
  count('mcp 200');
  if (message.id === undefined) return reply(response, 202);
  const result = answer(message, token);
  const outcome = result ? { result } : { error: { code: -32601, message: 'no such method' } };
  return reply(response, 200, { jsonrpc: '2.0', id: message.id, ...outcome });
}

createServer((request, response) => {
  switch (`${request.method} ${request.url}`) {
    case `GET ${metadataPath}`:
      return reply(response, 200, {
        resource,
        authorization_servers: [issuer],
        scopes_supported: [CALL],
        ...(dpop ? { dpop_bound_access_tokens_required: true, dpop_signing_alg_values_supported: ['ES256'] } : {}),
      });
    case 'GET /counts':
      return reply(response, 200, counts);
    case 'POST /refuse':
      seen.forEach((token) => refused.add(token));
      return reply(response, 204);
    default:
      return request.url === '/mcp' ? serve(request, response) : reply(response, 404);
  }
}).listen(Number(serverPort), '127.0.0.1');
