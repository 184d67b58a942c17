/** A handle's output for a terminal emulator: drawn once, then followed, also over a lost connection. */
import type { HandleState } from "../../../../docs/haft";
import type { Daemon } from "./daemon";
import { type Event, HANDLE_NOT_FOUND, HaftError, INVALID_PARAMS, type Link } from "./link";
import { describe } from "./model";

export interface Sink {
  /** draw this; the first piece after `clear` is on an empty screen */
  write(text: string): void;
  clear(): void;
  /** this many bytes are left out; of a terminal the present screen comes next, of which `isAlternate` is the kind */
  gap(bytes: number, screen: { isAlternate: boolean } | undefined): void;
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

// After so long a pause of an emulator the program may be far ahead: the current screen is worth more than the output since.
const LONG_PAUSE_MS = 100;

export class Feed {
  /** the terminal's size; undefined for a handle on a pipe */
  size: { rows: number; cols: number } | undefined;
  state: HandleState | undefined;
  private link: Link | undefined;
  private cursor: number | undefined;
  private generation: number | undefined;
  private server: string | undefined;
  private decoder = new TextDecoder();
  private isHeld = false;
  private subscription: string | undefined;
  /** The ended subscription; its output still on the way comes again by the next subscription. */
  private past: string | undefined;
  private attempt = 0;
  /** The daemon does not know the handle; another one may take its id. */
  private isGone = false;
  private listening: { dispose(): void } | undefined;

  constructor(
    private readonly daemon: Daemon,
    readonly session: string,
    readonly id: string,
    private readonly sink: Sink,
    private readonly options: FeedOptions,
  ) {}

  /** Connect and draw; after a loss, continue at the cursor. Errors become notes. Before this call nothing is drawn. */
  async open(): Promise<void> {
    this.listening ??= this.listen();
    this.drop();
    // Output drawn now would only wait.
    if (this.isHeld) return;
    await this.attend(async (attempt) => {
      const link = await this.daemon.openReader((event) => {
        if (attempt === this.attempt) this.take(event);
      });
      if (attempt !== this.attempt) {
        link.close();
        return;
      }
      this.link = link;
      link.whenLost(() => {
        if (attempt === this.attempt && this.daemon.isOpen) void this.open();
      });
      await this.draw(link, attempt);
    });
  }

  private listen(): { dispose(): void } {
    const { session, id } = this;
    return this.daemon.on({
      opened: () => void this.open(),
      lost: () => {
        this.drop();
        if (this.state?.state !== "stopped") this.sink.note("not connected");
      },
      event: ({ method, params }) => {
        if (this.isGone && method === "handle/state" && params.session === session && params.id === id) void this.open();
      },
    });
  }

  /** Read nothing more until `release`: the emulator is behind. */
  hold(): void {
    this.isHeld = true;
    this.link?.pause();
  }

  release(heldMs: number): void {
    this.isHeld = false;
    if (!this.link) return void this.open();
    this.link.resume();
    if (heldMs > LONG_PAUSE_MS) void this.catchUp();
  }

  /** Draw again, as at first. Output that the daemon has lost is only in the emulator. */
  redraw(): void {
    if (this.state?.state === "stopped" && this.state.ended_by.by === "lost") return;
    this.cursor = undefined;
    if (this.subscription === undefined) void this.open();
    else void this.catchUp();
  }

  /** Subscribe again, and skip the output if the reader lags too far. */
  private async catchUp(mustSkip = false): Promise<void> {
    const { link, subscription } = this;
    if (!link || subscription === undefined) return;
    this.subscription = undefined;
    this.past = subscription;
    await this.attend(async (attempt) => {
      await link.request("unsubscribe", { subscription });
      if (attempt === this.attempt) await this.draw(link, attempt, mustSkip);
    });
  }

  private async attend(work: (attempt: number) => Promise<void>): Promise<void> {
    const attempt = this.attempt;
    try {
      await work(attempt);
    } catch (error) {
      if (attempt !== this.attempt) return;
      if (error instanceof HaftError && error.code === HANDLE_NOT_FOUND) {
        this.isGone = true;
        this.sink.end("the handle is gone");
      } else this.sink.note(error instanceof Error ? error.message : String(error));
    }
  }

