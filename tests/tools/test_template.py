"""Templates: writing of values, and permitted names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haftd.host.launch import program
from haftd.tools.templates.template import (
    MAX_ARGUMENT,
    ArgumentRefused,
    BadTemplate,
    Scope,
    check,
    check_expression,
    render,
    spread,
    value_of,
)
from tests.effort import examples

TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)


def scope(**arguments: Any) -> Scope:
    return Scope({"name": "x", "arguments": arguments}, {"root": "/r"}, "/usr/bin:/bin")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a b", "a b"),
        ("", ""),
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (3, "3"),
        (-1.5, "-1.5"),
        (2**64 - 1, "18446744073709551615"),
        ([1, "a", None], '[1,"a",null]'),
        ({"é": {"<": True}}, '{"é":{"<":true}}'),
        ("<b> & '\"", "<b> & '\""),
    ],
)
def test_scalars_are_plain_and_composites_are_json(value: object, written: str) -> None:
    assert render("{{ tool.arguments.v }}", scope(v=value)) == written
    assert render("-{{tool.arguments.v}}-", scope(v=value)) == f"-{written}-"


@pytest.mark.parametrize(
    "source", ["{{ tool.arguments.no }}", "{{ tool.no.more.still }}", "{{ none }}"]
)
def test_a_missing_value_is_null(source: str) -> None:
    assert render(source, scope()) == "null"


@given(TEXT)
def test_a_text_is_written_unchanged(value: str) -> None:
    """Also a text that looks like a template, and nothing is escaped."""
    assert render("{{ tool.arguments.v }}", scope(v=value)) == value
    assert spread("tool.arguments.v", scope(v=[value])) == [value]


@settings(max_examples=examples(20))
@given(JSON)
def test_any_value_can_be_read_back(value: object) -> None:
    written = render("{{ tool.arguments.v }}", scope(v=value))
    assert written == value if isinstance(value, str) else json.loads(written) == value


@settings(max_examples=examples(12))
@given(st.lists(JSON, max_size=5))
def test_each_item_is_one_argument(values: list[Any]) -> None:
    assert len(spread("tool.arguments.v", scope(v=values))) == len(values)


def test_each_of_a_scalar_is_one_and_of_null_is_none() -> None:
    assert spread("tool.arguments.v", scope(v="a b")) == ["a b"]
    assert spread("tool.arguments.v", scope()) == []
    assert spread("tool.arguments.v.deeper", scope()) == []
    with pytest.raises(ArgumentRefused, match="takes an array"):
        spread("tool.arguments.v", scope(v={"a": 1}))


def test_the_whole_context_is_one_argument() -> None:
    """The form of older definitions: `{{context}} {{tool}}`."""
    assert json.loads(render("{{context}}", scope())) == {"root": "/r"}
    assert json.loads(render("{{tool}}", scope(a="b"))) == {"name": "x", "arguments": {"a": "b"}}


def test_a_field_that_is_one_expression_can_be_absent() -> None:
    assert value_of("{{ tool.arguments.v }}", scope()) is None
    assert value_of("{{- tool.arguments.v -}}", scope()) is None
    assert value_of("{{ tool.arguments.v }}", scope(v="null")) == "null"
    assert value_of("{{ tool.arguments.v }}{{ tool.name }}", scope()) == "nullx"
    assert value_of("plain", scope()) == "plain"


@pytest.mark.parametrize(
    "source",
    [
        "{{ a..b }}",
        "{% if tool %}",
        "{{ tool",
        "{{ user }}",
        "{{ env.HOME }}",
        "{{ tool|nofilter }}",
    ],
)
def test_an_invalid_template_is_found_before_use(source: str) -> None:
    with pytest.raises(BadTemplate):
        check(source)
        render(source, scope())


@pytest.mark.parametrize("expression", ["a b", "}}{{", "user", "tool..x", "tool }} {{ tool"])
def test_an_invalid_expression_is_found_before_use(expression: str) -> None:
    with pytest.raises(BadTemplate):
        check_expression(expression)


def test_no_message_shows_a_value() -> None:
    with pytest.raises(BadTemplate) as caught:
        render("{{ tool.arguments.v.x() }}", scope(v="canary-7"))
    assert "canary" not in str(caught.value)


def test_a_template_cannot_read_files_or_loop_forever() -> None:
    for source in ("{% include '/etc/passwd' %}", "{% import '/etc/passwd' as p %}"):
        with pytest.raises(BadTemplate):
            render(source, scope())
    endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    with pytest.raises(BadTemplate, match="too many steps"):
        render(endless, scope())


def test_split_cuts_as_a_shell_and_expands_nothing() -> None:
    assert spread("split(tool.arguments.v)", scope(v="a 'b c' $HOME *")) == [
        "a",
        "b c",
        "$HOME",
        "*",
    ]
    with pytest.raises(ArgumentRefused, match="a ' without an end"):
        spread("split(tool.arguments.v)", scope(v="a '"))
    with pytest.raises(ArgumentRefused, match="takes a string"):
        spread("split(tool.arguments.v)", scope(v=3))


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
def test_a_long_script_is_cut_into_fitting_parts(letter: str) -> None:
    text = letter * 300_000
    argv = spread("script(tool.arguments.v)", scope(v=text))
    assert all(len(part.encode()) <= MAX_ARGUMENT for part in argv)
    assert "".join(argv[4:]) == text
    assert spread("script(tool.arguments.v)", scope(v="echo"))[1:] == ["-c", "echo"]


def test_which_finds_the_first_program_and_reports_a_missing_one() -> None:
    assert render("{{ which('no-such-program', 'sh') }}", scope()).endswith("/sh")
    with pytest.raises(
        ArgumentRefused, match="none of these programs is installed: nope-a, nope-b"
    ):
        render("{{ which('nope-a', 'nope-b') }}", scope())


def test_which_searches_no_relative_folder() -> None:
    here = Scope({}, {}, ".::bin:usr/bin")
    with pytest.raises(ArgumentRefused):
        render("{{ which('sh') }}", here)


def test_a_definitions_limits_are_the_kernels() -> None:
    """Definitions and Linux are rooms that do not know each other: this test keeps their figures
    equal."""
    assert MAX_ARGUMENT == program.MAX_WORD


LONG = "+1" * 30_000


@pytest.mark.parametrize(
    "source",
    [
        "{{ tool" + LONG + " }}",
        "{{ " + "not " * 15_000 + "tool }}",
        "{% if tool %}" + "{% elif tool %}" * 10_000 + "{% endif %}",
        "{% set x = 1" + LONG + " %}",
        '{% raw %}{{ "{% endraw %}{{ "}}" ~ 1' + LONG + " }}",
        '{%-raw-%}{{ "{% endraw %}{{ "}}" ~ 1' + LONG + " }}",
        '{# {{ " #}{{ "}}" ~ 1' + LONG + " }}",
        "{{ tool" + LONG,
    ],
)
def test_a_too_deep_template_is_refused_and_not_parsed(source: str) -> None:
    """The parser would crash the process."""
    with pytest.raises(BadTemplate, match=r"longer than|more than"):
        check(source)


def test_a_long_text_with_many_templates_is_no_long_expression() -> None:
    check("{{ tool.name }} {# " + "x" * 3000 + " #}" + " more" * 1000)
    check("{% if tool %}{{ tool }}{% endif %}" * 200)


def test_a_value_cannot_contain_itself() -> None:
    """The writer recurses as deep as the value: to the end of the process."""
    with pytest.raises(BadTemplate, match="namespace"):
        check("{% set n = namespace() %}{% set n.a = n %}{{ n }}")


WORDS = ["and", "else", "if", "is", "or"]
"""Words of expressions that can be names as well, for what reads templates."""


@pytest.mark.parametrize(
    "made",
    [
        "{% set a = a + a %}" * 40,
        "{% set a = [a, a] %}" * 40,
        "{% set a = a|chain(a) %}" * 40,
        "{%- set a = {'l': a, 'r': a} -%}" * 40,
        "{% with b=[a,a], c=[b,b], d=[c,c], e=[d,d] %}{% endwith %}",
        "{% for b in [[a, a]] %}" * 40 + "{% endfor %}" * 40,
        "{% macro m(a) %}{{ m([a, a]) }}{% endmacro %}{{ m([1]) }}",
        "{% for b in [a] recursive %}{{ loop([[b, b]]) }}{% endfor %}",
        "{{ [[[1] * 1000] * 1000] * 1000 }}",
        "{{ 1000 * [1000 * [1]] }}",
        "{% call(a) tool(1) %}{{ caller([a, a]) }}{% endcall %}",
        "{% set b = [a, a] %}" * 7,
        "{% for a in[[a, a]] %}" * 40 + "{% endfor %}" * 40,
        "{% for a\tin\n[[a, a]] %}" * 40 + "{% endfor %}" * 40,
        "{% set null = a %}" + "{% set null = [null, null] %}" * 40,
        *(f"{{% set {word} = [{word}, {word}] %}}" * 40 for word in WORDS),
        *(f"{{% set {word} = a %}}{{% set b = [{word} , {word}] %}}" * 40 for word in WORDS),
        *(f"{{% with ({word}, b) = [a, a] %}}{{% endwith %}}" for word in WORDS),
        *(f"{{% with {word} = [a, a] %}}{{% endwith %}}" for word in WORDS),
        *(f"{{% for {word} in [a] %}}{{% endfor %}}" for word in WORDS),
        "{% raw %}{{{% endraw %}" + "{% set a = [a, a] %}" * 40,
        "\ue000" + "{% set a = [a, a] %}" * 40,
    ],
)
def test_doubling_values_are_refused_and_never_written(made: str) -> None:
    """No fuel is counted for a list that holds another twice, and writing takes as long as the
    result."""
    with pytest.raises(
        BadTemplate, match=r"more than 64 times|must not|cannot be told|cannot be set"
    ):
        check("{% set a = [1] %}" + made)


def test_a_few_assignments_stay_allowed() -> None:
    check("{% set root = context.root or '.' %}{% set flags = ['-a'] + tool.arguments.flags %}")
    check("{% for one in tool.arguments.files %}{{ one }} {% endfor %}" * 50)
    check("{% set text = 'a, a, a, a' ~ tool.name|replace('b', 'c') %}" * 20)
    check("{% set width = tool.arguments.n * 2 %}{{ width }}")
    check("{% set b = [a, a] %}".replace("a", "tool") * 6)
    check("{% set a = true and not none or false is in [] if true else none %}" * 20)


@pytest.mark.parametrize(
    "source",
    [
        "{% set a = 'x' %}" + "{% set a = a ~ tool.name %}" * 5 + "{{ a * 100000000 }}",
        "{% for i in range(100000) %}{% if i %}{{ i }}{{ i }}{% endif %}{% endfor %}",
        "{{ 'x'|indent(1000000000) }}",
    ],
)
def test_a_templates_steps_are_bounded(source: str) -> None:
    check(source)
    with pytest.raises(BadTemplate, match="too many steps"):
        render(source, scope())
