/** A pseudoterminal per handle. The handle outlives the terminal: a reload of the window opens the terminals again. */
import * as vscode from "vscode";
import type { HandleState } from "../../../docs/haft";
import type { Daemon } from "./core/daemon";
import { keyOf } from "./core/model";
import { HandleTerminal, type Shown, type Size } from "./core/terminal";

/** The terminals of a window, for the time after a reload. */
interface Layout {
  shown: Shown[];
  /** the index of the active one */
  active: number;
  /** terminals of other extensions were open, too */
  isShared: boolean;
}

const KEY = "haft.layout";
// The editor fills an empty panel that is open; a loaded machine takes so long to start that shell.
const FILLING_MS = 30_000;

const nameOf = (shown: Shown): string => `${keyOf(shown)} ${shown.readOnly}`;

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
    private readonly onOpen: () => void,
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
    this.onOpen();
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
  private isRevived = false;
  private isClosing = false;
  /** the terminal that was active before a reload, until the panel is there */
  private active: vscode.Terminal | undefined;
  private latest: vscode.Terminal | undefined;
  private fillingUntil = 0;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly daemon: Daemon,
    private readonly onQuestion: (state: HandleState) => void,
  ) {
    context.subscriptions.push(
      vscode.window.onDidOpenTerminal((terminal) => {
        // The editor does not show a terminal that it has opened for a profile.
        if (!this.open.has(terminal) && this.adopt(terminal)) terminal.show();
        if (!this.open.has(terminal)) {
          if (performance.now() < this.fillingUntil) this.replace(terminal);
          else this.active = undefined;
        }
        this.remember();
      }),
      vscode.window.onDidChangeActiveTerminal((terminal) => {
        const pty = terminal && this.open.get(terminal);
        if (pty) this.latest = terminal;
        pty?.fit();
        this.remember();
      }),
      vscode.window.onDidCloseTerminal((terminal) => {
        this.isClosing ||= terminal.exitStatus?.reason === vscode.TerminalExitReason.Shutdown;
        this.open.delete(terminal);
        this.remember();
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

  /** Note the open terminals, from the time when those before the reload are open again until the window closes. */
  private remember(): void {
    if (!this.isRevived || this.isClosing) return;
    const terminals = [...this.open.keys()];
    const layout: Layout = {
      shown: [...this.open.values()].map((pty) => pty.shown),
      active: terminals.findIndex((terminal) => terminal === vscode.window.activeTerminal),
      isShared: vscode.window.terminals.some((terminal) => !this.open.has(terminal)),
    };
    void this.context.workspaceState.update(KEY, layout);
  }

  options(shown: Shown): vscode.ExtensionTerminalOptions {
    // A terminal that is opened now goes before the one that was active.
    this.active = undefined;
    const pty = new Pty(this.daemon, shown, this.onQuestion, () => this.place());
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
    if (this.isRevived) return;
    this.isRevived = true;
    const none: Layout = { shown: [], active: -1, isShared: true };
    const { shown, active, isShared } = this.context.workspaceState.get<Layout>(KEY, none);
    const strangers = vscode.window.terminals.filter((terminal) => !this.open.has(terminal));
    const open = new Map([...this.open].map(([terminal, pty]) => [nameOf(pty.shown), terminal]));
    const revived = shown.map((item) => {
      if (!handles.has(keyOf(item))) return undefined;
      const known = open.get(nameOf(item));
      if (known) return known;
      const terminal = vscode.window.createTerminal(this.options(item));
      this.adopt(terminal);
      return terminal;
    });
    this.active = revived[active];
    if (!isShared && revived.some((terminal) => terminal)) {
      this.fillingUntil = performance.now() + FILLING_MS;
      if (strangers[0]) this.replace(strangers[0]);
    }
    this.remember();
  }

  /** Show the terminal again that was active: the editor opens terminals only in a panel that is shown. */
  private place(): void {
    const terminal = this.active;
    this.active = undefined;
    terminal?.show(true);
  }

  /** Close the shell that the editor has opened after a reload, as there was no terminal in the panel yet; one, and unused. */
  private replace(terminal: vscode.Terminal): void {
    this.fillingUntil = 0;
    if (terminal.state.isInteractedWith || "pty" in terminal.creationOptions) return;
    const next = [this.active, this.latest, ...this.open.keys()].find((other) => other && this.open.has(other));
    this.active = undefined;
    terminal.dispose();
    next?.show(true);
  }
}
