/** A handle's output for a terminal emulator: drawn once, then followed, also over a lost connection. */
import type { HandleState } from "../../../../docs/haft";
import type { Daemon } from "./daemon";
import { type Event, HANDLE_NOT_FOUND, HaftError, INVALID_PARAMS, type Link } from "./link";
import { describe } from "./model";

export interface Sink {
  /** draw this; the first piece after `clear` is on an empty screen */
  write(text: string): void;
  clear(): void;
  /** words about the handle that runs on, beside its output; undefined: none */
  note(text: string | undefined): void;
  /** the end of the output, in words */
  end(text: string): void;
  state(state: HandleState): void;
}

export interface FeedOptions {
  /** bytes of earlier output to draw; of more output only the present screen, or the end, is drawn */
  historyBytes: number;
  clipboard: boolean;
}

// An emulator in another process gives no sign of what it has drawn: reading pauses after so much, for so long.
const BURST_BYTES = 256 * 1024;
const PAUSE_MS = 40;

export class Feed {
  /** the terminal's size; undefined for a handle on a pipe */
  size: { rows: number; cols: number } | undefined;
  state: HandleState | undefined;
  private link: Link | undefined;
  private cursor: number | undefined;
  private generation: number | undefined;
  private server: string | undefined;
  private decoder = new TextDecoder();
  private burst = 0;
  private timer: NodeJS.Timeout | undefined;
  private attempt = 0;
  /** The daemon does not know the handle; another one may take its id. */
  private isGone = false;
  private readonly listening: { dispose(): void };

  constructor(
    private readonly daemon: Daemon,
    readonly session: string,
    readonly id: string,
    private readonly sink: Sink,
    private readonly options: FeedOptions,
  ) {
    this.listening = daemon.on({
      opened: () => void this.open(),
      lost: () => {
        this.drop();
        if (this.state?.state !== "stopped") sink.note("not connected");
      },
      event: ({ method, params }) => {
        if (this.isGone && method === "handle/state" && params.session === session && params.id === id) void this.open();
      },
    });
  }

  /** Connect and draw; after a loss, go on at the cursor. Errors become notes. */
  async open(): Promise<void> {
    this.drop();
    const attempt = this.attempt;
    try {
      const link = await this.daemon.openReader((event) => {
        if (attempt === this.attempt) this.take(event);
      });
      if (attempt !== this.attempt) return link.close();
      this.link = link;
      link.whenLost(() => {
        if (attempt === this.attempt && this.daemon.isOpen) void this.open();
      });
      await this.draw(link, attempt);
    } catch (error) {
      if (attempt !== this.attempt) return;
      if (error instanceof HaftError && error.code === HANDLE_NOT_FOUND) {
        this.isGone = true;
        this.sink.end("the handle is gone");
      } else this.sink.note(error instanceof Error ? error.message : String(error));
    }
  }

  private async draw(link: Link, attempt: number): Promise<void> {
    const state = await this.look(link);
    if (attempt !== this.attempt) return;
    const server = `${this.daemon.server?.pid} ${this.daemon.server?.started_at}`;
    const isSame = this.cursor !== undefined && state.generation === this.generation;
    // With its daemon the output is lost: only the emulator still has what it has drawn.
    const isLost = isSame && state.state === "stopped" && state.ended_by.by === "lost";
    const goesOn = isSame && (isLost || server === this.server);
    if (isLost) this.cursor = state.cursor;
    this.server = server;
    this.generation = state.generation;
    this.sink.note(undefined);
    if (!goesOn) {
      this.decoder = new TextDecoder();
      this.sink.clear();
      const { historyBytes } = this.options;
      const isLong = state.cursor > historyBytes;
      if (state.screen && (isLong || state.screen.alt)) {
        const painted = await link.request("fetch", this.params({ view: "paint", for: "terminal" }));
        if (attempt !== this.attempt) return;
        this.cursor = painted.cursor;
        this.write(Buffer.from(painted.content ?? "", "base64"));
      } else {
        this.cursor = isLong ? state.cursor - historyBytes : 0;
      }
    }
    this.note(state);
    await this.follow(link);
  }

  private params<T extends object>(more: T): T & { session: string; id: string } {
    return { session: this.session, id: this.id, ...(this.options.clipboard ? { clipboard: true } : {}), ...more };
  }

  /** Return the state with the screen where the handle has a terminal; `cursor` is the end of the output. */
  private async look(link: Link): Promise<HandleState> {
    const { session, id } = this;
    try {
      const state = await link.request("fetch", { session, id, view: "screen", max_bytes: 0 });
      if (state.screen) this.size = { rows: state.screen.rows, cols: state.screen.cols };
      return state;
    } catch (error) {
      if (!(error instanceof HaftError) || error.code !== INVALID_PARAMS) throw error;
      this.size = undefined;
      return link.request("fetch", { session, id, view: "tail", max_bytes: 0 });
    }
  }

  private async follow(link: Link): Promise<void> {
    const { session, id } = this;
    await link.request("subscribe", {
      session,
      handles: [id],
      events: ["state", "bytes"],
      from: { [id]: this.cursor ?? 0 },
      for: "terminal",
      ...(this.options.clipboard ? { clipboard: true } : {}),
    });
  }

  private take({ method, params }: Event): void {
    if (method === "handle/state") {
      this.note(params);
      this.renew(params.generation);
    } else if (method === "handle/bytes") {
      this.renew(params.generation);
      if ((params.omitted ?? 0) > 0 && this.size) {
        // The missing bytes moved the cursor and the colours: only a new drawing is right.
        this.cursor = undefined;
        void this.open();
        return;
      }
      this.cursor = params.cursor;
      this.write(Buffer.from(params.data, "base64"));
    }
  }

  /** Begin anew where the id is used by another handle. */
  private renew(generation: number): void {
    if (generation === this.generation) return;
    this.generation = generation;
    this.cursor = 0;
    this.decoder = new TextDecoder();
    this.sink.clear();
  }

  private note(state: HandleState): void {
    this.state = state;
    if (state.size) this.size = { rows: state.size.rows, cols: state.size.cols };
    this.sink.state(state);
    if (state.state === "stopped") return this.sink.end(describe(state));
    const isNoted = state.state === "waiting" || (state.state === "running" && state.suspended);
    this.sink.note(isNoted ? describe(state) : undefined);
  }

  private write(bytes: Uint8Array): void {
    const text = this.decoder.decode(bytes, { stream: true });
    if (text) this.sink.write(this.size ? text : text.replace(/\r?\n/g, "\r\n"));
    this.burst += bytes.length;
    if (this.burst >= BURST_BYTES) {
      this.burst = 0;
      const link = this.link;
      link?.pause();
      this.timer = setTimeout(() => link?.resume(), PAUSE_MS);
    }
  }

  private drop(): void {
    this.attempt += 1;
    this.isGone = false;
    clearTimeout(this.timer);
    this.link?.close();
    this.link = undefined;
  }

  dispose(): void {
    this.drop();
    this.listening.dispose();
  }
}
