/** Wires the core to the editor: trees, terminals, documents, commands, the status bar. */
import { execFile } from "node:child_process";
import * as vscode from "vscode";
import type { HandleState } from "../../../docs/haft";
import { approvals, attend } from "./ask";
import { offer, root } from "./assistant";
import { Daemon, type Options } from "./core/daemon";
import { HANDLE_EXISTS, HaftError } from "./core/link";
import { Model, type Needing, describe } from "./core/model";
import { Terminals } from "./terminals";
import { HandlesTree, NeedingTree } from "./trees";

const SIGNALS = ["INT", "TERM", "KILL", "HUP", "QUIT", "STOP", "CONT", "USR1", "USR2", "WINCH"];
const MAX_LOG_BYTES = 16 << 20;
const MAX_NUMBER = 1000;

function options(version: string): Options {
  const settings = vscode.workspace.getConfiguration("haft");
  return {
    path: settings.get("path", "haft"),
    host: settings.get("host", ""),
    socket: settings.get("socket", ""),
    session: settings.get("session", "default"),
    version,
    env: process.env,
  };
}

/** Return the environment of a program that the user starts: the editor's, without the editor's own variables. */
function environment(): { [name: string]: string } {
  const isOurs = (name: string) => /^(VSCODE_|ELECTRON_|CODE_SERVER|NODE_OPTIONS$|NODE_EXEC_PATH$)/.test(name);
  const entries = Object.entries(process.env).filter(([name, value]) => value !== undefined && !isOurs(name));
  return Object.fromEntries(entries) as { [name: string]: string };
}

/** Address the whole output of a handle as a document. */
const logUri = (state: { session: string; id: string }): vscode.Uri =>
  vscode.Uri.from({ scheme: "haft", path: `/${state.session}/${state.id}.log` });

class Logs implements vscode.TextDocumentContentProvider {
  private readonly changes = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changes.event;

  constructor(private readonly daemon: Daemon) {}

  /** Read the shown documents again. */
  refresh(): void {
    for (const document of vscode.workspace.textDocuments) {
      if (document.uri.scheme === "haft") this.changes.fire(document.uri);
    }
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const [session = "", file = ""] = uri.path.slice(1).split("/");
    const id = file.replace(/\.log$/, "");
    const state = await this.daemon.request("fetch", { session, id, view: "all", cursor: 0, max_bytes: MAX_LOG_BYTES });
    if (state.state !== "stopped") return state.content;
    return state.output ?? state.content ?? state.result ?? state.error?.message ?? "";
  }
}

