/** The trees "Handles" and "Waiting for you". */
import * as vscode from "vscode";
import type { HandleState } from "../../../docs/haft";
import type { Daemon } from "./core/daemon";
import { type Model, type Needing, describe, keyOf } from "./core/model";

export type HandleItem = { session: string } | { state: HandleState };

function icon(state: HandleState): vscode.ThemeIcon {
  const color = (name: string) => new vscode.ThemeColor(name);
  if (state.state === "stopped") {
    const isFine = state.exit?.code === 0 || (state.error === undefined && !state.exit?.signal);
    return isFine ? new vscode.ThemeIcon("pass") : new vscode.ThemeIcon("error", color("testing.iconFailed"));
  }
  if (["answer", "decision", "secret"].includes(state.needs ?? "")) {
    return new vscode.ThemeIcon("bell-dot", color("notificationsWarningIcon.foreground"));
  }
  return new vscode.ThemeIcon(state.state === "pending" ? "clock" : "play-circle", color("testing.iconPassed"));
}

export class HandlesTree implements vscode.TreeDataProvider<HandleItem> {
  private readonly changes = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changes.event;

  constructor(
    private readonly model: Model,
    private readonly daemon: Daemon,
  ) {}

  refresh(): void {
    this.changes.fire();
  }

  getChildren(item?: HandleItem): HandleItem[] {
    const sessions = this.model.bySession();
    if (item === undefined) {
      const names = [...sessions.keys()];
      if (names.length !== 1 || names[0] !== this.daemon.session) return names.map((session) => ({ session }));
      return (sessions.get(this.daemon.session) ?? []).map((state) => ({ state }));
    }
    return "session" in item ? (sessions.get(item.session) ?? []).map((state) => ({ state })) : [];
  }

  getTreeItem(item: HandleItem): vscode.TreeItem {
    if ("session" in item) {
      const group = new vscode.TreeItem(item.session, vscode.TreeItemCollapsibleState.Expanded);
      group.id = `session ${item.session}`;
      group.iconPath = new vscode.ThemeIcon("folder");
      return group;
    }
    const { state } = item;
    const row = new vscode.TreeItem(state.id);
    row.id = `handle ${keyOf(state)}`;
    row.description = `${describe(state)} · ${state.tool}`;
    row.iconPath = icon(state);
    row.contextValue = state.state === "stopped" ? "handle.stopped" : "handle.live";
    row.command = { command: "haft.attach", title: "Attach", arguments: [item] };
    return row;
  }

  /** Look up the figures of a handle when they are asked for. */
  async resolveTreeItem(row: vscode.TreeItem, item: HandleItem, token: vscode.CancellationToken): Promise<vscode.TreeItem> {
    if ("session" in item) return row;
    const { session, id } = item.state;
    const { handles } = await this.daemon.request("handles/list", { session }, token);
    const info = handles.find((one) => one.id === id);
    if (info) {
      const lines = [info.command, `in ${info.root}`, `started ${new Date(info.started_at * 1000).toLocaleString()}`];
      if (info.pid) lines.push(`process ${info.pid}`);
      if (info.memory !== undefined) lines.push(`${(info.memory / 1048576).toFixed(1)} MiB, ${(info.cpu_s ?? 0).toFixed(1)} s of CPU`);
      lines.push(`${info.bytes} bytes of output`);
      row.tooltip = lines.join("\n");
    }
    return row;
  }
}

const ICONS = { question: "question", approval: "shield", secret: "key" };

export class NeedingTree implements vscode.TreeDataProvider<Needing> {
  private readonly changes = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changes.event;

  constructor(private readonly model: Model) {}

  refresh(): void {
    this.changes.fire();
  }

  getChildren(item?: Needing): Needing[] {
    return item ? [] : this.model.needing();
  }

  getTreeItem(item: Needing): vscode.TreeItem {
    const row = new vscode.TreeItem(item.label);
    row.accessibilityInformation = { label: `${item.kind}: ${item.label}` };
    row.tooltip = `${item.kind}: ${item.label}`;
    row.iconPath = new vscode.ThemeIcon(ICONS[item.kind], new vscode.ThemeColor("notificationsWarningIcon.foreground"));
    row.contextValue = "needing";
    row.command = { command: "haft.attend", title: "Answer or Decide", arguments: [item] };
    return row;
  }
}
