"""How long a test waits for what must come, before it fails.

No law: a machine that does much else takes its time, and a law that is broken is seen a minute later.
"""

from __future__ import annotations

PATIENCE_S = 60.0
