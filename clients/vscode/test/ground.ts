/** A folder of its own with a daemon for each file of tests, and a sink that keeps what a terminal would draw. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import type { HandleState } from "../../../docs/haft";
import { Daemon, type Options } from "../src/core/daemon";
import type { Sink } from "../src/core/feed";

export const base = mkdtempSync(join(tmpdir(), "haft-vscode-"));
export const env: NodeJS.ProcessEnv = {};
for (const [name, value] of Object.entries(process.env)) {
  if (!/^(HAFT_|XDG_|LISTEN_|NOTIFY_)/.test(name)) env[name] = value;
}
for (const [name, folder] of [
  ["XDG_RUNTIME_DIR", "run"],
  ["XDG_STATE_HOME", "state"],
  ["XDG_CONFIG_HOME", "config"],
  ["HOME", "home"],
] as const) {
  env[name] = join(base, folder);
  mkdirSync(join(base, folder), { mode: 0o700 });
}

const opened: Daemon[] = [];

export function open(options: Partial<Options> = {}): Daemon {
  const daemon = new Daemon({ path: "haft", host: "", socket: "", session: "default", version: "0", env, ...options });
  opened.push(daemon);
  return daemon;
}

/** Collects what a terminal would draw, and waits for a condition on it. */
export class Recorder implements Sink {
  text = "";
  clears = 0;
  noted: string | undefined;
  ended: string | undefined;
  states: HandleState[] = [];
  private waiting: { holds: () => boolean; done: () => void }[] = [];

  until(holds: () => boolean): Promise<void> {
    return holds() ? Promise.resolve() : new Promise((done) => this.waiting.push({ holds, done }));
  }

  changed(): void {
    for (const item of this.waiting.splice(0)) item.holds() ? item.done() : this.waiting.push(item);
  }

  write(text: string): void {
    this.text += text;
    this.changed();
  }

  clear(): void {
    this.text = "";
    this.clears += 1;
    this.changed();
  }

  gap(bytes: number): void {
    this.text += `[gap of ${bytes}]`;
  }

  note(text: string | undefined): void {
    this.noted = text;
    this.changed();
  }

  end(text: string): void {
    this.ended = text;
    this.changed();
  }

  state(state: HandleState): void {
    this.states.push(state);
    this.changed();
  }
}

export const FEED = { historyBytes: 1 << 18, clipboard: false };
export const QUIET = { wait: "none", cursor: 0, max_bytes: 0 } as const;

export function spawn(daemon: Daemon, id: string, script: string, terminal = true): Promise<HandleState> {
  const args = { argv: ["sh", "-c", script], ...(terminal ? { terminal: true } : {}) };
  return daemon.request("spawn", { tool: "run", id, args, wait: "none" });
}

/** Give the daemon tools, before one starts. */
export function define(tools: string): void {
  mkdirSync(join(base, "config/haft/tools"), { recursive: true });
  writeFileSync(join(base, "config/haft/tools/test.toml"), tools);
}

after(() => {
  for (const daemon of opened) daemon.dispose();
  try {
    execFileSync("haft", ["stop", "--yes"], { env, stdio: "ignore" });
  } catch {
    // it has ended already
  }
  rmSync(base, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});
