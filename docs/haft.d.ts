// The wire of haftd, protocol 1. Made by `python -m tests.gendocs` from the types that the daemon decodes
// with; docs/protocol.md says what the methods do. A field that is not said is absent, never null.

export type Scalar = boolean | number | string | null;
export type Answer = Scalar | { [name: string]: Scalar };

/** What `apply` takes for a running handle; a text is written as it is. */
export type Input = string | { text: string; secret?: boolean } | { bytes: string; secret?: boolean } | { line: string; secret?: boolean } | { keys: string[]; secret?: boolean } | { paste: string; secret?: boolean } | { mouse: Mouse; secret?: boolean } | { eof: true; secret?: boolean } | { signal: string; secret?: boolean } | { resize: { rows: number; cols: number }; secret?: boolean };

/** A handle, in one of its four states. */
export type HandleState = Pending | Running | Waiting | Stopped;

/** End a handle by TERM, and by KILL after the grace; answered once all processes have ended. */
export interface AbortParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the handle */
  id: string;
  /** the time between the request to end and the kill; `abort_grace_ms` of the configuration by default */
  grace_ms?: number;
}

/** A tool's effects, in MCP's terms: `destructive` and `idempotent` count where `read_only` is false; `open_world`: the tool reaches beyond this machine's data. */
export interface Annotations {
  /** it changes nothing */
  read_only: boolean;
  /** it may delete or overwrite */
  destructive: boolean;
  /** repeating the same call changes nothing more */
  idempotent: boolean;
  /** it reaches beyond this machine's own data */
  open_world: boolean;
}

/** Give a handle input, or the answer to its question; then read as fetch does. */
export interface ApplyParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the condition on which the call answers, see Waiting */
  wait?: "input" | "none" | "output" | "pattern" | "quiet" | "stopped";
  /** the longest wait; at the bound the state is returned with `waited: "deadline"` */
  timeout_ms?: number;
  /** the time without output after which `quiet` holds */
  quiet_ms?: number;
  /** a regular expression (RE2) for new output; without `wait`, the call waits for it */
  pattern?: string;
  /** the part of the output to return, see Reading output */
  view?: "all" | "answer" | "delta" | "paint" | "raw" | "screen" | "tail";
  /** the most bytes of text in the reply; the middle of a longer text is left out and counted */
  max_bytes?: number;
  /** the handle */
  id: string;
  /** re-reads from this offset and leaves the read mark unchanged */
  cursor?: number;
  /** the `revision` of the client's last screen */
  since_revision?: number;
  /** `terminal`: the bytes are for a terminal emulator, without queries, see Bytes for a terminal */
  for?: "terminal";
  /** with `for`: let writes to the clipboard (OSC 52) through */
  clipboard?: boolean;
  /** with the view `screen`: `runs` with their styles instead of `lines`, always all rows */
  styles?: boolean;
  /** the input, or the answer to the question, see Input */
  input: Input | Answer;
  /** the id of the answered question: the input is accepted only while this question is open */
  question?: string;
}

/** An action that awaits a decision. `rendered` is for display; mode `edit` permits changed arguments. `root` is the folder in which the tool runs, `env` names the variables that the call sets otherwise than the daemon has them. `refused`: why the client's previous decision was invalid. The action `result` releases a tool's result; its argument is `text`, beside `failed`, `bytes` and `omitted`. */
export interface Approval {
  /** unique, and cannot be guessed */
  approval_id: string;
  /** the handle's session */
  session: string;
  /** the tool */
  tool: string;
  /** `spawn`, `call` (a complete run), an action on a handle, or `result`: to release the tool's result */
  action: "abort" | "apply" | "call" | "fetch" | "result" | "spawn";
  /** the handle */
  id: string;
  /** of the tool, with its defaults; for an action on a handle the params that were given; of a `result` its `text`: 16 KiB of it, of a longer one the beginning and the end */
  arguments: { [name: string]: unknown };
  /** the arguments for a person, in the form of the tool's `style.parameters`, or the result; invisible characters are escaped */
  rendered: string;
  /** `edit`: the definition asks the person to review the arguments */
  mode: "ask" | "edit";
  /** folder in which the tool runs */
  root?: string;
  /** names of variables that the call sets otherwise than the daemon has them, at most 64, those that choose the code that runs first */
  env?: string[];
  /** the reason why this client's previous decision was invalid */
  refused?: string;
  /** for a `result`: true if the tool has failed; the text is then that of the error */
  failed?: boolean;
  /** for a `result`: the bytes of the whole text */
  bytes?: number;
  /** for a `result`: the number of bytes that are not shown here */
  omitted?: number;
}

/** An action was decided, expired or withdrawn. */
export interface ApprovalClosed {
  /** its name */
  subscription: string;
  /** the session of the action */
  session: string;
  /** the id in `approval/opened` */
  approval_id: string;
}

/** Decide an action that awaits approval. With `edit` the action proceeds with these `arguments`. */
export interface ApprovalsDecideParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** unique, and cannot be guessed */
  approval_id: string;
  /** `allow`, `deny` (the call fails with `-32007`), `skip` (nothing is done, without an error), or `edit` */
  decision: "allow" | "deny" | "edit" | "skip";
  /** with `edit`, and only then: all arguments to continue with; those left out take their defaults */
  arguments?: { [name: string]: unknown };
  /** the same for this tool and action in the same folder from now on, in the session, or until its turn ends */
  remember?: "session" | "turn";
  /** passed to the caller, and recorded */
  reason?: string;
}

/** List the actions that await approval in one session, or in all with `*`. */
export interface ApprovalsListParams {
  /** one session, or `*` for all */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
}

/** The open approvals, as in `approval/ask`. */
export interface ApprovalsListResult {
  /** the open approvals, the longest waiting first */
  approvals: Approval[];
}

/** Ask for a secret for a tool's process; for the helper `haft-askpass` only. */
export interface AskpassParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the value of HAFT_HANDLE in the environment of the asking process */
  mark: string;
  /** the prompt; shown without control characters, 4 KiB of it */
  prompt: string;
  /** `confirm`: yes or no; `none`: a message without an answer */
  hint?: "confirm" | "none";
}

/** The answer, or `null` where nothing was asked. */
export interface AskpassResult {
  /** the answer; `null` for a message */
  answer: string | boolean | null;
}

/** Wait until all of `all` and one of `any` have stopped, or the rest waits for answers. */
export interface AwaitParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** one of these must stop */
  any?: string[];
  /** all of these must stop */
  all?: string[];
  /** the longest wait, in seconds; none by default */
  timeout_secs?: number;
}

/** The states of stopped handles, of live ones, and of those that wait for an answer. */
export interface AwaitResult {
  /** the stopped handles, each with its result */
  completed: HandleState[];
  /** the handles that have not stopped */
  pending: HandleState[];
  /** the time ran out */
  timed_out?: boolean;
  /** the handles that wait for an answer to their `question` */
  waiting?: HandleState[];
}

/** Yes or no. */
export interface Boolean {
  type: "boolean";
}

/** The result of `await`, called as a tool. */
export interface CalledAwait {
  /** the stopped handles, each with its result */
  completed: HandleState[];
  /** the handles that have not stopped */
  pending: HandleState[];
  /** the time ran out */
  timed_out?: boolean;
  /** the handles that wait for an answer to their `question` */
  waiting?: HandleState[];
  /** the call's name: the caller's, or a generated one */
  call_id: string;
  /** notices that the session has not seen, oldest first; each is returned once */
  notifications: Notice[];
}

/** The result of `handle_list`. */
export interface CalledList {
  /** each the handle state without its text, with the fields of HandleInfo added */
  handles: ({ [name: string]: unknown })[];
  call_id: string;
  notifications: Notice[];
}

