/** The extension offers `haft mcp` and haft's tools to the editor: the command is started as the editor starts it, and spoken to. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import Module from "node:module";
import { createInterface } from "node:readline";
import { test } from "node:test";
import type { ExtensionContext } from "vscode";
import manifest from "../package.json";
import type { Daemon } from "../src/core/daemon";
import { base, env, open } from "./ground";

interface Definition {
  label: string;
  command: string;
  args: string[];
}

interface Tool {
  prepareInvocation(options: { input: object }): { confirmationMessages?: { title: string; message: { text: string } } };
  invoke(options: { input: object }, token: undefined): Promise<{ content: { value: string }[] }>;
}

/** The editor's part of the API, which keeps what the extension registers. */
class Editor {
  isTrusted = true;
  readonly settings: { [key: string]: unknown } = { offerMcpServer: true };
  readonly tools = new Map<string, Tool>();
  private provider: { provideMcpServerDefinitions(): Definition[] } | undefined;
  private readonly onTrust: (() => void)[] = [];

  get definitions(): Definition[] {
    return this.provider?.provideMcpServerDefinitions() ?? [];
  }

  trust(): void {
    this.isTrusted = true;
    for (const call of this.onTrust) call();
  }

  readonly api = (() => {
    const editor = this;
    const none = { dispose() {} };
    return {
      EventEmitter: class {
        event = () => none;
        fire() {}
      },
      McpStdioServerDefinition: class {
        constructor(
          readonly label: string,
          readonly command: string,
          readonly args: string[],
        ) {}
      },
      MarkdownString: class {
        text = "";
        appendCodeblock(text: string) {
          this.text += text;
          return this;
        }
      },
      LanguageModelTextPart: class {
        constructor(readonly value: string) {}
      },
      LanguageModelToolResult: class {
        constructor(readonly content: unknown[]) {}
      },
      workspace: {
        get isTrusted() {
          return editor.isTrusted;
        },
        workspaceFolders: [{ uri: { fsPath: base } }],
        getConfiguration: () => ({ get: (key: string, otherwise: unknown) => editor.settings[key] ?? otherwise }),
        onDidGrantWorkspaceTrust(call: () => void) {
          editor.onTrust.push(call);
          return none;
        },
        onDidChangeConfiguration: () => none,
      },
      lm: {
        registerTool(name: string, tool: Tool) {
          editor.tools.set(name, tool);
          return { dispose: () => editor.tools.delete(name) };
        },
        registerMcpServerDefinitionProvider(id: string, provider: { provideMcpServerDefinitions(): Definition[] }) {
          assert.equal(id, manifest.contributes.mcpServerDefinitionProviders[0]?.id);
          editor.provider = provider;
          return none;
        },
      },
    };
  })();
}

// The module `vscode` exists only in an editor.
let editor = new Editor();
const loader = Module as unknown as { _load(request: string, ...rest: unknown[]): unknown };
const load = loader._load;
const vscode = {};
for (const name of Object.keys(editor.api)) {
  Object.defineProperty(vscode, name, { enumerable: true, get: () => editor.api[name as keyof Editor["api"]] });
}
loader._load = (request, ...rest) => (request === "vscode" ? vscode : load(request, ...rest));
const assistant = require("../src/assistant") as typeof import("../src/assistant");

function offer(daemon: Daemon, isTrusted = true): Editor {
  editor = new Editor();
  editor.isTrusted = isTrusted;
  assistant.offer({ extension: { packageJSON: manifest }, subscriptions: [] } as unknown as ExtensionContext, daemon);
  return editor;
}

