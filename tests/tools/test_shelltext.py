"""Values in shell scripts: a value arrives in any quotes, and never runs."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haftd.tools.templates.shelltext import BadScript, place
from tests.effort import examples

from .definition_kit import called, read, run, tool

SHELLS = [shell for shell in ("sh", "bash") if shutil.which(shell)]

_BREAKERS = [
    *("", "'", '"', "'\"", "\\", "\\'", '\\"', "`", "$(", ")", "));", "}", ";", "&&", "||"),
    *("|", "\n", "\r\n", "\nE\n", "#", "$'", "-", "*?[a]~", "\x01\x7f", "é\u2028"),
]
_CORES = [
    "touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "${x:-$(touch pwned)}",
    "${x:=`touch pwned`}",
    "';touch pwned;'",
    '";touch pwned;"',
    "'$(touch pwned)'",
    '"$(touch pwned)"',
    "\ntouch pwned\n",
    "\nE\ntouch pwned\n",
    ">pwned",
    ">>pwned;",
    "<(touch pwned)",
    "$((a[$(touch pwned)]))",
    "a[$(touch pwned)]",
    "&touch pwned&",
    "|touch pwned|",
    "(touch pwned)",
    "{ touch pwned; }",
    "{touch,pwned}",
    "touch$IFS'pwned'",
    "$HAFT_VALUE_0",
    "${HAFT_VALUE_0}$(touch pwned)",
    "{{ tool }}$(touch pwned)",
    "{% raw %}';touch pwned",
]
_AFTER = [";", "", "'", '"', "#", "\n", ")", "`"]
PAYLOADS = [
    f"{before}{core}{_AFTER[at % len(_AFTER)]}"
    for at, (before, core) in enumerate(product(_BREAKERS, _CORES))
]

V = "{{ tool.arguments.v }}"
QUOTES = f"""
printf '[%sX]\\n' {V} "{V}" '{V}' a"b'{V}'"c \\{V} ${V} # {V}
case {V} in *) printf '[%sX]\\n' {V};; esac
f() {{ printf '[%sX]\\n' {V}; }}; f 1 2
"""
FORKS = f"""
printf '[%sX]\\n' "$(printf %s {V}Y)" "$(printf %s "{V}"Y)"
(x={V}; printf '[%sX]\\n' "$x")
{{ cat <<E; cat <<-"Q"; }}; printf '[%sX]\\n' "{V}"
<{V}"{V}'>
E
\tit's "plain
\tQ
"""


def quoted(value: str) -> str:
    """Return the output of `QUOTES`."""
    line = f"[{value}X]\n"
    return f"{line * 3}[ab'{value}'cX]\n{line}[${value}X]\n{line * 2}"


def forked(value: str) -> str:
    """Return the output of `FORKS`."""
    line = f"[{value}X]\n"
    return f"[{value}YX]\n[{value}YX]\n{line}<{value}\"{value}'>\nit's \"plain\n{line}"


def definition(script: str, shell: str = "sh", parameter: str = "v", kind: str = "string") -> str:
    """A tool that runs a script of a shell."""
    return (
        f"[tools.x]\ncommand = {{ program = '''\n{script}''', shell = \"{shell}\" }}\n"
        f'parameters.{parameter} = {{ type = "{kind}" }}\n'
    )


@pytest.mark.parametrize(
    "before",
    ['"$(echo (a) )"', '"$( (echo a) )"', '"$( ( (echo a); (echo b) ) )"', "$( (a) )", "( (a) );"],
)
def test_a_value_behind_nested_brackets_is_placed_outside_them(before: str) -> None:
    script = f'{before} \ue0000\ue001 "\ue0001\ue001"'
    assert place(script) == f'{before} "${{HAFT_VALUE_0}}" "${{HAFT_VALUE_1}}"'


@pytest.mark.parametrize("shell", SHELLS)
def test_a_value_behind_nested_brackets_is_neither_split_nor_globbed(
    tmp_path: Path, shell: str
) -> None:
    (tmp_path / "file").touch()
    script = f"x=\"$( (echo a) )\" && printf '[%s]' {V}"
    done = run(called(tool(definition(script, shell)), {"v": "* x"}, str(tmp_path)))
    assert done.stdout == b"[* x]"


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("shell", SHELLS)
def test_X01_no_payload_is_run_by_a_shell(tmp_path: Path, shell: str, every: int) -> None:
    """Each payload at many places of a script at once: all of it arrives, none of it runs."""
    light, heavy = (tool(definition(script, shell)) for script in (QUOTES, QUOTES + FORKS))
    # Together the shells get a third of the corpus, in the soak form all of it; every fifth payload
    # also where forks are needed.
    for at, payload in enumerate(PAYLOADS[SHELLS.index(shell) :: every * len(SHELLS)]):
        script, expected = (light, "") if at % 5 else (heavy, forked(payload))
        done = run(called(script, {"v": payload}, str(tmp_path)))
        assert list(tmp_path.iterdir()) == [], payload
        assert done.stderr == b"", payload
        assert done.stdout.decode() == quoted(payload) + expected, payload


def test_X01_the_corpus_is_large() -> None:
    assert len(set(PAYLOADS)) >= 500


def test_X01_the_corpus_runs_where_values_are_pasted(tmp_path: Path) -> None:
    """Payloads that never run anywhere would prove nothing."""
    hits = 0
    for payload in PAYLOADS[:60]:
        subprocess.run(["sh", "-c", f'printf %s "{payload}"'], cwd=tmp_path, capture_output=True)
        for path in tmp_path.iterdir():
            path.unlink()
            hits += 1
    assert hits > 5


@settings(
    max_examples=examples(24),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(value=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40))
def test_any_text_arrives_unchanged(tmp_path: Path, value: str) -> None:
    every = tool(definition(f"printf '[%s]' {V} \"{V}\" '{V}'"))
    done = run(called(every, {"v": value}, str(tmp_path)))
    assert done.stdout.decode() == f"[{value}]" * 3


@pytest.mark.parametrize(
    "script",
    [
        "echo `echo {{ tool.name }}`",
        'echo "`echo {{ tool.name }}`"',
        "echo $(( {{ tool.name }} + 1 ))",
        "echo $(( (1) + {{ tool.name }} ))",
        "echo $[ {{ tool.name }} ]",
        "(( x = {{ tool.name }} ))",
        "echo ${x:-{{ tool.name }}}",
        'echo "${x:-{{ tool.name }}}"',
        "x[{{ tool.name }}]=1",
        "cat <<'E'\n{{ tool.name }}\nE\n",
        'cat <<"E"\n{{ tool.name }}\nE\n',
        "cat <<\\E\n{{ tool.name }}\nE\n",
        "cat <<-E\\F\n\t{{ tool.name }}\n\tEF\n",
        "cat <<E\n$(( {{ tool.name }} ))\nE\n",
        "{% if tool.name %}echo `{{ tool.name }}`{% endif %}",
    ],
)
def test_a_value_where_the_shell_would_evaluate_it_is_refused(script: str) -> None:
    tools, problems = read(definition(script))
    assert tools == {}
    assert [problem.key for problem in problems] == ["tools.x.command.program"]
    assert "its script cannot be used: a template is" in problems[0].message


M0, M1, M2 = "\ue0000\ue001", "\ue0001\ue001", "\ue0002\ue001"


@pytest.mark.parametrize(
    ("script", "placed"),
    [
        (f"a {M0}", 'a "${V0}"'),
        (f'a "{M0}"', 'a "${V0}"'),
        (f"a '{M0}'", "a ''\"${V0}\"''"),
        (f"a $'\\'{M0}'", "a $'\\''\"${V0}\"$''"),
        (f"a # '{M0}\n{M1}", 'a # \'\n"${V1}"'),
        (f"a#'{M0}'", "a#''\"${V0}\"''"),
        (f"$(( 1 )) {M0}", '$(( 1 )) "${V0}"'),
        (f"`a` {M0}", '`a` "${V0}"'),
        (f'${{a#"\'"}} {M0}', '${a#"\'"} "${V0}"'),
        (f"$(a '(' {M0}) \"{M1}\"", '$(a \'(\' "${V0}") "${V1}"'),
        (f"a <<< {M0}", 'a <<< "${V0}"'),
        (
            f"cat <<A <<B\n{M0}\nA\n'{M1}\nB\n{M2}",
            'cat <<A <<B\n${V0}\nA\n\'${V1}\nB\n"${V2}"',
        ),
    ],
)
def test_a_reference_is_written_for_its_quotes(script: str, placed: str) -> None:
    assert place(script, "V{}") == placed


def test_a_block_selects_the_text_of_the_script(tmp_path: Path) -> None:
    text = (
        "printf '[%s]' {% for v in tool.arguments.l %}'{{ v }}' {% endfor %}"
        "{% if tool.arguments.l == 5 %}no{% endif %}"
    )
    each = tool(definition(text, parameter="l", kind="array"))
    done = run(called(each, {"l": ["a b", "$(touch c)", 3]}, str(tmp_path)))
    assert done.stdout == b"[a b][$(touch c)][3]"


def test_a_captured_value_is_still_a_value(tmp_path: Path) -> None:
    text = f"{{% set y %}}<{V}>{{% endset %}}printf '[%s]' '{{{{ y }}}}' \"{{{{ y }}}}\""
    done = run(called(tool(definition(text)), {"v": "'\"$(touch c)"}, str(tmp_path)))
    assert done.stdout == b"[<'\"$(touch c)>]" * 2
    assert list(tmp_path.iterdir()) == []


def test_each_spreads_into_words_of_the_script(tmp_path: Path) -> None:
    text = """
[tools.x.command]
program = "printf '[%s]'"
args = [{ each = "tool.arguments.l" }, "| cat; echo", "'{{ tool.name }}'"]
shell = true
[tools.x.parameters]
l = { type = "array" }
"""
    done = run(called(tool(text), {"l": ["a b", ";x"]}, str(tmp_path)))
    assert done.stdout == b"[a b][;x]x\n"


def test_no_script_is_misread_into_running_a_value() -> None:
    """In any script a value is a reference, or the script is refused."""
    quotes = ["'", '"', "\\", "`", "$(", ")", "((", "))", "${", "}", "#", "\n", "$'"]
    for parts in product([*quotes, "<<E\n", "E\n", " ", M0], repeat=4):
        try:
            placed = place("".join((*parts, M0)), "V{}")
        except BadScript:
            continue
        assert "\ue000" not in placed
        assert "\ue001" not in placed
        assert "V0" not in placed.replace("${V0}", "")
