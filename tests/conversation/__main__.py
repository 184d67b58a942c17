"""`python -m tests.conversation`: record the conversation."""

from __future__ import annotations

import sys

from .record import RECORDED, record

RECORDED.write_text(record())
sys.stderr.write(f"{RECORDED.name}: {len(RECORDED.read_text().splitlines())} messages\n")
