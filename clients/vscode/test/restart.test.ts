/** Daemons that start later than the editor, and daemons that are killed: noticed by the kernel's notices, nothing polls. */
import assert from "node:assert/strict";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Daemon } from "../src/core/daemon";
import { Feed } from "../src/core/feed";
import { Model } from "../src/core/model";
import { SocketWatch } from "../src/core/watch";
import { FEED, QUIET, Recorder, base, open, spawn } from "./ground";

const next = (daemon: Daemon, event: "opened" | "lost") =>
  new Promise<void>((done) => {
    const { dispose } = daemon.on({ [event]: () => (dispose(), done()) });
  });

test("a daemon that starts later than the editor is noticed, also where its folder does not exist yet", async () => {
  const daemon = open();
  await assert.rejects(daemon.connect({ start: false }), /no haftd answers/);
  const opened = next(daemon, "opened");
  await open().connect({ start: true });
  await opened;
  assert.deepEqual(await daemon.request("ping", {}), { pong: true });
});

test("a folder that is removed and made again is watched again", async () => {
  const folder = join(base, "watched");
  const path = join(folder, "deep", "file");
  let seen = () => {};
  const watch = new SocketWatch(() => [path], () => seen());
  for (const change of [
    () => mkdirSync(join(folder, "deep"), { recursive: true }),
    () => rmSync(folder, { recursive: true }),
    () => mkdirSync(path, { recursive: true }),
  ]) {
    const noticed = new Promise<void>((done) => {
      seen = done;
    });
    change();
    await noticed;
  }
  watch.dispose();
});

test("a daemon that is killed and started again is connected again; what was drawn stays, and nothing comes twice", async () => {
  const daemon = open();
  await daemon.connect({ start: true });
  await spawn(daemon, "k", "echo first; cat", false);
  await spawn(daemon, "t", "echo in a terminal; cat");
  const screens = ["k", "t"].map((id) => {
    const screen = new Recorder();
    const feed = new Feed(daemon, "default", id, screen, FEED);
    return { screen, feed };
  });
  const [pipe, terminal] = screens.map(({ screen }) => screen) as [Recorder, Recorder];
  for (const { feed } of screens) await feed.open();
  await pipe.until(() => pipe.text.includes("first"));
  await terminal.until(() => terminal.text.includes("in a terminal"));

  const lost = next(daemon, "lost");
  const opened = next(daemon, "opened");
  assert.ok(daemon.server);
  process.kill(daemon.server.pid, "SIGKILL");
  await lost;
  await open().connect({ start: true });
  await opened;
  for (const screen of [pipe, terminal]) {
    await screen.until(() => screen.ended !== undefined);
    assert.match(screen.ended ?? "", /haftd itself ended while this ran/);
    assert.equal(screen.clears, 1);
  }
  assert.equal(pipe.text, "first\r\n");
  assert.equal(terminal.text, "in a terminal\r\n");

  await spawn(daemon, "k", "read x; echo second; cat", false);
  await daemon.request("apply", { id: "k", input: { line: "" }, ...QUIET });
  await pipe.until(() => pipe.text.includes("second"));
  assert.equal(pipe.text, "second\r\n");
  for (const { feed } of screens) feed.dispose();
});

test("after an orderly end a handle is gone, and another one that takes its id is drawn", async () => {
  const daemon = open();
  await daemon.connect({ start: true });
  const model = new Model(daemon, () => {});
  await spawn(daemon, "again", "echo one; cat", false);
  const screen = new Recorder();
  const feed = new Feed(daemon, "default", "again", screen, FEED);
  await feed.open();
  await screen.until(() => screen.text.includes("one"));
  const lost = next(daemon, "lost");
  await daemon.request("daemon/shutdown", {});
  await lost;
  const opened = next(daemon, "opened");
  await open().connect({ start: true });
  await opened;
  await screen.until(() => screen.ended === "the handle is gone");
  assert.equal(screen.text, "one\r\n");
  await spawn(daemon, "again", "echo two; cat", false);
  await screen.until(() => screen.text.includes("two"));
  assert.equal(screen.text, "two\r\n");
  assert.ok(model.handles.has("default/again"));
  feed.dispose();
});
