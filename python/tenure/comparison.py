# SPDX-License-Identifier: Apache-2.0
"""Several policies on the same worlds: means over seeds with bootstrap intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tenure._time import Time, to_us
from tenure._version import __version__
from tenure.cases import Case, WorkloadSummary, run_cases
from tenure.errors import InvalidArgument
from tenure.faults import Faults
from tenure.simulation import Result, figures
from tenure.world import Cluster, World

__all__ = ["Comparison", "WorkloadSummary", "compare", "interval", "mean"]

_RESAMPLES = 2000
_BOOTSTRAP_SEED = 20_261


def interval(values: Sequence[float]) -> list[float] | None:
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


def mean(values: Iterable[float | None]) -> float | None:
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
        return mean(w.funded_load for w in self.workloads) or 0.0

    def means(self, policy: str) -> dict[str, float | None]:
        """Mean of every figure over the worlds that have it, by dotted name."""
        rows = [figures(r) for r in self.results[policy]]
        return {name: mean(row[name] for row in rows) for name in rows[0]}

    def intervals(self, policy: str) -> dict[str, list[float] | None]:
        """95 % bootstrap interval of every mean, by dotted name; None with one world."""
        rows = [figures(r) for r in self.results[policy]]
        return {
            name: interval([v for row in rows if (v := row[name]) is not None]) for name in rows[0]
        }

    def to_dict(self) -> dict[str, Any]:
        """Return what `tenure compare --json` writes: only numbers, text, lists and None."""
        policies: dict[str, Any] = {}
        for policy, results in self.results.items():
            entry = _nested(self.means(policy))
            entry["sim_wall_s"] = mean(r.sim_wall_s for r in results)
            entry["ci"] = self.intervals(policy)
            policies[policy] = entry
        return {
            "tenure_version": __version__,
            "workload": {
                "jobs": mean(w.jobs for w in self.workloads),
                "gpu_hours": mean(w.gpu_hours for w in self.workloads),
                "offered_load": mean(w.offered_load for w in self.workloads),
                "assumptions": list(self.assumptions),
            },
            "cluster": {"gpus": self.cluster.gpus, "nodes": self.cluster.nodes},
            "seeds": list(self.seeds),
            "policies": policies,
        }

    def to_json(self) -> str:
        """`to_dict` as text; refuses NaN."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"


def _nested(dotted: Mapping[str, float | None]) -> dict[str, Any]:
    """{"a.b": 1} as {"a": {"b": 1}}."""
    out: dict[str, Any] = {}
    for name, value in dotted.items():
        *outer, last = name.split(".")
        inner = out
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return out


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
    idle_nights_permille: int = 0,
    faults: Faults | None = None,
    game: tuple[str, int | str] | None = None,
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
    warmup, end, pass_interval, grace, notice_permille, idle_nights_permille, faults
        As in `simulate`.
    game
        Strategy and leaf of a team that plays, as in `tenure.game`.
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
    sources: list[tuple[World | None, str, dict[str, Any]]]
    if isinstance(worlds, str):
        seeds = (1, 2, 3) if seeds is None else tuple(seeds)
        if len(set(seeds)) != len(seeds):
            raise InvalidArgument(f"a seed is named twice in {list(seeds)}")
        sources = [(None, worlds, {**options, "seed": s}) for s in seeds]
    else:
        if seeds is not None or options:
            given = ["seeds"] * (seeds is not None) + sorted(options)
            raise InvalidArgument(f"{', '.join(given)}: for generated scenarios only")
        seeds = ()
        sources = [(w, "", {}) for w in ([worlds] if isinstance(worlds, World) else worlds)]
    if not sources:
        raise InvalidArgument("no world to compare on")
    simulation: dict[str, Any] = {
        "notice_permille": notice_permille,
        "idle_nights_permille": idle_nights_permille,
    }
    for name, time in (
        ("warmup", warmup), ("end", end), ("pass_interval", pass_interval), ("grace", grace),
    ):  # fmt: skip
        if time is not None:
            simulation[name] = to_us(time, name)
    cases = [
        Case(
            policy=policy,
            parameters=parameters.get(policy, {}),
            scenario=scenario,
            world=chosen,
            simulation=simulation,
            faults=faults,
            game=game,
        )
        for _, scenario, chosen in sources
        for policy in policies
    ]
    done = run_cases(
        cases,
        worlds=[world for world, _, _ in sources for _ in policies],
        executor=executor,
        progress=progress,
    )
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
