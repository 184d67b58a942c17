"""Notices as Markdown, judged by an independent parser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from haft_protocol.model_text import notices_markdown
from haft_protocol.states import Notice

NASTY = st.text(
    st.sampled_from("`*_[]()<>#+-=!|~&$\\\n\r\t :;.1ax\"'/@\x1b\u202e\u2028") | st.characters(),
    max_size=40,
)
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
ITEM = ["list_item_open", "paragraph_open", "inline", "paragraph_close", "list_item_close"]
FENCED = [*ITEM[:4], "fence", ITEM[4]]


def kinds(text: str) -> list[str]:
    return [token.type for token in PARSER.parse(text)]


def test_each_notice_is_an_item_with_its_level() -> None:
    notices = [
        Notice("tool.stopped", "info", "`a` (run) has ended and succeeded.", 1.0, "a"),
        Notice("tool.waiting", "warning", "`b` (t_x) waits for an answer: *Sure?*", 1.0, "b"),
        Notice(
            "tool.content",
            "critical",
            "`c` (run) has printed 2 lines that match `oom`: out",
            1.0,
            "c",
            pattern="oom",
            lines=("out", "``` of memory"),
            count=2,
        ),
    ]
    assert notices_markdown(notices) == (
        "- **info** `a` (run) has ended and succeeded.\n"
        "- **warning** `b` (t\\_x) waits for an answer: \\*Sure?\\*\n"
        "- **critical** `c` (run) has printed 2 lines that match \\`oom\\`:\n"
        "  ````text\n"
        "  out\n"
        "  ``` of memory\n"
        "  ````\n"
    )
    assert notices_markdown([]) == ""


@given(said=st.lists(NASTY, min_size=1, max_size=4), lines=st.lists(NASTY, max_size=3))
def test_no_notice_text_becomes_structure(said: list[str], lines: list[str]) -> None:
    notices = [
        Notice(
            "tool.failed",
            "error",
            f"`h` (t) has failed: {record}",
            1.0,
            "h",
            lines=tuple(lines),
        )
        for record in said
    ]
    tokens = PARSER.parse(notices_markdown(notices))
    item = FENCED if lines else ITEM
    assert [one.type for one in tokens] == [
        "bullet_list_open",
        *item * len(said),
        "bullet_list_close",
    ]
    inline = [token for token in tokens if token.type == "inline"]
    for one, token in zip(said, inline, strict=True):
        inner = [child.type for child in token.children or ()]
        assert inner == [
            "text",
            "strong_open",
            "text",
            "strong_close",
            "text",
            "code_inline",
            "text",
        ]
        text = list(token.children or ())[-1].content
        if one.isprintable() and not lines:
            assert text.split() == f"(t) has failed: {one}".split()
    for token in tokens:
        if token.type == "fence":
            assert token.content.count("\n") == len(lines)


def test_a_very_long_notice_is_cut() -> None:
    text = notices_markdown([Notice("x", "error", "y" * 1_000_000, 1.0, lines=("z" * 1_000_000,))])
    assert len(text) < 3_000 and text.count("…") == 2
