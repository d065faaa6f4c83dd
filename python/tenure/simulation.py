# SPDX-License-Identifier: Apache-2.0
"""One world under one policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tenure import _core
from tenure._time import SECOND, Time, to_us
from tenure.answers import Explanation
from tenure.errors import InvalidArgument
from tenure.faults import Faults
from tenure.timeline import Timeline
from tenure.world import World

__all__ = [
    "ForecastSample",
    "LeafResult",
    "PolicyParameter",
    "Quantiles",
    "Result",
    "Spread",
    "figures",
    "policies",
    "simulate",
]

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
class Spread:
    """Median, 90 % quantile and maximum; None where nothing was measured."""

    p50: float | None
    p90: float | None
    max: float | None


@dataclass(frozen=True)
class ForecastSample:
    """A forecast for a waiting job and what came of it; seconds from when it was made.

    `predicted_s` is None if no start was in sight, `actual_s` if the job never started;
    `until_end_s` is then the least that it waited, unless it was withdrawn. `promised`: the
    forecast was the latest start of a reservation, which binds, and no estimate.
    """

    predicted_s: float | None
    promised: bool
    actual_s: float | None
    until_end_s: float


@dataclass(frozen=True)
class LeafResult:
    """What one leaf was owed and got.

    `share` is its part of the capacity; `owed_gpu_h` the sum over hours of the smaller of its
    entitlement and its demand; `delivered_gpu_h` its funded occupied GPU-hours, `lost_gpu_h` the
    part of them that was recomputed or spent on restarts. Waits are those of its funded work.
    """

    path: str
    share: float
    owed_gpu_h: float
    delivered_gpu_h: float
    lost_gpu_h: float
    owed_cum: float | None
    owed_strict: float | None
    owed_win7: float | None
    wait_s: Quantiles


@dataclass(frozen=True, kw_only=True)
class Result:
    """Figures of one simulated run; None where there was nothing to measure.

    Shares (`owed_*`, `goodput`, `waste`, `occupancy`, ...) are fractions of 1. `owed_cum` is
    delivered / owed GPU-hours with each leaf clipped at 1; `owed_strict` compares hour by hour;
    `owed_win7` lets a short hour be repaid within 7 days. `goodput` is funded work kept / capacity,
    `waste` lost work / occupied. Waits (`wait_s`, by group) and `gang_turnaround_s` are in seconds
    from submission; of gangs also apart: `gang_to_reservation_s` until they are promised a start
    (their leaf is eligible), `gang_from_reservation_s` from there to the start. `promises_broken`
    counts promises not kept although no promised host failed, `promise_lateness_s` is start -
    promised start (negative: earlier). `sessions_killed` were in use when they were stopped,
    `sessions_suspended` were idle. `repairs_human` are repairs for which somebody had to be talked
    into leaving, `host_drain_h` the hours from unhealthy to empty, `drains_late` those longer than
    `Faults.negotiate_after`. `timeline` and `explanation` are there if they were asked for.
    `sim_wall_s` is the time the simulation took and the only field that differs between two runs of
    the same input.
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
    sessions_suspended: int
    gangs_done_share: float | None
    gang_turnaround_s: Quantiles
    gang_to_reservation_s: Spread
    gang_from_reservation_s: Spread
    promises: int
    promises_broken: int
    promise_lateness_s: Spread
    repairs: int
    repairs_human: int
    drains_late: int
    host_drain_h: Spread
    runs_lost: int
    failed_resumes: int
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
    forecasts: tuple[ForecastSample, ...]
    sim_wall_s: float
    timeline: Timeline | None = field(default=None, compare=False, repr=False)
    explanation: Explanation | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        def text(value: float | None) -> str:
            return "None" if value is None else f"{value:.4f}"

        return (
            f"Result(policy={self.policy!r}, owed_cum={text(self.owed_cum)}, "
            f"goodput={text(self.goodput)}, waste={text(self.waste)}, jobs={self.jobs})"
        )


_NO_FIGURES = (
    "policy", "leaf", "forecasts", "timeline", "explanation", "decision_digest", "sim_wall_s",
)  # fmt: skip


