/** One handle in one terminal emulator, for an editor's pseudoterminal: output in, keys and sizes out. */
import type { HandleState, Input } from "../../../../docs/haft";
import type { Daemon } from "./daemon";
import { Feed, type FeedOptions } from "./feed";
import { Flow } from "./flow";

export interface Shown {
  session: string;
  id: string;
  readOnly: boolean;
}

export interface Size {
  rows: number;
  cols: number;
}

/** The editor's part of a terminal. */
export interface Emulator {
  write(text: string): void;
  /** draw within this size, smaller than the room; undefined: in all of the room */
  limit(size: Size | undefined): void;
  rename(name: string): void;
  close(): void;
  isActive(): boolean;
  /** the user typed into a handle that waits for an answer */
  asked(state: HandleState): void;
  /** a key or a size did not reach the handle */
  failed(message: string): void;
}

const CLEAR = "\x1bc\x1b[3J";
// A painting is for an empty terminal, and RIS would empty the scrollback, too: the modes that programs set, one by one.
const MODES = [1049, 1, 5, 6, 9, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 2004, 2026];
const RESET = `${MODES.map((mode) => `\x1b[?${mode}l`).join("")}\x1b[?7;25h\x1b[4l\x1b>\x1b[!p\x1b]104\x07`;
const DEAD_MS = 2000;
// The size of an emulator that the editor has not laid out yet.
const UNKNOWN: Size = { rows: 30, cols: 80 };

export class HandleTerminal {
  private readonly feed: Feed;
  private readonly flow: Flow;
  private room: Size | undefined;
  private width: number | undefined;
  /** characters of the cursor's line, at most */
  private lineLength = 0;
  private isTyped = false;
  private isSettled = false;
  private sentSize = "";
  private line = "";
  private noted: string | undefined;
  private end: string | undefined;

  constructor(
    private readonly daemon: Daemon,
    readonly shown: Shown,
    private readonly emulator: Emulator,
    options: FeedOptions,
  ) {
    const sink = {
      write: (text: string) => this.write(text),
      clear: () => {
        this.end = undefined;
        this.lineLength = 0;
        this.flow.write(CLEAR);
      },
      gap: (bytes: number, screen: { isAlternate: boolean } | undefined) => this.leaveOut(bytes, screen),
      note: (text: string | undefined) => this.note(text),
      end: (text: string) => this.finish(text),
      state: () => this.limit(),
    };
    const feed = new Feed(daemon, shown.session, shown.id, sink, options);
    this.feed = feed;
    this.flow = new Flow(
      (text) => emulator.write(text),
      () => feed.hold(),
      (ms) => feed.release(ms),
      () => emulator.isActive(),
    );
  }

  open(room: Size | undefined): Promise<void> {
    this.room = room;
    return this.feed.open();
  }

  close(): void {
    this.flow.dispose();
    this.feed.dispose();
  }

  resize(room: Size): void {
    this.room = room;
    if (this.emulator.isActive()) this.fit();
    this.limit();
  }

  /** Give the handle the size of the room: when the terminal is looked at or typed in, never on a mere attach. */
  fit(): void {
    this.flow.endRest();
    const { room } = this;
    if (!room || (!this.isTyped && room.rows === UNKNOWN.rows && room.cols === UNKNOWN.cols)) return;
    if (this.shown.readOnly || !this.feed.size || this.feed.state?.state === "stopped") return;
    const wanted = `${room.rows}x${room.cols}`;
    const isOurs = this.feed.state?.size?.yours === true || this.feed.state?.size === undefined;
    if (wanted === this.sentSize && isOurs) return;
    this.sentSize = wanted;
    this.apply({ resize: { rows: room.rows, cols: room.cols } });
  }

  private limit(): void {
    const { room } = this;
    const { size } = this.feed;
    const isSmaller = size && room && (size.rows < room.rows || size.cols < room.cols);
    this.emulator.limit(isSmaller ? size : undefined);
    if (size && room) this.wrap(Math.min(size.cols, room.cols));
    this.settle();
  }

  /**
   * Draw again at another width if the cursor's line is wrapped: the emulator keeps the rows of that line, cut or with blank
   * cells, for the program to draw them again. A program that a person types into does that; one that only prints does not.
   */
  private wrap(width: number): void {
    const isWrapped = this.width !== undefined && this.width !== width && this.lineLength > Math.min(this.width, width);
    this.width = width;
    if (isWrapped && !this.isSettled) this.feed.redraw();
  }

  private settle(): void {
    this.isSettled ||= this.isTyped && this.feed.size?.cols === this.room?.cols;
  }

  private write(text: string): void {
    const at = text.lastIndexOf("\n");
    this.lineLength = at < 0 ? this.lineLength + text.length : text.length - at - 1;
    this.flow.write(text);
  }

  get name(): string {
    const { id, readOnly } = this.shown;
    return `${id}${readOnly ? " (read-only)" : ""}${this.noted === undefined ? "" : ` [${this.noted}]`}`;
  }

  /** Name the terminal: a line in the output of a program that runs would move its cursor. */
  private note(text: string | undefined): void {
    if (text === this.noted) return;
    this.noted = text;
    this.emulator.rename(this.name);
  }

  /** Mark a gap in the scrollback. A primary screen moves into it; below an alternate one it stays. */
  private leaveOut(bytes: number, screen: { isAlternate: boolean } | undefined): void {
    const line = `\x1b[2m[${bytes} bytes are left out: “haft: Show the Output” has them]\x1b[0m\r\n`;
    if (!screen) return this.flow.write(`\r\n${line}`);
    const { rows } = this.feed.size ?? { rows: 0 };
    const push = screen.isAlternate ? "" : `\x1b[${rows};1H\r\n${line}${"\n".repeat(rows)}`;
    this.flow.write(`${RESET}${push}\x1b[H\x1b[J`);
  }

  private finish(text: string): void {
    this.note(undefined);
    if (text !== this.end) this.flow.write(`\r\n\x1b[2m[${text}]\x1b[0m\r\n`);
    this.end = text;
  }

  /** Take the emulator's input. */
  input(keys: string): void {
    const data = this.flow.take(keys);
    if (data === "") return;
    // The emulator is there, whatever has become of its answers.
    this.flow.giveUpAfter(DEAD_MS);
    this.isTyped = true;
    this.settle();
    const { state } = this.feed;
    if (!state || state.state === "stopped") {
      if (data === "\r") this.emulator.close();
      return;
    }
    if (this.shown.readOnly) return;
    if (state.state === "waiting") return this.emulator.asked(state);
    if (!this.daemon.isOpen) return this.emulator.failed("not connected, the key was not sent");
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
        this.flow.write("\r\n");
        this.apply({ line: this.line });
        this.line = "";
      } else if (key === "\x03") {
        this.apply({ signal: "INT" });
      } else if (key === "\x04") {
        this.apply(this.line ? { text: this.line } : { eof: true });
        this.line = "";
      } else if (key === "\x7f") {
        if (this.line) this.flow.write("\b \b");
        this.line = [...this.line].slice(0, -1).join("");
      } else if (key >= " ") {
        this.line += key;
        this.flow.write(key);
      }
    }
  }

  private apply(input: Input): void {
    const { session, id } = this.shown;
    this.daemon
      .request("apply", { session, id, input, wait: "none", cursor: 0, max_bytes: 0 })
      .catch((error: Error) => this.emulator.failed(error.message));
  }
}