/** A pending handle's state with notices. */
export interface CalledPending {
  state: "pending";
  /** the caller's name for the handle */
  id: string;
  /** the tool that runs */
  tool: string;
  /** its session */
  session: string;
  /** the byte offset in the handle's output after the returned part */
  cursor: number;
  /** counts the uses of this id in its session, from 1 */
  generation: number;
  /** since spawn; frozen at the stop */
  elapsed_ms: number;
  /** requested bytes that are not returned: beyond `max_bytes`, or no longer kept */
  omitted?: number;
  /** with the view `answer`: bytes of the echo at the beginning, which are omitted */
  echoed?: number;
  /** the condition that ended the wait */
  waited?: "deadline" | "immediate" | "input" | "matched" | "output" | "quiet" | "stopped";
  /** with the view `screen`, for a terminal */
  screen?: Screen;
  /** the reason why the action was skipped, see Approvals */
  skipped?: string;
  /** in a batch: the limit for which the screen of the view `screen` or `paint` is left out, see Requests */
  limit?: "max_batch_reply";
  /** of a tool with a reviewed result: `held` while it runs, `waits` after its end, then the decision; `dropped`: it was dropped with the handle or the call, see Approvals */
  review?: "allowed" | "denied" | "dropped" | "edited" | "held" | "skipped" | "waits";
  /** the action that it needs from a person, see Required acts; absent: `nothing` */
  needs?: "answer" | "decision" | "key" | "line" | "nothing" | "secret";
  /** the size of its terminal and the owner, in `handles/list` and `handle/state`, see Input */
  size?: TerminalSize;
  /** with the view `raw`, `[begin, end]` each: the spans of offsets that are standard error, if it has its own pipe */
  stderr?: ([number, number])[];
  /** the text of the `view` */
  content: string;
  call_id: string;
  notifications: Notice[];
}

/** A running handle's state with notices. */
export interface CalledRunning {
  state: "running";
  /** the caller's name for the handle */
  id: string;
  /** the tool that runs */
  tool: string;
  /** its session */
  session: string;
  /** the byte offset in the handle's output after the returned part */
  cursor: number;
  /** counts the uses of this id in its session, from 1 */
  generation: number;
  /** since spawn; frozen at the stop */
  elapsed_ms: number;
  /** requested bytes that are not returned: beyond `max_bytes`, or no longer kept */
  omitted?: number;
  /** with the view `answer`: bytes of the echo at the beginning, which are omitted */
  echoed?: number;
  /** the condition that ended the wait */
  waited?: "deadline" | "immediate" | "input" | "matched" | "output" | "quiet" | "stopped";
  /** with the view `screen`, for a terminal */
  screen?: Screen;
  /** the reason why the action was skipped, see Approvals */
  skipped?: string;
  /** in a batch: the limit for which the screen of the view `screen` or `paint` is left out, see Requests */
  limit?: "max_batch_reply";
  /** of a tool with a reviewed result: `held` while it runs, `waits` after its end, then the decision; `dropped`: it was dropped with the handle or the call, see Approvals */
  review?: "allowed" | "denied" | "dropped" | "edited" | "held" | "skipped" | "waits";
  /** the action that it needs from a person, see Required acts; absent: `nothing` */
  needs?: "answer" | "decision" | "key" | "line" | "nothing" | "secret";
  /** the size of its terminal and the owner, in `handles/list` and `handle/state`, see Input */
  size?: TerminalSize;
  /** with the view `raw`, `[begin, end]` each: the spans of offsets that are standard error, if it has its own pipe */
  stderr?: ([number, number])[];
  /** the text of the `view` */
  content: string;
  /** the input that the program reads now; `null`: no known input */
  input_wanted?: InputWanted | null;
  /** a signal has stopped the program (`C-z`, `kill -STOP`): it does nothing until it gets CONT */
  suspended?: boolean;
  /** the way to resume the program */
  hint?: string;
  call_id: string;
  notifications: Notice[];
}

/** A stopped handle's state with notices. */
export interface CalledStopped {
  state: "stopped";
  /** the caller's name for the handle */
  id: string;
  /** the tool that runs */
  tool: string;
  /** its session */
  session: string;
  /** the byte offset in the handle's output after the returned part */
  cursor: number;
  /** counts the uses of this id in its session, from 1 */
  generation: number;
  /** since spawn; frozen at the stop */
  elapsed_ms: number;
  /** requested bytes that are not returned: beyond `max_bytes`, or no longer kept */
  omitted?: number;
  /** with the view `answer`: bytes of the echo at the beginning, which are omitted */
  echoed?: number;
  /** the condition that ended the wait */
  waited?: "deadline" | "immediate" | "input" | "matched" | "output" | "quiet" | "stopped";
  /** with the view `screen`, for a terminal */
  screen?: Screen;
  /** the reason why the action was skipped, see Approvals */
  skipped?: string;
  /** in a batch: the limit for which the screen of the view `screen` or `paint` is left out, see Requests */
  limit?: "max_batch_reply";
  /** of a tool with a reviewed result: `held` while it runs, `waits` after its end, then the decision; `dropped`: it was dropped with the handle or the call, see Approvals */
  review?: "allowed" | "denied" | "dropped" | "edited" | "held" | "skipped" | "waits";
  /** the action that it needs from a person, see Required acts; absent: `nothing` */
  needs?: "answer" | "decision" | "key" | "line" | "nothing" | "secret";
  /** the size of its terminal and the owner, in `handles/list` and `handle/state`, see Input */
  size?: TerminalSize;
  /** with the view `raw`, `[begin, end]` each: the spans of offsets that are standard error, if it has its own pipe */
  stderr?: ([number, number])[];
  /** the cause of the end */
  ended_by: EndedBy;
  /** success: the tool's result, or a raw program's unread output */
  result?: string;
  /** failure: the reason; never beside a `result` */
  error?: ToolError;
  /** beside an `error`: the unread output */
  content?: string;
  /** beside a `result` or `error` that the tool itself reported: the text of the `view`, if there is any; `omitted` counts its missing bytes */
  output?: string;
  /** the exit status of the process */
  exit?: Exit;
  /** `false` while a process left behind still holds the output; the output is then read for half a second more */
  output_complete?: boolean;
  /** processes that outlive the main one; they belong to the handle, and `abort` ends them */
  left_behind?: LeftBehind[];
  /** process ids that could not be ended */
  unconfirmed?: number[];
  /** the result was cut, or the output beside an `error` */
  truncated?: Truncated;
  call_id: string;
  notifications: Notice[];
}

/** A reply as text for a model, with notices. `failed`: the tool itself has failed. `inquiry`: the handle's question, if no client, program or model is asked; `states`: the handles in the text, without output. */
export interface CalledText {
  /** one header line (id, state, age, wanted input), the output, the omitted part, notices */
  text: string;
  /** the call's name */
  call_id: string;
  /** the tool itself has failed; an exit status is not a failure */
  failed?: boolean;
  /** the handles in the text, without their output */
  states?: HandleState[];
  /** the handle's question, if no client, program or model is being asked */
  inquiry?: Inquiry;
}

/** A waiting handle's state with notices. */
export interface CalledWaiting {
  state: "waiting";
  /** the caller's name for the handle */
  id: string;
  /** the tool that runs */
  tool: string;
  /** its session */
  session: string;
  /** the byte offset in the handle's output after the returned part */
  cursor: number;
  /** counts the uses of this id in its session, from 1 */
  generation: number;
  /** since spawn; frozen at the stop */
  elapsed_ms: number;
  /** requested bytes that are not returned: beyond `max_bytes`, or no longer kept */
  omitted?: number;
  /** with the view `answer`: bytes of the echo at the beginning, which are omitted */
  echoed?: number;
  /** the condition that ended the wait */
  waited?: "deadline" | "immediate" | "input" | "matched" | "output" | "quiet" | "stopped";
  /** with the view `screen`, for a terminal */
  screen?: Screen;
  /** the reason why the action was skipped, see Approvals */
  skipped?: string;
  /** in a batch: the limit for which the screen of the view `screen` or `paint` is left out, see Requests */
  limit?: "max_batch_reply";
  /** of a tool with a reviewed result: `held` while it runs, `waits` after its end, then the decision; `dropped`: it was dropped with the handle or the call, see Approvals */
  review?: "allowed" | "denied" | "dropped" | "edited" | "held" | "skipped" | "waits";
  /** the action that it needs from a person, see Required acts; absent: `nothing` */
  needs?: "answer" | "decision" | "key" | "line" | "nothing" | "secret";
  /** the size of its terminal and the owner, in `handles/list` and `handle/state`, see Input */
  size?: TerminalSize;
  /** with the view `raw`, `[begin, end]` each: the spans of offsets that are standard error, if it has its own pipe */
  stderr?: ([number, number])[];
  /** the text of the `view` */
  content: string;
  /** the tool's question; `apply` answers it */
  question: Question;
  /** the id under which `inquiries/answer` answers it */
  inquiry_id?: string;
  call_id: string;
  notifications: Notice[];
}

