"""`python -m tests.gendocs`: make the reference part of docs/protocol.md, docs/haft.d.ts and the dialogues anew."""

import tempfile
from pathlib import Path

from .configuration import CONFIGURATION, configuration
from .dialogues import PAGES, dialogues, filled
from .page import PAGE, page
from .typescript import DECLARATIONS, declarations

PAGE.write_text(page(PAGE.read_text()))
DECLARATIONS.write_text(declarations())
CONFIGURATION.write_text(configuration(CONFIGURATION.read_text()))
with tempfile.TemporaryDirectory(prefix="haft-") as folder:
    made = dialogues(Path(folder))
for one in PAGES:
    one.write_text(filled(one.read_text(), made))
