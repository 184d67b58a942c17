/**
 * `node latency.js FLOOD KEYS COUNT`: the milliseconds from a key in the terminal KEYS until its echo is drawn, beside the terminal FLOOD.
 * The emulators have a thread of their own, as those of the editor have a process.
 */
import { Worker, isMainThread, parentPort } from "node:worker_threads";
import { Terminal } from "@xterm/headless";
import { Daemon } from "../src/core/daemon";
import { Model } from "../src/core/model";
import { HandleTerminal } from "../src/core/terminal";

const ROOM = { rows: 24, cols: 80 };
const PAUSE_MS = 20;

type Message = { id: string; data: string };

function emulate(): void {
  const screens = new Map<string, Terminal>();
  parentPort?.on("message", ({ id, data }: Message) => {
    let screen = screens.get(id);
    if (!screen) {
      screen = new Terminal({ ...ROOM, allowProposedApi: true });
      screen.onData((answer) => parentPort?.postMessage({ id, data: answer }));
      screens.set(id, screen);
    }
    screen.write(data, () => parentPort?.postMessage({ id, data: "" }));
  });
}

async function measure(flood: string, keys: string, count: number): Promise<void> {
  const daemon = new Daemon({ path: "haft", host: "", socket: "", session: "default", version: "0", env: process.env });
  const model = new Model(daemon, () => model.bySession());
  const worker = new Worker(__filename);
  const terminals = new Map<string, HandleTerminal>();
  let drawn = 0;
  let onDrawn = () => {};
  let flooded = 0;
  worker.on("message", ({ id, data }: Message) => {
    if (data) terminals.get(id)?.input(data);
    else if (id === keys) onDrawn();
    else drawn += 1;
  });
  await daemon.connect({ start: false });
  for (const id of [flood, keys]) {
    const terminal = new HandleTerminal(
      daemon,
      { session: "default", id, readOnly: false },
      {
        write(data) {
          if (id === flood) flooded += data.length;
          worker.postMessage({ id, data });
        },
        limit: () => {},
        rename: () => {},
        close: () => {},
        isActive: () => id === keys,
        asked: () => {},
        failed: (message) => process.stderr.write(`${message}\n`),
      },
      { historyBytes: 1 << 18, clipboard: false },
    );
    terminals.set(id, terminal);
    await terminal.open(ROOM);
  }
  const times: number[] = [];
  const memory: number[] = [];
  const begin = performance.now();
  for (let key = 0; key < count; key += 1) {
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    const pressed = performance.now();
    await new Promise<void>((done) => {
      onDrawn = done;
      terminals.get(keys)?.input("k");
    });
    times.push(performance.now() - pressed);
    if (key % (count / 2) === count / 2 - 1) memory.push(process.memoryUsage.rss() >> 10);
  }
  const seconds = (performance.now() - begin) / 1000;
  process.stdout.write(`${JSON.stringify({ times, memory, flooded: flooded / seconds, drawn, handles: model.handles.size })}\n`);
  await worker.terminate();
  process.exit(0);
}

if (isMainThread) {
  const [flood = "", keys = "", count = ""] = process.argv.slice(2);
  void measure(flood, keys, Number(count));
} else {
  emulate();
}
