/** Watches for the socket of a daemon that starts later: by the kernel's notices of its folder, or of the first folder that exists above. */
import { type FSWatcher, existsSync, statSync, watch } from "node:fs";
import { basename, dirname } from "node:path";

export class SocketWatch {
  private watchers: FSWatcher[] = [];

  /** `onChange` is called when a file at one of the paths may have appeared, been replaced or removed. */
  constructor(
    private readonly paths: () => readonly string[],
    private readonly onChange: () => void,
  ) {
    this.arm();
  }

  private arm(): void {
    this.dispose();
    for (const path of this.paths()) this.watch(path);
  }

  private watch(path: string): void {
    let wanted = path;
    while (!existsSync(dirname(wanted)) && dirname(wanted) !== wanted) wanted = dirname(wanted);
    const folder = dirname(wanted);
    try {
      const { ino } = statSync(folder);
      const watcher = watch(folder, { persistent: false }, (_, name) => {
        const isSame = statSync(folder, { throwIfNoEntry: false })?.ino === ino;
        if (isSame && name !== basename(wanted)) return;
        if (wanted !== path || !isSame) this.arm();
        this.onChange();
      });
      watcher.on("error", () => watcher.close());
      this.watchers.push(watcher);
    } catch {
      // The kernel has no watch left, or the folder has just gone: a click still connects.
    }
  }

  dispose(): void {
    for (const watcher of this.watchers.splice(0)) watcher.close();
  }
}
