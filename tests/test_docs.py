"""The pages under docs/ match the code."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from haft_protocol.methods import METHODS
from tests.gendocs.configuration import CONFIGURATION, configuration, undescribed
from tests.gendocs.dialogues import PAGES as DIALOGUES
from tests.gendocs.dialogues import dialogues, filled
from tests.gendocs.page import PAGE, page, unused
from tests.gendocs.typescript import DECLARATIONS, declarations
from tests.running_daemon import RunningDaemon
from tests.tools.definition_kit import read

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DECISIONS = ROOT / "docs" / "decisions"
RECORDS = sorted({*DECISIONS.glob("*.md")} - {DECISIONS / "README.md"})


def test_the_reference_matches_the_types() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "docs/protocol.md is stale: run `python -m tests.gendocs`"


def test_the_typescript_declarations_match_the_types() -> None:
    text = DECLARATIONS.read_text()
    assert declarations() == text, "docs/haft.d.ts is stale: run `python -m tests.gendocs`"


def test_every_type_named_by_a_declaration_is_declared() -> None:
    text = re.sub(r"/\*\*.*?\*/|//[^\n]*|\"[^\"]*\"", "", DECLARATIONS.read_text(), flags=re.DOTALL)
    declared = re.findall(r"^export (?:interface|type) (\w+)", text, re.MULTILINE)
    named = set(re.findall(r"(?<![.\w?])[A-Z]\w+", text))
    assert len(declared) == len(set(declared))
    assert named == set(declared) and {"HandleState", "Methods", "Notifications"} <= named


def test_the_configuration_page_has_every_key() -> None:
    text = CONFIGURATION.read_text()
    assert configuration(text) == text, f"{CONFIGURATION} is stale: run `python -m tests.gendocs`"
    assert undescribed() == set()


def test_every_meaning_belongs_to_an_existing_field() -> None:
    assert unused() == set()


def test_the_dialogues_on_the_pages_match_the_daemon(short_tmp: Path) -> None:
    texts = dialogues(short_tmp)
    for one in DIALOGUES:
        text = one.read_text()
        assert "<!-- made: " in text
        assert filled(text, texts) == text, f"{one.name} is stale: run `python -m tests.gendocs`"


def test_every_method_has_a_heading() -> None:
    headings = re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
    assert headings[: len(METHODS)] == list(METHODS)


def conversation() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The requests and replies of the page's example."""
    lines = re.findall(r"^([→←]) (.+)$", PAGE.read_text(), re.MULTILINE)
    document = [(arrow, json.loads(text.replace(",…}", "}"))) for arrow, text in lines]
    assert [arrow for arrow, _ in document] == ["→", "←"] * (len(document) // 2)
    assert document, "the page has no example any more"
    return [(document[at][1], document[at + 1][1]) for at in range(0, len(document), 2)]


def test_the_conversation_on_the_page_matches_the_daemon(daemon: RunningDaemon) -> None:
    with daemon.connect() as wire:
        for request, reply in conversation():
            wire.send(request)
            assert covers(wire.receive(), reply), f"{request} is not answered like that"


def covers(whole: object, part: object) -> bool:
    """Return true if `whole` is `part`, possibly with more fields."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and covers(whole[key], value) for key, value in part.items())
    return whole == part


def test_the_requests_on_the_page_are_valid() -> None:
    for request, _ in conversation():
        msgspec.convert(request["params"], METHODS[request["method"]].params)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_has_a_target(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        assert other.exists(), f"{path.name} links to {target}"
        if anchor:
            assert anchor in anchors(other), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_decision_has_a_number_a_title_and_three_parts(path: Path) -> None:
    head, *records = re.split(r"^## ", path.read_text(), flags=re.MULTILINE)
    assert re.fullmatch(r"# .+\n\n", head)
    assert records
    shape = (
        r"(\d+)\. .+\n\n- \*\*Context\*\*: .+\n- \*\*Decision\*\*: .+\n- \*\*Consequence\*\*: .+\n*"
    )
    for number, record in enumerate(records, 1):
        match = re.fullmatch(shape, record)
        assert match, f"{path.name}: record {number} is not title, Context, Decision, Consequence"
        assert int(match[1]) == number, f"{path.name}: {match[1]} stands where {number} comes next"


def test_every_file_named_by_a_decision_exists() -> None:
    for path in RECORDS:
        for name in re.findall(r"`([\w/]+\.py)`", path.read_text()):
            assert any((root / name).exists() for root in (ROOT, ROOT / "daemon" / "haftd")), name


def test_the_index_of_decisions_has_every_page() -> None:
    links = re.findall(r"^\| \[.+?\]\((.+?)\)", (DECISIONS / "README.md").read_text(), re.MULTILINE)
    assert sorted(links) == [path.name for path in RECORDS]


def anchors(path: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def named(text: str) -> set[str]:
    """Return the names in a page or a docstring: words in backticks, and each part of a path."""
    return {word for name in re.findall(r"`([\w/]+)`", text) for word in name.split("/")}


def test_the_map_leads_to_every_file_of_the_house() -> None:
    """The page names each room and the folders between; a room's head names its modules, or
    imports them as the table of methods does."""
    assert contents(ROOT / "daemon/haftd") <= named((ROOT / "ARCHITECTURE.md").read_text())
    for room in [
        *(ROOT / "daemon/haftd").rglob("__init__.py"),
        ROOT / "protocol/haft_protocol/__init__.py",
    ]:
        if room.parent == ROOT / "daemon/haftd":
            continue
        tree = ast.parse(room.read_text())
        brought = {
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is None
            for name in node.names
        }
        missing = contents(room.parent) - named(ast.get_docstring(tree) or "") - brought
        assert not missing, f"the head of {room.relative_to(ROOT)} does not name {sorted(missing)}"


def contents(room: Path) -> set[str]:
    """The modules and rooms in a room."""
    found = {file.stem for file in room.glob("*.py") if not file.stem.startswith("__")}
    return found | {file.parent.name for file in room.glob("*/__init__.py")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{page.stem}-{at}", text)
        for page in PAGES
        for at, text in enumerate(
            re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        )
        if re.search(r"^\[+(conversation\.)?tools\.", text, re.MULTILINE)
    ],
    ids=lambda value: value if "\n" not in value else "",
)
def test_a_definition_on_a_page_is_taken_as_it_stands(name: str, text: str) -> None:
    # A fragment adds to a tool that stands elsewhere; the runtime `sqlite` is the page's own.
    elsewhere = ("a local tool needs a `command`", "it is 'sqlite'; it must be one of")
    problems = [problem.message for problem in read(text)[1]]
    assert [each for each in problems if not each.startswith(elsewhere)] == [], name


def test_the_audit_logs_table_has_every_event() -> None:
    daemon = "".join(path.read_text() for path in (ROOT / "daemon" / "haftd").rglob("*.py"))
    events = re.findall(r'record_action\(\s*"([^"]+)"', daemon)
    events += re.findall(r'audit_record\(.*?return "([^"]+)", \{', daemon, re.DOTALL)
    events += re.findall(r'"event":"([^"]+)"', daemon)
    assert {"spawn", "approval", "answer", "lost"} <= {*events}
    page = (ROOT / "docs" / "secrets.md").read_text()
    (row,) = re.findall(r"^\| `event` \|.*", page, re.MULTILINE)
    assert [event for event in events if f"`{event}`" not in row] == []
