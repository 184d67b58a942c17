"""Echo and prompt: exact matches are measured; uncertain text is output."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from haftd.core.echo import echo_size, prompt_size
from tests.effort import examples

PYTHON = """\
def total(path):
...     found = 0
...     return found
...\x20
"""

WORDS = st.text("ab5} ", max_size=4)
LINES = st.lists(WORDS, min_size=1, max_size=4)
PROMPTS = st.sampled_from(["", "> ", "... ", "   ...> "])


@pytest.mark.parametrize(
    ("output", "typed", "left"),
    [
        ("1 + 1\n2\n>>> ", "1 + 1\n", "2\n>>> "),
        ("y\n", "y\n", ""),
        ("y", "y\n", ""),
        ("\nPort: ", "\n", "Port: "),
        ("half a line", "half a line", ""),
        (f"{PYTHON}>>> ", "def total(path):\n    found = 0\n    return found\n\n", ">>> "),
        ("select 1,\n   ...> 2;\n1|2\n", "select 1,\n2;\n", "1|2\n"),
        ("if x:\n... y", "if x:\ny", ""),
    ],
)
def test_an_echo_is_measured(output: str, typed: str, left: str) -> None:
    assert output[echo_size(output, typed) :] == left


@pytest.mark.parametrize(
    ("output", "typed", "left"),
    [
        ("2\n>>> ", "1 + 1\n", "2\n>>> "),  # no echo
        ("yes\n", "y\n", "yes\n"),
        ("half a line, and more", "half a line", "half a line, and more"),
        ("half a line\n", "half a line", "half a line\n"),
        (" y\n", "y\n", " y\n"),
        ("", "y\n", ""),
        # The output may equal the typed text: the echo is still to come.
        ("5\n5\n>>> 5\n5\n>>> ", "5\n5\n", "5\n>>> 5\n5\n>>> "),
        ("x\n> x\nx\n> x\n", "x\nx\n", "> x\nx\n> x\n"),
        # Words before the typed text are no prompt.
        ("go\ngot x\n", "go\nx\n", "got x\n"),
        # Another prompt, or none at all.
        ("a\n> b\n. c\n", "a\nb\nc\n", "> b\n. c\n"),
        ("a\nanswer\n", "a\n\n", "answer\n"),
        ("a\n... b", "a\nb\n", "... b"),
    ],
)
def test_an_uncertain_echo_is_output(output: str, typed: str, left: str) -> None:
    assert output[echo_size(output, typed) :] == left


FALSE_PROMPTS = st.sampled_from(["", "> ", "got ", "5> ", "x"])
DAMAGE = st.dictionaries(st.integers(0, 3), FALSE_PROMPTS, max_size=1)


@given(LINES, st.one_of(PROMPTS, FALSE_PROMPTS), DAMAGE, st.text("ab5}> \n", max_size=10))
@example(["a", "b"], "got ", {}, "")
@example(["a", "b", "c"], "> ", {2: "... "}, "")
def test_only_typed_text_counts_as_echo(
    lines: list[str], prompt: str, damage: dict[int, str], answer: str
) -> None:
    """Each echoed line ends in the typed line, in order, with the same prompt before it, which has
    no words. `damage` has other prompts, by the number of the line."""
    printed = [damage.get(n, prompt if n else "") + line for n, line in enumerate(lines)]
    output = "\n".join([*printed, answer])
    size = echo_size(output, "".join(f"{line}\n" for line in lines))
    echo = output[:size]
    assert bool(echo) == output.startswith(f"{lines[0]}\n")
    if not echo:
        return
    shown = echo.removesuffix("\n").split("\n")
    assert shown[0] == lines[0]
    assert len(shown) in (1, len(lines))
    echoed = list(zip(lines[1:], shown[1:], strict=False))
    assert all(text.endswith(line) for line, text in echoed)
    before = {text.removesuffix(line) for line, text in echoed if line}
    assert len(before) <= 1
    blank = {text.rstrip() for line, text in echoed if not line}
    assert blank <= {text.rstrip() for text in before}
    assert not any(char.isalnum() for char in "".join(before))


@given(LINES, PROMPTS, st.text("abc\n", max_size=10))
def test_a_line_editor_echoes_lines_behind_prompts(
    lines: list[str], prompt: str, answer: str
) -> None:
    """The program's text after the echo is no echo."""
    echo = "\n".join([lines[0], *(prompt + line for line in lines[1:])]) + "\n"
    size = echo_size(echo + answer, "".join(f"{line}\n" for line in lines))
    assert len(lines[0]) < size <= len(echo)


@settings(max_examples=examples(12))
@given(st.text(max_size=40), st.text(max_size=10))
def test_without_an_echo_all_output_stays(output: str, typed: str) -> None:
    first = typed.replace("\r", "\n").partition("\n")[0]
    if not output.startswith(first) or not first:
        assert echo_size(output, typed) == 0 or (not first and output.startswith("\n"))


@given(st.text("ab>\n ", max_size=20), st.text("ab> ", max_size=4))
def test_a_prompt_is_the_whole_last_line(output: str, prompt: str) -> None:
    last = output.split("\n")[-1]
    is_it = prompt != "" and last.rstrip(" ") == prompt.rstrip(" ")
    assert prompt_size(output, prompt) == (len(last) if is_it else 0)


@pytest.mark.parametrize("prompt", ["In [2]:", "In [2]: "])
def test_blanks_after_a_prompt_are_ignored(prompt: str) -> None:
    """ipython moves the cursor over the blank, which is absent from the screen."""
    assert prompt_size("Out[1]: 2\n\nIn [2]: ", prompt) == len("In [2]: ")
