# SPDX-License-Identifier: Apache-2.0
"""The sections of README.md: which experiment each one shows, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import experiments as ex
import tables as tb
from experiments import Experiment, Line
from store import Row
from tables import Column, Rows

from tenure.comparison import mean

PUBLISHED_COLUMNS = (
    tb.OWED, tb.WORST_LEAF, tb.WORST_PROGRAM,
    Column("owed, repaid within 7 days", "owed_win7", plus_minus=True),
    Column("owed, hour by hour", "owed_strict", plus_minus=True),
    Column("leaves with >= 95 % of 15", "leaves_ge_95", "x"),
    tb.GOODPUT, tb.WASTE,
    Column("occupancy", "occupancy"),
    Column("unfunded part of it", "unfunded_share"),
    Column("wait p50, all funded", "wait_s.all.p50", "s"),
    tb.WAIT_90, tb.DEBUG_WAIT, tb.MEDIUM_WAIT, tb.GANG_WAIT, tb.GANGS_DONE,
    Column("gang turnaround p50", "gang_turnaround_s.p50", "s"),
    Column("gang, submit to reservation p90", "gang_to_reservation_s.p90", "s"),
    Column("gang, reservation to start p90", "gang_from_reservation_s.p90", "s"),
    Column("the same, longest", "gang_from_reservation_s.max", "s"),
    tb.STOPS,
    Column("of them within 1 h of the last", "repreempted_1h_share"),
    tb.KILLED,
)  # fmt: skip


# What the institute reported, before and after, and the figure that is nearest to it here.
REPORTED = (
    ("owed time delivered %", "-", "98", Column("", "owed_cum")),
    ("worst of 15 teams %", "-", "90", Column("", "owed_cum_worst")),
    ("teams with at least 95 %", "-", "13 of 15", Column("", "leaves_ge_95", "x")),
    ("occupancy %", "98", "98", Column("", "occupancy")),
    ("unfunded part of it %", "-", "18", Column("", "unfunded_share")),
    ("wait p50", "5 min", "24 s", Column("", "wait_s.all.p50", "s")),
    ("wait p90", "2.8 h", "1.8 h", Column("", "wait_s.all.p90", "s")),
    ("debug wait p90", "2 h", "30 s", Column("", "wait_s.debug.p90", "s")),
    ("goodput %", "-", "-", tb.GOODPUT),
    ("waste %", "-", "-", tb.WASTE),
    ("gangs finished %", "-", "-", tb.GANGS_DONE),
)


def reported(experiment: Experiment, rows: Rows) -> str:
    """The reported figures beside those of the same policy and of the default here."""
    chosen = [
        line
        for load in ex.LOADS
        for line in of_group(experiment, f"{load}")
        if line.label in ("ai2", "budget")
    ]
    header = ["", "reported: before", "after"]
    header += [f"here: {line.label} {line.group}" for line in chosen]
    return tb.markdown(
        header,
        [
            [label, before, after, *(tb.cell(rows(line), column) for line in chosen)]
            for label, before, after, column in REPORTED
        ],
    )


def of_group(experiment: Experiment, group: str) -> list[Line]:
    return [line for line in experiment.lines if line.group == group]


def published(experiment: Experiment, rows: Rows) -> str:
    out = [reported(experiment, rows)]
    for load in ex.LOADS:
        lines = of_group(experiment, f"{load}")
        asked = [row["workload"] for line in lines[:1] for row in rows(line)]
        out.append(
            f"Load {load}: asked for are {mean(w['offered_load'] for w in asked):.2f} times the "
            f"capacity, {mean(w['funded_load'] for w in asked):.2f} of it funded.\n\n"
            + tb.lying(lines, rows, PUBLISHED_COLUMNS)
        )
    return "\n".join(out)


def upright(first: str) -> Callable[[Experiment, Rows], str]:
    return lambda experiment, rows: tb.upright(experiment, rows, first)


def differences(experiment: Experiment, rows: Rows) -> str:
    """What changes against the first line of the group, on the same seeds."""
    columns = (
        tb.OWED, Column("worst leaf", "owed_cum_worst"), tb.GOODPUT, tb.WASTE, tb.GANGS_DONE,
        tb.GANG_WAIT, tb.MEDIUM_WAIT, tb.DEBUG_WAIT, tb.STOPS, tb.KILLED,
    )  # fmt: skip
    out = []
    for group in dict.fromkeys(line.group for line in experiment.lines):
        lines = of_group(experiment, group)
        base = rows(lines[0])
        cells = []
        for line in lines:
            row = [line.label]
            for column in columns:
                if line is lines[0]:
                    row.append(tb.cell(base, column))
                    continue
                row.append(_difference(base, rows(line), column))
            cells.append(row)
        header = ["", *(tb.heading(c) for c in columns)]
        out.append(f"Load {group}:\n\n" + tb.markdown(header, cells))
    return "\n".join(out)


def _difference(base: Sequence[Row], rows: Sequence[Row], column: Column) -> str:
    pairs = [
        (one["figures"][column.figure], two["figures"][column.figure])
        for one, two in zip(base, rows, strict=True)
    ]
    changes = [two - one for one, two in pairs if one is not None and two is not None]
    if not changes:
        return "-"
    change = mean(changes) or 0.0
    text = f"{'+' if change >= 0 else '-'}{tb.written(abs(change), column.how)}"
    half = tb.half_interval(changes)
    # Bold where the interval of the paired difference leaves out 0.
    if half is not None and any(changes) and (min(changes) > 0 or max(changes) < 0):
        return f"**{text}**" if abs(change) > half else text
    return text


HOST_COLUMNS = (
    tb.OWED, tb.WORST_LEAF, tb.GOODPUT, tb.WASTE, tb.GANGS_DONE,
    Column("available", "availability"),
    Column("repairs", "repairs", "n"),
    Column("of them needing a person", "repairs_human", "n"),
    Column("host empty after p50, h", "host_drain_h.p50", "x"),
    Column("p90, h", "host_drain_h.p90", "x"),
    Column("longest, h", "host_drain_h.max", "x"),
    Column("runs lost", "runs_lost", "n"),
    Column("failed resumes", "failed_resumes", "n"),
    Column("promises", "promises", "n"),
    Column("broken", "promises_broken", "n"),
    tb.GANG_WAIT, tb.DEBUG_WAIT, tb.STOPS,
)  # fmt: skip


def hosts(experiment: Experiment, rows: Rows) -> str:
    header = ["load, mean uptime", "policy", *(tb.heading(c) for c in HOST_COLUMNS)]
    return tb.markdown(
        header,
        [
            [line.group, line.label, *(tb.cell(rows(line), c) for c in HOST_COLUMNS)]
            for line in experiment.lines
        ],
    )


def nights(experiment: Experiment, rows: Rows) -> str:
    columns = (
        tb.OWED, tb.WORST_LEAF, tb.GOODPUT, tb.WASTE, tb.GANGS_DONE,
        Column("sessions killed in use", "sessions_killed", "n"),
        Column("suspended while idle", "sessions_suspended", "n"),
        tb.MEDIUM_WAIT, tb.GANG_WAIT,
    )  # fmt: skip
    return tb.upright(experiment, rows, "sessions", columns)


def gains(line: Line, honest: Line, rows: Rows, leaf: int) -> tuple[list[float], list[float]]:
    """Per seed: GPU-hours gained / those of honesty, and what the others lose of what they are owed
    (as a part of it)."""
    gained, lost = [], []
    for played, before in zip(rows(line), rows(honest), strict=True):
        team = set(played["gamers"])
        got = sum(played["leaf"][i]["delivered_gpu_h"] for i in team)
        gained.append(got / before["leaf"][leaf]["delivered_gpu_h"] - 1)

        def others(row: Row, ours: set[int]) -> float:
            rest = [entry for i, entry in enumerate(row["leaf"]) if i not in ours]
            kept = sum(min(e["delivered_gpu_h"], e["owed_gpu_h"]) for e in rest)
            return float(kept / sum(e["owed_gpu_h"] for e in rest))

        lost.append(others(before, {leaf}) - others(played, team))
    return gained, lost


def played(experiment: Experiment) -> list[tuple[Line, Line, int]]:
    """(line, its honest line, leaf) of every game."""
    out = []
    for line in experiment.lines:
        game = line.cases[0].game
        if game is None:
            continue
        policy = line.cases[0].policy
        honest = next(
            other
            for other in experiment.lines
            if other.cases[0].game is None and other.cases[0].policy == policy
        )
        out.append((line, honest, int(game[1])))
    return out


def gaming(experiment: Experiment, rows: Rows) -> str:
    header = [
        "team", "strategy", "gains % (most on a seed)", "others lose % (most on a seed)",
        "team's wait p90 before", "after", "all: owed %", "goodput %", "waste %",
        "gangs finished %",
    ]  # fmt: skip
    out = []
    for line, honest, leaf in played(experiment):
        gained, lost = gains(line, honest, rows, leaf)
        before = mean(row["leaf"][leaf]["wait_s"]["p90"] for row in rows(honest))
        after = mean(row["leaf"][leaf]["wait_s"]["p90"] for row in rows(line))
        out.append(
            [
                line.group,
                line.label,
                f"{100 * (mean(gained) or 0):+.1f} ({100 * max(gained):+.1f})",
                f"{100 * (mean(lost) or 0):+.2f} ({100 * max(lost):+.2f})",
                tb.written(before, "s"),
                tb.written(after, "s"),
                *(tb.cell(rows(line), c) for c in (tb.OWED, tb.GOODPUT, tb.WASTE, tb.GANGS_DONE)),
            ]
        )
    return tb.markdown(header, out)


def shapes(experiment: Experiment, rows: Rows) -> str:
    header = ["tree and cluster", "policy", "leaves >= 95 %", *map(tb.heading, tb.STANDARD)]
    out = []
    for line in experiment.lines:
        own = rows(line)
        enough = mean(r["figures"]["leaves_ge_95"] / r["figures"]["leaves"] for r in own)
        out.append(
            [
                line.group,
                line.label,
                tb.written(enough, "%") + " %",
                *(tb.cell(own, c) for c in tb.STANDARD),
            ]
        )
    return tb.markdown(header, out)


def forecasts(experiment: Experiment, rows: Rows) -> str:
    header = [
        "load", "from", "forecast", "number", "started", "kept or within 25 % (15 min)",
        "error p10", "error p50", "error p90",
    ]  # fmt: skip
    out = []
    hour = 3600.0
    for line in experiment.lines:
        samples = [f for row in rows(line) for f in row["forecasts"]]
        kinds: list[tuple[str, Callable[[dict[str, float]], bool]]] = [
            ("promised start", lambda f: bool(f["promised"])),
            ("estimate, up to 1 h", lambda f: _estimated(f, 0, hour)),
            ("estimate, 1 to 6 h", lambda f: _estimated(f, hour, 6 * hour)),
            ("estimate, 6 to 24 h", lambda f: _estimated(f, 6 * hour, 24 * hour)),
            ("estimate, over a day", lambda f: _estimated(f, 24 * hour, 1e12)),
            ("none within 14 d", lambda f: not f["promised"] and f["predicted_s"] is None),
        ]
        for label, is_kind in kinds:
            chosen = [f for f in samples if is_kind(f)]
            ended = [f for f in chosen if f["actual_s"] is not None]
            if not chosen:
                continue
            cells = [line.group, line.label, label, f"{len(chosen)}"]
            cells.append(f"{100 * len(ended) / len(chosen):.0f} %")
            errors = sorted(
                f["actual_s"] - f["predicted_s"] for f in ended if f["predicted_s"] is not None
            )
            if errors:
                close = sum(_is_close(f) for f in ended) / len(ended)
                cells.append(f"{100 * close:.0f} %")
                cells += [_signed(errors[len(errors) * q // 100]) for q in (10, 50, 90)]
            else:
                cells += ["-"] * 4
            out.append(cells)
    return tb.markdown(header, out)


def _estimated(sample: dict[str, float], low: float, high: float) -> bool:
    predicted = sample["predicted_s"]
    return not sample["promised"] and predicted is not None and low <= predicted < high


def _is_close(sample: dict[str, float]) -> bool:
    error = sample["actual_s"] - sample["predicted_s"]
    if sample["promised"]:
        return error <= 15.0  # two passes: what the simulated clock adds to a promise
    return abs(error) <= max(900.0, 0.25 * sample["predicted_s"])


def _signed(value: float) -> str:
    return ("+" if value >= 0 else "-") + tb.written(abs(value), "s")


# Name of the section, its experiment and how it is shown; in the order of README.md.
SECTIONS: dict[str, tuple[Callable[[Sequence[int]], Experiment], Callable[[Experiment, Rows], str]]]
SECTIONS = {
    "published": (ex.published, published),
    "ablation": (ex.ablation, differences),
    "presets": (ex.presets, upright("policy")),
    "caps": (ex.caps, upright("cap")),
    "borrowed": (ex.borrowed, upright("cap on what is borrowed")),
    "windows": (ex.windows, upright("window")),
    "notice": (ex.notice, upright("saving at a stop")),
    "loads": (
        ex.loads,
        lambda experiment, rows: tb.upright(experiment, rows, "load").replace(
            "| load | load |", "| policy | load |", 1
        ),
    ),
    "hosts": (ex.hosts, hosts),
    "gaming": (ex.gaming, gaming),
    "nights": (ex.nights, nights),
    "shapes": (ex.shapes, shapes),
    "forecasts": (ex.forecasts, forecasts),
}


def philly(data: Path) -> Experiment:
    return ex.philly(data)


def philly_table(experiment: Experiment, rows: Rows) -> str:
    columns = (
        Column("owed", "owed_cum"), Column("worst leaf", "owed_cum_worst"),
        Column("goodput", "goodput"), Column("waste", "waste"),
        Column("gangs finished", "gangs_done_share"), Column("occupancy", "occupancy"),
        Column("wait p50", "wait_s.all.p50", "s"), Column("wait p90", "wait_s.all.p90", "s"),
        tb.STOPS, Column("jobs done", "jobs_done", "n"), Column("queued", "jobs_queued", "n"),
    )  # fmt: skip
    header = ["cluster", "policy", *(tb.heading(c) for c in columns)]
    return tb.markdown(
        header,
        [
            [line.group, line.label, *(tb.cell(rows(line), c) for c in columns)]
            for line in experiment.lines
        ],
    )
