/** A pseudoterminal per handle. The handle outlives the terminal: a reload of the window opens the terminals again. */
import * as vscode from "vscode";
import type { HandleState } from "../../../docs/haft";
import type { Daemon } from "./core/daemon";
import { keyOf } from "./core/model";
import { HandleTerminal, type Shown, type Size } from "./core/terminal";

const KEY = "haft.terminals";

const sizeOf = ({ rows, columns }: vscode.TerminalDimensions): Size => ({ rows, cols: columns });

class Pty implements vscode.Pseudoterminal {
  private readonly writes = new vscode.EventEmitter<string>();
  private readonly names = new vscode.EventEmitter<string>();
  private readonly closes = new vscode.EventEmitter<void>();
  private readonly sizes = new vscode.EventEmitter<vscode.TerminalDimensions | undefined>();
  readonly onDidWrite = this.writes.event;
  readonly onDidChangeName = this.names.event;
  readonly onDidClose = this.closes.event;
  readonly onDidOverrideDimensions = this.sizes.event;
  terminal: vscode.Terminal | undefined;
  readonly handle: HandleTerminal;

  constructor(
    daemon: Daemon,
    readonly shown: Shown,
    onQuestion: (state: HandleState) => void,
  ) {
    const settings = vscode.workspace.getConfiguration("haft");
    this.handle = new HandleTerminal(
      daemon,
      shown,
      {
        write: (text) => this.writes.fire(text),
        limit: (size) => this.sizes.fire(size && { rows: size.rows, columns: size.cols }),
        rename: (name) => this.names.fire(name),
        close: () => this.closes.fire(),
        isActive: () => this.terminal !== undefined && vscode.window.activeTerminal === this.terminal,
        asked: onQuestion,
        failed(message) {
          if (daemon.isOpen) void vscode.window.showErrorMessage(`haft: ${message}`);
          else vscode.window.setStatusBarMessage(`haft: ${message}`, 3000);
        },
      },
      { historyBytes: settings.get("historyBytes", 262144), clipboard: settings.get("clipboard", false) },
    );
  }

  open(room: vscode.TerminalDimensions | undefined): void {
    void this.handle.open(room && sizeOf(room));
  }

  close(): void {
    this.handle.close();
  }

  setDimensions(room: vscode.TerminalDimensions): void {
    this.handle.resize(sizeOf(room));
  }

  handleInput(data: string): void {
    this.handle.input(data);
  }

  fit(): void {
    this.handle.fit();
  }
}

export class Terminals {
  private readonly open = new Map<vscode.Terminal, Pty>();

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly daemon: Daemon,
    private readonly onQuestion: (state: HandleState) => void,
  ) {
    context.subscriptions.push(
      vscode.window.onDidOpenTerminal((terminal) => {
        // The editor does not show a terminal that it has opened for a profile.
        if (!this.open.has(terminal) && this.adopt(terminal)) terminal.show();
      }),
      vscode.window.onDidChangeActiveTerminal((terminal) => terminal && this.open.get(terminal)?.fit()),
      vscode.window.onDidCloseTerminal((terminal) => {
        const wasOpen = this.open.delete(terminal);
        if (wasOpen && terminal.exitStatus?.reason !== vscode.TerminalExitReason.Shutdown) this.remember();
      }),
    );
  }

  /** Note a terminal of ours; return false for any other. */
  private adopt(terminal: vscode.Terminal): boolean {
    const { pty } = terminal.creationOptions as Partial<vscode.ExtensionTerminalOptions>;
    if (!(pty instanceof Pty)) return false;
    pty.terminal = terminal;
    this.open.set(terminal, pty);
    this.remember();
    return true;
  }

  private remember(): void {
    void this.context.workspaceState.update(
      KEY,
      [...this.open.values()].map((pty) => pty.shown),
    );
  }

  options(shown: Shown): vscode.ExtensionTerminalOptions {
    const pty = new Pty(this.daemon, shown, this.onQuestion);
    return {
      name: pty.handle.name,
      pty,
      iconPath: new vscode.ThemeIcon(shown.readOnly ? "eye" : "terminal"),
      isTransient: true,
    };
  }

  /** Show a handle, in the terminal that shows it already where there is one. */
  show(state: { session: string; id: string }, readOnly = false): vscode.Terminal {
    const { session, id } = state;
    for (const [terminal, { shown }] of this.open) {
      if (keyOf(shown) === keyOf(state) && shown.readOnly === readOnly) {
        terminal.show();
        return terminal;
      }
    }
    const terminal = vscode.window.createTerminal(this.options({ session, id, readOnly }));
    this.adopt(terminal);
    terminal.show();
    return terminal;
  }

  /** Open the terminals again that were open before the window was reloaded, if their handles are still there. */
  revive(handles: ReadonlyMap<string, HandleState>): void {
    const shown = this.context.workspaceState.get<Shown[]>(KEY, []);
    const open = new Set([...this.open.values()].map((pty) => `${keyOf(pty.shown)} ${pty.shown.readOnly}`));
    for (const item of shown) {
      if (!handles.has(keyOf(item)) || open.has(`${keyOf(item)} ${item.readOnly}`)) continue;
      this.adopt(vscode.window.createTerminal(this.options(item)));
    }
  }
}

