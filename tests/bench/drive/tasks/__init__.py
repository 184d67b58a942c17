"""The tasks, one file each."""

from __future__ import annotations

from .build import BUILD
from .debug import DEBUG
from .edit import EDIT
from .jobs import JOBS
from .key import KEY
from .node import NODE
from .page import PAGE
from .python import PYTHON
from .query import QUERY
from .squash import SQUASH
from .stage import STAGE
from .wizard import WIZARD

TASKS = (
    STAGE,
    SQUASH,
    EDIT,
    PAGE,
    PYTHON,
    DEBUG,
    QUERY,
    NODE,
    JOBS,
    KEY,
    BUILD,
    WIZARD,
)