  private async draw(link: Link, attempt: number, mustSkip = false): Promise<void> {
    const state = await this.look(link);
    if (attempt !== this.attempt) return;
    const { historyBytes } = this.options;
    const server = `${this.daemon.server?.pid} ${this.daemon.server?.started_at}`;
    const isSame = this.cursor !== undefined && state.generation === this.generation;
    // The output is lost with its daemon: only the emulator still has the drawn part.
    const isLost = isSame && state.state === "stopped" && state.ended_by.by === "lost";
    const goesOn = isSame && (isLost || server === this.server);
    if (isLost) this.cursor = state.cursor;
    const before = goesOn ? (this.cursor ?? 0) : 0;
    const isLong = mustSkip || state.cursor - before > historyBytes;
    this.server = server;
    this.generation = state.generation;
    this.sink.note(undefined);
    if (!goesOn) this.sink.clear();
    // The emulator has the size of the handle before it is drawn.
    this.show(state);
    if (!goesOn || isLong) {
      this.decoder = new TextDecoder();
      const { screen } = state;
      this.cursor = isLong ? Math.max(before, state.cursor - historyBytes) : before;
      let painted = "";
      if (screen && (isLong || screen.alt)) {
        const reply = await link.request("fetch", this.params({ view: "paint", for: "terminal" }));
        if (attempt !== this.attempt) return;
        this.cursor = reply.cursor;
        painted = reply.content ?? "";
      }
      if (goesOn) this.sink.gap(this.cursor - before, screen && { isAlternate: screen.alt });
      this.write(Buffer.from(painted, "base64"));
    }
    await this.follow(link, attempt);
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

  private async follow(link: Link, attempt: number): Promise<void> {
    const { session, id } = this;
    const { subscription } = await link.request("subscribe", {
      session,
      handles: [id],
      events: ["state", "bytes"],
      from: { [id]: this.cursor ?? 0 },
      for: "terminal",
      ...(this.options.clipboard ? { clipboard: true } : {}),
    });
    if (attempt === this.attempt) this.subscription = subscription;
  }

  private take({ method, params }: Event): void {
    if ("subscription" in params && params.subscription === this.past) return;
    if (method === "handle/state") {
      this.note(params);
      this.renew(params.generation);
    } else if (method === "handle/bytes") {
      this.renew(params.generation);
      const omitted = params.omitted ?? 0;
      // The missing bytes moved the cursor and the colours: only a new drawing is right.
      if (omitted > 0 && this.size) return void this.catchUp(true);
      if (omitted > 0) this.sink.gap(omitted, undefined);
      this.cursor = params.cursor;
      this.write(Buffer.from(params.data, "base64"));
    }
  }

  /** Begin again if another handle uses the id. */
  private renew(generation: number): void {
    if (generation === this.generation) return;
    this.generation = generation;
    this.cursor = 0;
    this.decoder = new TextDecoder();
    this.sink.clear();
  }

  private show(state: HandleState): void {
    this.state = state;
    if (state.size) this.size = { rows: state.size.rows, cols: state.size.cols };
    this.sink.state(state);
  }

  /** Take a state of the subscription, which comes behind the output that was printed before. */
  private note(state: HandleState): void {
    this.show(state);
    if (state.state === "stopped") return this.sink.end(describe(state));
    const isNoted = state.state === "waiting" || (state.state === "running" && state.suspended);
    this.sink.note(isNoted ? describe(state) : undefined);
  }

  private write(bytes: Uint8Array): void {
    const text = this.decoder.decode(bytes, { stream: true });
    if (text) this.sink.write(this.size ? text : text.replace(/\r?\n/g, "\r\n"));
  }

  private drop(): void {
    this.attempt += 1;
    this.isGone = false;
    this.subscription = undefined;
    this.past = undefined;
    this.link?.close();
    this.link = undefined;
  }

  dispose(): void {
    this.drop();
    this.listening?.dispose();
  }
}