/** The options of one field, described by `text`. */
export interface Choice {
  /** one of these */
  options: (boolean | number | string | null)[];
  /** the description of the field */
  text?: string;
}

/** The client's name and version. */
export interface Client {
  /** the client's name */
  name: string;
  /** of the client */
  version?: string;
}

/** The requests that a client serves; unknown capabilities are ignored. */
export interface ClientCapabilities {
  /** it answers the request `inquiry/ask`, see Questions */
  inquiry: boolean;
  /** it answers the request `approval/ask`, see Approvals */
  approval: boolean;
}

/** A decision. With `edit`, `arguments` replace all arguments. */
export interface Decided {
  /** as for `approvals/decide` */
  decision: "allow" | "deny" | "edit" | "skip";
  /** with `edit`, and only then: all arguments to continue with; those left out take their defaults */
  arguments?: { [name: string]: unknown };
  /** the same for this tool and action in the same folder from now on, in the session, or until its turn ends */
  remember?: "session" | "turn";
  /** passed to the caller, and recorded */
  reason?: string;
}

/** A tool that a file of a root defines. */
export interface DefinedTool {
  /** the tool's name */
  name: string;
  /** the words of the command, with their templates */
  runs?: string[];
  /** the shell that runs the words as a script */
  shell?: string;
  /** the permission of each action that is not unattended: `ask`, `edit` or `skip` */
  asks?: { [name: string]: string };
  /** the command is also run, without a question, to describe the tool when it is first listed or called */
  describes_itself?: boolean;
  /** the whole definition, as written */
  says?: { [name: string]: unknown };
  /** the reason why the tool is not loaded */
  unused?: string;
}

/** A file in a root's `.haft/tools/`. A `refused` file cannot be trusted as it is. */
export interface DefinitionFile {
  /** its path */
  file: string;
  /** the trust in the file as it is */
  state: "changed" | "new" | "refused" | "trusted";
  /** the reason of a refusal */
  why?: string;
  /** SHA-256 of its content */
  digest?: string;
  /** its content */
  text?: string;
  /** its content when it was last trusted, if changed since */
  was?: string;
  /** the tools in the file */
  tools?: DefinedTool[];
  /** the faults of the file */
  problems?: Problem[];
}

/** Take the session's notices, with `markdown` also as text. */
export interface DrainParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** `markdown` adds `text` */
  format?: "json" | "markdown";
}

/** Params of a method that has no further ones. */
export interface Empty {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
}

/** The reason of a handle's end; `client` names the client that caused it. */
export interface EndedBy {
  /** the cause; with `limit`, `error` names the limit */
  by: "abort" | "disconnect" | "exit" | "limit" | "lost" | "shutdown" | "turn_end";
  /** the client that requested the end */
  client?: string;
}

/** A process's exit status: `code` or `signal` (its name without SIG), never both. */
export interface Exit {
  /** its exit code */
  code?: number;
  /** or the signal that ended it, without SIG */
  signal?: string;
}

/** Read a handle; `cursor` reads from an offset and leaves the session's read offset unchanged. */
export interface FetchParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the condition on which the call answers, see Waiting */
  wait?: "input" | "none" | "output" | "pattern" | "quiet" | "stopped";
  /** the longest wait; at the bound the state is returned with `waited: "deadline"` */
  timeout_ms?: number;
  /** the time without output after which `quiet` holds */
  quiet_ms?: number;
  /** a regular expression (RE2) for new output; without `wait`, the call waits for it */
  pattern?: string;
  /** the part of the output to return, see Reading output */
  view?: "all" | "answer" | "delta" | "paint" | "raw" | "screen" | "tail";
  /** the most bytes of text in the reply; the middle of a longer text is left out and counted */
  max_bytes?: number;
  /** the handle */
  id: string;
  /** re-reads from this offset and leaves the read mark unchanged */
  cursor?: number;
  /** the `revision` of the client's last screen */
  since_revision?: number;
  /** `terminal`: the bytes are for a terminal emulator, without queries, see Bytes for a terminal */
  for?: "terminal";
  /** with `for`: let writes to the clipboard (OSC 52) through */
  clipboard?: boolean;
  /** with the view `screen`: `runs` with their styles instead of `lines`, always all rows */
  styles?: boolean;
}

/** A choice for each of several fields, in one answer: an object with these names. */
export interface Form {
  type: "form";
  /** by name; the answer is an object with a choice for each */
  fields: { [name: string]: Choice };
}

/** A matching line; `cursor` is the byte offset of its beginning. */
export interface FoundLine {
  /** the handle */
  id: string;
  /** the handle's generation */
  generation: number;
  /** the offset at which the line begins, for `fetch` */
  cursor: number;
  /** its text */
  line: string;
}

/** A handle's state and metrics. Times are seconds since the epoch, `age_s` seconds since spawn; `cpu_s` and `memory` (resident bytes) are sums over processes. */
export interface HandleInfo {
  /** the command that runs */
  command: string;
  /** the working folder of the call, an absolute path */
  root: string;
  /** seconds since the epoch */
  started_at: number;
  /** seconds since spawn */
  age_s: number;
  /** bytes of output so far */
  bytes: number;
  /** the time of the last output, in seconds since the epoch */
  last_output_at?: number;
  /** the main process */
  pid?: number;
  /** processor seconds of all its processes */
  cpu_s?: number;
  /** resident bytes of all its processes */
  memory?: number;
}

/** List the handles of one session, or of all with `*`. */
export interface HandlesListParams {
  /** one session, or `*` for all */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
}

/** The handles, each with the fields of `HandleInfo`. */
export interface HandlesListResult {
  /** each the handle state without its text, with the fields of HandleInfo added */
  handles: (HandleState & HandleInfo)[];
}

/** Introduce the client; optional on a Unix socket, required first on a WebSocket. */
export interface InitializeParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the client; its name appears in `ended_by` of handles that it ends */
  client: Client;
  /** the version of the protocol, 1 */
  protocol: number;
  /** the requests that the client serves */
  capabilities?: ClientCapabilities;
  /** refuse requests that change anything on this connection, see Read-only connections */
  read_only?: boolean;
  /** random, for one use, on a WebSocket: `proof` answers it */
  challenge?: string;
}

/** The daemon and its limits; `started_at` is in seconds since the epoch. */
export interface InitializeResult {
  /** the daemon's name and version */
  server: ServerInfo;
  /** the version of the protocol, 1 */
  protocol: number;
  /** the session of later calls without `session` */
  session: string;
  /** the limits of this daemon */
  limits: LimitsResult;
  /** a process id */
  pid: number;
  /** seconds since the epoch */
  started_at: number;
  /** HMAC-SHA256 of `challenge` with the text of the file `proof-key`, as hex digits, if there is a WebSocket; a client that expects another value closes the connection */
  proof?: string;
  /** the connection is read-only */
  read_only?: boolean;
}

/** The input that a process reads: a line, a key or a secret, with the last line of output. */
export interface InputWanted {
  /** a line, a single key, or input without an echo */
  kind: "key" | "line" | "secret";
  /** the last line of output */
  prompt: string;
  /** true if the kernel shows the read; otherwise it was inferred */
  certain?: boolean;
}

/** The decision about a handle; `stopped` if stopped before. `why`: the reason for no decision. */
export interface Inquired {
  /** the handle */
  id: string;
  /** `stopped` if it stopped before the decision */
  decided: "abort" | "keep" | "stopped" | "wait";
  /** the reason, if no decision was made */
  why?: string;
}

/** Answer a question, for a person. With `question` the answer counts only while that question is open, as a tool's questions share one `inquiry_id`. With `remember` the answer is reused for the tool's same question. */
export interface InquiriesAnswerParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the id in `inquiries/list` */
  inquiry_id: string;
  /** checked against the question; an invalid answer has no effect */
  answer: unknown;
  /** the id of the answered question: the answer is accepted only while this question is open */
  question?: string;
  /** reuse the answer for the same question of the same tool in this session, or until its turn ends; not for a secret, nor for a model's question */
  remember?: "session" | "turn";
}

