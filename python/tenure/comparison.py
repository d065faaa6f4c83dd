# SPDX-License-Identifier: Apache-2.0
"""Several policies on the same worlds: means over seeds with bootstrap intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tenure._time import HOUR, Time, to_us
from tenure._version import __version__
from tenure.errors import InvalidArgument
from tenure.simulation import Result, simulate
from tenure.world import Cluster, World, generate

__all__ = ["Comparison", "WorkloadSummary", "compare"]

_SHARES = (
    "owed_cum", "owed_cum_worst", "owed_strict", "owed_win7", "owed_win7_worst",
    "owed_cum_worst_program", "leaves", "leaves_ge_95", "goodput", "waste", "occupancy",
    "availability", "unfunded_share",
)  # fmt: skip
_RATES = ("preemptions_per_job", "repreempted_1h_share", "sessions_killed", "gangs_done_share")
_COUNTS = (
    "jobs_done", "jobs_running", "jobs_queued", "jobs_withdrawn", "jobs_failed", "jobs_never_fit",
)  # fmt: skip
_QUANTILES = ("p50", "p90", "p99")
_GANG_QUANTILES = ("p50", "p90")

_RESAMPLES = 2000
_BOOTSTRAP_SEED = 20_261


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


@dataclass(frozen=True)
class _Task:
    """One simulation, in a form that can be sent to another process."""

    world: World | None
    scenario: str
    options: tuple[tuple[str, Any], ...]
    index: int
    policy: str
    parameters: tuple[tuple[str, str], ...]
    warmup: int | None
    end: int | None
    simulation: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class _Done:
    result: Result
    summary: WorkloadSummary
    cluster: Cluster
    assumptions: tuple[str, ...]


@lru_cache(maxsize=1)
def _generated(scenario: str, options: tuple[tuple[str, Any], ...]) -> World:
    return generate(scenario, **dict(options))


def _run(task: _Task, progress: Callable[[float], object] | None = None) -> _Done:
    world = task.world or _generated(task.scenario, task.options)
    warmup = world.warmup_us if task.warmup is None else task.warmup
    end = world.end_us if task.end is None else task.end
    result = simulate(
        world, task.policy, dict(task.parameters), warmup=warmup, end=end, progress=progress,
        **dict(task.simulation),
    )  # fmt: skip
    return _Done(result, summarize(world, warmup, end), world.cluster, tuple(world.assumptions))


def _figures(result: Result) -> dict[str, float | None]:
    """Every figure of a result under its dotted JSON name."""
    out: dict[str, float | None] = {}
    for name in (*_SHARES, *_RATES, *_COUNTS):
        out[name] = getattr(result, name)
    for group, quantiles in result.wait_s.items():
        for q in _QUANTILES:
            out[f"wait_s.{group}.{q}"] = getattr(quantiles, q)
    for q in _GANG_QUANTILES:
        out[f"gang_turnaround_s.{q}"] = getattr(result.gang_turnaround_s, q)
    return out


def _interval(values: Sequence[float]) -> list[float] | None:
    """Percentile bootstrap interval (95 %) of the mean; None for fewer than two values.

    The resamples come from a generator whose stream numpy froze, with a fixed seed, so that the
    same results give the same interval.
    """
    if len(values) < 2:
        return None
    data = np.asarray(values, dtype=np.float64)
    draws = np.random.RandomState(_BOOTSTRAP_SEED).randint(
        0, len(data), size=(_RESAMPLES, len(data))
    )
    low, high = np.quantile(data[draws].mean(axis=1), [0.025, 0.975])
    return [float(low), float(high)]


def _mean(values: Iterable[float | None]) -> float | None:
    present = [float(v) for v in values if v is not None]
    return sum(present) / len(present) if present else None


@dataclass(frozen=True, repr=False)
class Comparison:
    """Results of several policies on the same worlds.

    `results[policy][i]` is the run on world i (seed `seeds[i]` for a generated scenario); means
    and intervals are over the worlds.
    """

    cluster: Cluster
    seeds: tuple[int, ...]
    workloads: tuple[WorkloadSummary, ...]
    assumptions: tuple[str, ...]
    results: Mapping[str, tuple[Result, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Comparison(policies={list(self.results)}, worlds={len(self.workloads)})"

    @property
    def funded_load(self) -> float:
        """Mean funded GPU-time submitted / capacity."""
        return _mean(w.funded_load for w in self.workloads) or 0.0

    def means(self, policy: str) -> dict[str, float | None]:
        """Mean of every figure over the worlds that have it, by dotted name."""
        rows = [_figures(r) for r in self.results[policy]]
        return {name: _mean(row[name] for row in rows) for name in rows[0]}

    def intervals(self, policy: str) -> dict[str, list[float] | None]:
        """95 % bootstrap interval of every mean, by dotted name; None with one world."""
        rows = [_figures(r) for r in self.results[policy]]
        return {
            name: _interval([v for row in rows if (v := row[name]) is not None]) for name in rows[0]
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what `tenure compare --json` writes: only numbers, text, lists and None."""
        policies: dict[str, Any] = {}
        for policy, results in self.results.items():
            mean = self.means(policy)
            entry: dict[str, Any] = {name: mean[name] for name in _SHARES}
            entry["wait_s"] = {
                group: {q: mean[f"wait_s.{group}.{q}"] for q in _QUANTILES}
                for group in results[0].wait_s
            }
            entry |= {name: mean[name] for name in _RATES}
            entry["gang_turnaround_s"] = {
                q: mean[f"gang_turnaround_s.{q}"] for q in _GANG_QUANTILES
            }
            entry |= {name: mean[name] for name in _COUNTS}
            entry["sim_wall_s"] = _mean(r.sim_wall_s for r in results)
            entry["events"] = _mean(r.events for r in results)
            entry["ci"] = self.intervals(policy)
            policies[policy] = entry
        return {
            "tenure_version": __version__,
            "workload": {
                "jobs": _mean(w.jobs for w in self.workloads),
                "gpu_hours": _mean(w.gpu_hours for w in self.workloads),
                "offered_load": _mean(w.offered_load for w in self.workloads),
                "assumptions": list(self.assumptions),
            },
            "cluster": {"gpus": self.cluster.gpus, "nodes": self.cluster.nodes},
            "seeds": list(self.seeds),
            "policies": policies,
        }

    def to_json(self) -> str:
        """`to_dict` as text; refuses NaN."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"


def compare(
    worlds: World | Sequence[World] | str,
    policies: Sequence[str] = ("priority", "fairtree", "ai2", "budget"),
    seeds: Sequence[int] | None = None,
    *,
    parameters: Mapping[str, Mapping[str, object]] | None = None,
    executor: Executor | None = None,
    warmup: Time | None = None,
    end: Time | None = None,
    pass_interval: Time | None = None,
    grace: Time | None = None,
    notice_permille: int = 0,
    progress: Callable[[float], object] | None = None,
    **options: Any,
) -> Comparison:
    """Run every policy on every world.

    Parameters
    ----------
    worlds
        A world, several worlds (all on the same cluster), or the name of a scenario for
        `generate`, which is then called once for each seed with `options`.
    policies
        Names of `tenure.policies()`.
    seeds
        For a scenario only; default (1, 2, 3).
    parameters
        Parameters by policy.
    executor
        Any PEP 3148 executor, such as a ProcessPoolExecutor; by default everything runs here.
    warmup, end, pass_interval, grace, notice_permille
        As in `simulate`.
    progress
        Called with a fraction of 1.

    Raises
    ------
    InvalidArgument
        Nothing to compare, a name twice, an unknown policy or parameter, or worlds on different
        clusters.

    >>> compare("institute", ["fairtree"], seeds=[1], days=1, warmup_days=0).seeds
    (1,)
    """
    if not policies:
        raise InvalidArgument("no policy to compare")
    if len(set(policies)) != len(policies):
        raise InvalidArgument(f"a policy is named twice in {', '.join(policies)}")
    parameters = parameters or {}
    for name in parameters:
        if name not in policies:
            raise InvalidArgument(f"parameters for policy {name!r}, which is not compared")
    sources: list[tuple[World | None, str, tuple[tuple[str, Any], ...]]]
    if isinstance(worlds, str):
        seeds = (1, 2, 3) if seeds is None else tuple(seeds)
        if len(set(seeds)) != len(seeds):
            raise InvalidArgument(f"a seed is named twice in {list(seeds)}")
        sources = [(None, worlds, tuple(sorted({**options, "seed": s}.items()))) for s in seeds]
    else:
        if seeds is not None or options:
            given = ["seeds"] * (seeds is not None) + sorted(options)
            raise InvalidArgument(f"{', '.join(given)}: for generated scenarios only")
        seeds = ()
        sources = [(w, "", ()) for w in ([worlds] if isinstance(worlds, World) else worlds)]
    if not sources:
        raise InvalidArgument("no world to compare on")
    simulation = tuple(
        (key, value)
        for key, value in (
            ("pass_interval", pass_interval),
            ("grace", grace),
            ("notice_permille", notice_permille),
        )
        if value is not None
    )
    tasks = [
        _Task(
            world=world,
            scenario=scenario,
            options=opts,
            index=i,
            policy=policy,
            parameters=tuple((k, str(v)) for k, v in parameters.get(policy, {}).items()),
            warmup=None if warmup is None else to_us(warmup, "warmup"),
            end=None if end is None else to_us(end, "end"),
            simulation=simulation,
        )
        for i, (world, scenario, opts) in enumerate(sources)
        for policy in policies
    ]
    done = _run_here(tasks, progress) if executor is None else _run_on(executor, tasks, progress)
    clusters = {d.cluster for d in done}
    if len(clusters) > 1:
        raise InvalidArgument(f"the worlds have {len(clusters)} different clusters")
    firsts = done[:: len(policies)]
    return Comparison(
        cluster=firsts[0].cluster,
        seeds=tuple(seeds),
        workloads=tuple(d.summary for d in firsts),
        assumptions=tuple(dict.fromkeys(text for d in firsts for text in d.assumptions)),
        results={
            policy: tuple(d.result for d in done[k :: len(policies)])
            for k, policy in enumerate(policies)
        },
    )


def _part(
    progress: Callable[[float], object] | None, before: int, total: int
) -> Callable[[float], object] | None:
    """Progress of one task as progress of all."""
    if progress is None:
        return None
    report = progress
    return lambda fraction: report((before + fraction) / total)


def _run_here(tasks: Sequence[_Task], progress: Callable[[float], object] | None) -> list[_Done]:
    done = []
    for i, task in enumerate(tasks):
        done.append(_run(task, _part(progress, i, len(tasks))))
        if progress is not None:
            progress((i + 1) / len(tasks))
    return done


def _run_on(
    executor: Executor, tasks: Sequence[_Task], progress: Callable[[float], object] | None
) -> list[_Done]:
    futures = [executor.submit(_run, task) for task in tasks]
    try:
        for i, future in enumerate(as_completed(futures)):
            future.result()
            if progress is not None:
                progress((i + 1) / len(tasks))
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return [future.result() for future in futures]
