/** The extension in a real workbench. The tests follow each other in one window. */
import assert from "node:assert/strict";
import { after, afterEach, before, test as nodeTest } from "node:test";
import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Workbench, until } from "./bench";

const TOOLS = `
[tools.deploy]
source = "local"
command = ["echo", "deployed to {{ tool.arguments.to }}"]
run = "ask"
[tools.deploy.parameters]
to = { type = "string" }
`;
const TIME = { timeout: 600_000 };
const DETACHED = ["--wait", "none"] as const;

let bench: Workbench;
let failed = "";

/** After a failure the others are not run: the window is not as they expect. */
function test(name: string, body: () => Promise<void>): void {
  nodeTest(name, TIME, async (context) => {
    assert.equal(failed, "", "an earlier test failed");
    failed = name;
    try {
      await body();
    } catch (error) {
      const path = join(tmpdir(), "haft-workbench.png");
      await bench.picture(path);
      context.diagnostic(`${path} is the window at the failure`);
      throw error;
    }
    failed = "";
  });
}

/** Start a shell command on a terminal. */
function start(id: string, script: string): void {
  bench.haft("spawn", "run", "--id", id, "--arg", "terminal=true", ...DETACHED, "--", "bash", "-c", script);
}

const output = (id: string): string => bench.haft("fetch", id, "--view", "all");

/** Call one of haft's tools as a language model does. */
const callTool = async (name: string, input: object): Promise<string> => {
  const call = JSON.stringify([name, { input }]);
  const texts = await bench.inHost<string[]>(
    `const result = await vscode.lm.invokeTool(...${call}); return result.content.map((part) => part.value);`,
  );
  return texts.join("");
};

before(
  async () => {
    bench = await Workbench.start({ tools: TOOLS });
    await bench.command("haft.handles.focus");
  },
  { timeout: 600_000 },
);

afterEach(async () => {
  await bench.command("notifications.clearAll");
});

after(async () => {
  await bench?.close();
});

test("without a daemon the view says so, and a daemon that starts later is noticed", async () => {
  await bench.see("text=No daemon is running");
  await bench.status("haft");
  start("early", "echo early; cat");
  await bench.row("early", "waits for a line · run");
  await bench.status("haft 1");
});

test("in a folder without trust nothing starts, and no tool is offered to a model", async () => {
  assert.equal(await bench.inHost("return vscode.workspace.isTrusted"), false);
  assert.equal(await bench.inHost("return vscode.extensions.getExtension('haft.haft').isActive"), true);
  await bench.command("haft.shell");
  await bench.see("text=this folder is not trusted (Restricted Mode)");
  assert.deepEqual(bench.handles().map(({ id }) => id), ["early"]);
  await assert.rejects(callTool("haft_handle_list", {}), /haft_handle_list/);
});

test("a handle that runs already is read and ended without trust", async () => {
  await bench.command("haft.logs", { state: { session: "default", id: "early" } });
  await bench.see('.editor-instance .view-lines:has-text("early")');
  await bench.command("workbench.action.closeAllEditors");
  start("unwanted", "cat");
  await bench.row("unwanted", "waits for a line");
  await bench.page.hover('.monaco-list-row:has-text("unwanted")');
  await bench.page.click('.monaco-list-row:has-text("unwanted") .action-label[aria-label^="Abort"]');
  await bench.row("unwanted", "killed by");
});

test("the editor asks for trust before a terminal, which shows the handle then", async () => {
  await bench.click("early");
  await bench.page.click('.monaco-dialog-box .monaco-button:has-text("Trust Folder")');
  await bench.inTerminal("early");
  await bench.type("typed\n");
  await bench.inTerminal("typed\ntyped");
});

test("with trust haft's tools are tools of language models, and the editor asks before one that acts", async () => {
  await until(async () => assert.match(await callTool("haft_handle_list", {}), /early/));
  const result = callTool("haft_run", { command: "echo $((6 * 7))" });
  await bench.see('.monaco-dialog-box:has-text("echo $((6 * 7))")');
  await bench.page.click('.monaco-dialog-box .monaco-button:text-is("Yes")');
  assert.match(await result, /42/);
  const tools = "return vscode.lm.tools.map((tool) => tool.name).filter((name) => name.startsWith('haft_')).length";
  assert.equal(await bench.inHost(tools), 7);
});

test("haft mcp is among the editor's MCP servers where the person wants it", async () => {
  await bench.inHost('await vscode.workspace.getConfiguration("haft").update("offerMcpServer", true, vscode.ConfigurationTarget.Global)');
  await until(async () => {
    await bench.command("workbench.mcp.listServer");
    await bench.page.waitForSelector('.quick-input-widget .monaco-list-row:has-text("haft")', { timeout: 2000 });
  });
  await bench.page.keyboard.press("Escape");
});

test("a shell is a terminal of the editor and a handle of the daemon", async () => {
  await bench.command("haft.shell");
  await bench.shows("shell");
  await bench.inTerminal("$ ");
  await bench.type("echo $((6 * 7)) answers\n");
  await bench.inTerminal("\n42 answers");
  bench.haft("apply", "shell", "--line", "echo typed $((2 * 4)) elsewhere", ...DETACHED);
  await bench.inTerminal("\ntyped 8 elsewhere");
});