/** Ask the client's question, and wait for the answer. The candidates are the same as for a tool's question, except this client. Cancelling the call or closing the connection withdraws the question. */
export interface InquiriesAskParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** with an id of the client's choice */
  question: Question;
  /** the side to answer: `caller` (any), `user` (a person), `assistant` (a model), or a table for the answering side */
  target: "assistant" | "caller" | "user" | { [name: string]: unknown };
  /** the time for the answer; by default `question_timeout_s` of `[daemon]` */
  timeout_s?: number;
}

/** The answer, of the question's type. */
export interface InquiriesAskResult {
  /** an answer of the question's type */
  answer: boolean | number | string | null | { [name: string]: boolean | number | string | null };
}

/** List the open questions of one session, or of all with `*`. */
export interface InquiriesListParams {
  /** one session, or `*` for all */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
}

/** The open questions, as in `inquiry/ask`. */
export interface InquiriesListResult {
  /** the open questions, the oldest handle first */
  inquiries: Inquiry[];
}

/** An open question. `target` is `caller`, unless the definition has `assistant`, `user` (a person only) or a table. `schema` is the answer's schema, `context` the `context` of the `tools/call`. The daemon's question at a turn's end has no `handle` and no `call_id`. `refused`: why the client's previous answer was invalid. */
export interface Inquiry {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session: string;
  /** `tool_call.<tool>.<call_id>`: one for all questions of a call; `turn_end.<session>.<number>` */
  inquiry_id: string;
  /** the question */
  question: Question;
  /** of the answer: an object with `inquiry_id` and `answer` */
  schema: { [name: string]: unknown };
  /** the side to answer: `caller`, `assistant`, `user` (a person only), or the definition's own table */
  target: "assistant" | "caller" | "user" | { [name: string]: unknown };
  /** the handle that waits; absent at the end of a turn */
  handle?: string;
  /** the call's id, by default made of handle and generation; absent at the end of a turn */
  call_id?: string;
  /** the `context` of the `tools/call` */
  context?: unknown;
  /** the reason why the previous answer of the same client was invalid */
  refused?: string;
}

/** A question is answered, failed or withdrawn. `question` distinguishes the questions of one call. */
export interface InquiryClosed {
  /** its name */
  subscription: string;
  /** the session of the question */
  session: string;
  /** the id in `inquiry/opened` */
  inquiry_id: string;
  /** the id of the question, as questions of one call share an `inquiry_id` */
  question?: string;
}

/** A process of the handle that outlived the main one. */
export interface LeftBehind {
  /** a process id */
  pid: number;
  /** its command line */
  command: string;
}

/** The limits of this daemon. */
export interface LimitsResult {
  /** bytes of one message */
  max_message: number;
  /** levels of objects and arrays in one message */
  max_nesting: number;
  /** names and values in one message */
  max_values: number;
  /** requests in one batch */
  max_batch: number;
  /** connections at a time */
  max_connections: number;
  /** unanswered requests of one connection */
  max_in_flight: number;
  /** live handles of one session */
  max_handles_session: number;
  /** live handles in all */
  max_handles: number;
  /** bytes queued for a client that does not read; beyond that, the client is disconnected */
  max_queued: number;
}

/** One mouse action; rows and columns count from 0. `click`: press and release; `move` with a `button`: drag. */
export interface Mouse {
  row: number;
  col: number;
  action: "click" | "move" | "press" | "release" | "scroll_down" | "scroll_up";
  button?: "left" | "middle" | "right" | null;
  mods?: ("ctrl" | "meta" | "shift")[];
}

/** An event new to the session; `at` is in seconds since the epoch, `id` names the handle. Of output: the matched `pattern`, the number of lines (`count`), and the first of them. */
export interface Notice {
  /** `tool.stopped`, `tool.failed`, `tool.waiting`, `tool.content`, or `notices.lost` if the queue overflowed */
  kind: string;
  /** `info`, `warning`, `error` or `critical` */
  level: "critical" | "error" | "info" | "warning";
  /** one sentence for a person or a model */
  message: string;
  /** the time, in seconds since the epoch */
  at: number;
  /** the handle of the event */
  id?: string;
  /** the name of the definition's `notify` pattern that lines of the output have matched */
  pattern?: string;
  /** the first of the matching lines, at most eight; without `pattern` the last line of output */
  lines?: string[];
  /** the number of unread lines that have matched; the first of them are in `lines` */
  count?: number;
}

/** The session's unseen notices, oldest first, each returned once. `text` is their Markdown. */
export interface NoticesResult {
  /** notices that the session has not seen, oldest first; each is returned once */
  notifications: Notice[];
  /** the notices as Markdown, with the format `markdown`; empty without notices */
  text?: string;
}

/** An open question; `since` is in seconds since the epoch. At a turn's end there is no `handle`. */
export interface OpenQuestion {
  /** the id under which `inquiries/answer` answers it */
  inquiry_id: string;
  /** the session of the asking tool */
  session: string;
  /** the id of the question */
  question: string;
  /** the time of the question, in seconds since the epoch */
  since: number;
  /** true while a client, a program or a model is asked; otherwise the question waits for any answer */
  asked: boolean;
  /** the asking tool; absent at a turn's end, and if a client asks */
  tool?: string;
  /** its handle; absent at a turn's end, and if a client asks */
  handle?: string;
}

/** One parameter of a tool; a nested one is named by its path, as `a.b` or `list[].b`. */
export interface ParameterInfo {
  /** its name, or its path */
  name: string;
  /** its JSON types, in words */
  type: string;
  /** a call must have it */
  required?: boolean;
  /** the definition's description, and the constraints */
  description?: string;
  /** the value of an absent parameter */
  default?: unknown;
}

/** The id is taken; no process runs yet. */
export interface Pending {
  state: "pending";
  /** the caller's name for the handle */
  id: string;
  /** the tool that runs */
  tool: string;
  /** its session */
  session: string;
  /** the byte offset in the handle's output after the returned part */
  cursor: number;
  /** counts the uses of this id in its session, from 1 */
  generation: number;
  /** since spawn; frozen at the stop */
  elapsed_ms: number;
  /** requested bytes that are not returned: beyond `max_bytes`, or no longer kept */
  omitted?: number;
  /** with the view `answer`: bytes of the echo at the beginning, which are omitted */
  echoed?: number;
  /** the condition that ended the wait */
  waited?: "deadline" | "immediate" | "input" | "matched" | "output" | "quiet" | "stopped";
  /** with the view `screen`, for a terminal */
  screen?: Screen;
  /** the reason why the action was skipped, see Approvals */
  skipped?: string;
  /** in a batch: the limit for which the screen of the view `screen` or `paint` is left out, see Requests */
  limit?: "max_batch_reply";
  /** of a tool with a reviewed result: `held` while it runs, `waits` after its end, then the decision; `dropped`: it was dropped with the handle or the call, see Approvals */
  review?: "allowed" | "denied" | "dropped" | "edited" | "held" | "skipped" | "waits";
  /** the action that it needs from a person, see Required acts; absent: `nothing` */
  needs?: "answer" | "decision" | "key" | "line" | "nothing" | "secret";
  /** the size of its terminal and the owner, in `handles/list` and `handle/state`, see Input */
  size?: TerminalSize;
  /** with the view `raw`, `[begin, end]` each: the spans of offsets that are standard error, if it has its own pipe */
  stderr?: ([number, number])[];
  /** the text of the `view` */
  content: string;
}

/** The daemon answers. */
export interface PingResult {
  /** always true */
  pong: boolean;
}

/** A file or definition that is not used, and the reason; or a setting that waits for the next start. */
export interface Problem {
  /** the file */
  file: string;
  /** the key */
  key: string;
  /** the fault */
  message: string;
  /** the line */
  line?: number;
  /** the remedy, if it is not to correct the file and reload */
  advice?: string;
  /** `note`: nothing is wrong or unused */
  level?: "note";
}

