/** Draws the pictures of docs/vscode.md into the folder of the first argument. */
import { join } from "node:path";
import { Workbench } from "./bench";

const TOOLS = `
[tools.deploy]
source = "local"
command = ["echo", "deployed {{ tool.arguments.branch }} to {{ tool.arguments.to }}"]
run = "ask"
[tools.deploy.parameters]
to = { type = "string" }
branch = { type = "string" }
`;
const TESTS = "printf '\\033[1mtests/test_api.py\\033[0m \\033[32m.......\\033[0m\\ntests/test_web.py \\033[32m...\\033[31mF\\033[0m\\n'; cat";

async function main(folder: string): Promise<void> {
  const bench = await Workbench.start({
    tools: TOOLS,
    settings: { "security.workspace.trust.enabled": false, "haft.notify": false, "window.commandCenter": false },
  });
  try {
    await bench.command("haft.handles.focus");
    bench.haft("spawn", "run", "--id", "server", "--wait", "none", "--", "sh", "-c", "echo listening; exec sleep 3600");
    bench.haft("spawn", "run", "--id", "tests", "--arg", "terminal=true", "--wait", "none", "--", "sh", "-c", TESTS);
    const login = "read -s -p 'Password: ' x";
    bench.haft("spawn", "run", "--id", "login", "--arg", "terminal=true", "--wait", "none", "--", "bash", "-c", login);
    const ask = ["--arg", "question=Which branch?", "--arg", 'options=["main","next"]'];
    bench.haft("spawn", "ask_user", "--id", "plan", ...ask, "--wait", "none");
    const deployed = bench.begin("spawn", "deploy", "--id", "release", "--arg", "to=prod", "--arg", "branch=main");
    await bench.status("haft 3");
    await bench.click("tests");
    await bench.inTerminal("tests/test_web.py");
    await bench.row("login", "waits for a secret");
    await bench.picture(join(folder, "vscode-handles.png"));
    await bench.click("release: spawn deploy");
    await bench.see('.editor-instance .view-lines:has-text("prod")');
    await bench.picture(join(folder, "vscode-approval.png"));
    await bench.pick("Skip");
    await deployed.catch(() => undefined);
  } finally {
    await bench.close();
  }
}

main(process.argv[2] ?? ".").catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
