"""A description as a page."""

from __future__ import annotations

from haftd.tools.lists.full_description import describe, page

from .definition_kit import tool

TEXT = """
[tools.x]
command = "a"
stateful = true
summary = "Do it."
description = "At length."
examples = "Like this:\\n\\n    x"
[tools.x.parameters]
n = { type = "integer", default = 3, summary = "How\\noften." }
to = { type = "object", required = true, properties = { a = { type = "string", enum = ["é", "b"] } } }
"""


def test_a_page_has_everything_of_a_definition() -> None:
    assert page([describe(tool(TEXT))]) == (
        "# x\n\nDo it.\n\nAt length.\n\n"
        "It is stateful: call it with `action` (spawn, fetch, apply, abort) and `id`.\n\n"
        "## Parameters\n"
        "- `n` (integer, optional, default 3): How often.\n"
        "- `to` (object, required)\n"
        '- `to.a` (string, optional): One of "é", "b".\n\n'
        "## Examples\nLike this:\n\n    x"
    )


def test_omitted_parts_have_no_place_and_pages_follow_each_other() -> None:
    bare = describe(tool('[tools.x]\ncommand = "a"\nsummary = "S."\ndescription = "S."'))
    assert page([bare, bare]) == "# x\n\nS.\n\n# x\n\nS."
