"""The command line, with a full terminal as stderr that is never read."""

from __future__ import annotations

import os

from haft.__main__ import main

if __name__ == "__main__":
    _, stderr = os.openpty()
    os.set_blocking(stderr, False)
    try:
        while True:
            os.write(stderr, b"y")
    except BlockingIOError:
        pass
    os.set_blocking(stderr, True)
    os.dup2(stderr, 2)
    raise SystemExit(main())
