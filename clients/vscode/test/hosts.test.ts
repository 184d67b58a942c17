/** A daemon behind an address, by `haft --host ADDRESS connect`; tests/hosts has the same with ssh. */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { Feed } from "../src/core/feed";
import { addressOf } from "../src/core/socket";
import { FEED, QUIET, Recorder, base, env, open, spawn } from "./ground";

let address = "";

before(async () => {
  mkdirSync(join(base, "config/haft"), { recursive: true });
  writeFileSync(join(base, "config/haft/config.toml"), "[websocket]\nport = 0\n");
  const local = open();
  await local.connect({ start: true });
  const { websocket } = await local.request("daemon/status", {});
  address = `ws://127.0.0.1:${websocket?.port}`;
});

test("an address of the settings goes before HAFT_HOST, and HAFT_HOST before a socket of the settings", () => {
  assert.deepEqual(addressOf("", "/s", {}), { socket: "/s" });
  assert.deepEqual(addressOf("", "/s", { HAFT_HOST: "" }), { socket: "/s" });
  assert.deepEqual(addressOf("", "/s", { HAFT_HOST: "ssh://box" }), { host: "ssh://box" });
  assert.deepEqual(addressOf("wss://box", "/s", { HAFT_HOST: "ssh://box" }), { host: "wss://box" });
  assert.deepEqual(addressOf("unix://", "/s", { HAFT_HOST: "ssh://box" }), { socket: "" });
  assert.deepEqual(addressOf("unix:///a%20b", "", {}), { socket: "/a b" });
});

test("a handle is drawn and typed into by a WebSocket, of the setting and of the environment", async () => {
  for (const options of [{ host: address }, { env: { ...env, HAFT_HOST: address } }]) {
    const daemon = open(options);
    assert.equal(daemon.host, address);
    await daemon.connect({ start: false });
    await spawn(daemon, "far", "read x; echo got:$x; cat");
    const screen = new Recorder();
    const feed = new Feed(daemon, "default", "far", screen, FEED);
    await feed.open();
    await daemon.request("apply", { id: "far", input: { text: "grüße\r" }, ...QUIET });
    await screen.until(() => screen.text.includes("got:grüße"));
    feed.dispose();
    await daemon.request("abort", { id: "far", grace_ms: 0 });
  }
});

test("a lost program of the connection is a loss with a reason, and the output goes on at its cursor", async () => {
  const daemon = open({ host: address });
  await daemon.connect({ start: false });
  await spawn(daemon, "on", "i=0; while read x; do i=$((i+1)); echo line $i.; done", false);
  const screen = new Recorder();
  const feed = new Feed(daemon, "default", "on", screen, FEED);
  await feed.open();
  const other = open();
  const type = (count: number) => other.request("apply", { id: "on", input: { text: "x\n".repeat(count) }, ...QUIET });
  await type(3);
  await screen.until(() => screen.text.includes("line 3."));
  const lost = new Promise<string>((done) => daemon.on({ lost: done }));
  const back = new Promise<void>((done) => daemon.on({ opened: () => done() }));
  const link = await daemon.connect({ start: false });
  (link as unknown as { transport: { destroy(): void } }).transport.destroy();
  assert.match(await lost, /haft was killed by SIGTERM/);
  await type(3);
  await back;
  await type(3);
  await screen.until(() => screen.text.includes("line 9."));
  assert.equal(screen.text, Array.from({ length: 9 }, (_, at) => `line ${at + 1}.\r\n`).join(""));
  feed.dispose();
});

test("a failure is haft's own sentence, in the words of the setting or of the environment", async () => {
  const failure = (options: object) => open(options).connect({ start: true }).then(String, (error: Error) => error.message);
  assert.match(await failure({ host: "box" }), /^haft\.host needs an address: ssh:\/\/user@box/);
  assert.match(await failure({ env: { ...env, HAFT_HOST: "box" } }), /^HAFT_HOST needs an address: /);
  assert.match(await failure({ host: "ws://127.0.0.1:1" }), /^ws:\/\/127\.0\.0\.1:1\/? cannot be reached: /);
  assert.match(await failure({ host: address, path: "/nowhere/haft" }), /^the command `\/nowhere\/haft` is not found: install haftd/);
});
