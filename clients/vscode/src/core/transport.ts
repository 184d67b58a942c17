/** The bytes to and from a daemon: its Unix socket, or the standard streams of `haft connect`, which reaches other machines. */
import { spawn } from "node:child_process";
import { createConnection } from "node:net";
import type { Readable, Writable } from "node:stream";
import type { Environment } from "./socket";

const MAX_COMPLAINT = 4096;

export interface Transport {
  readonly input: Readable;
  readonly output: Writable;
  /** Call `onEnd` once, with the reason, when the other end is gone. */
  whenEnded(onEnd: (reason: string) => void): void;
  destroy(): void;
}

/** Connect to a Unix socket; rejects with the error of the system. */
export function openSocket(path: string): Promise<Transport> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path);
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.removeListener("error", reject);
      resolve({
        input: socket,
        output: socket,
        whenEnded(onEnd) {
          socket.on("error", (error) => onEnd(error.message));
          socket.on("close", () => onEnd("haftd closed the connection"));
        },
        destroy: () => socket.destroy(),
      });
    });
  });
}

/** Run a program whose standard streams are the connection; the reason of its end is its own last line on stderr. */
export function openProgram(command: string, words: readonly string[], env: Environment): Promise<Transport> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, words, { stdio: "pipe", env, cwd: "/" });
    let complaint = "";
    child.stderr.on("data", (text: Buffer) => {
      complaint = (complaint + text.toString()).slice(-MAX_COMPLAINT);
    });
    child.once("error", reject);
    // A program that has ended takes no more input, which its end reports.
    child.stdin.on("error", () => {});
    child.once("spawn", () => {
      child.removeListener("error", reject);
      child.on("error", () => {}); // of a signal that was not delivered
      resolve({
        input: child.stdout,
        output: child.stdin,
        whenEnded(onEnd) {
          child.on("close", (status, signal) => onEnd(reasonOf(complaint) || `${command} ${signal ? `was killed by ${signal}` : `exited with status ${status}`}`));
        },
        destroy: () => child.kill(),
      });
    });
  });
}

/** Return the sentence of a `haft` that failed. */
export function reasonOf(complaint: string): string {
  return (complaint.trim().split("\n").at(-1) ?? "").replace(/^haft( connect)?: /, "");
}
