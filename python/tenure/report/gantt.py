# SPDX-License-Identifier: Apache-2.0
"""The GPU timeline: a row for each GPU, a bar for each run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np

from tenure._time import DAY, HOUR, format_us
from tenure.report.svg import Scale, number, svg, text
from tenure.timeline import RUN_ENDS, Timeline
from tenure.world import WORKLOAD_CLASSES, World

__all__ = ["Bar", "bars", "picture"]

_STOPPED = RUN_ENDS.index("stopped")
_SUSPENDED = RUN_ENDS.index("suspended")
_LOST = RUN_ENDS.index("lost")

_ROW = 4.0  # px a GPU


@dataclass(frozen=True)
class Bar:
    """One run on one node: GPUs [gpu, gpu + gpus) of it."""

    run: int
    node: int
    gpu: int
    gpus: int


def bars(world: World, timeline: Timeline, nodes: int, begin: int, end: int) -> list[Bar]:
    """The bars of the first `nodes` nodes in [begin, end), each GPU given to one run at a time.

    A run gets the lowest GPUs that are free and beside each other, or in parts if there are none.
    """
    runs, jobs = timeline.runs, world.jobs
    width = world.cluster.gpus_per_node
    free_from = np.zeros((nodes, width), dtype=np.int64)
    out: list[Bar] = []
    seen = np.flatnonzero(runs["start_us"] < end)
    for i in seen:
        run = runs[i]
        job = jobs[run["job"]]
        own = timeline.nodes[run["first_node"] : run["first_node"] + int(job["nodes"])]
        for node in own[own < nodes]:
            free = np.flatnonzero(free_from[node] <= run["start_us"])
            for gpu, gpus in _pieces(free.tolist(), int(job["gpus_per_node"])):
                free_from[node, gpu : gpu + gpus] = run["end_us"]
                if run["end_us"] > begin:
                    out.append(Bar(int(i), int(node), gpu, gpus))
    return out


def _pieces(free: list[int], wanted: int) -> Iterator[tuple[int, int]]:
    """(first, length) of stretches of `free` that together are `wanted` long."""
    stretches: list[list[int]] = []
    for gpu in free:
        if stretches and stretches[-1][-1] + 1 == gpu:
            stretches[-1].append(gpu)
        else:
            stretches.append([gpu])
    whole = [s for s in stretches if len(s) >= wanted]
    if whole:
        yield min(whole, key=len)[0], wanted
        return
    for stretch in stretches:
        taken = min(len(stretch), wanted)
        if taken:
            yield stretch[0], taken
        wanted -= taken


def picture(
    world: World, timeline: Timeline, colours: list[str], nodes: int, begin: int, end: int
) -> str:
    """Hue: leaf. Hatched: may be stopped. Red edge: was stopped for another; black: lost."""
    width, left, head = 1180.0, 62.0, 18.0
    per_node = world.cluster.gpus_per_node * _ROW + 2
    height = head + nodes * per_node + 4
    x = Scale(begin, end, left, width - 4)
    parts = [
        '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="5" stroke="#fff" '
        'stroke-width="2.4" stroke-opacity="0.65"/></pattern></defs>'
    ]
    for node in range(nodes):
        y = head + node * per_node
        parts.append(
            f'<rect class="host" x="{number(left)}" y="{number(y)}" '
            f'width="{number(width - 4 - left)}" height="{number(per_node - 2)}"/>'
        )
        if nodes <= 48 or node % 8 == 0:
            parts.append(text(left - 5, y + per_node / 2 + 2, f"node {node}", "tick", "end"))
    step = 6 * HOUR if end - begin <= 4 * DAY else DAY
    for at in range(-(-begin // step) * step, end + 1, step):
        label = f"d{at // DAY}" if at % DAY == 0 else f"{at % DAY // HOUR}:00"
        parts.append(text(x(at), head - 6, label, "tick", "middle"))
        parts.append(
            f'<line class="grid" x1="{number(x(at))}" x2="{number(x(at))}" '
            f'y1="{number(head - 3)}" y2="{number(height)}"/>'
        )
    for bar in bars(world, timeline, nodes, begin, end):
        parts.append(_bar(world, timeline, bar, colours, x, head + bar.node * per_node, begin, end))
    return svg(width, height, parts, "what ran on which GPU")


def _bar(
    world: World, timeline: Timeline, bar: Bar, colours: list[str], x: Scale, top: float,
    begin: int, end: int,
) -> str:  # fmt: skip
    run = timeline.runs[bar.run]
    job = world.jobs[run["job"]]
    start, stop = max(int(run["start_us"]), begin), min(int(run["end_us"]), end)
    y, height = top + bar.gpu * _ROW, bar.gpus * _ROW - 0.5
    box = (
        f'x="{number(x(start))}" y="{number(y)}" width="{x(stop) - x(start):.2f}" '
        f'height="{number(height)}"'
    )
    tip = escape(_words(world, run, job))
    out = [f'<g><title>{tip}</title><rect class="run" {box} fill="{colours[job["leaf"]]}"/>']
    exposed = max(min(int(run["protected_us"]), stop), start)
    if exposed < stop:
        out.append(
            f'<rect fill="url(#hatch)" x="{number(x(exposed))}" y="{number(y)}" '
            f'width="{x(stop) - x(exposed):.2f}" height="{number(height)}"/>'
        )
    ended = int(run["end"])
    if int(run["end_us"]) <= end and ended in (_STOPPED, _SUSPENDED, _LOST):
        kind = {_STOPPED: "stopped", _SUSPENDED: "suspended", _LOST: "lost"}[ended]
        out.append(
            f'<rect class="{kind}" x="{x(stop) - 1.6:.2f}" y="{number(y)}" width="1.6" '
            f'height="{number(height)}"/>'
        )
    return "".join(out) + "</g>"


def _words(world: World, run: np.void, job: np.void) -> str:
    funded = job["minimum_us"] > 0
    kind = WORKLOAD_CLASSES[job["workload_class"]]
    words = (
        f"job {run['job']}, {kind}, {job['nodes'] * job['gpus_per_node']} GPUs, "
        f"{world.leaves[job['leaf']].path}: "
        f"{format_us(int(run['start_us']) // HOUR * HOUR)} + "
        f"{(int(run['end_us']) - int(run['start_us'])) / HOUR:.1f} h, {RUN_ENDS[run['end']]}"
    )
    if funded:
        words += f", protected {(int(run['protected_us']) - int(run['start_us'])) / HOUR:.1f} h"
    else:
        words += ", unfunded"
    if run["beneficiary"]:
        words += f", for job {run['beneficiary'] - 1}"
    return words
