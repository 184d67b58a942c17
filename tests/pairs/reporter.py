"""Asks its terminal before each report of a line, and keeps every byte that it is given in a file."""

from __future__ import annotations

import os
import re
import sys
import tty

QUERIES = b"\x1b[c\x1b[6n\x1b]11;?\x07"
ANSWER = re.compile(rb"\x1b\[\?[\d;]*c|\x1b\[\d+;\d+R|\x1b\]11;rgb:[\da-f/]+(?:\x07|\x1b\\)")
ANSWERS = 3


def main(path: str) -> None:
    tty.setraw(0)
    line = b""
    os.write(1, QUERIES + b"\x1b[2J\x1b[Hready\r\n")
    with open(path, "ab", buffering=0) as given:
        while data := os.read(0, 1000):
            given.write(data)
            line = ANSWER.sub(b"", line + data)
            while b"\r" in line:
                text, line = line.split(b"\r", 1)
                os.write(1, QUERIES + b"given " + text + b"\r\n")


if __name__ == "__main__":
    main(sys.argv[1])
