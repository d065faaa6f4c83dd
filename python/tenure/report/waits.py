# SPDX-License-Identifier: Apache-2.0
"""Who waited, for how long and why; and which promises were made and kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import numpy as np

from tenure._figures import format_figure
from tenure._time import DAY, HOUR
from tenure.report.svg import LogScale, Scale, number, svg, text
from tenure.report.usage import Usage
from tenure.simulation import Result
from tenure.world import WORKLOAD_CLASSES, World

__all__ = ["LongWait", "distribution", "longest", "promises", "reasons"]

_GROUPS = ("debug", "interactive", "training", "gang", "all", "sweep")
_NAMES = {
    "debug": "debug", "interactive": "interactive", "training": "training, < 64 GPUs",
    "gang": "gangs, 64 GPUs and more", "all": "all funded", "sweep": "unfunded sweeps",
}  # fmt: skip


def distribution(results: Mapping[str, Result], colours: Mapping[str, str]) -> str:
    """p50, p90 and p99 of each class under each policy, on a logarithmic axis."""
    row, left, width = 11.0, 160.0, 1180.0
    groups = [g for g in _GROUPS if any(r.wait_s[g].p50 is not None for r in results.values())]
    block = row * len(results) + 12
    height = 24 + block * len(groups)
    x = LogScale(5.0, 10 * 86_400.0, left, width - 30)
    parts = []
    for seconds, label in (
        (5, "5 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (6 * 3600, "6 h"),
        (86_400, "1 d"), (7 * 86_400, "7 d"),
    ):  # fmt: skip
        at = number(x(seconds))
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="14" y2="{number(height - 8)}"/>')
        parts.append(text(x(seconds), 10, label, "tick", "middle"))
    for g, group in enumerate(groups):
        top = 22 + g * block
        parts.append(text(left - 8, top + row * len(results) / 2 + 2, _NAMES[group], "", "end"))
        for k, (policy, result) in enumerate(results.items()):
            q = result.wait_s[group]
            if q.p50 is None or q.p90 is None or q.p99 is None:
                continue
            y, colour = top + k * row + row / 2, colours[policy]
            tip = ", ".join(
                f"{name} {format_figure(value, 's')}"
                for name, value in (("p50", q.p50), ("p90", q.p90), ("p99", q.p99))
            )
            parts.append(
                f"<g><title>{escape(policy)}, {group}: {tip}</title>"
                f'<line x1="{number(x(q.p50))}" x2="{number(x(q.p99))}" y1="{number(y)}" '
                f'y2="{number(y)}" stroke="{colour}" stroke-width="2"/>'
                f'<circle cx="{number(x(q.p50))}" cy="{number(y)}" r="2.4" fill="#fff" '
                f'stroke="{colour}" stroke-width="1.5"/>'
                f'<circle cx="{number(x(q.p90))}" cy="{number(y)}" r="4" fill="{colour}"/></g>'
            )
    return svg(width, height, parts, "waits by class and policy")


def promises(world: World, result: Result) -> str:
    """Every promised start: made when, due when, started when."""
    assert result.timeline is not None
    rows, runs = result.timeline.promises, result.timeline.runs
    measured = (rows["made_us"] >= world.warmup_us) & (rows["made_us"] < world.end_us)
    rows = rows[measured]
    if not len(rows):
        return "<p>No gang had to be promised a start.</p>"
    order = np.lexsort((runs["start_us"], runs["job"]))
    jobs, starts = runs["job"][order].astype(np.int64), runs["start_us"][order]
    width, height, left = 1180.0, 150.0, 40.0
    due = (rows["start_by_us"] - rows["made_us"]) / HOUR
    top = float(max(due.max(initial=1.0), 1.0)) * 1.08
    x = Scale(world.warmup_us / DAY, world.end_us / DAY, left, width - 8)
    y = Scale(0.0, top, height - 16, 6)
    parts = []
    for hours in range(0, int(top) + 1, 2):
        parts.append(
            f'<line class="grid" x1="{number(left)}" x2="{number(width - 8)}" '
            f'y1="{number(y(hours))}" y2="{number(y(hours))}"/>'
        )
        parts.append(text(left - 5, y(hours) + 3, f"{hours} h", "tick", "end"))
    for day in range(world.warmup_us // DAY, world.end_us // DAY + 1, 5):
        parts.append(text(x(day), height - 3, f"d{day}", "tick", "middle"))
    for row in rows:
        low = np.searchsorted(jobs, row["job"], side="left")
        high = np.searchsorted(jobs, row["job"], side="right")
        later = starts[low:high][starts[low:high] >= row["made_us"]]
        at = x(row["made_us"] / DAY)
        bound = y((row["start_by_us"] - row["made_us"]) / HOUR)
        parts.append(
            f'<line class="due" x1="{number(at - 2.5)}" x2="{number(at + 2.5)}" '
            f'y1="{number(bound)}" y2="{number(bound)}"/>'
        )
        if len(later):
            waited = (later[0] - row["made_us"]) / HOUR
            within = (row["start_by_us"] - row["made_us"]) / HOUR
            kind = "kept" if later[0] <= row["start_by_us"] else "broken"
            parts.append(
                f'<circle class="{kind}" cx="{number(at)}" cy="{number(y(min(waited, top)))}" '
                f'r="2.2"><title>job {row["job"]}, promised within {within:.1f} h, '
                f"started after {waited:.1f} h</title></circle>"
            )
    return svg(width, height, parts, "promised starts")


@dataclass(frozen=True)
class LongWait:
    """A job's wait before its first start; `use` is what its leaf had meanwhile, as a part of its
    entitlement, `reason` says what kept it waiting."""

    job: int
    leaf: str
    kind: str
    gpus: int
    submitted_us: int
    wait_us: int
    started: bool
    use: float
    reason: str


def longest(world: World, result: Result, usage: Usage, count: int = 15) -> list[LongWait]:
    """The longest waits of funded work submitted in the measured time, longest first."""
    waits = _all_waits(world, result, usage)
    return sorted(waits, key=lambda w: (-w.wait_us, w.job))[:count]


def reasons(world: World, result: Result, usage: Usage) -> list[tuple[str, int, float]]:
    """(reason, jobs, GPU-hours asked for) of all that waited longer than an hour, most first."""
    totals: dict[str, list[float]] = {}
    for wait in _all_waits(world, result, usage):
        if wait.wait_us <= HOUR:
            continue
        entry = totals.setdefault(wait.reason, [0, 0.0])
        entry[0] += 1
        entry[1] += wait.gpus * float(world.jobs[wait.job]["runtime_us"]) / HOUR
    return sorted(((r, int(n), h) for r, (n, h) in totals.items()), key=lambda e: -e[1])


def _all_waits(world: World, result: Result, usage: Usage) -> list[LongWait]:
    assert result.timeline is not None
    jobs, runs = world.jobs, result.timeline.runs
    first = np.full(len(jobs), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first, runs["job"].astype(np.int64), runs["start_us"])
    promised = set(result.timeline.promises["job"].tolist())
    chosen = np.flatnonzero(
        (jobs["minimum_us"] > 0)
        & (jobs["submit_us"] >= world.warmup_us)
        & (jobs["submit_us"] < world.end_us)
    )
    out = []
    for i in chosen.tolist():
        job = jobs[i]
        submit = int(job["submit_us"])
        patience = int(job["patience_us"]) or world.end_us
        started = first[i] < world.end_us
        end = int(first[i]) if started else min(submit + patience, world.end_us)
        if end - submit <= 60_000_000:
            continue
        leaf = int(job["leaf"])
        low = max(0, (submit - usage.begin_us) // usage.step_us)
        high = max(low + 1, -(-(end - usage.begin_us) // usage.step_us))
        entitled = float(usage.entitled[leaf])
        use = float(usage.running[leaf, low:high].mean()) / entitled if entitled else 0.0
        gpus = int(job["nodes"] * job["gpus_per_node"])
        out.append(
            LongWait(
                job=i,
                leaf=world.leaves[leaf].path,
                kind=WORKLOAD_CLASSES[job["workload_class"]],
                gpus=gpus,
                submitted_us=submit,
                wait_us=end - submit,
                started=bool(started),
                use=use,
                reason=_reason(use, gpus, entitled, i in promised),
            )
        )
    return out


def _reason(use: float, gpus: int, entitled: float, promised: bool) -> str:
    if promised:
        return "saved up credit, then waited for its promised start"
    if use >= 1.0:
        return "its team used its whole budget"
    if gpus > entitled:
        return "larger than its team's entitlement: has to save up"
    if use >= 0.75:
        return "did not fit into the rest of its team's budget"
    return "no GPUs were free or could be freed for it"
