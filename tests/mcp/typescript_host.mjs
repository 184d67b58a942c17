// A host on the TypeScript SDK's client: each line of standard input is a call, each of standard output its reply.
// Arguments: the folder of the packages, the mode of negotiation (JSON), command and arguments of the server (JSON),
// its environment (JSON).

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [packages, mode, command, env] = process.argv.slice(2);
const load = (name) =>
  import(pathToFileURL(`${packages}/@modelcontextprotocol/client/dist/${name}.mjs`));
const { Client } = await load("index");
const { StdioClientTransport } = await load("stdio");
const [program, ...args] = JSON.parse(command);
const asked = [];

const transport = new StdioClientTransport({ command: program, args, env: JSON.parse(env) });
const client = new Client(
  { name: "typescript-host", version: "1" },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode: JSON.parse(mode) } },
);
client.setRequestHandler("elicitation/create", async (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { answer: true } };
});
const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

await client.connect(transport);
print({ era: client.getProtocolEra(), server: transport.pid });
for await (const line of createInterface({ input: process.stdin })) {
  const { name, arguments: given } = JSON.parse(line);
  try {
    const result = await client.callTool({ name, arguments: given });
    print({ text: result.content[0].text, isError: result.isError ?? false, asked });
  } catch (fault) {
    print({ fault: String(fault) });
  }
}
await client.close();