/** Start the server of a definition, and return a function that sends a request. */
function start({ command, args }: Definition) {
  const child = spawn(command, args, { env, cwd: base, stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ended = new Promise<number | null>((done) => child.once("exit", done));
  let id = 0;
  const send = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  async function request<T>(method: string, params: object): Promise<T> {
    id += 1;
    send({ id, method, params });
    for (;;) {
      const { value, done } = (await lines.next()) as { value: string; done?: boolean };
      if (done) throw new Error(`the server ended before it answered ${method}`);
      const reply = JSON.parse(value) as { id?: number; result?: T; error?: { message: string } };
      if (reply.id !== id) continue; // a notification
      if (reply.error) throw new Error(reply.error.message);
      return reply.result as T;
    }
  }
  const close = () => {
    child.stdin.end();
    return ended;
  };
  return { request, notify: (method: string) => send({ method }), close };
}

test("the offered server answers initialize, tools/list and a call, whose handle is in the session of the window", async () => {
  const daemon = open({ session: "window" });
  await daemon.connect({ start: true });
  const { definitions } = offer(daemon);
  assert.deepEqual(definitions.map(({ label, command }) => [label, command]), [["haft", "haft"]]);
  const [definition] = definitions;
  assert.ok(definition);
  const server = start(definition);
  const clientInfo = { name: "test", version: "0" };
  const { serverInfo } = await server.request<{ serverInfo: { name: string } }>("initialize", {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo,
  });
  assert.equal(serverInfo.name, "haft");
  server.notify("notifications/initialized");
  const { tools } = await server.request<{ tools: { name: string }[] }>("tools/list", {});
  assert.ok(tools.some(({ name }) => name === "run"), JSON.stringify(tools.map(({ name }) => name)));
  const called = await server.request<{ content: { text: string }[]; isError?: boolean }>("tools/call", {
    name: "run",
    arguments: { command: "echo $((6 * 7)) in $PWD; read x", id: "called" },
  });
  assert.match(called.content.map(({ text }) => text).join(""), new RegExp(`42 in ${base}`));
  const { handles } = await daemon.request("handles/list", { session: "window" });
  assert.deepEqual(handles.map(({ id }) => id), ["called"]);
  assert.equal(await server.close(), 0);
});

test("a server is offered only where the person wants it, in a trusted folder of this machine", () => {
  const wanted = offer(open());
  assert.equal(wanted.definitions.length, 1);
  wanted.settings.offerMcpServer = false;
  assert.deepEqual(wanted.definitions, []);
  const distrusted = offer(open(), false);
  assert.deepEqual(distrusted.definitions, []);
  const remote = offer(open({ host: "ssh://box" }));
  assert.deepEqual(remote.definitions, []);
});

test("each tool of the manifest is invoked, and a tool that acts asks before", async () => {
  const daemon = open();
  const { tools } = offer(daemon);
  assert.deepEqual([...tools.keys()], manifest.contributes.languageModelTools.map(({ name }) => name));
  const call = async (name: string, input: object, isAsked = true) => {
    const tool = tools.get(`haft_${name}`);
    assert.ok(tool, name);
    const { confirmationMessages } = tool.prepareInvocation({ input });
    assert.equal(confirmationMessages?.message.text, isAsked ? JSON.stringify(input, null, 2) : undefined);
    const { content } = await tool.invoke({ input }, undefined);
    return content.map(({ value }) => value).join("");
  };
  assert.match(await call("run", { command: "echo $((6 * 7))" }), /42/);
  assert.match(await call("shell", { id: "tool-shell", command: "echo ready" }), /ready/);
  assert.match(await call("handle_send", { id: "tool-shell", line: "read -p 'Name: ' x" }), /Name: /);
  assert.match(await call("handle_send", { id: "tool-shell", line: "sent" }), /tool-shell/);
  assert.match(await call("handle_read", { id: "tool-shell", view: "all", until: "now" }, false), /Name: sent/);
  assert.match(await call("handle_list", {}, false), /tool-shell/);
  assert.match(await call("handle_stop", { ids: ["tool-shell"] }), /tool-shell/);
  assert.match(await call("handle_wait", { ids: ["tool-shell"] }, false), /tool-shell/);
});

test("without trust no tool is registered; with it, all are", () => {
  const distrusted = offer(open(), false);
  assert.equal(distrusted.tools.size, 0);
  distrusted.trust();
  assert.equal(distrusted.tools.size, manifest.contributes.languageModelTools.length);
});
