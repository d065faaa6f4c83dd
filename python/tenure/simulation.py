# SPDX-License-Identifier: Apache-2.0
"""One world under one policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenure import _core
from tenure._time import SECOND, Time, to_us
from tenure.errors import InvalidArgument
from tenure.world import World

__all__ = ["LeafResult", "PolicyParameter", "Quantiles", "Result", "policies", "simulate"]

Progress = Callable[[float], object]


@dataclass(frozen=True)
class PolicyParameter:
    """A parameter of a policy, as text."""

    name: str
    unit: str
    help: str
    default: str


def policies() -> dict[str, tuple[PolicyParameter, ...]]:
    """Return every policy by name, with its parameters.

    >>> "budget" in policies()
    True
    """
    return {
        name: tuple(PolicyParameter(*p) for p in _core.policy_parameters(name))
        for name in _core.policy_names()
    }


@dataclass(frozen=True)
class Quantiles:
    """Quantiles in seconds; None where nothing was measured."""

    p50: float | None
    p90: float | None
    p99: float | None


@dataclass(frozen=True)
class LeafResult:
    """What one leaf was owed and got.

    `share` is its part of the capacity; `owed_gpu_h` the sum over hours of the smaller of its
    entitlement and its demand; `delivered_gpu_h` its funded occupied GPU-hours.
    """

    path: str
    share: float
    owed_gpu_h: float
    delivered_gpu_h: float
    owed_cum: float | None
    owed_strict: float | None
    owed_win7: float | None


@dataclass(frozen=True, kw_only=True)
class Result:
    """Figures of one simulated run; None where there was nothing to measure.

    Shares (`owed_*`, `goodput`, `waste`, `occupancy`, ...) are fractions of 1. `owed_cum` is
    delivered / owed GPU-hours with each leaf clipped at 1; `owed_strict` compares hour by hour;
    `owed_win7` lets a short hour be repaid within 7 days. `goodput` is funded work kept / capacity,
    `waste` lost work / occupied. Waits (`wait_s`, by group) and `gang_turnaround_s` are in seconds
    from submission. `sim_wall_s` is the time the simulation took and the only field that differs
    between two runs of the same input.
    """

    policy: str
    owed_cum: float | None
    owed_cum_worst: float | None
    owed_strict: float | None
    owed_win7: float | None
    owed_win7_worst: float | None
    owed_cum_worst_program: float | None
    leaves: int
    leaves_ge_95: int
    goodput: float | None
    waste: float | None
    occupancy: float | None
    availability: float | None
    unfunded_share: float | None
    wait_s: Mapping[str, Quantiles]
    preemptions_per_job: float | None
    repreempted_1h_share: float | None
    sessions_killed: int
    gangs_done_share: float | None
    gang_turnaround_s: Quantiles
    jobs: int
    jobs_done: int
    jobs_running: int
    jobs_queued: int
    jobs_withdrawn: int
    jobs_failed: int
    jobs_never_fit: int
    events: int
    passes: int
    starts: int
    preemptions: int
    decision_digest: int
    leaf: tuple[LeafResult, ...]
    sim_wall_s: float

    def __repr__(self) -> str:
        def text(value: float | None) -> str:
            return "None" if value is None else f"{value:.4f}"

        return (
            f"Result(policy={self.policy!r}, owed_cum={text(self.owed_cum)}, "
            f"goodput={text(self.goodput)}, waste={text(self.waste)}, jobs={self.jobs})"
        )


def simulate(
    world: World,
    policy: str = "budget",
    parameters: Mapping[str, object] | None = None,
    *,
    warmup: Time | None = None,
    end: Time | None = None,
    pass_interval: Time = 5 * SECOND,
    grace: Time = 10 * SECOND,
    notice_permille: int = 0,
    report_idle: bool = True,
    progress: Progress | None = None,
) -> Result:
    """Simulate `world` under `policy`. Releases the GIL; Ctrl-C works.

    Parameters
    ----------
    world
        What to simulate.
    policy, parameters
        A name and parameters of `policies()`; values are converted to text.
    warmup, end
        Measured time [warmup, end), a timedelta or microseconds; by default the world's.
    pass_interval
        The scheduler looks at the queue at most this often.
    grace
        Time between the decision to stop a run and the moment its GPUs are free.
    notice_permille
        Part of the resumable jobs that save their work within the grace, in thousandths.
    report_idle
        Whether the scheduler is told of idle sessions.
    progress
        Called now and then with a fraction of 1; an exception it raises ends the simulation.

    Raises
    ------
    InvalidArgument
        Unknown policy or parameter, a value that does not parse, or an empty measured time.

    >>> from tenure import generate
    >>> simulate(generate(days=1, warmup_days=0), "fairtree").policy
    'fairtree'
    """
    warmup_us = world.warmup_us if warmup is None else to_us(warmup, "warmup")
    end_us = world.end_us if end is None else to_us(end, "end")
    if not 0 <= notice_permille <= 1000:
        raise InvalidArgument(f"notice_permille is {notice_permille}, must be in [0, 1000]")
    if not 0 <= warmup_us < end_us:
        raise InvalidArgument(f"measured time is [{warmup_us}, {end_us}) us, must not be empty")
    known = _core.policy_names()
    if policy not in known:
        raise InvalidArgument(f"unknown policy {policy!r}, known: {', '.join(known)}")
    begin = time.perf_counter()
    raw: dict[str, Any] = _core.simulate(
        world._core,
        policy,
        {key: str(value) for key, value in (parameters or {}).items()},
        warmup_us=warmup_us,
        end_us=end_us,
        pass_interval_us=to_us(pass_interval, "pass_interval"),
        grace_us=to_us(grace, "grace"),
        notice_permille=notice_permille,
        report_idle=report_idle,
        progress=progress,
    )
    wall = time.perf_counter() - begin
    raw["wait_s"] = {group: Quantiles(**q) for group, q in raw["wait_s"].items()}
    raw["gang_turnaround_s"] = Quantiles(**raw["gang_turnaround_s"])
    raw["leaf"] = tuple(
        LeafResult(path=leaf.path, **entry)
        for leaf, entry in zip(world.leaves, raw["leaf"], strict=True)
    )
    return Result(policy=policy, sim_wall_s=wall, **raw)