/** New output in base64: the bytes from offset `start`, the previous push's `cursor`, to `cursor`. */
export interface PushedBytes {
  /** its name */
  subscription: string;
  /** the handle */
  id: string;
  /** the number of the use of this id */
  generation: number;
  /** the byte offset at which `data` begins: the `cursor` of the previous push, plus `omitted` */
  start: number;
  /** the byte offset in the handle's output after `data` */
  cursor: number;
  /** the bytes in base64; with `for`, without the queries, so they may be empty */
  data: string;
  /** bytes before `data` that were not sent to this reader */
  omitted?: number;
  /** the `cursor` from which `fetch` returns them */
  omitted_from?: number;
  /** the session of the handle, if the subscription is to all sessions */
  session?: string;
  /** `[begin, end]` each: the spans of offsets in `data` that are standard error, if it has its own pipe */
  stderr?: ([number, number])[];
}

/** The daemon has forgotten a handle. A later `generation` of the id stays. */
export interface PushedForgotten {
  /** its name */
  subscription: string;
  /** the session of the handle */
  session: string;
  /** the handle */
  id: string;
  /** the forgotten use of the id, not a later one */
  generation: number;
}

/** New output as text: the bytes from offset `start`, the previous push's `cursor`, to `cursor`. */
export interface PushedOutput {
  /** its name */
  subscription: string;
  /** the handle */
  id: string;
  /** the number of the use of this id */
  generation: number;
  /** the byte offset at which `data` begins: the `cursor` of the previous push, plus `omitted` */
  start: number;
  /** the byte offset in the handle's output after `data` */
  cursor: number;
  /** text, as in the view `delta` */
  data: string;
  /** bytes before `data` that were not sent to this reader */
  omitted?: number;
  /** the `cursor` from which `fetch` returns them */
  omitted_from?: number;
  /** the session of the handle, if the subscription is to all sessions */
  session?: string;
}

/** A terminal's screen: `lines` at first and after a resize, then the rows `changed` since the previous push. */
export interface PushedScreen {
  /** its name */
  subscription: string;
  /** the handle */
  id: string;
  /** the number of the use of this id */
  generation: number;
  /** with `lines`, or only with the `changed` rows */
  screen: Screen;
  /** the session of the handle, if the subscription is to all sessions */
  session?: string;
}

/** The definitions, or the trust in a root, have changed. */
export interface PushedTools {
  /** its name */
  subscription: string;
}

/** A question that a tool needs answered to continue. `default` is offered, never applied unasked. */
export interface Question {
  /** the question's id */
  id: string;
  /** the question */
  text: string;
  /** the type of the answer */
  answer_type: Boolean | Text | Secret | Select | Form;
  /** text to show before the question */
  pre_amble?: string | null;
  /** an answer to offer; never applied unasked */
  default?: unknown;
  /** an address that a person must open before the answer, as requested by an MCP server; `text` also shows the address */
  url?: string | null;
}

/** The number of tools and the problems. */
export interface ReloadResult {
  /** the number of tools */
  tools: number;
  /** parts of the configuration that are not used, with the reason */
  problems: Problem[];
}

/** The tool is running. */
export interface Running {
  state: "running";
  /** the caller's name for the handle */
  id: string;
  /** the tool that runs */
  tool: string;
  /** its session */
  session: string;
  /** the byte offset in the handle's output after the returned part */
  cursor: number;
  /** counts the uses of this id in its session, from 1 */
  generation: number;
  /** since spawn; frozen at the stop */
  elapsed_ms: number;
  /** requested bytes that are not returned: beyond `max_bytes`, or no longer kept */
  omitted?: number;
  /** with the view `answer`: bytes of the echo at the beginning, which are omitted */
  echoed?: number;
  /** the condition that ended the wait */
  waited?: "deadline" | "immediate" | "input" | "matched" | "output" | "quiet" | "stopped";
  /** with the view `screen`, for a terminal */
  screen?: Screen;
  /** the reason why the action was skipped, see Approvals */
  skipped?: string;
  /** in a batch: the limit for which the screen of the view `screen` or `paint` is left out, see Requests */
  limit?: "max_batch_reply";
  /** of a tool with a reviewed result: `held` while it runs, `waits` after its end, then the decision; `dropped`: it was dropped with the handle or the call, see Approvals */
  review?: "allowed" | "denied" | "dropped" | "edited" | "held" | "skipped" | "waits";
  /** the action that it needs from a person, see Required acts; absent: `nothing` */
  needs?: "answer" | "decision" | "key" | "line" | "nothing" | "secret";
  /** the size of its terminal and the owner, in `handles/list` and `handle/state`, see Input */
  size?: TerminalSize;
  /** with the view `raw`, `[begin, end]` each: the spans of offsets that are standard error, if it has its own pipe */
  stderr?: ([number, number])[];
  /** the text of the `view` */
  content: string;
  /** the input that the program reads now; `null`: no known input */
  input_wanted?: InputWanted | null;
  /** a signal has stopped the program (`C-z`, `kill -STOP`): it does nothing until it gets CONT */
  suspended?: boolean;
  /** the way to resume the program */
  hint?: string;
}

/** A terminal's screen, or the rows `changed` (by number), then without `lines`. `cursor` is [row, col] from 0; `scrollback` counts the lines above. With `styles` the rows are `runs`. */
export interface Screen {
  /** height */
  rows: number;
  /** width */
  cols: number;
  /** row and column of the cursor, from 0 */
  cursor: [number, number];
  /** the alternate screen is shown, as full-screen programs do */
  alt: boolean;
  /** the title that the program has set */
  title: string;
  /** grows with each change */
  revision: number;
  /** kept lines above the screen */
  scrollback: number;
  /** all rows, from the top */
  lines?: string[];
  /** instead of `lines`: the rows that differ from `since_revision`, by number */
  changed?: { [name: string]: string };
  /** with `styles`, instead of `lines`: for each row its runs, each a pair of its text and the parameters of the SGR sequence of its style (`1;38;5;4`), empty for none. Spaces without style at a row's end are omitted; after the end of the tool, and on a screen of more than 20,000 cells, no style is known */
  runs?: (([string, string])[])[];
}

/** Find lines in the kept output of handles, running or stopped; a connection's searches take turns. */
export interface SearchParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** a regular expression (RE2) */
  pattern: string;
  /** only in these handles; in all of the session by default */
  ids?: string[];
  /** the maximum number of lines to return */
  max_matches?: number;
}

/** The matches, of 2 MiB at most; `more`: this, `max_matches` or 10 s of matching was met, so there may be more. */
export interface SearchResult {
  /** the lines, oldest first in each handle */
  matches: FoundLine[];
  /** there may be others */
  more: boolean;
}

/** A text from a person; never stored, logged or shown to an assistant. */
export interface Secret {
  type: "secret";
}

/** One of the options, scalars compared as JSON values (1 is not true). */
export interface Select {
  type: "select";
  /** one of these */
  options: (boolean | number | string | null)[];
}

/** The daemon's name and version. */
export interface ServerInfo {
  /** `haftd` */
  name: string;
  /** of the daemon */
  version: string;
}

/** Close a session; its live handles are aborted. */
export interface SessionCloseParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the policy for live handles */
  policy?: "abort";
}

/** The last states of the session's handles. */
export interface SessionCloseResult {
  /** the last state of each */
  handles: HandleState[];
}

/** A session and the number of its handles. */
export interface SessionInfo {
  /** its name */
  session: string;
  /** handles that have not stopped */
  live: number;
  /** stopped handles that can still be read */
  stopped: number;
  /** clients that use it now */
  connections: number;
}

/** All known sessions. */
export interface SessionListResult {
  /** the sessions */
  sessions: SessionInfo[];
}

/** Stop the daemon: `abort` ends every handle within its grace, `refuse` fails when one is live. */
export interface ShutdownParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** `abort` ends every handle within its grace period, `refuse` fails if a handle is live */
  policy?: "abort" | "refuse";
}

