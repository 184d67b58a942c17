/** The handles, questions and approvals of all sessions, kept up to date by the daemon's events. */
import type { Approval, HandleState, Inquiry } from "../../../../docs/haft";
import type { Daemon } from "./daemon";
import type { Event } from "./link";

export type Needing =
  | { kind: "question"; label: string; item: Inquiry }
  | { kind: "approval"; label: string; item: Approval }
  | { kind: "secret"; label: string; item: HandleState };

export const keyOf = (state: { session: string; id: string }): string => `${state.session}/${state.id}`;

/** Describe the state of a handle as `ps` and `docker` do: `running`, `exited with status 1`. */
export function describe(state: HandleState): string {
  if (state.state === "stopped") {
    if (state.exit?.signal) return `killed by SIG${state.exit.signal}`;
    if (state.exit?.code !== undefined) return `exited with status ${state.exit.code}`;
    if (state.error) return state.error.message;
    return state.ended_by.by === "exit" ? "ended" : `ended by ${state.ended_by.by}`;
  }
  if (state.state === "waiting") return `asks: ${state.question.text}`;
  if (state.state === "running" && state.suspended) return "suspended";
  const needs = state.needs ?? "nothing";
  return needs === "nothing" ? state.state : `waits for ${needs === "answer" ? "an" : "a"} ${needs}`;
}

export class Model {
  readonly handles = new Map<string, HandleState>();
  readonly inquiries = new Map<string, Inquiry>();
  readonly approvals = new Map<string, Approval>();
  /** The handles are all known; events alone bring only some. */
  isLoaded = false;
  private isScheduled = false;

  constructor(
    private readonly daemon: Daemon,
    private readonly onChange: () => void,
    private readonly onNeeding: (needing: Needing) => void = () => {},
  ) {
    daemon.on({
      opened: () => void this.load(),
      event: (event) => this.take(event),
      lost: () => {
        this.clear();
        this.changed();
      },
    });
  }

  private clear(): void {
    this.isLoaded = false;
    this.handles.clear();
    this.inquiries.clear();
    this.approvals.clear();
  }

  private async load(): Promise<void> {
    this.clear();
    const session = "*";
    try {
      await Promise.all([
        this.daemon.request("subscribe", { session, events: ["state", "inquiries", "approvals"] }),
        this.daemon.request("handles/list", { session }).then(({ handles }) => {
          for (const state of handles) {
            if (!this.handles.has(keyOf(state))) this.handles.set(keyOf(state), state);
          }
        }),
      ]);
    } catch {
      return; // the connection was lost: the next one loads
    }
    this.isLoaded = true;
    this.changed();
  }

  private take({ method, params }: Event): void {
    if (method === "handle/state") {
      this.handles.set(keyOf(params), params);
    } else if (method === "handle/forgotten") {
      const known = this.handles.get(keyOf(params));
      if (known && known.generation <= params.generation) this.handles.delete(keyOf(params));
    } else if (method === "inquiry/opened") {
      this.inquiries.set(params.inquiry_id, params);
      this.onNeeding(ofQuestion(params));
    } else if (method === "inquiry/closed") {
      if (this.inquiries.get(params.inquiry_id)?.question.id === params.question) this.inquiries.delete(params.inquiry_id);
    } else if (method === "approval/opened") {
      this.approvals.set(params.approval_id, params);
      this.onNeeding(ofApproval(params));
    } else if (method === "approval/closed") {
      this.approvals.delete(params.approval_id);
    } else {
      return;
    }
    this.changed();
  }

  /** Report all changes of one turn of the event loop together. */
  private changed(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setTimeout(() => {
      this.isScheduled = false;
      this.onChange();
    }, 20);
  }

  /** Return the questions, approvals and secret prompts that await a user. */
  needing(): Needing[] {
    const byLabel = (a: Needing, b: Needing) => (a.label < b.label ? -1 : a.label > b.label ? 1 : 0);
    return [
      ...[...this.inquiries.values()].map(ofQuestion).sort(byLabel),
      ...[...this.approvals.values()].map(ofApproval).sort(byLabel),
      ...[...this.handles.values()]
        .filter((state) => state.needs === "secret")
        .map(ofSecret)
        .sort(byLabel),
    ];
  }

  /** Return the handles of each session, live handles first. */
  bySession(): Map<string, HandleState[]> {
    const sessions = new Map<string, HandleState[]>();
    const states = [...this.handles.values()].sort(
      (a, b) =>
        Number(a.state === "stopped") - Number(b.state === "stopped") || (keyOf(a) < keyOf(b) ? -1 : 1),
    );
    for (const state of states) sessions.set(state.session, [...(sessions.get(state.session) ?? []), state]);
    return new Map([...sessions].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

function ofQuestion(item: Inquiry): Needing {
  return { kind: "question", label: `${item.handle ?? item.session}: ${item.question.text}`, item };
}

function ofApproval(item: Approval): Needing {
  return { kind: "approval", label: `${item.id}: ${item.action} ${item.tool}`, item };
}

function ofSecret(item: HandleState): Needing {
  return { kind: "secret", label: `${item.id}: a secret`, item };
}
