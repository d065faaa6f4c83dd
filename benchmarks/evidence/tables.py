# SPDX-License-Identifier: Apache-2.0
"""From rows to Markdown tables. Every cell is a mean over seeds; +- is half of the 95 % bootstrap
interval of the mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from experiments import Experiment, Line
from store import Row

from tenure.comparison import interval, mean


@dataclass(frozen=True)
class Column:
    """A figure: its heading, its dotted name and how it is written.

    `how`: "%" of 1, "s" seconds, "h" seconds in hours, "n" count, "x" ratio.
    `worst` adds the lowest seed.
    """

    heading: str
    figure: str
    how: str = "%"
    plus_minus: bool = False
    worst: bool = False


OWED = Column("owed", "owed_cum", plus_minus=True)
WORST_LEAF = Column("worst leaf (worst seed)", "owed_cum_worst", worst=True)
WORST_PROGRAM = Column("worst program (worst seed)", "owed_cum_worst_program", worst=True)
GOODPUT = Column("goodput", "goodput", plus_minus=True)
WASTE = Column("waste", "waste", plus_minus=True)
GANGS_DONE = Column("gangs finished", "gangs_done_share", plus_minus=True)
GANG_WAIT = Column("gang wait p90", "wait_s.gang.p90", "s")
MEDIUM_WAIT = Column("medium wait p90", "wait_s.training.p90", "s")
DEBUG_WAIT = Column("debug wait p90", "wait_s.debug.p90", "s")
WAIT_90 = Column("wait p90, all funded", "wait_s.all.p90", "s")
STOPS = Column("preemptions per job", "preemptions_per_job", "x")
KILLED = Column("sessions killed", "sessions_killed", "n")

# Goodput, waste and finished gangs are beside the others everywhere.
STANDARD = (
    OWED, WORST_LEAF, WORST_PROGRAM, GOODPUT, WASTE, GANGS_DONE, GANG_WAIT, MEDIUM_WAIT, DEBUG_WAIT,
    WAIT_90, STOPS, KILLED,
)  # fmt: skip


def values(rows: Iterable[Row], figure: str) -> list[float]:
    return [row["figures"][figure] for row in rows if row["figures"][figure] is not None]


def written(value: float | None, how: str) -> str:
    """A number for people; "-" where nothing was measured."""
    if value is None:
        return "-"
    if how == "%":
        return f"{100 * value:.1f}"
    if how == "s":
        for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
            if abs(value) >= 2 * size:
                return f"{value / size:.1f} {unit}"
        return f"{value:.0f} s"
    if how == "h":
        return f"{value / 3600:.1f} h"
    if how == "n":
        return f"{value:,.0f}"
    return f"{value:.2f}"


def half_interval(numbers: Sequence[float]) -> float | None:
    """Half of the interval of the mean; None for fewer than three seeds: it would say little."""
    ends = interval(numbers) if len(numbers) >= 3 else None
    return None if ends is None else (ends[1] - ends[0]) / 2


def cell(rows: Sequence[Row], column: Column) -> str:
    numbers = values(rows, column.figure)
    text = written(mean(numbers), column.how)
    if not numbers:
        return text
    if column.plus_minus and (half := half_interval(numbers)) is not None:
        text += f" ±{written(half, column.how)}"
    if column.worst and len(numbers) > 1:
        text += f" ({written(min(numbers), column.how)})"
    return text


def heading(column: Column) -> str:
    return f"{column.heading} %" if column.how == "%" else column.heading


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    out = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    out += ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(out) + "\n"


Rows = Callable[[Line], list[Row]]


def upright(
    experiment: Experiment, rows: Rows, first: str, columns: Sequence[Column] = STANDARD
) -> str:
    """A line a variant, a column a figure; one table for all groups, named where they change."""
    groups = {line.group for line in experiment.lines}
    header = [*(["load"] if len(groups) > 1 else []), first, *(heading(c) for c in columns)]
    out = []
    for line in experiment.lines:
        cells = [line.label, *(cell(rows(line), c) for c in columns)]
        out.append([line.group, *cells] if len(groups) > 1 else cells)
    return markdown(header, out)


def lying(lines: Sequence[Line], rows: Rows, columns: Sequence[Column]) -> str:
    """A column a policy, a line a figure."""
    header = ["", *(line.label for line in lines)]
    return markdown(
        header, ([heading(c), *(cell(rows(line), c) for line in lines)] for c in columns)
    )


def in_words(numbers: Sequence[float], how: str) -> str:
    """Mean, interval and range."""
    ends = interval(numbers)
    text = written(mean(numbers), how)
    if ends is not None:
        text += f" ({written(ends[0], how)} to {written(ends[1], how)})"
    return text
