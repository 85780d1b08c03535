// What both TypeScript clients do at the server with every shape (`tests/src/zoo.rs`).

import assert from 'node:assert/strict';

// The answer of a user to a form, as `tests::zoo::answer` gives it.
export function answer({ requestedSchema }) {
  const entered = {};
  for (const [name, field] of Object.entries(requestedSchema.properties)) {
    if (field.oneOf) entered[name] = field.oneOf[0].const;
    else if (field.enum) entered[name] = field.enum[0];
    else if (field.type === 'array') entered[name] = [field.items.anyOf ? field.items.anyOf[0].const : field.items.enum[0]];
    else if (field.format === 'email') entered[name] = 'ada@example.org';
    else entered[name] = { string: 'text', integer: 7, number: 1.5, boolean: true }[field.type];
  }
  return { action: 'accept', content: entered };
}

const textOf = (result) => result.content.map((part) => part.text ?? '').join('');

// `ask` sends a request of any method, and returns its result.
export async function visit(client, ask) {
  const { tools } = await client.listTools();
  const { prompts } = await client.listPrompts();
  const { resourceTemplates } = await client.listResourceTemplates();
  const read = async (uri) => (await client.readResource({ uri })).contents[0].text;
  const samples = JSON.parse(await read('zoo:///samples'));
  const names = tools.map((tool) => tool.name);
  for (const { name, arguments: args, result, error } of samples.tools) {
    assert(names.includes(name), name);
    const called = await client.callTool({ name, arguments: args });
    if (error) assert.deepEqual([called.isError, textOf(called)], [true, error]);
    else assert.deepEqual(called.structuredContent, result, `${name} ${JSON.stringify(args)}`);
  }
  for (const { name, result } of samples.forms) {
    assert.deepEqual(JSON.parse(textOf(await client.callTool({ name, arguments: {} }))), result);
  }
  const { prompt, resource, app, extension } = samples;
  assert.deepEqual(prompts[0].arguments.map((argument) => argument.name), prompt.arguments);
  const args = Object.fromEntries(prompt.arguments.map((name, at) => [name, prompt.values[at]]));
  const { messages } = await client.getPrompt({ name: prompt.name, arguments: args });
  assert.equal(messages[0].content.text, prompt.text);
  assert.equal(resourceTemplates.length, 1);
  assert.equal(await read(resource.uri), resource.text);
  assert.equal(tools.find(({ name }) => name === app.tool)._meta.ui.resourceUri, app.uri);
  const [page] = (await client.readResource({ uri: app.uri })).contents;
  assert.deepEqual([page.mimeType, page.text], [app.mimeType, app.text]);
  const isDeclared = process.env.ZOO_EXTENSION_IS_DECLARED === 'yes';
  const declared = client.getServerCapabilities().extensions?.[extension.id];
  assert.deepEqual(declared, isDeclared ? extension.settings : undefined);
  const answered = await ask({ method: extension.method, params: extension.params });
  for (const [name, value] of Object.entries(extension.result)) assert.deepEqual(answered[name], value);
  await client.close();
  process.exit(0);
}
