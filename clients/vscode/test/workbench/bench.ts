/** A real workbench: code-server with the extension and a probe beside it, in a headless Chromium. WORKBENCH is the folder of code-server's packages. */
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { type Browser, type Page, chromium } from "playwright-core";
import { Daemon } from "../../src/core/daemon";

const HERE = dirname(dirname(__dirname));
const WAIT_MS = 180_000;

interface Info {
  id: string;
  session: string;
  state: string;
  pid?: number;
  needs?: string;
}

/** Try again until the action succeeds; at the deadline its last error is thrown. */
export async function until<T>(action: () => Promise<T> | T, deadline = Date.now() + WAIT_MS): Promise<T> {
  for (;;) {
    try {
      return await action();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

/** Return the environment of the machine without what would lead to the person's own daemon or editor. */
function environment(at: (...names: string[]) => string): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (!/^(HAFT_|XDG_|LISTEN_|NOTIFY_|VSCODE_|npm_)/.test(name)) env[name] = value;
  }
  return Object.assign(env, {
    XDG_RUNTIME_DIR: at("run"),
    XDG_STATE_HOME: at("state"),
    XDG_CONFIG_HOME: at("config"),
    XDG_DATA_HOME: at("data"),
    HOME: at("home"),
    SHELL: "/bin/bash",
    HAFT_PROBE: at("probe.sock"),
  });
}

const rowOf = (...words: string[]): string =>
  `.pane-body .monaco-list-row${words.map((word) => `:has-text(${JSON.stringify(word)})`).join("")}`;

export class Workbench {
  readonly project: string;
  private server: ChildProcess | undefined;
  private browser: Browser | undefined;
  private address = "";
  private readonly env: NodeJS.ProcessEnv;
  private shown: Page | undefined;

  private constructor(private readonly base: string) {
    this.project = this.at("project");
    this.env = environment(this.at);
  }

  private readonly at = (...names: string[]): string => join(this.base, ...names);

  get page(): Page {
    if (!this.shown) throw new Error("the workbench has no window");
    return this.shown;
  }

  static async start(options: { tools: string; settings?: object }): Promise<Workbench> {
    const bench = new Workbench(mkdtempSync(join(tmpdir(), "haft-bench-")));
    try {
      bench.write(options);
      await bench.launch();
    } catch (error) {
      await bench.close();
      throw error;
    }
    return bench;
  }

  private write({ tools, settings = {} }: { tools: string; settings?: object }): void {
    for (const name of ["run", "state", "data", "home", "extensions", "user/User", "user/Machine", "project", "config/haft/tools"]) {
      mkdirSync(this.at(name), { recursive: true, mode: 0o700 });
    }
    writeFileSync(this.at("config/haft/tools/test.toml"), tools);
    writeFileSync(this.at("home/.bashrc"), "PS1='$ '\n");
    writeFileSync(this.at("project/notes.md"), "# notes\n");
    // The extension host takes PATH from a login shell, and paths of the machine from the settings of the machine.
    const path = execFileSync("sh", ["-c", "command -v haft"], { env: this.env, encoding: "utf8" }).trim();
    writeFileSync(this.at("user/Machine/settings.json"), JSON.stringify({ "haft.path": path }));
    const all = {
      "telemetry.telemetryLevel": "off",
      "workbench.startupEditor": "none",
      "workbench.colorTheme": "Default Light Modern",
      "workbench.secondarySideBar.defaultVisibility": "hidden",
      "workbench.enableExperiments": false,
      // The rows of the terminal are text of the page.
      "terminal.integrated.gpuAcceleration": "off",
      "security.workspace.trust.startupPrompt": "never",
      ...settings,
    };
    writeFileSync(this.at("user/User/settings.json"), JSON.stringify(all));
    const { version } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8")) as { version: string };
    for (const [name, from] of [
      [`haft.haft-${version}`, HERE],
      ["haft-tests.probe-0.0.1", join(HERE, "test/workbench/probe")],
    ] as const) {
      for (const part of ["package.json", "media", "dist/extension.js", "probe.js"]) {
        if (existsSync(join(from, part))) cpSync(join(from, part), this.at("extensions", name, part), { recursive: true });
      }
    }
  }

  private async launch(): Promise<void> {
    const log = openSync(this.at("server.log"), "a");
    const entry = join(process.env.WORKBENCH ?? "", "node_modules/code-server/out/node/entry.js");
    const words = ["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry", "--disable-update-check"];
    const places = ["--extensions-dir", this.at("extensions"), "--user-data-dir", this.at("user"), this.project];
    this.server = spawn(process.execPath, [entry, ...words, ...places], {
      env: this.env,
      stdio: ["ignore", log, log],
      cwd: this.project,
    });
    this.address = await until(() => {
      const [, address] = /listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(this.log()) ?? [];
      if (!address) throw new Error(`code-server does not listen:\n${this.log()}`);
      return address;
    });
    const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
    if (!existsSync(executablePath)) throw new Error(`no Chromium at ${executablePath}: install chromium, or set CHROMIUM`);
    this.browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
    this.shown = await this.browser.newPage({ viewport: { width: 1100, height: 700 } });
    this.shown.setDefaultTimeout(WAIT_MS);
    this.shown.on("dialog", (dialog) => void dialog.accept());
    await this.open();
  }

  /** Load the window, or load it again. */
  async open(): Promise<void> {
    // The server answers before all its parts are there.
    await until(async () => {
      await this.page.goto(`${this.address}/?folder=${this.project}`, { waitUntil: "commit" });
      await this.page.waitForSelector(".monaco-workbench", { timeout: WAIT_MS });
    }, Date.now() + 2 * WAIT_MS);
    await this.page.waitForSelector('.statusbar-item:has-text("haft")', { timeout: 2 * WAIT_MS });
    await until(() => this.inHost("return 1"));
  }

  /** Reload the window by the editor's own command: the editor saves its layout before. */
  async reload(): Promise<void> {
    await this.page.evaluate(() => document.body.classList.add("before-reload"));
    await this.inHost("globalThis.isBeforeReload = true");
    await this.command("workbench.action.reloadWindow");
    await this.page.waitForSelector("body:not(.before-reload) .monaco-workbench");
    await this.page.waitForSelector('.statusbar-item:has-text("haft")', { timeout: 2 * WAIT_MS });
    await until(async () => {
      if (await this.inHost("return globalThis.isBeforeReload")) throw new Error("the extension host has not started anew");
    });
  }

  /** Run a function body in the extension host, beside the extension. */
  inHost<T>(body: string): Promise<T> {
    return new Promise((resolve, reject) => {
      const socket = createConnection(this.at("probe.sock"), () => socket.end(body));
      let reply = "";
      socket.on("error", reject);
      socket.on("data", (text: Buffer) => {
        reply += text.toString();
      });
      socket.on("end", () => {
        const { result, error } = JSON.parse(reply || '{"error":"the extension host has no reply"}') as { result: T; error?: string };
        if (error) reject(new Error(error));
        else resolve(result);
      });
    });
  }

  /** Run a command of the editor without waiting for its end: a picker ends with the choice. */
  command(name: string, ...words: unknown[]): Promise<unknown> {
    return this.inHost(`void vscode.commands.executeCommand(${[name, ...words].map((word) => JSON.stringify(word)).join(", ")})`);
  }

  haft(...words: string[]): string {
    return execFileSync("haft", words, { env: this.env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], timeout: WAIT_MS });
  }

  /** Return a connection of its own to the daemon, which is started where there is none. */
  async connect(): Promise<Daemon> {
    const daemon = new Daemon({ path: "haft", host: "", socket: "", session: "default", version: "0", env: this.env });
    await daemon.connect({ start: true });
    return daemon;
  }

  /** Run a command that ends only when a person has decided. */
  begin(...words: string[]): Promise<string> {
    return promisify(execFile)("haft", words, { env: this.env, timeout: WAIT_MS }).then(({ stdout }) => stdout);
  }

  handles(): Info[] {
    return (JSON.parse(this.haft("ps", "--json")) as { handles: Info[] }).handles;
  }

  daemonPid(): number {
    return (JSON.parse(this.haft("status", "--json")) as { pid: number }).pid;
  }

  /** Wait for an element of the window. */
  async see(selector: string): Promise<void> {
    await this.page.waitForSelector(selector);
  }

  /** Wait for the text of the extension's item in the status bar. */
  async status(text: string): Promise<void> {
    await this.see(`.statusbar-item[id="haft.haft.haft"]:has(:text-is(${JSON.stringify(text)}))`);
  }

  /** Click a row of a tree. */
  async click(row: string): Promise<void> {
    await this.page.click(rowOf(row));
  }

  /** Wait for a row of a tree. */
  async row(...words: string[]): Promise<void> {
    await this.see(rowOf(...words));
  }

  /** Choose from the picker that is open. */
  async pick(label: string): Promise<void> {
    await this.page.click(`.quick-input-widget .monaco-list-row:has-text(${JSON.stringify(label)})`);
  }

  /** Return the text in the terminal that is shown: its rows are spans of the page. */
  terminal(): Promise<string> {
    return this.page.evaluate(() => {
      const rows = [...document.querySelectorAll(".terminal-wrapper.active .xterm-rows > div")];
      return rows.map((row) => (row.textContent ?? "").replace(/\u00a0/g, " ")).join("\n");
    });
  }

  /** Wait for the terminal of this name to be the one that is shown. */
  async shows(name: string): Promise<void> {
    await until(async () => {
      const shown = await this.inHost<string>("return vscode.window.activeTerminal?.name");
      if (shown !== name) throw new Error(`the terminal ${shown} is shown, not ${name}`);
    });
  }

  /** Return the names of the open terminals. */
  terminals(): Promise<string[]> {
    return this.inHost("return vscode.window.terminals.map((terminal) => terminal.name)");
  }

  async inTerminal(text: string): Promise<void> {
    await until(async () => {
      const shown = await this.terminal();
      if (!shown.includes(text)) throw new Error(`the terminal does not show ${JSON.stringify(text)}, but:\n${shown.trim()}`);
    });
  }

  /** Type into the terminal that is shown. */
  async type(text: string): Promise<void> {
    await this.page.click(".terminal-wrapper.active .xterm-screen");
    await this.page.keyboard.type(text);
  }

  async picture(path: string): Promise<void> {
    await this.page.screenshot({ path });
  }

  versions(): string {
    const { version } = JSON.parse(
      readFileSync(join(process.env.WORKBENCH ?? "", "node_modules/code-server/package.json"), "utf8"),
    ) as { version: string };
    return `code-server ${version}, Chromium ${this.browser?.version()}, Node ${process.versions.node}`;
  }

  log(): string {
    return readFileSync(this.at("server.log"), "utf8");
  }

  async close(): Promise<void> {
    await this.browser?.close();
    const { server } = this;
    if (server && server.exitCode === null) {
      const ended = new Promise((done) => server.once("exit", done));
      server.kill();
      await ended;
    }
    try {
      this.haft("stop", "--yes");
    } catch {
      // no daemon was started
    }
    rmSync(this.base, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}
