/** The editor's connection to the daemon: connect, start a daemon, connect again after a loss. */
import { spawn } from "node:child_process";
import type { CancellationToken } from "vscode-jsonrpc/node";
import type { InitializeResult, Methods } from "../../../../docs/haft";
import { type Event, HaftError, Link } from "./link";
import { type Environment, socketCandidates } from "./socket";

export interface Options {
  /** the command `haft`, which starts a daemon */
  path: string;
  /** the socket's path; empty: by the protocol's rules */
  socket: string;
  /** the session of requests that name none */
  session: string;
  version: string;
  env: Environment;
}

export interface Listener {
  opened?(server: InitializeResult): void;
  event?(event: Event): void;
  lost?(reason: string): void;
}

const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 5000;

/** Start a daemon: `haft connect` starts one where none answers, and exits at the end of its input. */
function start(options: Options): Promise<void> {
  return new Promise((resolve, reject) => {
    const words = ["connect", ...(options.socket ? ["--socket", options.socket] : [])];
    const child = spawn(options.path, words, { stdio: ["ignore", "ignore", "pipe"], env: options.env, cwd: "/" });
    let complaint = "";
    child.stderr.on("data", (text: Buffer) => {
      if (complaint.length < 4096) complaint += text.toString();
    });
    child.on("error", (error: NodeJS.ErrnoException) =>
      reject(
        new HaftError(
          error.code === "ENOENT"
            ? `no haftd answers, and \`${options.path}\` is not found to start one: install haftd, or set haft.path`
            : `${options.path}: ${error.message}`,
        ),
      ),
    );
    child.on("close", (code) => {
      if (code === 0) resolve();
      else reject(new HaftError(complaint.trim() || `${options.path} connect exited with status ${code}`));
    });
  });
}

export class Daemon {
  server: InitializeResult | undefined;
  private link: Link | undefined;
  private opening: Promise<Link> | undefined;
  private retry: NodeJS.Timeout | undefined;
  private readonly listeners = new Set<Listener>();
  private isDisposed = false;

  constructor(private options: Options) {}

  get session(): string {
    return this.options.session;
  }

  get isOpen(): boolean {
    return this.link !== undefined;
  }

  on(listener: Listener): { dispose(): void } {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  }

  /** Connect; with `start` a daemon is started where none answers. Concurrent calls share one attempt. */
  connect(options: { start: boolean }): Promise<Link> {
    if (this.link) return Promise.resolve(this.link);
    if (this.opening) {
      return options.start ? this.opening.catch(() => this.link ?? this.connect(options)) : this.opening;
    }
    const opening = this.open(options.start).finally(() => {
      this.opening = undefined;
    });
    this.opening = opening;
    return opening;
  }

  private async open(mayStart: boolean): Promise<Link> {
    clearTimeout(this.retry);
    let opened: { link: Link; server: InitializeResult };
    try {
      opened = await this.dial(false, (event) => this.tell((listener) => listener.event?.(event)));
    } catch (error) {
      if (!mayStart || !(error instanceof HaftError) || error.code !== 0) throw error;
      await start(this.options);
      opened = await this.dial(false, (event) => this.tell((listener) => listener.event?.(event)));
    }
    const { link, server } = opened;
    if (this.isDisposed) {
      link.close();
      throw new HaftError("the extension has been deactivated");
    }
    this.link = link;
    this.server = server;
    link.whenLost((reason) => this.lose(reason));
    this.tell((listener) => listener.opened?.(server));
    return link;
  }

  private async dial(
    readOnly: boolean,
    onEvent: (event: Event) => void,
  ): Promise<{ link: Link; server: InitializeResult }> {
    const client = { session: this.options.session, version: this.options.version, readOnly };
    let failure: unknown = new HaftError("no haftd answers: no socket is known");
    for (const path of socketCandidates(this.options.socket, this.options.env)) {
      try {
        return await Link.open(path, onEvent, client);
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /** Open another connection to the daemon, which may only read: handles' output comes by such ones. */
  async openReader(onEvent: (event: Event) => void): Promise<Link> {
    const { link } = await this.connect({ start: false }).then(() => this.dial(true, onEvent));
    return link;
  }

  private lose(reason: string): void {
    this.link = undefined;
    this.server = undefined;
    this.tell((listener) => listener.lost?.(reason));
    this.retryAfter(FIRST_RETRY_MS);
  }

  private retryAfter(ms: number): void {
    if (this.isDisposed) return;
    this.retry = setTimeout(() => {
      this.connect({ start: false }).catch(() => this.retryAfter(Math.min(ms * 2, MAX_RETRY_MS)));
    }, ms);
  }

  async request<M extends keyof Methods>(
    method: M,
    params: NonNullable<Methods[M]["params"]>,
    token?: CancellationToken,
    options: { start: boolean } = { start: false },
  ): Promise<Methods[M]["result"]> {
    const link = await this.connect(options);
    return link.request(method, params, token);
  }

  private tell(call: (listener: Listener) => void): void {
    for (const listener of [...this.listeners]) call(listener);
  }

  /** Use other settings, with a new connection. */
  configure(options: Options): void {
    this.options = options;
    const link = this.link;
    if (link) {
      link.close();
      this.lose("the settings have changed");
    }
  }

  dispose(): void {
    this.isDisposed = true;
    clearTimeout(this.retry);
    this.link?.close();
    this.link = undefined;
    this.listeners.clear();
  }
}
