"""Figures as Markdown: a table per section, each with its baseline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .interleaved_timer import Case, ratio


@dataclass(slots=True)
class Section:
    """A table with its title and baseline."""

    title: str
    note: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)


def markdown(machine: Sequence[str], sections: Sequence[Section]) -> str:
    """The whole report."""
    facts = "\n".join(f"- {line}" for line in machine)
    return "\n\n".join([facts, *map(_spelled, sections)])


def replaced(report: str, sections: Sequence[Section]) -> str:
    """Return a report with these sections in place of those of the same title, new ones at the
    end."""
    head, *old = re.split(r"\n\n(?=### )", report)
    new = {section.title: _spelled(section) for section in sections}
    kept = [new.pop(text.partition("\n")[0].removeprefix("### "), text) for text in old]
    return "\n\n".join([head, *kept, *new.values()])


def _spelled(section: Section) -> str:
    lines = [f"### {section.title}", "", section.note, ""]
    lines.append(f"| {' | '.join(section.columns)} |")
    lines.append(f"| --- |{' ---: |' * (len(section.columns) - 1)}")
    rows = ([cell.replace("|", "\\|") for cell in row] for row in section.rows)
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def timings(title: str, note: str, cases: Sequence[Case], baseline: Case) -> Section:
    """Return a table of durations; the baseline is among the cases."""
    with_cpu = any(case.cpu for case in cases)
    section = Section(title, note, ["", "median", "p99", "× baseline"])
    if with_cpu:
        section.columns = [*section.columns, "processor"]
    for case in cases:
        share = "1" if case is baseline else times(ratio(case, baseline))
        row = [case.name, spell(case.median), spell(case.p99), share]
        if with_cpu:
            row.append(spell(case.cpu_per_step) if case.cpu else "")
        section.rows.append(row)
    return section


def spell(seconds: float) -> str:
    """Format a duration with a fitting unit."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.2f} s"


def times(share: float) -> str:
    """A ratio, to about two digits."""
    return f"{share:.2f}" if share < 1 else f"{share:.1f}" if share < 10 else f"{share:.0f}"


def megabytes(count: float, seconds: float) -> str:
    """A rate."""
    return f"{count / seconds / 1e6:,.0f} MB/s"


def kib(count: float) -> str:
    """A size."""
    return f"{count / 1024:.1f} KiB"
