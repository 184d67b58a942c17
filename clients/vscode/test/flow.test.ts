/** An emulator that is slow, or not there: the core stays a bounded number of bytes ahead, and the program goes on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Terminal } from "@xterm/headless";
import { Flow, boundary } from "../src/core/flow";
import { Model } from "../src/core/model";
import { type Emulator, HandleTerminal } from "../src/core/terminal";
import { FEED, Recorder, open, spawn } from "./ground";

const QUERY = "\x1b[5n";
const ROOM = { rows: 24, cols: 80 };

test("a query stands only where it changes nothing", () => {
  const placed = (text: string, isInString = false) => {
    const { at } = boundary(text, isInString);
    return at === 0 ? "" : `${text.slice(0, at)}|${text.slice(at)}`;
  };
  assert.equal(placed("a line\nmore"), "a line\n|more");
  assert.equal(placed("\x1b[1;31mred"), "\x1b[1;31m|red");
  assert.equal(placed("x\x1b[5b"), "", "REP repeats the character before it");
  assert.equal(placed("\x1b]2;a\ntitle"), "", "within a title");
  assert.equal(placed("\x1bPq\n\n\x1b\\\x1b[Hdone"), "\x1bPq\n\n\x1b\\\x1b[H|done");
  assert.equal(placed("sixels\nsixels", true), "");
  assert.equal(placed("sixels\x1b\\\r\nafter", true), "sixels\x1b\\\r\n|after");
  const plain = "x".repeat(100);
  const { at } = boundary(plain, false);
  assert.ok(at > 0 && at < plain.length, "between two plain characters");
  assert.deepEqual(boundary("\x1b]2;open", false), { at: 0, isInString: true });
});

test("output waits for the answers of the emulator, and only for those", () => {
  const drawn: string[] = [];
  const events: string[] = [];
  const flow = new Flow((text) => drawn.push(text), () => events.push("full"), () => events.push("room"));
  flow.write("$ ");
  assert.deepEqual(drawn, ["$ "]);
  assert.equal(flow.take("\x1b[0n"), "\x1b[0n", "nothing was asked");
  const piece = `${"y\r\n".repeat(4096)}`;
  for (let count = 0; count < 4; count += 1) flow.write(piece);
  assert.equal(drawn.join("").split(QUERY).length - 1, 4);
  assert.deepEqual(events, ["full"]);
  assert.equal(flow.take("a\x1b[0nb"), "ab");
  for (let count = 0; count < 2; count += 1) assert.equal(flow.take("\x1b[0n"), "");
  assert.deepEqual(events, ["full", "room"]);
  assert.equal(flow.take("\x1b[0n"), "");
  assert.equal(flow.take("\x1b[0n"), "\x1b[0n");
  assert.equal(flow.ahead, 0);
});

test("beside another terminal a flood rests after each piece, in front it does not, and coming to the front ends the rest", async () => {
  const place = { isInFront: false };
  let onRoom = () => {};
  const flow = new Flow(() => {}, () => {}, () => onRoom(), () => place.isInFront);
  const piece = "y\r\n".repeat(4096);
  const flood = () => {
    for (let count = 0; count < 4; count += 1) flow.write(piece);
  };
  const drain = () => {
    for (let count = 0; count < 4; count += 1) flow.take("\x1b[0n");
  };
  let rooms = 0;
  onRoom = () => (rooms += 1);
  flood();
  drain();
  assert.equal(rooms, 0, "it rests");
  const rested = new Promise<void>((done) => (onRoom = done));
  await rested;
  flood();
  drain();
  onRoom = () => (rooms += 1);
  flow.endRest();
  assert.equal(rooms, 1);
  place.isInFront = true;
  flood();
  drain();
  assert.equal(rooms, 2, "no rest");
  place.isInFront = false;
  flood();
  drain();
  onRoom = () => assert.fail("a closed terminal reads on");
  flow.dispose();
  flow.endRest();
});

/** An emulator whose answers are held back while `isAway`. */
function emulate(id: string, daemon = open()) {
  const screen = new Terminal({ ...ROOM, allowProposedApi: true, scrollback: 100_000 });
  const progress = new Recorder();
  const held: string[] = [];
  const view = { isAway: false, chars: 0, screen, progress, daemon, queries: 0 };
  const failures: string[] = [];
  const editor: Emulator = {
    write(text) {
      view.chars += text.length;
      screen.write(text, () => progress.changed());
    },
    limit: () => {},
    rename: () => {},
    close: () => failures.push("closed"),
    isActive: () => true,
    asked: () => failures.push("asked"),
    failed: (message) => failures.push(message),
  };
  const terminal = new HandleTerminal(daemon, { session: "default", id, readOnly: false }, editor, FEED);
  screen.onData((data) => {
    view.queries += 1;
    if (view.isAway) held.push(data);
    else terminal.input(data);
  });
  const rows = () => Array.from({ length: ROOM.rows }, (_, at) => screen.buffer.active.getLine(screen.buffer.active.baseY + at)?.translateToString(true) ?? "");
  const back = () => {
    view.isAway = false;
    for (const data of held.splice(0)) terminal.input(data);
  };
  return { view, terminal, rows, back, failures };
}

test("of a flood the last screen is right, whatever was left out, and no answer is typed", async () => {
  const { view, terminal, rows, failures } = emulate("flood");
  await view.daemon.connect({ start: true });
  await spawn(view.daemon, "flood", "seq 1 300000; printf 'the \\033[1mend\\033[0m\\n'; cat -v");
  await terminal.open(ROOM);
  await view.progress.until(() => rows().some((row) => row.includes("the end")));
  const { screen } = await view.daemon.request("fetch", { id: "flood", view: "screen", max_bytes: 0 });
  assert.deepEqual(rows(), screen?.lines?.map((row) => row.trimEnd()));
  assert.ok(view.queries > 0, `${view.queries} queries`);
  assert.deepEqual(failures, []);
  terminal.input("typed\r");
  await view.progress.until(() => rows().filter((row) => row === "typed").length === 2);
  assert.ok(!rows().some((row) => row.includes("^[")), "no answer was typed");
  terminal.close();
});

test("an emulator that does not answer gets a bounded number of bytes, the program goes on, and the present screen comes at last", async () => {
  const { view, terminal, rows, back } = emulate("away");
  const changes = new Recorder();
  const model = new Model(view.daemon, () => changes.changed());
  await view.daemon.connect({ start: true });
  view.isAway = true;
  await spawn(view.daemon, "away", "read x; seq 1 300000; echo the-end");
  await terminal.open(ROOM);
  terminal.input("\r");
  await changes.until(() => model.handles.get("default/away")?.state === "stopped");
  assert.ok(view.chars < 1 << 20, `${view.chars} characters`);
  back();
  await view.progress.until(() => rows().some((row) => row.includes("the-end")) && rows().some((row) => row.includes("exited with status 0")));
  assert.ok(view.chars < 2 << 20, `${view.chars} characters`);
  const scrollback = Array.from({ length: view.screen.buffer.active.length }, (_, at) => view.screen.buffer.active.getLine(at)?.translateToString(true) ?? "");
  assert.equal(scrollback.filter((line) => /^\[\d+ bytes are left out/.test(line)).length, 1);
  assert.ok(scrollback.includes("1000"), "what was drawn before stays in the scrollback");
  terminal.close();
});
