"""The cost of driving a program, counted alike for haft, tmux and pexpect. A call is one request
to haft, one run of tmux, or one method of pexpect that sends or waits. A sleep is a pause
that the script makes because no event marks the moment to go on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Account:
    """The costs of a run; `read` and `whole` are bytes, `whole` with the wrapping."""

    calls: int = 0
    sleeps: int = 0
    read: int = 0
    whole: int = 0
    floor: int = 0

    def show(self, text: str, whole: int | None = None, floor: str = "") -> str:
        """Count `text` as read, and return the text. `floor` is the part that no driver can
        leave out."""
        size = len(text.encode())
        self.read += size
        self.floor += len(floor.encode())
        self.whole += size if whole is None else whole
        return text
