"""Names that every provider accepts, stable and reversible."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from haftd.schemas import PROVIDERS, expose_names, is_portable
from haftd.schemas.names import expose_properties, map_to_originals

from .provider_judges import JUDGES

NAMES = st.lists(
    st.one_of(
        st.text(max_size=80),
        st.text("ab._-/ é1", max_size=6),
        st.sampled_from(["n" * 65, "n" * 64 + "1", "n" * 64 + "2", "search", "srv.search", "7zip"]),
    ),
    unique=True,
    max_size=8,
)


@given(NAMES)
def test_all_names_differ_and_all_providers_accept_them(names: list[str]) -> None:
    mapping = expose_names(names)
    assert mapping.keys() == set(names)
    assert len(set(mapping.values())) == len(names)
    for shown in mapping.values():
        assert is_portable(shown)
        for judge in JUDGES.values():
            refusals = judge(shown, "x", {"type": "object", "properties": {}})
            assert not [one for one in refusals if one.startswith("name")]


@given(NAMES)
def test_a_valid_name_is_unchanged(names: list[str]) -> None:
    mapping = expose_names(names)
    assert all(mapping[name] == name for name in names if is_portable(name))


@given(NAMES, st.text(max_size=8), st.randoms())
def test_a_name_depends_neither_on_the_order_nor_on_other_names(
    names: list[str], other: str, shuffle: st.DataObject
) -> None:
    mapping = expose_names(names)
    shuffled = list(names)
    shuffle.shuffle(shuffled)  # type: ignore[attr-defined]
    assert expose_names(shuffled) == mapping
    more = expose_names([*names, other])
    assert {name: more[name] for name in names} == mapping


def test_a_name_that_looks_like_anothers_suffix_is_distinguished() -> None:
    marked = expose_names(["a.b"])["a.b"]
    mapping = expose_names(["a.b", marked])
    assert mapping[marked] == marked
    assert mapping["a.b"] != marked
    assert is_portable(mapping["a.b"])


def test_the_original_name_stays_readable() -> None:
    assert re.fullmatch(r"a_b_c___[0-9a-f]{8}", expose_names(["a.b/c é"])["a.b/c é"])
    assert re.fullmatch(r"_7zip_[0-9a-f]{8}", expose_names(["7zip"])["7zip"])
    assert len(expose_names(["n" * 200])["n" * 200]) == 64


PROPERTIES = st.lists(st.text("aB._-$[] é1", max_size=5) | st.text(max_size=70), unique=True, max_size=8)  # fmt: skip


@given(PROPERTIES)
@example(["dry-run", "dry_run", "dry run"])
@example(["a~b", "a-b"])
@example(["1a~", "_1a_", "1a_"])
def test_property_names_are_distinct_and_reversible(names: list[str]) -> None:
    back = map_to_originals(names)
    for provider, dialect in PROVIDERS.items():
        mapping = expose_properties(names, dialect)
        assert list(mapping) == names
        assert len(set(mapping.values())) == len(names)
        parameters = {
            "type": "object",
            "properties": {shown: {"type": "string"} for shown in mapping.values()},
        }
        refusals = list(JUDGES[provider]("x", "x", parameters))
        assert not [one for one in refusals if "property key" in one or "parameter name" in one]
        for name, shown in mapping.items():
            assert back.get(shown, shown) == name


def test_names_valid_everywhere_have_no_alias() -> None:
    assert map_to_originals(["a", "b_1"]) == {}
    assert map_to_originals(["filter[id]"]) == {"filter_id_": "filter[id]"}