/** Start a tool under an id. `env` replaces the daemon's environment; `null` omits a name. `stdin_from` pipes a handle's output into standard input; `split_stderr` gives standard error a pipe of its own where the output is raw. Without `retain` the handle is forgotten at its end. A start that awaits approval after `approval_timeout_ms` outlives the call, which answers `pending`. With `cursor`, as in `fetch`, neither output nor an end is read for the session. */
export interface SpawnParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the condition on which the call answers, see Waiting */
  wait?: "input" | "none" | "output" | "pattern" | "quiet" | "stopped";
  /** the longest wait; at the bound the state is returned with `waited: "deadline"` */
  timeout_ms?: number;
  /** the time without output after which `quiet` holds */
  quiet_ms?: number;
  /** a regular expression (RE2) for new output; without `wait`, the call waits for it */
  pattern?: string;
  /** the part of the output to return, see Reading output */
  view?: "all" | "answer" | "delta" | "paint" | "raw" | "screen" | "tail";
  /** the most bytes of text in the reply; the middle of a longer text is left out and counted */
  max_bytes?: number;
  /** the name of a tool of `tools/list` */
  tool: string;
  /** the name of the handle; taken only while a live handle of the session has it */
  id: string;
  /** the tool's arguments, checked against its schema; `null` stands for none */
  args?: { [name: string]: unknown } | null;
  /** the same `call_id`, tool and arguments again return the handle of the first call, under its own id, with any `id` of this call: a retry starts no second process */
  call_id?: string;
  /** the environment of the tool instead of the daemon's; `null` leaves a name out */
  env?: { [name: string]: string | null };
  /** the handle whose output is the input: see Pipes */
  stdin_from?: StdinFrom;
  /** gives standard error a pipe of its own, where the output is raw: see Reading output */
  split_stderr?: boolean;
  /** `false`: the handle is forgotten five seconds after its end and last output, but not while a subscription or call waits for it */
  retain?: boolean;
  /** the time that the call waits for a person's approval; then it answers with the handle `pending`, and the start outlives the call and its client. By default the call waits until the decision */
  approval_timeout_ms?: number;
  /** re-reads from this offset and leaves the read mark unchanged */
  cursor?: number;
}

/** The daemon's metrics: `memory` in resident bytes, `cpu_s` in seconds. */
export interface StatusResult {
  /** of the daemon */
  version: string;
  /** a process id */
  pid: number;
  /** seconds since the epoch */
  started_at: number;
  /** seconds since the start */
  uptime_s: number;
  /** its Unix socket */
  socket: string;
  /** `stopping` during the shutdown */
  state: "running" | "stopping";
  /** how a handle's processes are contained */
  containment: "cgroup" | "processes";
  /** open connections */
  connections: number;
  /** sessions with handles or connections */
  sessions: number;
  /** the number of handles by state */
  handles: { [name: string]: number };
  /** resident bytes of the daemon */
  memory: number;
  /** processor seconds of the daemon */
  cpu_s: number;
  /** open file descriptors */
  descriptors: number;
  /** of the daemon */
  threads: number;
  /** bytes of output on disk */
  spooled: number;
  /** parts of the configuration that are not used, with the reason */
  problems: Problem[];
  /** the open questions */
  questions?: OpenQuestion[];
  /** the PATH of tools for clients that send no environment */
  path?: string;
  /** true if a service manager has started the daemon */
  managed?: boolean;
  /** the installer's cache that contains the daemon's program and can be emptied while it runs; absent for an installation */
  cache?: string;
  /** the address at which the WebSocket listens */
  websocket?: WebSocketInfo;
  /** process ids that could not be ended, of this run and of an earlier one */
  unconfirmed?: number[];
  /** counts of the last start's recovery: `ended`, `lost` and `dropped` handles, `killed` processes */
  recovered?: { [name: string]: number };
  /** refused connections, by reason */
  refused?: { [name: string]: number };
}

/** A handle of the session that feeds another's input with its output, from the beginning or from `cursor`. */
export interface StdinFrom {
  /** a handle of the session, running or stopped */
  id: string;
  /** the offset in its output to begin at; by default the first byte */
  cursor?: number;
}

/** The final state, with `result` or `error`. `content` stands beside the error of a raw process, `output` beside a result or error of the tool's own. */
export interface Stopped {
  state: "stopped";
  /** the caller's name for the handle */
  id: string;
  /** the tool that runs */
  tool: string;
  /** its session */
  session: string;
  /** the byte offset in the handle's output after the returned part */
  cursor: number;
  /** counts the uses of this id in its session, from 1 */
  generation: number;
  /** since spawn; frozen at the stop */
  elapsed_ms: number;
  /** requested bytes that are not returned: beyond `max_bytes`, or no longer kept */
  omitted?: number;
  /** with the view `answer`: bytes of the echo at the beginning, which are omitted */
  echoed?: number;
  /** the condition that ended the wait */
  waited?: "deadline" | "immediate" | "input" | "matched" | "output" | "quiet" | "stopped";
  /** with the view `screen`, for a terminal */
  screen?: Screen;
  /** the reason why the action was skipped, see Approvals */
  skipped?: string;
  /** in a batch: the limit for which the screen of the view `screen` or `paint` is left out, see Requests */
  limit?: "max_batch_reply";
  /** of a tool with a reviewed result: `held` while it runs, `waits` after its end, then the decision; `dropped`: it was dropped with the handle or the call, see Approvals */
  review?: "allowed" | "denied" | "dropped" | "edited" | "held" | "skipped" | "waits";
  /** the action that it needs from a person, see Required acts; absent: `nothing` */
  needs?: "answer" | "decision" | "key" | "line" | "nothing" | "secret";
  /** the size of its terminal and the owner, in `handles/list` and `handle/state`, see Input */
  size?: TerminalSize;
  /** with the view `raw`, `[begin, end]` each: the spans of offsets that are standard error, if it has its own pipe */
  stderr?: ([number, number])[];
  /** the cause of the end */
  ended_by: EndedBy;
  /** success: the tool's result, or a raw program's unread output */
  result?: string;
  /** failure: the reason; never beside a `result` */
  error?: ToolError;
  /** beside an `error`: the unread output */
  content?: string;
  /** beside a `result` or `error` that the tool itself reported: the text of the `view`, if there is any; `omitted` counts its missing bytes */
  output?: string;
  /** the exit status of the process */
  exit?: Exit;
  /** `false` while a process left behind still holds the output; the output is then read for half a second more */
  output_complete?: boolean;
  /** processes that outlive the main one; they belong to the handle, and `abort` ends them */
  left_behind?: LeftBehind[];
  /** process ids that could not be ended */
  unconfirmed?: number[];
  /** the result was cut, or the output beside an `error` */
  truncated?: Truncated;
}

/** Subscribe to `handles`, by default to all present and future handles of the session, or of all sessions with `*`. */
export interface SubscribeParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** `state`, `output`, `bytes`, `screen`, `inquiries`, `approvals`, `notification`, `tools`: see Subscriptions */
  events: ("approvals" | "bytes" | "inquiries" | "notification" | "output" | "screen" | "state" | "tools")[];
  /** ids: only these handles, and later uses of the ids; by default all handles of the session */
  handles?: string[];
  /** by id, the offset from which output is sent: the last received `cursor` */
  from?: { [name: string]: number };
  /** `terminal`: the bytes are for a terminal emulator, without queries, see Bytes for a terminal */
  for?: "terminal";
  /** with `for`: let writes to the clipboard (OSC 52) through */
  clipboard?: boolean;
  /** the programs of `handles` wait while this reader of `bytes` lags: see Subscriptions */
  backpressure?: boolean;
}

/** The subscription's name, in each notification. */
export interface SubscribeResult {
  /** its name */
  subscription: string;
}

/** The size of a terminal, from the first resize on. `client` names the owner: the latest client that resized the terminal, or typed after giving a size; `yours`: the owner is this connection. */
export interface TerminalSize {
  /** rows of the terminal */
  rows: number;
  /** columns of the terminal */
  cols: number;
  /** the name of the owner; absent after the owner has disconnected */
  client?: string;
  /** the owner is this connection */
  yours?: boolean;
}

/** A free text. */
export interface Text {
  type: "text";
}

/** Return when the bytes of a handle's output were printed. */
export interface TimelineParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the handle */
  id: string;
  /** the offset of a byte: points begin with the point of this byte */
  cursor?: number;
  /** the maximum number of points to return; 1 counts as 2, as the last point of a page begins the next */
  max_points?: number;
}

