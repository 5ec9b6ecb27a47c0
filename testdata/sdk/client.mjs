// A client of the TypeScript SDK, 1.x or 2.x, that does what its standard input
// says. README.md has the language.
import { createInterface } from 'node:readline';

const [sdk, era, target, ...args] = process.argv.slice(2);

// sdks are the two lines of the SDK, which differ in names and in the order of
// arguments.
const sdks = {
  async typescript1() {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    return {
      StdioClientTransport,
      StreamableHTTPClientTransport,
      client: () => new Client({ name: 'sdk_test', version: '1' }),
      call: (client, params, options) => client.callTool(params, undefined, options),
      revision: (client, transport) => transport.protocolVersion ?? client.getNegotiatedProtocolVersion?.(),
    };
  },
  async typescript2() {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    const mode = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } }[era];
    return {
      StdioClientTransport,
      StreamableHTTPClientTransport,
      client: () => new Client({ name: 'sdk_test', version: '1' }, { versionNegotiation: { mode } }),
      call: (client, params, options) => client.callTool(params, options),
      revision: (client) => client.getNegotiatedProtocolVersion(),
    };
  },
};

const { StdioClientTransport, StreamableHTTPClientTransport, client: newClient, call, revision } = await sdks[sdk]();

const print = (line) => process.stdout.write(JSON.stringify(line) + '\n');

let client;
const running = new Map(); // AbortControllers, by the names of calls

async function connect() {
  const transport = /^https?:/.test(target)
    ? new StreamableHTTPClientTransport(new URL(target))
    : new StdioClientTransport({ command: target, args, env: process.env });
  client = newClient();
  await client.connect(transport);
  return { revision: revision(client, transport) ?? '' };
}

const deeds = {
  connect,
  // What a client does whose session is gone: it drops its end, and says nothing
  // to the server, which terminateSession would.
  async reconnect() {
    await client.close();
    return connect();
  },
  async list() {
    const listed = await client.listTools();
    return { tools: listed.tools.map((tool) => tool.name) };
  },
  async call({ name, tool, arguments: args, progress }) {
    const canceller = new AbortController();
    running.set(name, canceller);
    let heard = 0;
    const options = { signal: canceller.signal };
    if (progress) {
      options.onprogress = () => print({ name, heard: ++heard });
    }
    const result = await call(client, { name: tool, arguments: args }, options);
    const told = result._meta?.['mcp-idem/outcome'];
    return {
      text: result.content.map((c) => c.text ?? '').join('\n'),
      isError: result.isError ?? false,
      outcome: told?.outcome ?? '',
      replay: told?.was_replay ?? false,
    };
  },
  async cancel({ of }) {
    running.get(of).abort('the script says so');
    return {};
  },
};

// answer prints what came of an order, whatever it was.
async function answer(order) {
  const line = { name: order.name, done: true, threw: '' };
  try {
    Object.assign(line, await deeds[order.do](order));
  } catch (error) {
    line.threw = String(error?.message ?? error) || 'something without words';
  }
  print(line);
}

const all = [];
for await (const line of createInterface({ input: process.stdin })) {
  all.push(answer(JSON.parse(line))); // calls may overtake each other
}
await Promise.all(all);
await client?.close();
