"""What a way of driving a program costs, counted alike for all of them.

Rules: a call is one request to haft, one run of tmux, one method of pexpect that sends or waits. Read is
what a model would be shown of the answers; of that the floor is what the program itself says, without the echo
of what was typed and without prompts. A sleep is each pause that the script makes because it
cannot know when to go on; a wait that ends with what is waited for is none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Account:
    """One run's costs; `read` and `whole` are bytes, `whole` with all that is wrapped around."""

    calls: int = 0
    sleeps: int = 0
    read: int = 0
    whole: int = 0
    floor: int = 0

    def show(self, text: str, whole: int | None = None, floor: str = "") -> str:
        """Count `text` as read, and return it. `floor` is the part of it that nobody can leave out."""
        size = len(text.encode())
        self.read += size
        self.floor += len(floor.encode())
        self.whole += size if whole is None else whole
        return text