/** Points of a byte offset and the milliseconds from `started_at` to its printing; the bytes up to the next point were printed within `grain_ms`. `cursor` is the end of the output. */
export interface TimelineResult {
  /** the handle's generation */
  generation: number;
  /** the time of the spawn, in seconds since the epoch */
  started_at: number;
  /** the precision of a point, in milliseconds; coarser for a long output */
  grain_ms: number;
  /** the end of the output */
  cursor: number;
  /** `[offset, ms]` each, the milliseconds since `started_at` */
  points: ([number, number])[];
  /** there are further points; the last point's offset as `cursor` returns them */
  more: boolean;
  /** `[rows, cols]` of the terminal at its start, absent on a pipe */
  initial_size?: [number, number];
  /** `[offset, ms, rows, cols]` each: the resizes of the terminal, the latest 1,024, from `cursor` up to the last point where there is `more` */
  resizes?: ([number, number, number, number])[];
  /** `[offset, ms, size]` each: the inputs in characters or keys, likewise, without inputs that were secret or not echoed */
  inputs?: ([number, number, number])[];
}

/** The whole description of a tool's definition. */
export interface ToolDescription {
  /** its own name */
  name: string;
  /** one line */
  summary: string;
  /** the whole text */
  description: string;
  /** the definition's examples */
  examples: string;
  /** it runs as a handle across calls */
  stateful: boolean;
  /** the actions that the tool supports */
  actions: string[];
  /** the tool's own parameters; of a stateful tool, those of spawn */
  parameters: ParameterInfo[];
  /** what the tool may do, a sentence for each rule, after `Refused here:` with the reason if its rules would be refused in this root; absent for a tool without rules */
  access?: string[];
}

/** A tool's own failure. `transient`: the same call may succeed later. */
export interface ToolError {
  /** one sentence */
  message: string;
  /** further lines of the tool about the error */
  trace: string[];
  /** the same call may succeed later */
  transient: boolean;
}

/** A tool for a client; `parameters` is a JSON Schema in the requested provider's dialect. */
export interface ToolInfo {
  /** its name, in a form that the provider accepts */
  name: string;
  /** the summary, for choosing a tool; the description if there is no summary */
  description: string;
  /** a JSON Schema */
  parameters: { [name: string]: unknown };
  /** it runs as a handle across calls */
  stateful: boolean;
  /** the actions that the tool supports */
  actions: string[];
  /** the source of its definition */
  source: string;
  /** its runtime */
  runtime: string;
  /** its own name, if different */
  tool?: string;
  /** the tool's possible effects, with the surface `verbs` */
  annotations?: Annotations;
}

/** Call a tool as an assistant does. With `action` among the arguments the call is that verb on a handle, else the tool runs to its end. The side that answers questions gets `context`, the tool its object `vars`; `env` is as for spawn. With the surface `verbs` the tool is one that `tools/list` gives for that surface; with the format `text` the reply is text for a model. */
export interface ToolsCallParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the name of a tool, as `tools/list` shows it to the caller's provider */
  tool: string;
  /** the model's arguments: an object, or the JSON text of one; `null` and an empty string stand for none. With `action` the call is that verb on a handle, see Calling tools */
  arguments?: { [name: string]: unknown } | string | null;
  /** the caller's name for this call, generated by default. A retry with the same name starts nothing twice */
  call_id?: string;
  /** context for the side that answers the tool's questions; only its `vars` are read: they are added to the tool's own context */
  context?: unknown;
  /** as for `spawn` */
  env?: { [name: string]: string | null };
  /** the form in which handles are offered to a model: an `action` of each tool, or a tool for each verb */
  surface?: "actions" | "verbs";
  /** `text`: the reply is text for a model, of at most 8,000 bytes of output */
  format?: "json" | "text";
}

/** Describe tools in full. */
export interface ToolsDescribeParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** their names */
  tools: string[];
}

/** The descriptions, in the order of the request. */
export interface ToolsDescribeResult {
  /** the tools */
  tools: ToolDescription[];
}

/** List the tools with their schemas in a provider's dialect. The surface `verbs` has a tool to start each definition and five for all handles, and ignores `style`. */
export interface ToolsListParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the provider to whose JSON Schema the list is adapted */
  provider?: "anthropic" | "generic" | "google" | "mcp" | "ollama" | "openai";
  /** the form of a stateful tool's actions in its schema: a `oneOf` variant each, or one object; by default the provider's */
  style?: "flat" | "oneof";
  /** the form in which handles are offered to a model: an `action` of each tool, or a tool for each verb */
  surface?: "actions" | "verbs";
}

/** The tools, by name, and the problems of tools that are not listed for the provider. */
export interface ToolsListResult {
  /** the tools */
  tools: ToolInfo[];
  /** tools that cannot be expressed for the provider, with the reason */
  problems?: Problem[];
}

/** A truncated result: `kept` of `bytes` are here, all in `path` if set, except `omitted` bytes no longer kept. */
export interface Truncated {
  /** bytes of the whole */
  bytes: number;
  /** returned bytes */
  kept: number;
  /** a file with all output of the handle, or with a structured tool's result; it exists as long as the handle. `null`: there was no room for it, or more output may follow */
  path: string | null;
  /** bytes that are not in that file either: the oldest, dropped when there were too many */
  omitted?: number;
}

/** Trust the files of a root as `trust/show` has shown them. `root` is required. Over the Unix socket only, and not from a tool's process. */
export interface TrustGrantParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root: string;
  /** the digest of the files as shown; a file changed since is not trusted */
  digest: string;
}

/** The roots with trusted files, sorted by path. */
export interface TrustListResult {
  /** the roots with trusted files */
  roots: TrustedRoot[];
}

/** The files that are trusted now. */
export interface TrustResult {
  /** the canonical path of the root */
  root: string;
  /** the names of the files that are trusted */
  files: string[];
}

/** Revoke the trust in all files of a root. `root` is required. */
export interface TrustRevokeParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root: string;
}

/** The root, and `was`, true if a file of the root was trusted. */
export interface TrustRevokeResult {
  /** the path under which it was trusted */
  root: string;
  /** true if the root was trusted */
  was: boolean;
}

/** Show the commands of the files in a root's `.haft/tools/`. `root` is required. */
export interface TrustShowParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root: string;
}

/** The files to trust, each with its present state. */
export interface TrustShowResult {
  /** the canonical path of the root */
  root: string;
  /** the common digest of all files that can be trusted now */
  digest: string;
  /** by name */
  files: DefinitionFile[];
  /** names of trusted files that no longer exist */
  gone?: string[];
  /** the time of the last grant, in seconds since the epoch */
  at?: number;
}

/** A root with trusted files. */
export interface TrustedRoot {
  /** its canonical path */
  root: string;
  /** the time of the grant, in seconds since the epoch */
  at: number;
  /** the names of its trusted files */
  files: string[];
}

/** End a turn: each tool's policy aborts, awaits, keeps or asks about its live handles. `target` names the side to answer, which gets `context`. */
export interface TurnEndParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the policy for all handles, instead of those of their tools */
  policy?: "abort" | "await" | "inquire" | "keep";
  /** the time for awaited handles; a handle that still runs after it is kept. An inquiry has the same time for its answer, and awaited handles then have it again */
  timeout_ms?: number;
  /** the side to answer the inquiry: `caller`, `assistant`, `user` (a person) */
  target?: "assistant" | "caller" | "user";
  /** passed to the side that answers the inquiry */
  context?: unknown;
}

/** The states of the handles live at the turn's end; their output stays unread. */
export interface TurnEndResult {
  /** the number of the turn in the session */
  turn: number;
  /** in the order of their starts */
  handles: HandleState[];
  /** the decisions about the handles of the inquiry */
  inquired?: Inquired[];
}

/** The number of the turn, from 1 in each session. */
export interface TurnResult {
  /** the number of the turn in the session */
  turn: number;
}

/** End a subscription of this connection. */
export interface UnsubscribeParams {
  /** the session of the handles; by default the session that `initialize` named, else `default` */
  session?: string;
  /** the working folder of the call, an absolute path */
  root?: string;
  /** the name that `subscribe` has returned */
  subscription: string;
}

