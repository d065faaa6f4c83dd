# SPDX-License-Identifier: Apache-2.0
"""Simulations described by value, so that they can be listed, sent elsewhere and kept.

>>> from tenure.cases import Case, run_case
>>> case = Case(policy="fairtree", world={"load": 1.3, "seed": 1, "days": 1, "warmup_days": 0})
>>> run_case(case).result.policy
'fairtree'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tenure._time import HOUR
from tenure.faults import Faults
from tenure.gaming import game
from tenure.importers import ContractRule, load
from tenure.simulation import Progress, Result, simulate
from tenure.world import Cluster, World, generate

__all__ = ["Case", "Outcome", "WorkloadSummary", "run_case", "run_cases", "summarize"]


@dataclass(frozen=True)
class WorkloadSummary:
    """What was asked for, per world.

    `jobs` counts submissions before the end of the measured time, `gpu_hours` is what they need,
    `offered_load` the GPU-time submitted in the measured time / capacity, `funded_load` the part
    of it that is funded.
    """

    jobs: int
    gpu_hours: float
    offered_load: float
    funded_load: float


def summarize(world: World, warmup: int, end: int) -> WorkloadSummary:
    """Summarize the jobs of `world` that are submitted before `end` (microseconds)."""
    jobs = world.jobs[world.jobs["submit_us"] < end]
    hours = (
        jobs["nodes"].astype(np.float64) * jobs["gpus_per_node"] * jobs["runtime_us"] / float(HOUR)
    )
    measured = jobs["submit_us"] >= warmup
    capacity = world.cluster.gpus * (end - warmup) / HOUR
    return WorkloadSummary(
        jobs=len(jobs),
        gpu_hours=float(hours.sum()),
        offered_load=float(hours[measured].sum()) / capacity,
        funded_load=float(hours[measured & (jobs["minimum_us"] > 0)].sum()) / capacity,
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    """One simulation.

    Parameters
    ----------
    policy, parameters
        As for `tenure.simulate`.
    scenario, world
        Name and options of `tenure.generate`; or, with scenario "trace", the options of
        `tenure.importers.load` (`path`, `gpus`, ...; `rule` as KEY=VALUE texts).
    simulation
        Options of `tenure.simulate`.
    faults
        What breaks.
    game
        (strategy, leaf) of `tenure.game`, if a team plays.
    """

    policy: str = "budget"
    parameters: Mapping[str, object] = field(default_factory=dict)
    scenario: str = "institute"
    world: Mapping[str, Any] = field(default_factory=dict)
    simulation: Mapping[str, Any] = field(default_factory=dict)
    faults: Faults | None = None
    game: tuple[str, int | str] | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of a case; `gamers` are the leaves of the team that played."""

    result: Result
    summary: WorkloadSummary
    cluster: Cluster
    assumptions: tuple[str, ...]
    gamers: tuple[int, ...] = ()


# Cases of one world follow each other, so that a few kept worlds are enough.
@lru_cache(maxsize=2)
def _world(scenario: str, options: tuple[tuple[str, Any], ...]) -> World:
    chosen = dict(options)
    if scenario != "trace":
        return generate(scenario, **chosen)
    rule = ContractRule.from_options(chosen.pop("rule", ()))
    return load(chosen.pop("path"), rule=rule, **chosen).world


def run_case(case: Case, world: World | None = None, progress: Progress | None = None) -> Outcome:
    """Simulate; `world` replaces the one that the case describes."""
    if world is None:
        world = _world(case.scenario, tuple(sorted(case.world.items())))
    gamers: tuple[int, ...] = ()
    if case.game is not None:
        strategy, leaf = case.game
        world, gamers = game(world, strategy, leaf)
    result = simulate(
        world, case.policy, case.parameters, faults=case.faults, progress=progress,
        **case.simulation,
    )  # fmt: skip
    warmup = case.simulation.get("warmup", world.warmup_us)
    end = case.simulation.get("end", world.end_us)
    return Outcome(
        result, summarize(world, warmup, end), world.cluster, tuple(world.assumptions), gamers
    )


def run_cases(
    cases: Sequence[Case],
    *,
    worlds: Sequence[World | None] | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    each: Callable[[int, Outcome], object] | None = None,
) -> list[Outcome]:
    """Run every case, here or on any PEP 3148 executor; outcomes in the order of the cases.

    Parameters
    ----------
    cases
        What to run.
    worlds
        For each case the world to use instead of the one it describes, or None.
    executor
        By default everything runs here.
    progress
        Called with a fraction of 1.
    each
        Called with the number of a case and its outcome as soon as there is one, in any order.

    The first error ends the run: what has not begun is cancelled.
    """
    given = worlds or [None] * len(cases)
    done: list[Outcome | None] = [None] * len(cases)

    def finish(i: int, outcome: Outcome, finished: int) -> None:
        done[i] = outcome
        if each is not None:
            each(i, outcome)
        if progress is not None:
            progress(finished / len(cases))

    if executor is None:
        for i, (case, world) in enumerate(zip(cases, given, strict=True)):
            finish(i, run_case(case, world, _part(progress, i, len(cases))), i + 1)
    else:
        futures = {
            executor.submit(run_case, case, world): i
            for i, (case, world) in enumerate(zip(cases, given, strict=True))
        }
        try:
            for count, future in enumerate(as_completed(futures)):
                finish(futures[future], future.result(), count + 1)
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return [outcome for outcome in done if outcome is not None]


def _part(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Progress of one case as progress of all."""
    if progress is None:
        return None
    report = progress
    return lambda fraction: report((before + fraction) / total)
