// A client of the TypeScript SDK that does what its standard input says, one line
// of JSON for each call, and prints one line of JSON for what became of it. The
// arguments are the command of the server. See README.md.
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CreateTaskResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/cfworker';

// The SDK has two validators. Ajv is the default, and the other one knows
// 2020-12, unevaluatedProperties included: what either refuses is refused.
class BothValidators {
  #each = { ajv: new AjvJsonSchemaValidator(), cfworker: new CfWorkerJsonSchemaValidator() };

  getValidator(schema) {
    const compiled = Object.entries(this.#each).map(([name, v]) => [name, v.getValidator(schema)]);
    return (input) => {
      const refusals = compiled
        .map(([name, validate]) => [name, validate(input)])
        .filter(([, verdict]) => !verdict.valid)
        .map(([name, verdict]) => `${name}: ${verdict.errorMessage}`);
      return refusals.length === 0
        ? { valid: true, data: input, errorMessage: undefined }
        : { valid: false, data: undefined, errorMessage: refusals.join('; ') };
    };
  }
}

const validators = new BothValidators();
const client = new Client({ name: 'typescript_test', version: '1' }, { jsonSchemaValidator: validators });
const tools = new Map();

const print = (line) => process.stdout.write(JSON.stringify(line) + '\n');

// list reads the tools, and has the client compile their output schemas.
async function list() {
  const listed = await client.listTools();
  for (const tool of listed.tools) {
    tools.set(tool.name, tool);
  }
}

// hasRoom says whether the listed output schema takes a value. The validators are
// the client's own: Ajv keeps a schema that has an $id, and so does the client.
const hasRoom = (schema, value) => schema === undefined || validators.getValidator(schema)(value).valid;

async function call({ tool, arguments: args, task }) {
  const result = task
    ? await client.request({ method: 'tools/call', params: { name: tool, arguments: args, task: {} } }, CreateTaskResultSchema)
    : await client.callTool({ name: tool, arguments: args });
  const told = result._meta?.['mcp-idem/outcome'];
  const structured = result.structuredContent;
  return {
    outcome: told?.outcome,
    reason: told?.reason ?? '',
    operation: told?.operation_id ?? '',
    replay: told?.was_replay,
    isError: result.isError ?? false,
    structured: structured !== undefined,
    annotated: structured?.idempotency?.outcome !== undefined,
    room: structured !== undefined && hasRoom(tools.get(tool)?.outputSchema, { ...structured, idempotency: told }),
  };
}

// check only asks the validators about a tool's arguments.
function check({ tool, arguments: args }) {
  const offered = tools.get(tool);
  const validate = offered && new BothValidators().getValidator(offered.inputSchema);
  return { offered: offered !== undefined, accepted: validate?.(args).valid ?? false };
}

// answer prints what came of an order, whatever it was.
async function answer(order, what) {
  const line = { tool: order.tool, case: order.case, threw: null };
  try {
    Object.assign(line, await what(order));
  } catch (error) {
    line.threw = String(error?.message ?? error);
  }
  print(line);
}

const [command, ...args] = process.argv.slice(2);
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
await answer({ tool: '', case: 'tools/list' }, list);

const running = [];
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  running.push(answer(order, order.check ? check : call)); // calls may overtake each other
}
await Promise.all(running);
await client.close();
