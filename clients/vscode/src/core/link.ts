/** One connection to the daemon: JSON-RPC in `Content-Length` blocks, with the protocol's own types. */
import { type Socket, createConnection } from "node:net";
import {
  type CancellationToken,
  type MessageConnection,
  ResponseError,
  StreamMessageReader,
  StreamMessageWriter,
  createMessageConnection,
} from "vscode-jsonrpc/node";
import type { InitializeResult, Methods, Notifications, RpcError } from "../../../../docs/haft";

export type Event = { [M in keyof Notifications]: { method: M; params: Notifications[M] } }[keyof Notifications];

/** An error of the daemon, with the `kind` of docs/protocol.md; code 0: no daemon was reached, or the connection was lost. */
export class HaftError extends Error {
  constructor(
    message: string,
    readonly code = 0,
    readonly data?: RpcError["data"],
  ) {
    super(message);
  }
}

export const INVALID_PARAMS = -32602;
export const HANDLE_NOT_FOUND = -32001;
export const HANDLE_EXISTS = -32002;

function connect(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path);
    socket.once("connect", () => {
      socket.removeListener("error", reject);
      resolve(socket);
    });
    socket.once("error", reject);
  });
}

export class Link {
  private onEnd: ((reason: string) => void) | undefined;
  private reason: string | undefined;

  private constructor(
    private readonly socket: Socket,
    private readonly rpc: MessageConnection,
    readonly path: string,
    private readonly onEvent: (event: Event) => void,
  ) {}

  /** Connect to `path` and introduce the client. A read-only link moves no read mark and takes no notices. */
  static async open(
    path: string,
    onEvent: (event: Event) => void,
    client: { session: string; version: string; readOnly?: boolean },
  ): Promise<{ link: Link; server: InitializeResult }> {
    let socket: Socket;
    try {
      socket = await connect(path);
    } catch (error) {
      throw new HaftError(`no haftd answers at ${path}: ${(error as NodeJS.ErrnoException).code ?? String(error)}`);
    }
    const rpc = createMessageConnection(new StreamMessageReader(socket), new StreamMessageWriter(socket));
    const link = new Link(socket, rpc, path, onEvent);
    link.listen();
    const server = await link.request("initialize", {
      client: { name: "vscode", version: client.version },
      protocol: 1,
      ...(client.readOnly ? { read_only: true } : { session: client.session }),
    });
    return { link, server };
  }

  private listen(): void {
    this.rpc.onNotification((method, params) => {
      if (this.reason === undefined) this.onEvent({ method, params } as unknown as Event);
    });
    this.rpc.onError(() => this.end("the connection failed"));
    this.rpc.onClose(() => this.end("haftd closed the connection"));
    this.socket.on("error", (error) => this.end(error.message));
    this.rpc.listen();
  }

  /** Send a request; a cancelled token ends the request with the error -32800. */
  async request<M extends keyof Methods>(
    method: M,
    params: NonNullable<Methods[M]["params"]>,
    token?: CancellationToken,
  ): Promise<Methods[M]["result"]> {
    if (this.reason !== undefined) throw new HaftError(`the connection to haftd was lost: ${this.reason}`);
    try {
      // An undefined token would count as a second param.
      return await this.rpc.sendRequest<Methods[M]["result"]>(method, params, ...(token ? [token] : []));
    } catch (error) {
      if (this.reason !== undefined) throw new HaftError(`the connection to haftd was lost: ${this.reason}`);
      if (error instanceof ResponseError) throw new HaftError(error.message, error.code, error.data as RpcError["data"]);
      throw new HaftError(String(error));
    }
  }

  /** Read nothing more until `resume`; the daemon keeps the rest. */
  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    if (this.reason === undefined) this.socket.resume();
  }

  /** Call `onEnd` once when the connection is lost, not for `close`. */
  whenLost(onEnd: (reason: string) => void): void {
    this.onEnd = onEnd;
    if (this.reason !== undefined) onEnd(this.reason);
  }

  close(): void {
    this.onEnd = undefined;
    this.end("closed by the editor");
  }

  private end(reason: string): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.rpc.dispose();
    this.socket.destroy();
    this.onEnd?.(reason);
  }
}