def figures(result: Result) -> dict[str, float | None]:
    """Every figure of a result under its dotted name, such as "wait_s.debug.p90".

    >>> from tenure import generate
    >>> "gang_from_reservation_s.max" in figures(simulate(generate(days=1, warmup_days=0)))
    True
    """
    out: dict[str, float | None] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, entry in value.items():
                add(f"{name}.{key}", entry)
        elif isinstance(value, Quantiles | Spread):
            for part in fields(value):
                out[f"{name}.{part.name}"] = getattr(value, part.name)
        else:
            out[name] = value

    for entry in fields(result):
        if entry.name not in _NO_FIGURES:
            add(entry.name, getattr(result, entry.name))
    return out


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
    report_restorable: bool = False,
    report_idle: bool = True,
    idle_nights_permille: int = 0,
    faults: Faults | None = None,
    forecast_interval: Time = 0,
    forecast_limits: bool = False,
    record: bool = False,
    explain: int | None = None,
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
    report_restorable
        Whether the scheduler is told which jobs save their work within the grace.
    report_idle
        Whether the scheduler is told of idle sessions.
    idle_nights_permille
        Part of the honest sessions that are idle from 20:00 to 9:00, in thousandths.
    faults
        What breaks; by default nothing.
    forecast_interval
        So often a waiting job is drawn and its start forecast, to see what comes of it
        (`Result.forecasts`); 0: never.
    forecast_limits
        Whether a forecast takes runs to last as long as was requested, not only as long as they
        are protected.
    record
        Whether to keep `Result.timeline`.
    explain
        Number of a job of which the policy says at `end` why it waits or runs
        (`Result.explanation`); only for the presets of the scheduler.
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
    for name, permille in (
        ("notice_permille", notice_permille),
        ("idle_nights_permille", idle_nights_permille),
    ):
        if not 0 <= permille <= 1000:
            raise InvalidArgument(f"{name} is {permille}, must be in [0, 1000]")
    if not 0 <= warmup_us < end_us:
        raise InvalidArgument(f"measured time is [{warmup_us}, {end_us}) us, must not be empty")
    known = _core.policy_names()
    if policy not in known:
        raise InvalidArgument(f"unknown policy {policy!r}, known: {', '.join(known)}")
    options = _core.SimOptions()
    options.warmup_us = warmup_us
    options.end_us = end_us
    options.pass_interval_us = to_us(pass_interval, "pass_interval")
    options.grace_us = to_us(grace, "grace")
    options.notice_permille = notice_permille
    options.report_restorable = report_restorable
    options.report_idle = report_idle
    options.idle_nights_permille = idle_nights_permille
    options.forecast_interval_us = to_us(forecast_interval, "forecast_interval")
    options.forecast_limits = forecast_limits
    if faults is not None:
        options.faults = faults._to_core()
    begin = time.perf_counter()
    raw: dict[str, Any] = _core.simulate(
        world._core,
        policy,
        {key: str(value) for key, value in (parameters or {}).items()},
        options,
        record=record,
        explain=explain,
        progress=progress,
    )
    wall = time.perf_counter() - begin
    raw["wait_s"] = {group: Quantiles(**q) for group, q in raw["wait_s"].items()}
    raw["gang_turnaround_s"] = Quantiles(**raw["gang_turnaround_s"])
    for name in _SPREADS:
        raw[name] = Spread(**raw[name])
    raw["leaf"] = tuple(
        LeafResult(path=leaf.path, wait_s=Quantiles(**entry.pop("wait_s")), **entry)
        for leaf, entry in zip(world.leaves, raw["leaf"], strict=True)
    )
    raw["forecasts"] = tuple(ForecastSample(**entry) for entry in raw["forecasts"])
    timeline = None
    if record:
        timeline = Timeline(raw.pop("runs"), raw.pop("run_nodes"), raw.pop("promise_rows"))
    explanation = raw.pop("explanation", None)
    return Result(
        policy=policy,
        sim_wall_s=wall,
        timeline=timeline,
        explanation=None if explanation is None else Explanation(**explanation),
        **raw,
    )


_SPREADS = (
    "promise_lateness_s", "gang_to_reservation_s", "gang_from_reservation_s", "host_drain_h",
)  # fmt: skip
