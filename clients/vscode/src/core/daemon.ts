/** The editor's connection to the daemon: connect, start a daemon, connect again after a loss. */
import type { CancellationToken } from "vscode-jsonrpc/node";
import type { InitializeResult, Methods } from "../../../../docs/haft";
import { type Event, HaftError, Link } from "./link";
import { type Environment, addressOf, socketCandidates } from "./socket";
import { SocketWatch } from "./watch";
import { type Transport, openProgram, openSocket } from "./transport";

export interface Options {
  /** the command `haft`, which starts a daemon, and reaches the daemons of other machines */
  path: string;
  /** the address of another machine's daemon; empty: `HAFT_HOST`, else this machine */
  host: string;
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

const FIRST_RETRY_MS = 20;
// The pauses double. A socket's file appears just before the daemon listens; later starts are watched for.
const MAX_RETRY_MS = 2000;
// Nothing shows when another machine is there again: two minutes, then at `resume`.
const MAX_REMOTE_RETRY_MS = 60_000;

/** Run `haft connect`: it starts a daemon where none answers, unless it must not. */
async function runConnect(options: Options, words: readonly string[]): Promise<Transport> {
  try {
    return await openProgram(options.path, words, options.env);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new HaftError(
      code === "ENOENT" ? `the command \`${options.path}\` is not found: install haftd, or set haft.path` : `${options.path}: ${message}`,
    );
  }
}

/** Return the options of `haft` for the daemon of this editor, whatever the environment names. */
function hostWords({ host, socket, env }: Options): string[] {
  const address = addressOf(host, socket, env);
  if ("host" in address) return ["--host", address.host];
  const path = address.socket && socketCandidates(address.socket, env)[0];
  return ["--host", `unix://${encodeURI(path ?? "")}`];
}

/** Start a daemon on this machine. */
async function start(options: Options): Promise<void> {
  const transport = await runConnect(options, [...hostWords(options), "connect"]);
  const { link } = await Link.open(transport, () => {}, options);
  link.close();
}

export class Daemon {
  server: InitializeResult | undefined;
  /** the reason of the last failure to connect */
  failure: string | undefined;
  private link: Link | undefined;
  private opening: Promise<Link> | undefined;
  private retry: NodeJS.Timeout | undefined;
  private watching: SocketWatch | undefined;
  private wasOpen = false;
  private readonly listeners = new Set<Listener>();
  private isDisposed = false;

  constructor(private options: Options) {}

  get session(): string {
    return this.options.session;
  }

  /** The address of another machine's daemon, whose folders and environment are not those of the editor. */
  get host(): string | undefined {
    const address = addressOf(this.options.host, this.options.socket, this.options.env);
    return "host" in address ? address.host : undefined;
  }

  /** The options of `haft` for this daemon. */
  get words(): string[] {
    return hostWords(this.options);
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
    const opening = this.open(options.start)
      .catch((error: unknown) => {
        this.failure = error instanceof Error ? error.message : String(error);
        throw error;
      })
      .finally(() => {
        this.opening = undefined;
      });
    this.opening = opening;
    return opening;
  }

  private async open(mayStart: boolean): Promise<Link> {
    const { options } = this;
    clearTimeout(this.retry);
    // Before the attempt, so that no start falls between the two.
    this.watch();
    const { link, server } = await this.dial({ mayStart, readOnly: false }, (event) =>
      this.tell((listener) => listener.event?.(event)),
    );
    if (this.isDisposed || this.options !== options) {
      link.close();
      throw new HaftError(this.isDisposed ? "the extension has been deactivated" : "the settings have changed");
    }
    this.unwatch();
    this.link = link;
    this.server = server;
    this.wasOpen = true;
    this.failure = undefined;
    link.whenLost((reason) => this.lose(reason));
    this.tell((listener) => listener.opened?.(server));
    return link;
  }

  private async dial(
    { mayStart, readOnly }: { mayStart: boolean; readOnly: boolean },
    onEvent: (event: Event) => void,
  ): Promise<{ link: Link; server: InitializeResult }> {
    const { options } = this;
    const client = { session: options.session, version: options.version, readOnly };
    const address = addressOf(options.host, options.socket, options.env);
    if ("host" in address) {
      // An error of HAFT_HOST names it where haft reads it by itself.
      const words = [...(options.host ? ["--host", options.host] : []), "connect", ...(mayStart ? [] : ["--no-start"])];
      try {
        return await Link.open(await runConnect(options, words), onEvent, client);
      } catch (error) {
        throw error instanceof HaftError ? new HaftError(error.message.replace(/^--host/, "haft.host"), error.code, error.data) : error;
      }
    }
    const local = async () => Link.open(await this.openLocal(address.socket), onEvent, client);
    try {
      return await local();
    } catch (error) {
      if (!mayStart || !(error instanceof HaftError) || error.code !== 0) throw error;
      await start(options);
      return await local();
    }
  }

  private async openLocal(chosen: string): Promise<Transport> {
    let failure = "no socket is known";
    for (const path of socketCandidates(chosen, this.options.env)) {
      try {
        return await openSocket(path);
      } catch (error) {
        failure = `${path}: ${(error as NodeJS.ErrnoException).code ?? String(error)}`;
      }
    }
    throw new HaftError(`no haftd answers at ${failure}`);
  }

  /** Open a read-only connection to the daemon, for the output of handles. */
  async openReader(onEvent: (event: Event) => void): Promise<Link> {
    const { link } = await this.connect({ start: false }).then(() => this.dial({ mayStart: false, readOnly: true }, onEvent));
    return link;
  }

  private lose(reason: string): void {
    this.link = undefined;
    this.server = undefined;
    this.failure = reason;
    this.tell((listener) => listener.lost?.(reason));
    this.watch();
    this.retryAfter(FIRST_RETRY_MS);
  }

  private watch(): void {
    const address = addressOf(this.options.host, this.options.socket, this.options.env);
    if (this.watching || this.isDisposed || !("socket" in address)) return;
    this.watching = new SocketWatch(
      () => socketCandidates(address.socket, this.options.env),
      () => this.retryAfter(FIRST_RETRY_MS),
    );
  }

  private unwatch(): void {
    this.watching?.dispose();
    this.watching = undefined;
  }

  private retryAfter(ms: number): void {
    clearTimeout(this.retry);
    if (this.isDisposed || this.link || ms > (this.host ? MAX_REMOTE_RETRY_MS : MAX_RETRY_MS)) return;
    this.retry = setTimeout(() => {
      this.connect({ start: false }).catch(() => this.retryAfter(ms * 2));
    }, ms);
  }

  /** Try again where a connection was lost, as when the user comes back to the window. */
  resume(): void {
    if (this.wasOpen && !this.link && !this.opening) this.retryAfter(FIRST_RETRY_MS);
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
    const { env, ...rest } = options;
    if (env === this.options.env && Object.entries(rest).every(([key, value]) => this.options[key as keyof Options] === value)) return;
    this.options = options;
    this.unwatch();
    this.link?.close();
    this.lose("the settings have changed");
  }

  dispose(): void {
    this.isDisposed = true;
    clearTimeout(this.retry);
    this.unwatch();
    this.link?.close();
    this.link = undefined;
    this.listeners.clear();
  }
}
