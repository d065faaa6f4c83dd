# SPDX-License-Identifier: Apache-2.0
"""One picture for each of the larger tables, as SVG beside README.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import sections as sc
import tables as tb
from experiments import Experiment, Line
from matplotlib.figure import Figure
from tables import Rows

from tenure.comparison import interval, mean

# Colour-blind safe (Okabe and Ito).
COLOURS = {
    "priority": "#999999", "fifo-easy": "#CC79A7", "fairtree": "#56B4E9",
    "fairtree-preempt": "#009E73", "ai2": "#E69F00", "hier": "#D55E00", "budget": "#0072B2",
}  # fmt: skip


# Of a logarithmic axis in seconds.
TIMES = ((10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (12 * 3600, "12 h"))


def draw(name: str, experiment: Experiment, rows: Rows, folder: Path) -> None:
    """Draw the picture of a section, if it has one."""
    painter = PAINTERS.get(name)
    if painter is None:
        return
    matplotlib.rcParams.update({"svg.hashsalt": "tenure", "svg.fonttype": "none", "font.size": 9})
    figure = painter(experiment, rows)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def _clean(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="both", color="#e5e5e5", lw=0.6, zorder=0)
    axes.set_axisbelow(True)


def _point(axes: Any, lines: Sequence[Line], rows: Rows, figure: str, scale: float) -> None:
    """A row a line: its mean with the interval, and a small mark for each seed."""
    for y, line in enumerate(lines):
        numbers = [v * scale for v in tb.values(rows(line), figure)]
        if not numbers:
            axes.annotate("none", (0.02, y), xycoords=("axes fraction", "data"), va="center")
            continue
        colour = COLOURS.get(line.cases[0].policy, "#0072B2")
        axes.plot(numbers, [y] * len(numbers), "|", color=colour, alpha=0.5, ms=9)
        ends = interval(numbers)
        if ends is not None:
            axes.plot(ends, [y, y], color=colour, lw=2.5, solid_capstyle="butt")
        axes.plot([mean(numbers)], [y], "o", color=colour, ms=5.5)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), [line.label for line in lines])
    _clean(axes)


def published(experiment: Experiment, rows: Rows) -> Figure:
    figures = (
        ("owed time delivered, %", "owed_cum", 100.0),
        ("goodput, % of capacity", "goodput", 100.0),
        ("waste, % of occupied", "waste", 100.0),
        ("gangs finished, %", "gangs_done_share", 100.0),
        ("debug wait p90 (log)", "wait_s.debug.p90", 1.0),
    )
    loads = list(dict.fromkeys(line.group for line in experiment.lines))
    figure = Figure(figsize=(13, 2.1 * len(loads)), layout="constrained")
    grid = figure.subplots(len(loads), len(figures), squeeze=False, sharex="col")
    for r, load in enumerate(loads):
        lines = sc.of_group(experiment, load)
        for c, (title, name, scale) in enumerate(figures):
            axes = grid[r][c]
            _point(axes, lines, rows, name, scale)
            if name.startswith("wait"):
                axes.set_xscale("log")
                axes.set_xticks(*zip(*TIMES, strict=True))
                axes.minorticks_off()
            if r == 0:
                axes.set_title(title, loc="left", fontsize=9)
            if c == 0:
                axes.set_ylabel(f"load {load}", fontweight="bold")
            else:
                axes.set_yticklabels([])
    # The columns share their limits, so that all rows have to be drawn before.
    for c, (_, name, _) in enumerate(figures):
        ends = [row[c].dataLim.x1 for row in grid if row[c].lines]
        if ends and max(ends) > 0 and not name.startswith("wait"):
            grid[0][c].set_xlim(0, 1.04 * max(ends))
    return figure


def ablation(experiment: Experiment, rows: Rows) -> Figure:
    figures = (
        ("owed, worst leaf, % points", "owed_cum_worst", 100.0),
        ("goodput, % points", "goodput", 100.0),
        ("waste, % points", "waste", 100.0),
        ("gangs finished, % points", "gangs_done_share", 100.0),
        ("gang wait p90, h", "wait_s.gang.p90", 1 / 3600),
        ("sessions killed", "sessions_killed", 1.0),
    )
    groups = list(dict.fromkeys(line.group for line in experiment.lines))
    figure = Figure(figsize=(14, 5.4), layout="constrained")
    grid = figure.subplots(1, len(figures), squeeze=False)[0]
    lines = [sc.of_group(experiment, group)[1:] for group in groups]
    for axes, (title, name, scale) in zip(grid, figures, strict=True):
        for g, group in enumerate(groups):
            base = rows(sc.of_group(experiment, group)[0])
            for y, line in enumerate(lines[g]):
                changes = [
                    scale * (two["figures"][name] - one["figures"][name])
                    for one, two in zip(base, rows(line), strict=True)
                    if one["figures"][name] is not None and two["figures"][name] is not None
                ]
                if not changes:
                    continue
                at = y + (g - (len(groups) - 1) / 2) * 0.32
                colour = ("#56B4E9", "#0072B2", "#D55E00")[g % 3]
                ends = interval(changes) or [changes[0], changes[0]]
                axes.plot(ends, [at, at], color=colour, lw=1.6)
                axes.plot([mean(changes)], [at], "o", color=colour, ms=4,
                          label=f"load {group}" if y == 0 else None)  # fmt: skip
        axes.axvline(0, color="#444444", lw=0.8)
        axes.set_ylim(len(lines[0]) - 0.5, -0.5)
        axes.set_yticks(range(len(lines[0])), [line.label for line in lines[0]])
        axes.set_title(title, loc="left", fontsize=9)
        _clean(axes)
        if axes is not grid[0]:
            axes.set_yticklabels([])
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3, frameon=False)
    figure.suptitle("What changes when a mechanism is off", x=0.01, ha="left", fontsize=10)
    return figure


def loads(experiment: Experiment, rows: Rows) -> Figure:
    figures = (
        ("owed time delivered, %", "owed_cum", 100.0),
        ("worst leaf, %", "owed_cum_worst", 100.0),
        ("goodput, % of capacity", "goodput", 100.0),
        ("waste, % of occupied", "waste", 100.0),
        ("gangs finished, %", "gangs_done_share", 100.0),
        ("preemptions per job", "preemptions_per_job", 1.0),
    )
    figure = Figure(figsize=(11, 5.4), layout="constrained")
    grid = figure.subplots(2, 3).ravel()
    for axes, (title, name, scale) in zip(grid, figures, strict=True):
        for policy in dict.fromkeys(line.group for line in experiment.lines):
            lines = sc.of_group(experiment, policy)
            x = [float(line.label) for line in lines]
            sets = [[v * scale for v in tb.values(rows(line), name)] for line in lines]
            axes.plot(x, [mean(s) for s in sets], "o-", ms=4, color=COLOURS[policy], label=policy)
            for at, numbers in zip(x, sets, strict=True):
                ends = interval(numbers)
                if ends is not None:
                    axes.plot([at, at], ends, color=COLOURS[policy], lw=1)
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_xlabel("load")
        _clean(axes)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def gaming(experiment: Experiment, rows: Rows) -> Figure:
    games = [game for game in sc.played(experiment) if game[0].cases[0].policy == "budget"]
    teams = list(dict.fromkeys(line.group for line, _, _ in games))
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    strategies = list(dict.fromkeys(line.label for line, _, _ in games))
    for t, team in enumerate(teams):
        for line, honest, leaf in games:
            if line.group != team:
                continue
            at = strategies.index(line.label) + (t - (len(teams) - 1) / 2) * 0.24
            colour = ("#56B4E9", "#0072B2", "#D55E00")[t % 3]
            for axes, numbers in zip(
                (left, right), sc.gains(line, honest, rows, leaf), strict=True
            ):
                percent = [100 * v for v in numbers]
                axes.plot([min(percent), max(percent)], [at, at], color=colour, lw=1.4)
                axes.plot([mean(percent)], [at], "o", color=colour, ms=4.5,
                          label=team if line.label == strategies[0] else None)  # fmt: skip
    left.set_title("gain of the team in GPU-hours, % (line: all seeds)", loc="left", fontsize=9)
    right.set_title("loss of all others, % of what they are owed", loc="left", fontsize=9)
    left.axvline(10, color="#888888", lw=0.8, ls="--")
    left.axvline(30, color="#888888", lw=0.8, ls=":")
    right.axvline(2, color="#888888", lw=0.8, ls="--")
    for axes in (left, right):
        axes.axvline(0, color="#444444", lw=0.8)
        _clean(axes)
    left.set_yticks(range(len(strategies)), strategies)
    left.invert_yaxis()
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


PAINTERS: dict[str, Callable[[Experiment, Rows], Figure]] = {
    "published": published,
    "ablation": ablation,
    "loads": loads,
    "gaming": gaming,
}
