/** The core against a real daemon, in plain Node: no editor. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { HandleState } from "../../../docs/haft";
import type { Daemon } from "../src/core/daemon";
import { Feed } from "../src/core/feed";
import { HANDLE_NOT_FOUND, type HaftError } from "../src/core/link";
import { Model, describe } from "../src/core/model";
import { socketCandidates } from "../src/core/socket";
import { FEED, QUIET, Recorder, define, open, spawn } from "./ground";

define(`
[tools.deploy]
source = "local"
command = ["echo", "to {{ tool.arguments.to }}"]
run = "ask"
[tools.deploy.parameters]
to = { type = "string" }
`);

test("the socket is found by the rules of the protocol", () => {
  assert.deepEqual(socketCandidates("/x.sock", { HAFT_SOCKET: "/y.sock" }), ["/x.sock"]);
  assert.deepEqual(socketCandidates("", { HAFT_SOCKET: "/y.sock" }), ["/y.sock"]);
  const [short] = socketCandidates("", { XDG_RUNTIME_DIR: "/r" }, 7);
  assert.equal(short, "/r/haft/haftd.sock");
  const [long] = socketCandidates("", { XDG_RUNTIME_DIR: `/${"r".repeat(100)}` }, 7);
  assert.match(long ?? "", /^\/tmp\/haft-7\/[0-9a-f]{16}\/haftd\.sock$/);
});

test("without a daemon nothing is started unasked, and the remedy is named", async () => {
  const daemon = open();
  await assert.rejects(daemon.connect({ start: false }), /no haftd answers at .*haftd\.sock/);
  const other = open({ path: "/nowhere/haft" });
  await assert.rejects(other.connect({ start: true }), /the command `.nowhere.haft` is not found: install haftd, or set haft\.path/);
});

test("a daemon is started when asked, once for two callers", async () => {
  const daemon = open();
  const [one, two] = await Promise.all([daemon.connect({ start: true }), daemon.connect({ start: true })]);
  assert.equal(one, two);
  assert.deepEqual(await daemon.request("ping", {}), { pong: true });
});

test("an error of the daemon has its code and its kind", async () => {
  const daemon = open();
  await assert.rejects(daemon.request("fetch", { id: "nobody" }), (error: HaftError) => {
    assert.equal(error.code, HANDLE_NOT_FOUND);
    assert.equal(error.data?.kind, "handle_not_found");
    return true;
  });
});

test("a terminal is drawn, typed into and followed, and no query reaches it", async () => {
  const daemon = open();
  await daemon.connect({ start: true });
  await spawn(daemon, "t", "printf 'a\\033[6nb\\n'; read x; echo got:$x; cat");
  const screen = new Recorder();
  const feed = new Feed(daemon, "default", "t", screen, FEED);
  await feed.open();
  await screen.until(() => screen.text.includes("ab"));
  assert.ok(feed.size);
  await daemon.request("apply", { id: "t", input: { text: "grüße\r" }, ...QUIET });
  await screen.until(() => screen.text.includes("got:grüße"));
  assert.ok(!screen.text.includes("\x1b[6n"));
  feed.dispose();
});

test("after a lost connection the output goes on at its cursor, without a gap or a repetition", async () => {
  const daemon = open();
  await daemon.connect({ start: true });
  await spawn(daemon, "r", "i=0; while read x; do i=$((i+1)); echo line $i.; done", false);
  const screen = new Recorder();
  const feed = new Feed(daemon, "default", "r", screen, FEED);
  await feed.open();
  const other = open();
  const type = (count: number) =>
    other.request("apply", { id: "r", input: { text: "x\n".repeat(count) }, wait: "none", cursor: 0, max_bytes: 0 });
  await type(3);
  await screen.until(() => screen.text.includes("line 3."));
  const lost = new Promise<void>((done) => daemon.on({ lost: () => done() }));
  const back = new Promise<void>((done) => daemon.on({ opened: () => done() }));
  const link = await daemon.connect({ start: false });
  (link as unknown as { transport: { destroy(): void } }).transport.destroy();
  await lost;
  await type(3);
  await back;
  await type(3);
  await screen.until(() => screen.text.includes("line 9."));
  assert.equal(screen.text, Array.from({ length: 9 }, (_, at) => `line ${at + 1}.\r\n`).join(""));
  assert.equal(screen.clears, 1);
  feed.dispose();
});

test("of a long output only the present screen is drawn", async () => {
  const daemon = open();
  await daemon.connect({ start: true });
  await spawn(daemon, "long", "seq 1 20000; echo the-end; cat");
  await daemon.request("fetch", { id: "long", pattern: "the-end", cursor: 0, max_bytes: 0 });
  const screen = new Recorder();
  const feed = new Feed(daemon, "default", "long", screen, { historyBytes: 1000, clipboard: false });
  await feed.open();
  await screen.until(() => screen.text.includes("the-end"));
  assert.ok(screen.text.length < 5000 && screen.text.includes("20000"));
  feed.dispose();
});

test("the end of a handle is described, and another handle of that id begins anew", async () => {
  const daemon = open();
  await daemon.connect({ start: true });
  await spawn(daemon, "e", "read x; echo first; exit 3");
  const screen = new Recorder();
  const feed = new Feed(daemon, "default", "e", screen, FEED);
  await feed.open();
  await daemon.request("apply", { id: "e", input: { line: "" }, ...QUIET });
  await screen.until(() => screen.ended === "exited with status 3");
  await spawn(daemon, "e", "echo second; cat");
  await screen.until(() => screen.text.includes("second"));
  assert.ok(!screen.text.includes("first"));
  feed.dispose();
});

test("nothing is drawn before a terminal is open, also when the daemon connects", () => {
  const listeners: unknown[] = [];
  const daemon = { on: (listener: unknown) => listeners.push(listener) } as unknown as Daemon;
  new Feed(daemon, "default", "e", new Recorder(), FEED);
  assert.deepEqual(listeners, []);
});

test("the model has the handles of all sessions, and a person decides an approval and answers a question", async () => {
  const daemon = open();
  const changes = new Recorder();
  const announced: string[] = [];
  const model = new Model(daemon, () => changes.changed(), (item) => announced.push(item.kind));
  await daemon.connect({ start: true });
  const other = open();
  await other.request("spawn", { session: "away", tool: "run", id: "s", args: { argv: ["cat"] }, wait: "none" });
  const start = other.request("spawn", { session: "away", tool: "deploy", id: "d", args: { to: "prod" }, wait: "stopped" });
  await changes.until(() => model.needing().some((item) => item.kind === "approval"));
  assert.ok(model.handles.has("away/s"));
  const approval = [...model.approvals.values()][0];
  assert.ok(approval);
  const { session, approval_id } = approval;
  await daemon.request("approvals/decide", { session, approval_id, decision: "edit", arguments: { to: "staging" } });
  const ended = await start;
  assert.equal(ended.state === "stopped" && ended.result?.trim(), "to staging");
  await changes.until(() => model.needing().length === 0);

  const question = { id: "merge", text: "Merge it?", answer_type: { type: "boolean" as const } };
  const asked = other.request("inquiries/ask", { session: "away", question, target: "user" });
  await changes.until(() => model.needing().some((item) => item.kind === "question"));
  const inquiry = [...model.inquiries.values()][0];
  assert.ok(inquiry);
  await daemon.request("inquiries/answer", { session: "away", inquiry_id: inquiry.inquiry_id, question: "merge", answer: true });
  assert.deepEqual(await asked, { answer: true });
  await changes.until(() => model.needing().length === 0);
  assert.deepEqual(announced, ["approval", "question"]);
});

test("a terminal that reads a secret waits for a person, and the secret is typed unseen", async () => {
  const daemon = open();
  const changes = new Recorder();
  const model = new Model(daemon, () => changes.changed());
  await daemon.connect({ start: true });
  await spawn(daemon, "pw", "printf 'Password: '; stty -echo; read x; stty echo; echo; echo ${#x} characters; cat");
  await changes.until(() => model.needing().some((item) => item.kind === "secret"));
  assert.equal(model.needing().find((item) => item.kind === "secret")?.label, "pw: a secret");
  const wanted = await daemon.request("fetch", { id: "pw", wait: "input", cursor: 0, max_bytes: 0 });
  assert.equal(wanted.state === "running" && wanted.input_wanted?.prompt, "Password: ");
  await daemon.request("apply", { id: "pw", input: { line: "hunter2", secret: true }, ...QUIET });
  const state = await daemon.request("fetch", { id: "pw", pattern: "7 characters", cursor: 0 });
  assert.equal(state.waited, "matched");
  assert.ok(!(state.content ?? "").includes("hunter2"));
  await changes.until(() => model.needing().length === 0);
});

test("a state is described in the words of ps and docker", () => {
  const of = (more: object) => describe({ session: "s", id: "i", tool: "t", cursor: 0, generation: 1, ...more } as unknown as HandleState);
  assert.equal(of({ state: "running" }), "running");
  assert.equal(of({ state: "running", needs: "line" }), "waits for a line");
  assert.equal(of({ state: "running", suspended: true }), "suspended");
  assert.equal(of({ state: "stopped", exit: { signal: "TERM" }, ended_by: { by: "abort" } }), "killed by SIGTERM");
  assert.equal(of({ state: "stopped", ended_by: { by: "lost" } }), "ended by lost");
});