test("the terminal profile opens a shell that is a handle", async () => {
  await bench.command("workbench.action.terminal.newWithProfile");
  await bench.pick("haft shell");
  await bench.row("shell-2", "waits for a line");
  await bench.shows("shell-2");
  await bench.inTerminal("$ ");
  await bench.type("exit 3\n");
  await bench.inTerminal("[exited with status 3]");
  await bench.type("\n");
  await until(async () => assert.deepEqual(await bench.terminals(), ["early", "shell"]));
});

test("the output of a handle is a document", async () => {
  bench.haft("spawn", "run", "--id", "server", ...DETACHED, "--", "sh", "-c", "echo listening; cat");
  await bench.row("server", "running");
  await bench.command("haft.logs", { state: { session: "default", id: "server" } });
  await bench.see('.editor-instance .view-lines:has-text("listening")');
  bench.haft("apply", "server", "--line", "served", ...DETACHED);
  await bench.command("haft.logs", { state: { session: "default", id: "server" } });
  await bench.see('.editor-instance .view-lines:has-text("served")');
  await bench.command("workbench.action.closeAllEditors");
});

test("a question is counted, announced and answered in a quick pick", async () => {
  const ask = ["--arg", "question=Which branch?", "--arg", 'options=["main","next"]'];
  bench.haft("spawn", "ask_user", "--id", "plan", ...ask, ...DETACHED);
  await bench.status("haft 1");
  await bench.see('.activitybar .badge-content:text-is("1")');
  await bench.see('.notification-toast:has-text("plan: Which branch?")');
  await bench.click("plan: Which branch?");
  await bench.pick("next");
  await until(() => assert.match(output("plan"), /next/));
  await bench.see("text=Nothing waits for you");
});

test("an approval is decided in a quick pick beside its arguments, which leaves no document behind", async () => {
  const released = bench.begin("spawn", "deploy", "--id", "release", "--arg", "to=prod", "--wait", "stopped");
  await bench.click("release: spawn deploy");
  await bench.see('.editor-instance .view-lines:has-text("prod")');
  await bench.pick("Allow for the session");
  assert.match(await released, /deployed to prod/);
  await bench.see("text=Nothing waits for you");
  await until(async () => assert.deepEqual(await bench.inHost("return vscode.window.tabGroups.activeTabGroup.tabs.map((tab) => tab.label)"), []));
});

test("a secret is typed in a masked box, and is nowhere to be read", async () => {
  start("login", "read -s -p 'Password: ' x; echo; echo ${#x} characters; cat");
  await bench.click("login: a secret");
  await bench.see('.quick-input-widget:has-text("Password:") input[type="password"]');
  await bench.page.keyboard.type("hunter2\n");
  await until(() => assert.match(output("login"), /7 characters/));
  assert.doesNotMatch(output("login"), /hunter2/);
  await bench.see("text=Nothing waits for you");
});

test("after a reload of the window the terminals are there again, without a gap or a repetition, and no other", async () => {
  await bench.command("workbench.action.terminal.killAll");
  await until(async () => assert.deepEqual(await bench.terminals(), []));
  await bench.command("haft.shell");
  await bench.shows("shell-2");
  await bench.inTerminal("$ ");
  await bench.type("echo before $((6 * 7))\n");
  await bench.inTerminal("before 42");
  // It prints one line before, during and after the reload.
  const stop = join(bench.project, "stop");
  start("count", `n=0; until [ -e ${stop} ]; do n=$((n + 1)); printf '%d ' $n; sleep 0.05; done; echo end; exec cat`);
  await bench.click("count");
  await bench.shows("count");
  await bench.inTerminal("9 ");
  await bench.reload();
  await bench.shows("count");
  await bench.inTerminal("9 ");
  assert.deepEqual((await bench.terminals()).sort(), ["count", "shell-2"]);
  writeFileSync(stop, "");
  await bench.inTerminal("end");
  const [numbers = ""] = (await bench.terminal()).replace(/\n/g, "").split("end");
  const shown = numbers.trim().split(/ +/).map(Number).slice(1);
  assert.ok(shown.length > 9, numbers);
  assert.deepEqual(shown, shown.map((_, at) => (shown[0] ?? 0) + at));
  await bench.type("typed once\n");
  await bench.inTerminal("typed once\ntyped once");
  await bench.command("workbench.action.terminal.focusPrevious");
  await bench.shows("shell-2");
  await bench.inTerminal("$ echo before $((6 * 7))\nbefore 42\n$");
  await bench.type("echo after $((6 * 8))\n");
  await bench.inTerminal("\nafter 48");
  assert.equal(output("shell-2").split("after 48").length, 2);
});

test("a daemon that was killed and is started again is connected to, and what the terminal showed stays", async () => {
  await bench.command("haft.shell");
  await bench.shows("shell-3");
  await bench.inTerminal("$ ");
  await bench.type("echo $((7 * 9)) kept\n");
  await bench.inTerminal("63 kept");
  process.kill(bench.daemonPid(), "SIGKILL");
  await bench.see("text=No daemon is running");
  await bench.shows("shell-3 [not connected]");
  await bench.page.click('.monaco-button:has-text("Start it")');
  await bench.row("early", "haftd itself ended");
  await bench.inTerminal("63 kept");
  await bench.inTerminal("[haftd itself ended");
});

nodeTest("the versions", (context) => {
  context.diagnostic(bench.versions());
});
