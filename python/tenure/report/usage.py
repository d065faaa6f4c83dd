# SPDX-License-Identifier: Apache-2.0
"""Use against budget over time: a small picture for each leaf."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from tenure._time import DAY, HOUR
from tenure.report.svg import Scale, number, path, svg, text
from tenure.simulation import Result
from tenure.world import World

__all__ = ["Usage", "measure", "pictures"]

Series = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Usage:
    """GPUs of each leaf, funded work only, as means over steps of `step_us`; shape (leaves, steps).

    `wanted` is what ran and what was queued.
    """

    begin_us: int
    step_us: int
    running: Series
    wanted: Series
    entitled: Series  # shape (leaves,)


def _integrate(
    begin: int, step: int, steps: int, leaves: int, leaf: npt.NDArray[np.int64],
    gpus: npt.NDArray[np.float64], start: npt.NDArray[np.int64], end: npt.NDArray[np.int64],
) -> Series:  # fmt: skip
    """Mean GPUs in use in each step by intervals [start, end)."""
    # A cumulative integral, read at the borders of the steps.
    out = np.zeros((leaves, steps))
    borders = begin + step * np.arange(steps + 1)
    for i in range(leaves):
        chosen = leaf == i
        integral = np.zeros(steps + 1)
        for times, sign in ((start[chosen], 1.0), (end[chosen], -1.0)):
            order = np.argsort(times, kind="stable")
            at, weight = times[order], gpus[chosen][order]
            count = np.searchsorted(at, borders, side="right")
            sums = np.concatenate(([0.0], np.cumsum(weight)))
            moments = np.concatenate(([0.0], np.cumsum(weight * (at - begin))))
            integral += sign * (sums[count] * (borders - begin) - moments[count])
        out[i] = np.diff(integral) / step
    return out


def measure(world: World, result: Result, step_us: int = 6 * HOUR) -> Usage:
    """Take the use of every leaf from the timeline of `result`."""
    assert result.timeline is not None
    runs, jobs = result.timeline.runs, world.jobs
    begin, end = world.warmup_us, world.end_us
    steps = max(1, (end - begin) // step_us)
    leaves = len(world.leaves)
    funded = jobs["minimum_us"] > 0
    of_run = runs["job"].astype(np.int64)
    kept = funded[of_run]
    size = jobs["nodes"].astype(np.float64) * jobs["gpus_per_node"]
    running = _integrate(
        begin, step_us, steps, leaves, jobs["leaf"][of_run][kept].astype(np.int64),
        size[of_run][kept], runs["start_us"][kept], runs["end_us"][kept],
    )  # fmt: skip
    # Wanted from submission until the last run is over, the patience or the end.
    over = np.where(
        jobs["patience_us"] > 0,
        np.minimum(jobs["submit_us"] + jobs["patience_us"], end),
        end,
    ).astype(np.int64)
    last = np.full(len(jobs), -1, dtype=np.int64)
    np.maximum.at(last, of_run, runs["end_us"])
    finished = np.zeros(len(jobs), dtype=bool)
    finished[of_run[runs["end"] == 1]] = True
    started = last >= 0
    over = np.where(finished, last, np.where(started, end, over))
    wanted = _integrate(
        begin, step_us, steps, leaves, jobs["leaf"][funded].astype(np.int64), size[funded],
        jobs["submit_us"][funded], np.maximum(over, jobs["submit_us"])[funded],
    )  # fmt: skip
    entitled = np.array([leaf.share for leaf in result.leaf]) * world.cluster.gpus
    return Usage(begin, step_us, running, wanted, entitled)


def pictures(world: World, result: Result, usage: Usage, colours: list[str]) -> str:
    """A small picture for each of the 30 largest leaves."""
    order = np.argsort(-usage.entitled, kind="stable")[:30]
    out = []
    for i in (int(i) for i in order):
        leaf = result.leaf[i]
        owed = "-" if leaf.owed_cum is None else f"{100 * leaf.owed_cum:.1f} %"
        out.append(
            f'<figure class="small"><figcaption><b>{escape(leaf.path)}</b> '
            f"{usage.entitled[i]:.0f} GPUs, got {owed} of owed</figcaption>"
            f"{_picture(world, usage, i, colours[i])}</figure>"
        )
    return "".join(out)


def _picture(world: World, usage: Usage, leaf: int, colour: str) -> str:
    width, height = 300.0, 92.0
    running, wanted = usage.running[leaf], usage.wanted[leaf]
    entitled = float(usage.entitled[leaf])
    top = max(float(running.max(initial=0.0)), 2.0 * entitled, 1.0) * 1.05
    first = usage.begin_us / DAY
    days = len(running) * usage.step_us / DAY
    x = Scale(0, days, 26, width - 4)
    y = Scale(0, top, height - 14, 4)
    step = usage.step_us / DAY
    outline = [(x(at * step), y(value)) for k, value in enumerate(running) for at in (k, k + 1)]
    outline = [(x(0), y(0)), *outline, (x(days), y(0))]
    owed = np.minimum(wanted, entitled)
    owed_line = [(x(at * step), y(value)) for k, value in enumerate(owed) for at in (k, k + 1)]
    parts = [path(outline, "area", close=True).replace("<path ", f'<path fill="{colour}" ', 1)]
    parts.append(path(owed_line, "owed"))
    parts.append(path([(x(0), y(entitled)), (x(days), y(entitled))], "budget"))
    for day in range(0, int(days) + 1, max(1, round(days / 4))):
        parts.append(text(x(day), height - 2, f"d{number(first + day)}", "tick", "middle"))
    for value in (0.0, entitled):
        parts.append(text(23, y(value) + 3, number(round(value)), "tick", "end"))
    return svg(width, height, parts, f"use of {world.leaves[leaf].path} over time")
