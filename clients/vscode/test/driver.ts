/** The core behind the emulator that VS Code has, driven over standard streams: `[action, id, text]` in, the shown text out. */
import { createInterface } from "node:readline";
import { Terminal } from "@xterm/headless";
import { Daemon } from "../src/core/daemon";
import { Model } from "../src/core/model";
import { HandleTerminal } from "../src/core/terminal";

const ROOM = { rows: 24, cols: 80 };
const [host = "", session = "default"] = process.argv.slice(2);
const env = process.env;

const daemon = new Daemon({ path: "haft", host, socket: "", session, version: "0", env });
let changed = () => {};
const model = new Model(daemon, () => changed());
const failures: string[] = [];
let emulator: Terminal | undefined;
let shown: HandleTerminal | undefined;
const names: string[] = [];

async function show(id: string): Promise<void> {
  const screen = new Terminal({ ...ROOM, allowProposedApi: true });
  const terminal = new HandleTerminal(
    daemon,
    { session, id, readOnly: false },
    {
      write: (text) => screen.write(text),
      limit: (size) => screen.resize(size?.cols ?? ROOM.cols, size?.rows ?? ROOM.rows),
      rename: (name) => names.push(name),
      close: () => failures.push("closed"),
      isActive: () => true,
      asked: () => failures.push("asked"),
      failed: (message) => failures.push(message),
    },
    { historyBytes: 1 << 18, clipboard: false },
  );
  screen.onData((data) => terminal.input(data));
  emulator = screen;
  shown = terminal;
  await terminal.open(ROOM);
}

async function answer(id: string, text: string): Promise<void> {
  const asked = () => [...model.inquiries.values()].find((item) => item.handle === id);
  await new Promise<void>((resolve) => {
    changed = () => asked() && resolve();
    changed();
  });
  const inquiry = asked();
  if (!inquiry) throw new Error(`${id} asks nothing`);
  const { inquiry_id, question } = inquiry;
  await daemon.request("inquiries/answer", { session: inquiry.session, inquiry_id, question: question.id, answer: text });
}

async function text(): Promise<string> {
  const screen = emulator;
  if (!screen) return "";
  await new Promise<void>((drawn) => screen.write("", drawn));
  const { active } = screen.buffer;
  return Array.from({ length: active.length }, (_, at) => active.getLine(at)?.translateToString(true) ?? "").join("\n");
}

async function act(action: string, id: string, given: string): Promise<unknown> {
  if (action === "shell") {
    await daemon.request("spawn", { tool: "user_shell", id, args: {}, wait: "none" }, undefined, { start: true });
    await show(id);
  } else if (action === "show") {
    await daemon.connect({ start: false });
    await show(id);
  } else if (action === "type") {
    // A key at a time, as an editor gives them.
    for (const key of given) shown?.input(key);
  } else if (action === "answer") {
    await answer(id, given);
  } else if (action === "connect") {
    await daemon.connect({ start: false });
  } else if (action === "names") {
    return [names, failures].flat().join("\n");
  }
  return text();
}

async function main(): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    const [action, id, given] = JSON.parse(line) as [string, string, string];
    const reply = await act(action, id, given).catch((error: Error) => ({ error: error.message }));
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  }
  process.exit(0);
}

void main();
