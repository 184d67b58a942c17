/** An emulator as the editor has it: opened at a size of the editor's own, laid out later, and narrower than its room where the handle is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Terminal } from "@xterm/headless";
import type { Daemon } from "../src/core/daemon";
import { type Emulator, HandleTerminal, type Size } from "../src/core/terminal";
import { FEED, QUIET, Recorder, open, spawn } from "./ground";

/** The size of an emulator that has no panel yet. */
const UNKNOWN = { rows: 30, cols: 80 };
const NUMBERS = `for n in $(seq 150); do printf '%d ' $n; done; cat`;

function panel(daemon: Daemon, id: string) {
  let room: Size = UNKNOWN;
  let smaller: Size | undefined;
  const screen = new Terminal({ ...UNKNOWN, allowProposedApi: true });
  const progress = new Recorder();
  const layOut = () => {
    screen.resize(Math.min(room.cols, smaller?.cols ?? room.cols), Math.min(room.rows, smaller?.rows ?? room.rows));
    progress.changed();
  };
  const editor: Emulator = {
    write: (text) => screen.write(text, () => progress.changed()),
    limit(size) {
      smaller = size;
      layOut();
    },
    rename: () => {},
    close: () => {},
    isActive: () => true,
    asked: () => {},
    failed: (message) => assert.fail(message),
  };
  const terminal = new HandleTerminal(daemon, { session: "default", id, readOnly: false }, editor, FEED);
  screen.onData((data) => terminal.input(data));
  const rows = () => {
    const { active } = screen.buffer;
    return Array.from({ length: active.length }, (_, at) => active.getLine(at)?.translateToString(true) ?? "");
  };
  const resize = (size: Size) => {
    room = size;
    layOut();
    terminal.resize(size);
  };
  return { terminal, screen, rows, resize, progress };
}

const sizeOf = async (daemon: Daemon, id: string) => {
  const { screen } = await daemon.request("fetch", { id, view: "screen", max_bytes: 0 });
  return `${screen?.rows}x${screen?.cols}`;
};

const isWhole = (rows: string[]) => rows.join("").trim() === Array.from({ length: 150 }, (_, at) => String(at + 1)).join(" ");
const lengthens = (rows: string[], cols: number) => rows[0] !== undefined && rows[0].length > cols - 4;

test("what was drawn before the panel was laid out fills the panel's width, and the program gets no other size", async () => {
  const daemon = open();
  await daemon.connect({ start: true });
  await spawn(daemon, "numbers", NUMBERS);
  await daemon.request("apply", { id: "numbers", input: { resize: { rows: 10, cols: 87 } }, ...QUIET });
  const { terminal, rows, resize, progress } = panel(daemon, "numbers");
  await terminal.open(UNKNOWN);
  resize(UNKNOWN);
  await progress.until(() => isWhole(rows()));
  terminal.fit();
  assert.equal(await sizeOf(daemon, "numbers"), "10x87");
  resize({ rows: 10, cols: 87 });
  await progress.until(() => isWhole(rows()) && lengthens(rows(), 87));
  resize({ rows: 10, cols: 73 });
  await progress.until(() => isWhole(rows()) && lengthens(rows(), 73));
  assert.equal(await sizeOf(daemon, "numbers"), "10x73");
  terminal.close();
});

test("of a handle that has stopped the end stands below the output, once", async () => {
  const daemon = open();
  await daemon.connect({ start: true });
  await spawn(daemon, "ended", "echo output; exit 3");
  await daemon.request("fetch", { id: "ended", wait: "stopped", cursor: 0 });
  const { terminal, rows, progress } = panel(daemon, "ended");
  await terminal.open(UNKNOWN);
  await progress.until(() => rows().some((row) => row.includes("output")) && rows().some((row) => row.includes("exited")));
  assert.deepEqual(rows().filter((row) => row), ["output", "[exited with status 3]"]);
  terminal.close();
});
