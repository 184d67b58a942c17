/**
 * `node measure.js [KEYS] [SECONDS]`: the editor's responsiveness and memory beside a program that prints at full speed and 200 idle
 * handles, in the terminals of haft and, in the same run, in the editor's own. Times are from the key in the page until its echo is a
 * row of the terminal; the memory is the heap of the page, after a garbage collection.
 */
import { type CDPSession } from "playwright-core";
import type { Daemon } from "../../src/core/daemon";
import { Workbench, until } from "./bench";

const IDLE = 200;
const FLOOD = "x".repeat(70);
const WARM_KEYS = 5;
const KINDS = ["editor", "haft"] as const;

type Kind = (typeof KINDS)[number];

const quantile = (times: number[], part: number): number => {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? Number.NaN;
};

class Measurement {
  private opened = 0;

  private constructor(
    private readonly bench: Workbench,
    private readonly cdp: CDPSession,
  ) {}

  static async of(bench: Workbench): Promise<Measurement> {
    return new Measurement(bench, await bench.page.context().newCDPSession(bench.page));
  }

  /** Open a terminal of a program that prints at full speed, or that echoes keys. */
  async open(kind: Kind, name: "flood" | "keys"): Promise<void> {
    const argv = name === "flood" ? ["yes", FLOOD] : ["cat"];
    this.opened += 1;
    const label = `${name}-${kind}-${this.opened}`;
    if (kind === "haft") {
      this.bench.haft("spawn", "run", "--id", label, "--arg", "terminal=true", "--wait", "none", "--", ...argv);
      await this.bench.command("haft.attach", { state: { session: "default", id: label } });
    } else {
      const [shellPath, ...shellArgs] = argv;
      const options = JSON.stringify({ name: label, shellPath: `/usr/bin/${shellPath}`, shellArgs });
      await this.bench.inHost(`vscode.window.createTerminal(${options}).show()`);
    }
    await this.bench.shows(label);
    if (name === "flood") await this.bench.inTerminal(FLOOD.slice(0, 40));
  }

  /** Show the terminal of the program that prints at full speed, or of the keys. */
  async front(name: "flood" | "keys"): Promise<void> {
    const [label = ""] = (await this.bench.terminals()).filter((open) => open.startsWith(name));
    await this.bench.inHost(`vscode.window.terminals.find((terminal) => terminal.name === ${JSON.stringify(label)}).show()`);
    await this.bench.shows(label);
  }

  /** Return the milliseconds of each key. */
  async keys(count: number): Promise<number[]> {
    const { page } = this.bench;
    await page.click(".terminal-wrapper.active .xterm-screen");
    const times: number[] = [];
    for (let key = 0; key < count + WARM_KEYS; key += 1) {
      const echoed = page.evaluate(
        () =>
          new Promise<number>((resolve) => {
            const rows = document.querySelector(".terminal-wrapper.active .xterm-rows");
            if (!rows) throw new Error("no terminal is shown");
            const shown = () => (rows.textContent ?? "").split("k").length;
            const before = shown();
            let pressed: number | undefined;
            document.addEventListener("keydown", () => (pressed = performance.now()), { capture: true, once: true });
            const observer = new MutationObserver(() => {
              if (pressed === undefined || shown() === before) return;
              observer.disconnect();
              resolve(performance.now() - pressed);
            });
            observer.observe(rows, { subtree: true, childList: true, characterData: true });
            document.body.classList.add("measuring");
          }),
      );
      await page.waitForSelector("body.measuring");
      await page.evaluate(() => document.body.classList.remove("measuring"));
      await page.keyboard.press("k");
      const time = await echoed;
      if (key >= WARM_KEYS) times.push(time);
      // A row that fills up would scroll.
      if (key % 20 === 19) await page.keyboard.press("Enter");
    }
    return times;
  }

  /** Return the MiB of the page's heap that are in use after a garbage collection. */
  async heap(): Promise<number> {
    await this.cdp.send("HeapProfiler.collectGarbage");
    const { usedSize } = await this.cdp.send("Runtime.getHeapUsage");
    return usedSize / 2 ** 20;
  }

  async end(): Promise<void> {
    await this.bench.command("workbench.action.terminal.killAll");
    await until(async () => {
      const names = await this.bench.terminals();
      if (names.length > 0) throw new Error(`still open: ${names.join(" ")}`);
    });
    for (const { id, state } of this.bench.handles()) {
      if (/^(flood|keys)/.test(id) && state !== "stopped") this.bench.haft("abort", id);
    }
  }
}

async function idle(daemon: Daemon): Promise<void> {
  for (let number = 0; number < IDLE; number += 1) {
    await daemon.request("spawn", { tool: "run", id: `idle${number}`, args: { argv: ["sleep", "3600"] }, wait: "none" });
  }
}

const line = (times: number[]): string =>
  `median ${quantile(times, 0.5).toFixed(0)} ms, p95 ${quantile(times, 0.95).toFixed(0)} ms, longest ${Math.max(...times).toFixed(0)} ms`;

async function main(count: number, seconds: number): Promise<void> {
  const bench = await Workbench.start({ tools: "", settings: { "security.workspace.trust.enabled": false, "terminal.integrated.confirmOnKill": "never" } });
  try {
    console.log(bench.versions());
    await bench.command("haft.handles.focus");
    const daemon = await bench.connect();
    await bench.status("haft 0");
    const measurement = await Measurement.of(bench);
    const medians = new Map<string, number>();
    for (const part of ["alone", "beside a flood"] as const) {
      for (const kind of KINDS) {
        if (part !== "alone") await measurement.open(kind, "flood");
        await measurement.open(kind, "keys");
        const times = await measurement.keys(count);
        medians.set(`${kind} ${part}`, quantile(times, 0.5));
        console.log(`${kind}, ${part}: ${line(times)}`);
        if (part !== "alone") {
          await measurement.front("flood");
          const heaps = [await measurement.heap()];
          for (let half = 0; half < 2; half += 1) {
            await new Promise((done) => setTimeout(done, (seconds / 2) * 1000));
            heaps.push(await measurement.heap());
          }
          console.log(`${kind}, heap of the page at 0, ${seconds / 2} and ${seconds} s of the flood in front: ${heaps.map((heap) => heap.toFixed(1)).join(", ")} MiB`);
        }
        await measurement.end();
      }
      if (part === "alone") {
        await idle(daemon);
        await bench.status(`haft ${IDLE}`);
      }
    }
    for (const part of ["alone", "beside a flood"]) {
      console.log(`${part}: haft takes ${((medians.get(`haft ${part}`) ?? 0) / (medians.get(`editor ${part}`) ?? 1)).toFixed(2)} of the editor's own`);
    }
  } finally {
    await bench.close();
  }
}

main(Number(process.argv[2] ?? 120), Number(process.argv[3] ?? 120)).catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
