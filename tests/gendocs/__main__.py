"""`python -m tests.gendocs`: make the reference part of docs/protocol.md anew."""

from .page import PAGE, page

PAGE.write_text(page(PAGE.read_text()))