export function activate(context: vscode.ExtensionContext): void {
  const version = (context.extension.packageJSON as { version: string }).version;
  const daemon = new Daemon(options(version));
  const status = vscode.window.createStatusBarItem("haft", vscode.StatusBarAlignment.Left, 10);
  status.name = "haft";
  let position = -1;

  const model = new Model(daemon, changed, announce);
  const handles = new HandlesTree(model, daemon);
  const needing = new NeedingTree(model);
  const handlesView = vscode.window.createTreeView("haft.handles", { treeDataProvider: handles });
  const needingView = vscode.window.createTreeView("haft.needing", { treeDataProvider: needing });
  const logs = new Logs(daemon);
  const terminals = new Terminals(context, daemon, (state) => {
    const question = model.needing().find((item) => item.kind === "question" && item.item.handle === state.id && item.item.session === state.session);
    if (question) run(() => attend(daemon, question));
  });

  function changed(): void {
    handles.refresh();
    needing.refresh();
    logs.refresh();
    const count = model.needing().length;
    const live = [...model.handles.values()].filter((state) => state.state !== "stopped").length;
    needingView.badge = count ? { value: count, tooltip: `${count} waiting for you` } : undefined;
    needingView.message = count ? "" : daemon.isOpen ? "Nothing waits for you." : "";
    status.text = !daemon.isOpen ? "$(debug-disconnect) haft" : count ? `$(bell-dot) haft ${count}` : `$(terminal) haft ${live}`;
    status.tooltip = !daemon.isOpen
      ? `haft: ${daemon.failure ?? "not connected"}. Connect, or start a daemon`
      : count
        ? `haft: ${count} wait for you. Go to the next`
        : `haft${daemon.host ? ` on ${daemon.host}` : ""}: ${live} handles run, nothing waits for you`;
    status.command = !daemon.isOpen ? "haft.connect" : count ? "haft.next" : "haft.handles.focus";
    status.backgroundColor = count ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
    void vscode.commands.executeCommand("setContext", "haft.connected", daemon.isOpen);
    if (model.isLoaded) terminals.revive(model.handles);
  }

  function announce(item: Needing): void {
    if (!vscode.workspace.getConfiguration("haft").get("notify", true)) return;
    const act = item.kind === "approval" ? "Decide…" : "Answer…";
    void vscode.window.showInformationMessage(`haft: ${item.label}`, act).then((chosen) => {
      if (chosen === act) run(() => attend(daemon, item));
    });
  }

  /** Run a user's command, and show its error. */
  async function run<T>(action: () => Promise<T> | T): Promise<T | undefined> {
    try {
      return await action();
    } catch (error) {
      void vscode.window.showErrorMessage(`haft: ${error instanceof Error ? error.message : String(error)}`);
      return undefined;
    }
  }

  function command(name: string, action: (argument?: unknown) => unknown): void {
    context.subscriptions.push(vscode.commands.registerCommand(name, (argument?: unknown) => run(() => action(argument))));
  }

  /** Return the handle of a tree's row, or the handle that the user picks. */
  async function handleOf(argument: unknown, isLive = false): Promise<HandleState | undefined> {
    if (argument && typeof argument === "object" && "state" in argument) return (argument as { state: HandleState }).state;
    await daemon.connect({ start: true });
    const items = [...model.bySession().values()]
      .flat()
      .filter((state) => !isLive || state.state !== "stopped")
      .map((state) => ({ label: state.id, description: `${state.session}, ${state.tool}`, detail: describe(state), state }));
    if (items.length === 0) {
      void vscode.window.showInformationMessage("haft: There are no handles. “haft: New Shell” starts one.");
      return undefined;
    }
    return (await vscode.window.showQuickPick(items, { placeHolder: "Choose a handle", matchOnDescription: true }))?.state;
  }

  /** Refuse to start a program in a folder that the user does not trust. */
  function checkTrust(): void {
    if (!vscode.workspace.isTrusted) {
      throw new Error("this folder is not trusted (Restricted Mode), so no tool is started in it: see “Workspaces: Manage Workspace Trust”");
    }
  }

  /** Spawn under the first free name. */
  async function spawn(tool: string, name: string, args: { [name: string]: unknown }): Promise<{ session: string; id: string }> {
    checkTrust();
    const here = daemon.host ? {} : { env: environment(), ...(root() ? { root: root() } : {}) };
    for (let number = 1; number < MAX_NUMBER; number += 1) {
      const id = number === 1 ? name : `${name}-${number}`;
      try {
        // With a cursor nothing is read for the session.
        const params = { tool, id, args, wait: "none" as const, cursor: 0, max_bytes: 0, ...here };
        return await daemon.request("spawn", params, undefined, { start: true });
      } catch (error) {
        if (!(error instanceof HaftError) || error.code !== HANDLE_EXISTS) throw error;
      }
    }
    throw new Error(`${MAX_NUMBER - 1} handles are called ${name}`);
  }

  const program = () => (daemon.host ? undefined : vscode.env.shell || process.env.SHELL);
  const shell = () => spawn("user_shell", "shell", program() ? { program: program() } : {});

  command("haft.connect", () => daemon.connect({ start: true }));
  command("haft.shell", async () => terminals.show(await shell()));
  command("haft.run", async () => {
    checkTrust();
    const line = await vscode.window.showInputBox({ title: "Run a command that outlives this window", placeHolder: "make -j8" });
    if (!line) return;
    const name = /^[A-Za-z0-9][\w.-]{0,40}/.exec(line.trim())?.[0] ?? "run";
    terminals.show(await spawn("run", name, { argv: [program() || "sh", "-c", line] }));
  });
  for (const [name, readOnly] of [["haft.attach", false], ["haft.watch", true]] as const) {
    command(name, async (argument) => {
      const state = await handleOf(argument);
      if (state) terminals.show(state, readOnly);
    });
  }
  command("haft.logs", async (argument) => {
    const state = await handleOf(argument);
    if (!state) return;
    const document = await vscode.workspace.openTextDocument(logUri(state));
    await vscode.window.showTextDocument(document);
    logs.refresh();
  });
  command("haft.abort", async (argument) => {
    const state = await handleOf(argument, true);
    if (state) await daemon.request("abort", { session: state.session, id: state.id });
  });
  command("haft.signal", async (argument) => {
    const state = await handleOf(argument, true);
    const signal = state && (await vscode.window.showQuickPick(SIGNALS, { title: `Signal for ${state.id}` }));
    if (!state || !signal) return;
    const { session, id } = state;
    await daemon.request("apply", { session, id, input: { signal }, wait: "none", cursor: 0, max_bytes: 0 });
  });
  command("haft.send", async () => {
    const editor = vscode.window.activeTextEditor;
    if (!editor) return;
    const range = editor.selection.isEmpty ? editor.document.lineAt(editor.selection.active).range : editor.selection;
    const state = await handleOf(undefined, true);
    if (!state) return;
    const { session, id } = state;
    const line = editor.document.getText(range);
    await daemon.request("apply", { session, id, input: { line }, wait: "none", cursor: 0, max_bytes: 0 });
  });
  command("haft.search", async () => {
    const pattern = await vscode.window.showInputBox({ title: "Search all output", placeHolder: "a regular expression (RE2)" });
    if (!pattern) return;
    const sessions = [...model.bySession().keys()];
    const entries = await Promise.all(
      sessions.map(async (session) => {
        const { matches } = await daemon.request("output/search", { session, pattern });
        return matches.map((match) => ({ label: match.line.trim(), description: `${session}/${match.id}`, session, match }));
      }),
    );
    const chosen = await vscode.window.showQuickPick(entries.flat(), { title: `“${pattern}” in all output`, matchOnDescription: true });
    if (!chosen) return;
    const document = await vscode.workspace.openTextDocument(logUri({ session: chosen.session, id: chosen.match.id }));
    const at = document.getText().indexOf(chosen.match.line);
    const range = at < 0 ? undefined : new vscode.Range(document.positionAt(at), document.positionAt(at + chosen.match.line.length));
    await vscode.window.showTextDocument(document, range ? { selection: range } : {});
  });
  command("haft.attend", (item) => attend(daemon, item as Needing));
  command("haft.next", async () => {
    const items = model.needing();
    position = items.length ? (position + 1) % items.length : -1;
    const item = items[position];
    if (item) await attend(daemon, item);
    else void vscode.window.showInformationMessage("haft: nothing waits for you.");
  });
  command("haft.doctor", async () => {
    const path = vscode.workspace.getConfiguration("haft").get("path", "haft");
    const words = daemon.host ? ["hosts", daemon.host] : [...daemon.words, "doctor"];
    const content = await new Promise<string>((resolve) => {
      execFile(path, words, { env: process.env }, (error, output, complaint) => {
        const failure = `${path}: ${error?.message}\nInstall haftd, or set haft.path.`;
        resolve(output + complaint || (error ? failure : ""));
      });
    });
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content }));
  });

  offer(context, daemon);
  context.subscriptions.push(
    handlesView,
    needingView,
    status,
    vscode.workspace.registerTextDocumentContentProvider("haft", logs),
    vscode.workspace.registerTextDocumentContentProvider("haft-approval", approvals),
    vscode.window.registerTerminalProfileProvider("haft.shell", {
      async provideTerminalProfile() {
        const { session, id } = await shell();
        return new vscode.TerminalProfile(terminals.options({ session, id, readOnly: false }));
      },
    }),
    vscode.window.onDidChangeWindowState((window) => window.focused && daemon.resume()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (["haft.path", "haft.host", "haft.socket", "haft.session"].some((key) => event.affectsConfiguration(key))) {
        daemon.configure(options(version));
      }
    }),
    daemon,
  );
  status.show();
  changed();
  // No daemon is started unasked: a window without one only shows that.
  daemon.connect({ start: false }).catch(() => changed());
}

