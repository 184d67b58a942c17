/**
 * How far an emulator is behind. VS Code has no flow control for terminals of extensions, so a query is placed in the output now
 * and then, which the emulator answers once all before it is drawn. Answers to the queries of programs do not occur: the daemon
 * leaves those queries out.
 */
const QUERY = "\x1b[5n";
const ANSWER = /\x1b\[0n/g;
const STEP = 8 * 1024;
// A key's echo comes behind the output that the editor has not drawn yet.
const MAX_AHEAD = 32 * 1024;
const MAX_LOOK = 256;
// Beside another terminal a flood takes at most a fourth of the time of the emulators, which all draw in one thread.
const REST_RATIO = 3;
const MIN_REST_MS = 50;
const MAX_REST_MS = 250;

// Where a query changes nothing: not in a sequence or a string, and not before REP, which repeats the character before it.
const BOUNDARY = /[\r\n]|\x1b\[[\d;:?]*[A-HJKdfhlmr]|[^\x1b]{64}[ -~](?=[ -~])/g;
const STRING_END = /\x1b[P\]X^_]|\x07|\x1b\\|[\x18\x1a]/g;

/** Return the last position for a query, 0 for none, and whether the text ends within a string. */
export function boundary(text: string, isInString: boolean): { at: number; isInString: boolean } {
  let begin = 0;
  let at = 0;
  const look = (end: number) => {
    const from = Math.max(begin, end - MAX_LOOK);
    for (const match of text.slice(from, end).matchAll(BOUNDARY)) at = from + match.index + match[0].length;
  };
  for (const match of text.matchAll(STRING_END)) {
    const opens = /^\x1b[P\]X^_]/.test(match[0]);
    if (!isInString) look(match.index);
    isInString = opens;
    begin = match.index + match[0].length;
  }
  if (!isInString) look(text.length);
  return { at, isInString };
}

export class Flow {
  /** characters since the last query, and before each that has no answer yet */
  private unmarked = 0;
  private marks: number[] = [];
  private isInString = false;
  private fullSince: number | undefined;
  private resting: NodeJS.Timeout | undefined;

  /** `onRoom` has the milliseconds since `onFull`; an emulator `isInFront` is drawn without rests. */
  constructor(
    private readonly draw: (text: string) => void,
    private readonly onFull: () => void,
    private readonly onRoom: (ms: number) => void,
    private readonly isInFront: () => boolean = () => true,
  ) {}

  get ahead(): number {
    return this.marks.reduce((sum, mark) => sum + mark, this.unmarked);
  }

  write(text: string): void {
    const total = this.unmarked + text.length;
    const { at, isInString } = boundary(text, this.isInString);
    this.isInString = isInString;
    if (total < STEP || at === 0) {
      this.unmarked = total;
      this.draw(text);
      return;
    }
    this.marks.push(this.unmarked + at);
    this.unmarked = text.length - at;
    this.draw(text.slice(0, at) + QUERY + text.slice(at));
    if (this.fullSince === undefined && this.ahead > MAX_AHEAD) {
      this.fullSince = performance.now();
      this.onFull();
    }
  }

  /** Take the emulator's input, and return it without answers to queries. */
  take(data: string): string {
    if (this.marks.length === 0) return data;
    const typed = data.replace(ANSWER, () => {
      this.marks.shift();
      return "";
    });
    if (this.ahead <= MAX_AHEAD / 2) this.release();
    return typed;
  }

  /** Go on after a time in which no answer came, though the emulator is there. */
  giveUpAfter(ms: number): void {
    if (this.fullSince !== undefined && performance.now() - this.fullSince > ms) {
      this.marks = [];
      this.release();
    }
  }

  /** Go on at once: the emulator has come to the front. */
  endRest(): void {
    if (this.resting) this.resume();
  }

  private release(): void {
    if (this.fullSince === undefined || this.resting) return;
    if (this.isInFront()) return this.resume();
    const drawn = performance.now() - this.fullSince;
    const rest = Math.min(MAX_REST_MS, Math.max(MIN_REST_MS, REST_RATIO * drawn));
    this.resting = setTimeout(() => this.resume(), rest);
  }

  private resume(): void {
    clearTimeout(this.resting);
    this.resting = undefined;
    if (this.fullSince === undefined) return;
    const ms = performance.now() - this.fullSince;
    this.fullSince = undefined;
    this.onRoom(ms);
  }

  dispose(): void {
    clearTimeout(this.resting);
    this.resting = undefined;
    this.fullSince = undefined;
  }
}
