# SPDX-License-Identifier: Apache-2.0
"""`tenure explain`: why a job of a simulation waits, runs or was stopped."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from tenure._figures import format_figure
from tenure._time import DAY, HOUR, format_us, parse_us
from tenure.answers import Explanation
from tenure.cli.app import command, console, progress
from tenure.cli.options import (
    Cluster,
    Conditions,
    Generated,
    Source,
    TraceReading,
    one_world,
)
from tenure.errors import InvalidArgument
from tenure.gaming import game
from tenure.simulation import Result, simulate
from tenure.timeline import RUN_ENDS
from tenure.world import WORKLOAD_CLASSES, World


@command()
def explain(
    job: Annotated[int, typer.Option(help="Number of the job, from 0.")],
    at: Annotated[str, typer.Option(help="When: time since the start, such as 12d6h.")],
    source: Source,
    generated: Generated,
    cluster: Cluster,
    conditions: Conditions,
    reading: TraceReading,
    policy: Annotated[str, typer.Option(help="ai2, budget or hier.")] = "budget",
    seed: Annotated[int | None, typer.Option(help="Seed of the generated workload.")] = None,
) -> None:
    """Simulate until a time and say why a job waits or runs then, and what led to it."""
    parameters = conditions.parameters([policy]).get(policy, {})
    world = one_world(source, generated, cluster, reading, seed)
    options = dict(conditions.options())
    played = options.pop("game")
    if played is not None:
        world, _ = game(world, *played)
    if not 0 <= job < len(world.jobs):
        raise InvalidArgument(f"--job is {job}, the world has {len(world.jobs):,} jobs")
    now = parse_us(at, "--at")
    with progress("simulation") as report:
        result = simulate(
            world, policy, parameters, warmup=0, end=max(now, 1), record=True, explain=job,
            progress=report, **options,
        )  # fmt: skip
    out = console()
    for line in (*_history(world, result, job, now), *_now(world, result, job, now)):
        out.print(escape(line), soft_wrap=True)


def _when(us: int) -> str:
    """A time as day and clock.

    >>> _when(93_600_000_000)
    'd1 02:00'
    """
    return f"d{us // DAY} {us % DAY // HOUR:02}:{us % HOUR // 60_000_000:02}"


def _history(world: World, result: Result, job: int, now: int) -> list[str]:
    row = world.jobs[job]
    gpus = int(row["nodes"]) * int(row["gpus_per_node"])
    minimum = int(row["minimum_us"])
    lines = [
        f"job {job}: {WORKLOAD_CLASSES[row['workload_class']]}, {gpus} GPUs, "
        f"{world.leaves[row['leaf']].path}, "
        + (f"minimum {format_us(minimum)}" if minimum else "unfunded")
    ]
    assert result.timeline is not None
    events = [(int(row["submit_us"]), "submitted")]
    for promise in result.timeline.promises[result.timeline.promises["job"] == job]:
        due = _when(int(promise["start_by_us"]))
        events.append((int(promise["made_us"]), f"promised a start by {due}"))
    for run in result.timeline.runs[result.timeline.runs["job"] == job]:
        events.append((int(run["start_us"]), "started"))
        ending = RUN_ENDS[run["end"]]
        if ending == "open":
            continue
        if run["beneficiary"]:
            other = world.jobs[run["beneficiary"] - 1]
            size = int(other["nodes"]) * int(other["gpus_per_node"])
            ending += (
                f" for job {run['beneficiary'] - 1} of {world.leaves[other['leaf']].path}, "
                f"{size} GPUs"
            )
        past = (int(run["end_us"]) - int(run["protected_us"])) / 1e6
        if minimum and past >= 0 and not ending.startswith("finished"):
            ending += f", {format_figure(past, 's')} after its minimum"
        events.append((int(run["end_us"]), ending))
    return lines + [f"  {_when(time)}  {text}" for time, text in sorted(events) if time <= now]


def _now(world: World, result: Result, job: int, now: int) -> list[str]:
    e = result.explanation
    if e is None:
        submitted = int(world.jobs[job]["submit_us"]) <= now
        return [f"at {_when(now)}: {'it is over' if submitted else 'not submitted yet'}"]
    lines = [f"at {_when(now)}: {e.state}" + (f", {e.reason}" if e.reason != "none" else "")]
    lines.append(
        f"  its team may claim {e.entitlement_mgpu / 1000:.1f} GPUs and is due "
        f"{e.fluid_mgpu / 1000:.1f} right now; it has {e.placed_gpus} and waits for {e.queued_gpus}"
    )
    lines.append(
        f"  use in the window: {e.used_gpu_us / HOUR:,.0f} GPU-h, {e.key_us / HOUR:.1f} h of its "
        f"share; tier {e.tier}; stopped {e.stops} times"
    )
    lines += _waiting(e) if e.reason != "none" else _running(e)
    return lines


def _waiting(e: Explanation) -> list[str]:
    lines = [f"  before it: {e.leaves_ahead} teams, {e.requests_ahead} jobs of its own team"]
    if e.promised_start_us is not None:
        lines.append(f"  promised to start by {_when(e.promised_start_us)}")
    elif e.next_protection_end_us is not None:
        lines.append(f"  the next protection ends at {_when(e.next_protection_end_us)}")
    return lines


def _running(e: Explanation) -> list[str]:
    return [f"  nobody may stop it before {_when(e.protected_until_us)}"]
