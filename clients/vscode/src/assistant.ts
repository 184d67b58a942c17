/** haft's tools for the language models of the editor, and `haft mcp` as a server of MCP. */
import * as vscode from "vscode";
import type { Daemon } from "./core/daemon";

interface Contributed {
  name: string;
  displayName: string;
}

const READERS = new Set(["haft_handle_read", "haft_handle_wait", "haft_handle_list"]);

/** Return the folder in which tools run, that of the first workspace folder. */
export const root = (): string | undefined => vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;

function registerTool(daemon: Daemon, { name, displayName }: Contributed): vscode.Disposable {
  return vscode.lm.registerTool<object>(name, {
    prepareInvocation({ input }) {
      const invocationMessage = `haft: ${displayName}`;
      if (READERS.has(name)) return { invocationMessage };
      const message = new vscode.MarkdownString().appendCodeblock(JSON.stringify(input, null, 2), "json");
      return { invocationMessage, confirmationMessages: { title: displayName, message } };
    },
    async invoke({ input }, token) {
      const folder = daemon.host ? undefined : root();
      const result = await daemon.request(
        "tools/call",
        {
          tool: name.replace(/^haft_/, ""),
          arguments: input as { [name: string]: unknown },
          surface: "verbs",
          format: "text",
          ...(folder ? { root: folder } : {}),
        },
        token,
        { start: true },
      );
      const text = "text" in result ? result.text : JSON.stringify(result);
      return new vscode.LanguageModelToolResult([new vscode.LanguageModelTextPart(text)]);
    },
  });
}

/** Offer the tools while the settings and the workspace's trust allow it. */
export function offer(context: vscode.ExtensionContext, daemon: Daemon): void {
  const { packageJSON } = context.extension as { packageJSON: { contributes: { languageModelTools: Contributed[] } } };
  let tools: vscode.Disposable[] = [];
  const serversChanged = new vscode.EventEmitter<void>();
  const isOffered = (key: string, otherwise: boolean) =>
    vscode.workspace.isTrusted && vscode.workspace.getConfiguration("haft").get(key, otherwise);
  const update = () => {
    const wanted = isOffered("offerTools", true);
    if (wanted && tools.length === 0) {
      tools = packageJSON.contributes.languageModelTools.map((tool) => registerTool(daemon, tool));
    } else if (!wanted) {
      for (const tool of tools) tool.dispose();
      tools = [];
    }
    serversChanged.fire();
  };
  context.subscriptions.push(
    vscode.workspace.onDidGrantWorkspaceTrust(update),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("haft") && update()),
    { dispose: () => tools.forEach((tool) => tool.dispose()) },
    vscode.lm.registerMcpServerDefinitionProvider("haft.mcp", {
      onDidChangeMcpServerDefinitions: serversChanged.event,
      provideMcpServerDefinitions() {
        // Of another machine the folder is not known, and haft mcp wants one.
        if (!isOffered("offerMcpServer", false) || daemon.host) return [];
        const settings = vscode.workspace.getConfiguration("haft");
        const words = [...daemon.words, "mcp", "--session", daemon.session];
        const folder = root();
        if (folder) words.push("--root", folder);
        return [new vscode.McpStdioServerDefinition("haft", settings.get("path", "haft"), words)];
      },
    }),
  );
  update();
}
