/** A pseudoterminal per handle. The handle outlives the terminal: a reload of the window opens the terminals again. */
import * as vscode from "vscode";
import type { HandleState, Input } from "../../../docs/haft";
import type { Daemon } from "./core/daemon";
import { Feed } from "./core/feed";
import { keyOf } from "./core/model";

interface Shown {
  session: string;
  id: string;
  readOnly: boolean;
}

const KEY = "haft.terminals";
const CLEAR = "\x1bc\x1b[3J";

class HandleTerminal implements vscode.Pseudoterminal {
  private readonly writes = new vscode.EventEmitter<string>();
  private readonly closes = new vscode.EventEmitter<void>();
  private readonly sizes = new vscode.EventEmitter<vscode.TerminalDimensions | undefined>();
  readonly onDidWrite = this.writes.event;
  readonly onDidClose = this.closes.event;
  readonly onDidOverrideDimensions = this.sizes.event;
  terminal: vscode.Terminal | undefined;
  private readonly feed: Feed;
  private room: vscode.TerminalDimensions | undefined;
  private given = "";
  private line = "";
  private noted: string | undefined;

  constructor(
    private readonly daemon: Daemon,
    readonly shown: Shown,
    private readonly onQuestion: (state: HandleState) => void,
  ) {
    const settings = vscode.workspace.getConfiguration("haft");
    this.feed = new Feed(
      daemon,
      shown.session,
      shown.id,
      {
        write: (text) => this.writes.fire(text),
        clear: () => this.writes.fire(CLEAR),
        note: (text) => this.note(text),
        state: () => this.override(),
      },
      { historyBytes: settings.get("historyBytes", 262144), clipboard: settings.get("clipboard", false) },
    );
  }

  open(dimensions: vscode.TerminalDimensions | undefined): void {
    this.room = dimensions;
    void this.feed.open();
  }

  close(): void {
    this.feed.dispose();
  }

  setDimensions(dimensions: vscode.TerminalDimensions): void {
    this.room = dimensions;
    if (this.terminal && vscode.window.activeTerminal === this.terminal) this.fit();
    this.override();
  }

  /** Give the handle the size of the panel: when the terminal is looked at or typed in, never on a mere attach. */
  fit(): void {
    const { room } = this;
    if (!room || this.shown.readOnly || !this.feed.size || this.feed.state?.state === "stopped") return;
    const wanted = `${room.rows}x${room.columns}`;
    const isOurs = this.feed.state?.size?.yours === true || this.feed.state?.size === undefined;
    if (wanted === this.given && isOurs) return;
    this.given = wanted;
    this.apply({ resize: { rows: room.rows, cols: room.columns } });
  }

  /** Draw within the handle's own size where that is smaller than the panel. */
  private override(): void {
    const { size } = this.feed;
    const isSmaller = size && this.room && (size.rows < this.room.rows || size.cols < this.room.columns);
    this.sizes.fire(isSmaller ? { rows: size.rows, columns: size.cols } : undefined);
  }

  private note(text: string | undefined): void {
    if (text !== undefined && text !== this.noted) this.writes.fire(`\r\n\x1b[2m[${text}]\x1b[0m\r\n`);
    this.noted = text;
  }

  handleInput(data: string): void {
    const { state } = this.feed;
    if (!state || state.state === "stopped") {
      if (data === "\r") this.closes.fire();
      return;
    }
    if (this.shown.readOnly) return;
    if (state.state === "waiting") return this.onQuestion(state);
    if (!this.daemon.isOpen) {
      vscode.window.setStatusBarMessage("haft: not connected, the key was not sent", 3000);
      return;
    }
    if (this.feed.size) {
      this.fit();
      this.apply({ text: data });
    } else {
      this.edit(data);
    }
  }

  /** Edit a line for a program that reads a pipe, which has no terminal to do so. */
  private edit(data: string): void {
    for (const key of data) {
      if (key === "\r" || key === "\n") {
        this.writes.fire("\r\n");
        this.apply({ line: this.line });
        this.line = "";
      } else if (key === "\x03") {
        this.apply({ signal: "INT" });
      } else if (key === "\x04") {
        this.apply(this.line ? { text: this.line } : { eof: true });
        this.line = "";
      } else if (key === "\x7f") {
        if (this.line) this.writes.fire("\b \b");
        this.line = [...this.line].slice(0, -1).join("");
      } else if (key >= " ") {
        this.line += key;
        this.writes.fire(key);
      }
    }
  }

  private apply(input: Input): void {
    const { session, id } = this.shown;
    this.daemon.request("apply", { session, id, input, wait: "none", cursor: 0, max_bytes: 0 }).catch((error: Error) => {
      void vscode.window.showErrorMessage(`haft: ${error.message}`);
    });
  }
}

export class Terminals {
  private readonly open = new Map<vscode.Terminal, HandleTerminal>();

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly daemon: Daemon,
    private readonly onQuestion: (state: HandleState) => void,
  ) {
    context.subscriptions.push(
      vscode.window.onDidOpenTerminal((terminal) => this.adopt(terminal)),
      vscode.window.onDidChangeActiveTerminal((terminal) => terminal && this.open.get(terminal)?.fit()),
      vscode.window.onDidCloseTerminal((terminal) => {
        const wasOpen = this.open.delete(terminal);
        if (wasOpen && terminal.exitStatus?.reason !== vscode.TerminalExitReason.Shutdown) this.remember();
      }),
    );
  }

  /** Note a terminal that the profile has opened. */
  private adopt(terminal: vscode.Terminal): void {
    const { pty } = terminal.creationOptions as Partial<vscode.ExtensionTerminalOptions>;
    if (pty instanceof HandleTerminal) {
      pty.terminal = terminal;
      this.open.set(terminal, pty);
      this.remember();
    }
  }

  private remember(): void {
    void this.context.workspaceState.update(
      KEY,
      [...this.open.values()].map((pty) => pty.shown),
    );
  }

  options(shown: Shown): vscode.ExtensionTerminalOptions {
    return {
      name: shown.readOnly ? `${shown.id} (read-only)` : shown.id,
      pty: new HandleTerminal(this.daemon, shown, this.onQuestion),
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

