/** One connection to the daemon: JSON-RPC in `Content-Length` blocks, with the protocol's own types. */
import {
  type CancellationToken,
  type MessageConnection,
  ResponseError,
  StreamMessageReader,
  StreamMessageWriter,
  createMessageConnection,
} from "vscode-jsonrpc/node";
import type { InitializeResult, Methods, Notifications, RpcError } from "../../../../docs/haft";
import type { Transport } from "./transport";

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

export class Link {
  private onEnd: ((reason: string) => void) | undefined;
  private reason: string | undefined;

  private constructor(
    private readonly transport: Transport,
    private readonly rpc: MessageConnection,
    private readonly onEvent: (event: Event) => void,
  ) {}

  /** Introduce the client. A read-only link moves no read mark and takes no notices. */
  static async open(
    transport: Transport,
    onEvent: (event: Event) => void,
    client: { session: string; version: string; readOnly?: boolean },
  ): Promise<{ link: Link; server: InitializeResult }> {
    const rpc = createMessageConnection(new StreamMessageReader(transport.input), new StreamMessageWriter(transport.output));
    const link = new Link(transport, rpc, onEvent);
    link.listen();
    try {
      const server = await link.request("initialize", {
        client: { name: "vscode", version: client.version },
        protocol: 1,
        ...(client.readOnly ? { read_only: true } : { session: client.session }),
      });
      return { link, server };
    } catch (error) {
      const { reason } = link;
      link.close();
      throw reason === undefined ? error : new HaftError(reason);
    }
  }

  private listen(): void {
    this.rpc.onNotification((method, params) => {
      if (this.reason === undefined) this.onEvent({ method, params } as unknown as Event);
    });
    this.rpc.onError(([error]) => this.end(error.message));
    this.transport.whenEnded((reason) => this.end(reason));
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
    this.transport.input.pause();
  }

  resume(): void {
    if (this.reason === undefined) this.transport.input.resume();
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
    this.transport.destroy();
    this.onEnd?.(reason);
  }
}