/** The tool waits for the answer to one question. */
export interface Waiting {
  state: "waiting";
  /** the caller's name for the handle */
  id: string;
  /** the tool that runs */
  tool: string;
  /** its session */
  session: string;
  /** the byte offset in the handle's output after the returned part */
  cursor: number;
  /** counts the uses of this id in its session, from 1 */
  generation: number;
  /** since spawn; frozen at the stop */
  elapsed_ms: number;
  /** requested bytes that are not returned: beyond `max_bytes`, or no longer kept */
  omitted?: number;
  /** with the view `answer`: bytes of the echo at the beginning, which are omitted */
  echoed?: number;
  /** the condition that ended the wait */
  waited?: "deadline" | "immediate" | "input" | "matched" | "output" | "quiet" | "stopped";
  /** with the view `screen`, for a terminal */
  screen?: Screen;
  /** the reason why the action was skipped, see Approvals */
  skipped?: string;
  /** in a batch: the limit for which the screen of the view `screen` or `paint` is left out, see Requests */
  limit?: "max_batch_reply";
  /** of a tool with a reviewed result: `held` while it runs, `waits` after its end, then the decision; `dropped`: it was dropped with the handle or the call, see Approvals */
  review?: "allowed" | "denied" | "dropped" | "edited" | "held" | "skipped" | "waits";
  /** the action that it needs from a person, see Required acts; absent: `nothing` */
  needs?: "answer" | "decision" | "key" | "line" | "nothing" | "secret";
  /** the size of its terminal and the owner, in `handles/list` and `handle/state`, see Input */
  size?: TerminalSize;
  /** with the view `raw`, `[begin, end]` each: the spans of offsets that are standard error, if it has its own pipe */
  stderr?: ([number, number])[];
  /** the text of the `view` */
  content: string;
  /** the tool's question; `apply` answers it */
  question: Question;
  /** the id under which `inquiries/answer` answers it */
  inquiry_id?: string;
}

/** The address at which the WebSocket listens. */
export interface WebSocketInfo {
  /** its address */
  host: string;
  /** its port */
  port: number;
}

/** Every method: its params and its result. */
export interface Methods {
  /** Introduce the client; the result has the daemon's limits. */
  "initialize": { params: InitializeParams; result: InitializeResult };
  /** Check that the daemon answers. */
  "ping": { params: Empty | undefined; result: PingResult };
  /** Start a tool under an id of the caller's choice. */
  "spawn": { params: SpawnParams; result: HandleState };
  /** Read a handle's state and output. */
  "fetch": { params: FetchParams; result: HandleState };
  /** Send a handle input, or an answer to its question. */
  "apply": { params: ApplyParams; result: HandleState };
  /** End a handle and everything it started. */
  "abort": { params: AbortParams; result: HandleState };
  /** Wait for handles to stop. */
  "await": { params: AwaitParams | undefined; result: AwaitResult };
  /** List handles with their processes. */
  "handles/list": { params: HandlesListParams | undefined; result: HandlesListResult };
  /** Find lines in the output of handles. */
  "output/search": { params: SearchParams; result: SearchResult };
  /** Return the times at which the bytes of a handle's output were printed. */
  "output/timeline": { params: TimelineParams; result: TimelineResult };
  /** List the sessions. */
  "session/list": { params: Empty | undefined; result: SessionListResult };
  /** Close a session and abort its handles. */
  "session/close": { params: SessionCloseParams | undefined; result: SessionCloseResult };
  /** Begin a turn of the session. */
  "turn/begin": { params: Empty | undefined; result: TurnResult };
  /** End a turn, and the handles that must not outlast it. */
  "turn/end": { params: TurnEndParams | undefined; result: TurnEndResult };
  /** Call a tool as an assistant does: a verb by `action`, else a complete run. */
  "tools/call": { params: ToolsCallParams; result: CalledPending | CalledRunning | CalledWaiting | CalledStopped | CalledAwait | CalledList | CalledText };
  /** Take the notices that the next tools/call would return. */
  "notifications/drain": { params: DrainParams | undefined; result: NoticesResult };
  /** Receive states, output, screens or notices as they occur. */
  "subscribe": { params: SubscribeParams; result: SubscribeResult };
  /** End a subscription. */
  "unsubscribe": { params: UnsubscribeParams; result: Empty };
  /** List the tools with their schemas. */
  "tools/list": { params: ToolsListParams | undefined; result: ToolsListResult };
  /** Describe tools in full, with examples and each parameter. */
  "tools/describe": { params: ToolsDescribeParams; result: ToolsDescribeResult };
  /** Reload the tool definitions. */
  "tools/reload": { params: Empty | undefined; result: ReloadResult };
  /** Show the commands in the definitions of a root. */
  "trust/show": { params: TrustShowParams; result: TrustShowResult };
  /** Trust the definitions of a root as shown. */
  "trust/grant": { params: TrustGrantParams; result: TrustResult };
  /** Revoke the trust in a root. */
  "trust/revoke": { params: TrustRevokeParams; result: TrustRevokeResult };
  /** List the roots whose definitions are trusted. */
  "trust/list": { params: Empty | undefined; result: TrustListResult };
  /** Ask the client's question, and wait for the answer. */
  "inquiries/ask": { params: InquiriesAskParams; result: InquiriesAskResult };
  /** List the open questions of tools. */
  "inquiries/list": { params: InquiriesListParams | undefined; result: InquiriesListResult };
  /** Answer a tool's question. */
  "inquiries/answer": { params: InquiriesAnswerParams; result: Empty };
  /** List the actions that await a person's approval. */
  "approvals/list": { params: ApprovalsListParams | undefined; result: ApprovalsListResult };
  /** Allow, deny, skip or edit an action that awaits approval. */
  "approvals/decide": { params: ApprovalsDecideParams; result: Empty };
  /** Ask the handle's driver for a secret; for the helper `haft-askpass` only. */
  "askpass": { params: AskpassParams; result: AskpassResult };
  /** Report the daemon's status and problems. */
  "daemon/status": { params: Empty | undefined; result: StatusResult };
  /** Reload configuration and definitions. */
  "daemon/reload": { params: Empty | undefined; result: ReloadResult };
  /** Stop the daemon and all its handles. */
  "daemon/shutdown": { params: ShutdownParams | undefined; result: Empty };
  /** Return this protocol as an OpenRPC document. */
  "rpc.discover": { params: Empty | undefined; result: { [name: string]: unknown } };
}

/** Requests of the daemon to a client that said so in `capabilities`. */
export interface DaemonRequests {
  "inquiry/ask": { params: Inquiry; result: InquiryReply };
  "approval/ask": { params: Approval; result: Decided };
}

/** Notifications of the daemon to a client that subscribed, by method. */
export interface Notifications {
  "handle/state": HandleState & Subscribed;
  "handle/output": PushedOutput;
  "handle/bytes": PushedBytes;
  "handle/screen": PushedScreen;
  "handle/forgotten": PushedForgotten;
  "tools/changed": PushedTools;
  "inquiry/opened": Inquiry & Subscribed;
  "inquiry/closed": InquiryClosed;
  "approval/opened": Approval & Subscribed;
  "approval/closed": ApprovalClosed;
  "session/notification": Notice & Subscribed & { session: string };
}

/** The kind that each of the daemon's errors names in `data`, and its code. */
export interface ErrorCodes {
  parse_error: -32700;
  invalid_request: -32600;
  method_not_found: -32601;
  invalid_params: -32602;
  internal_error: -32603;
  request_cancelled: -32800;
  handle_not_found: -32001;
  handle_exists: -32002;
  tool_not_found: -32003;
  action_not_supported: -32004;
  invalid_arguments: -32005;
  not_authorized: -32006;
  not_approved: -32007;
  handle_stopped: -32008;
  limit_exceeded: -32009;
  untrusted_root: -32010;
  invalid_answer: -32011;
  spawn_failed: -32012;
  shutting_down: -32013;
  unsupported_runtime: -32014;
}

export interface RpcError {
  code: number;
  message: string;
  data?: { kind: keyof ErrorCodes; [name: string]: unknown };
}

/** What a client answers to `inquiry/ask`. */
export interface InquiryReply {
  answer: Answer;
  remember?: "turn" | "session";
}

/** Beside the fields of a pushed state or notice. */
export interface Subscribed {
  subscription: string;
}

export interface Request<M extends keyof Methods = keyof Methods> {
  jsonrpc: "2.0";
  id?: number | string | null;
  method: M;
  params?: Methods[M]["params"];
}

export type Reply<M extends keyof Methods = keyof Methods> =
  | { jsonrpc: "2.0"; id: number | string | null; result: Methods[M]["result"] }
  | { jsonrpc: "2.0"; id: number | string | null; error: RpcError };
