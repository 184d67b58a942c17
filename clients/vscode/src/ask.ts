/** Answer questions, decide approvals, type secrets. Nothing opens by itself: a command asks for it. */
import * as vscode from "vscode";
import type { Approval, HandleState, Inquiry, Question } from "../../../docs/haft";
import type { Daemon } from "./core/daemon";
import type { Needing } from "./core/model";

const PROMPT_MS = 2000;

type Value = boolean | number | string | null;

async function choose(title: string, options: readonly Value[], detail?: string): Promise<{ value: Value } | undefined> {
  const items = options.map((value) => ({
    label: typeof value === "string" ? value : value === true ? "Yes" : value === false ? "No" : String(value),
    value,
  }));
  return vscode.window.showQuickPick(items, { title, placeHolder: detail ?? "", ignoreFocusOut: true });
}

/** Ask the user; undefined: dismissed. */
async function ask(question: Question): Promise<{ value: unknown } | undefined> {
  const type = question.answer_type;
  const title = question.text;
  const detail = question.pre_amble ?? undefined;
  if (type.type === "boolean") return choose(title, [true, false], detail);
  if (type.type === "select") return choose(title, type.options, detail);
  if (type.type === "form") {
    const value: { [name: string]: Value } = {};
    for (const [name, field] of Object.entries(type.fields)) {
      const choice = await choose(`${title} ${name}`, field.options, field.text);
      if (!choice) return undefined;
      value[name] = choice.value;
    }
    return { value };
  }
  const password = type.type === "secret";
  const value = await vscode.window.showInputBox({
    title,
    ignoreFocusOut: true,
    password,
    ...(detail ? { prompt: detail } : {}),
    ...(!password && typeof question.default === "string" ? { value: question.default } : {}),
  });
  return value === undefined ? undefined : { value };
}

async function answer(daemon: Daemon, inquiry: Inquiry): Promise<void> {
  const { question, session, inquiry_id } = inquiry;
  if (question.url) {
    const open = "Open the Page";
    if ((await vscode.window.showInformationMessage(`${question.text}\n${question.url}`, open)) !== open) return;
    await vscode.env.openExternal(vscode.Uri.parse(question.url, true));
  }
  const reply = await ask(question);
  if (reply) await daemon.request("inquiries/answer", { session, inquiry_id, question: question.id, answer: reply.value });
}

interface Decision extends vscode.QuickPickItem {
  decision: "allow" | "deny" | "edit" | "skip";
  remember?: "session" | "turn";
}

const DECISIONS: Decision[] = [
  { label: "$(check) Allow", decision: "allow" },
  { label: "$(check-all) Allow until the turn ends", decision: "allow", remember: "turn" },
  { label: "$(check-all) Allow for the session", decision: "allow", remember: "session" },
  { label: "$(edit) Edit the arguments…", decision: "edit" },
  { label: "$(x) Deny", decision: "deny" },
  { label: "$(debug-step-over) Skip", decision: "skip", description: "without an error" },
];

/** Arguments of approvals that are shown, by the path of their document. */
const shown = new Map<string, string>();

/** Read-only documents: the arguments of an approval. */
export const approvals: vscode.TextDocumentContentProvider = {
  provideTextDocumentContent: (uri) => shown.get(uri.path) ?? "",
};

/** The picker covers the top of the editor. */
const COVERED_LINES = 10;

/** Show the arguments of an approval while `action` lasts. */
async function beside<T>(approval: Approval, action: () => Thenable<T>): Promise<T> {
  const { session, id, approval_id } = approval;
  const uri = vscode.Uri.from({ scheme: "haft-approval", path: `/${approval_id}/${id}.jsonc` });
  const head = [
    `// ${approval.tool} ${approval.action}, handle ${id} of session ${session}`,
    ...(approval.root === undefined ? [] : [`// folder: ${approval.root}`]),
    ...(approval.env === undefined ? [] : [`// variables that differ from haftd's: ${approval.env.slice(0, 8).join(", ")}${approval.env.length > 8 ? ", …" : ""}`]),
  ].join("\n");
  shown.set(uri.path, `${"\n".repeat(COVERED_LINES)}${head}\n${approval.rendered}\n`);
  const document = await vscode.workspace.openTextDocument(uri);
  await vscode.window.showTextDocument(document, { preview: true, preserveFocus: true });
  try {
    return await action();
  } finally {
    shown.delete(uri.path);
    const isOurs = ({ input }: vscode.Tab) => input instanceof vscode.TabInputText && input.uri.toString() === uri.toString();
    await vscode.window.tabGroups.close(vscode.window.tabGroups.all.flatMap((group) => group.tabs).filter(isOurs));
  }
}

/** Let the user change the arguments in an editor; undefined: dismissed. */
async function edited(approval: Approval): Promise<{ [name: string]: unknown } | undefined> {
  const content = JSON.stringify(approval.arguments, null, 2);
  const document = await vscode.workspace.openTextDocument({ language: "json", content });
  await vscode.window.showTextDocument(document);
  const allow = "Allow With These Arguments";
  const chosen = await vscode.window.showInformationMessage(`${approval.tool} ${approval.action}: edit the arguments.`, allow);
  const text = document.getText();
  await vscode.window.showTextDocument(document);
  await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
  if (chosen !== allow) return undefined;
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error("the arguments are not a JSON object; nothing was decided");
  }
  return value as { [name: string]: unknown };
}

async function decide(daemon: Daemon, approval: Approval): Promise<void> {
  const { session, approval_id } = approval;
  const chosen = await beside(approval, () =>
    vscode.window.showQuickPick(DECISIONS, {
      title: `${approval.id}: ${approval.action} ${approval.tool}`,
      placeHolder: approval.rendered.replace(/\s+/g, " ").slice(0, 200),
      ignoreFocusOut: true,
    }),
  );
  if (!chosen) return;
  const more = chosen.decision === "edit" ? await edited(approval) : undefined;
  if (chosen.decision === "edit" && !more) return;
  await daemon.request("approvals/decide", {
    session,
    approval_id,
    decision: chosen.decision,
    ...(chosen.remember ? { remember: chosen.remember } : {}),
    ...(more ? { arguments: more } : {}),
  });
}

async function typeSecret(daemon: Daemon, state: HandleState): Promise<void> {
  const { session, id } = state;
  // A pushed state has no prompt; a read without a wait for input has none, either.
  const now = await daemon.request("fetch", { session, id, wait: "input", timeout_ms: PROMPT_MS, cursor: state.cursor, max_bytes: 0 });
  const wanted = now.state === "running" ? now.input_wanted : undefined;
  if (wanted?.kind !== "secret") throw new Error(`${id} no longer waits for a secret`);
  const title = `${id}: ${wanted.prompt.trim() || "a secret"}`;
  const line = await vscode.window.showInputBox({ title, password: true, ignoreFocusOut: true });
  if (line === undefined) return;
  await daemon.request("apply", { session, id, input: { line, secret: true }, wait: "none", cursor: 0, max_bytes: 0 });
}

/** Show the user the questions and approvals that await a decision. */
export function attend(daemon: Daemon, needing: Needing): Promise<void> {
  if (needing.kind === "question") return answer(daemon, needing.item);
  if (needing.kind === "approval") return decide(daemon, needing.item);
  return typeSecret(daemon, needing.item);
}
