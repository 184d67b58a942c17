/** The address of the daemon, and the paths at which one of this machine may listen (docs/protocol.md, "Transports"). */
import { createHash } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";

export type Environment = { [name: string]: string | undefined };

/** A daemon of this machine, at `socket` if not empty; or one that `haft --host` reaches. */
export type Address = { socket: string } | { host: string };

const MAX_SOCKET_PATH = 107;

const digest = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 16);

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** Check that a folder is the user's, and that no other user can write to it. */
function isPrivate(folder: string, uid: number): boolean {
  const stat = statSync(folder, { throwIfNoEntry: false });
  return stat !== undefined && stat.isDirectory() && stat.uid === uid && (stat.mode & 0o22) === 0;
}

function runtimeSocket(env: Environment, uid: number): string {
  let folder = env.XDG_RUNTIME_DIR;
  if (!folder) {
    folder = `/run/user/${uid}`;
    if (!isPrivate(folder, uid)) return `/tmp/haft-${uid}/haftd.sock`;
  }
  const path = join(folder, "haft/haftd.sock");
  return Buffer.byteLength(path) > MAX_SOCKET_PATH ? `/tmp/haft-${uid}/${digest(folder)}/haftd.sock` : path;
}

/** Return the socket that the daemon of the state folder has written to its lock. */
function lockSocket(env: Environment): string | undefined {
  const id = (read("/etc/machine-id") ?? "").trim();
  if (!/^[0-9a-f]{32}$/i.test(id)) return undefined;
  const state = env.XDG_STATE_HOME || join(env.HOME ?? "/", ".local/state");
  const text = read(join(state, `haft/daemon-${digest(`haftd:${id}`)}.lock`));
  try {
    const lock = JSON.parse((text ?? "").split("\n", 1)[0] ?? "") as { socket?: unknown };
    return typeof lock.socket === "string" ? lock.socket : undefined;
  } catch {
    return undefined;
  }
}

/** Return the address by precedence: the setting of a host, `HAFT_HOST`, the setting of a socket. */
export function addressOf(host: string, socket: string, env: Environment): Address {
  const address = host || env.HAFT_HOST;
  if (!address) return { socket };
  const local = /^unix:\/\/(.*)$/is.exec(address);
  return local ? { socket: decodeURIComponent(local[1] ?? "") } : { host: address };
}

/** Return the paths to try, the likeliest first; a chosen path is the only one. */
export function socketCandidates(chosen: string, env: Environment, uid = process.getuid?.() ?? 0): string[] {
  const only = chosen || env.HAFT_SOCKET;
  if (only) return [only.replace(/^~(?=\/)/, env.HOME ?? "~")];
  const paths = [runtimeSocket(env, uid), lockSocket(env)];
  return [...new Set(paths.filter((path): path is string => path !== undefined))];
}
