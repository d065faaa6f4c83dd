# SPDX-License-Identifier: Apache-2.0
"""A world to simulate: a cluster, the leaves of a budget tree and a table of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tenure import _core
from tenure._time import DAY, HOUR, Time, to_us
from tenure.errors import InvalidArgument, NotFound

__all__ = [
    "JOB_DTYPE",
    "JOB_FLAGS",
    "SCENARIOS",
    "WORKLOAD_CLASSES",
    "Cluster",
    "Leaf",
    "World",
    "generate",
]

JobTable = npt.NDArray[np.void]

JOB_DTYPE: np.dtype[np.void] = _core.JOB_DTYPE
"""Layout of one job, the same as the C++ row.

submit_us, runtime_us, minimum_us, limit_us, checkpoint_us, restart_us, patience_us
    int64, microseconds. `submit_us` counts from the start of the trace. `runtime_us` is the true
    productive time, which no policy sees. `minimum_us` 0 = unfunded. `limit_us` is the requested
    wall time, 0 = none. `checkpoint_us` 0 = never writes one. `patience_us` 0 = waits for ever.
leaf
    int32, index into the leaves of the world.
user, nodes, gpus_per_node, priority
    int32; a job needs `nodes * gpus_per_node` GPUs.
workload_class
    uint32, index into WORKLOAD_CLASSES.
flags
    uint32, sum of JOB_FLAGS.
source_row
    uint32, line of the file it came from, 0 = none.
"""

JOB_FLAGS: dict[str, int] = _core.JOB_FLAGS
"""Bits of the field `flags`: resumable, idle, checkpoint_on_notice."""

WORKLOAD_CLASSES: tuple[str, ...] = _core.WORKLOAD_CLASSES
"""Names of the values of the field `workload_class`."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Equal nodes, in racks of `nodes_per_rack` (0 = no racks).

    >>> Cluster(nodes=32, gpus_per_node=8).gpus
    256
    """

    nodes: int
    gpus_per_node: int = 8
    nodes_per_rack: int = 0

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True)
class Leaf:
    """A leaf of the budget tree.

    Parameters
    ----------
    path
        Names from the root down, joined by "/".
    weights
        One weight among siblings for each name of the path; leaves below the same inner node must
        agree on its weight.

    >>> Leaf("vision/robots", (0.35, 0.08)).path
    'vision/robots'
    """

    path: str
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        names = self.path.split("/")
        if not all(names):
            raise InvalidArgument(f"leaf {self.path!r} has an empty name in its path")
        object.__setattr__(self, "weights", tuple(float(w) for w in self.weights))
        if len(names) != len(self.weights):
            raise InvalidArgument(
                f"leaf {self.path!r} has {len(names)} names and {len(self.weights)} weights"
            )
        if not all(0 <= w < float("inf") for w in self.weights):
            raise InvalidArgument(f"leaf {self.path!r} has weights {self.weights}")


class World:
    """What is simulated. Immutable; picklable.

    Parameters
    ----------
    cluster
        The nodes.
    leaves
        Leaves of the budget tree; `jobs["leaf"]` indexes them.
    jobs
        Array of shape (J,) and dtype JOB_DTYPE, sorted by `submit_us`. It is copied once; the
        attribute `jobs` is a read-only view of the copy, which the simulator reads in place.
    warmup, end
        The part that is measured by default, [warmup, end): a timedelta or microseconds. The
        default end is just after the last submission.
    assumptions
        What the source did not say and was filled in, one sentence each.

    Raises
    ------
    InvalidArgument
        A row is not valid (the message names the row and the field), a leaf is there twice, or the
        table has another dtype.

    >>> jobs = np.zeros(1, JOB_DTYPE)
    >>> jobs["runtime_us"], jobs["nodes"], jobs["gpus_per_node"] = 3_600_000_000, 1, 8
    >>> World(cluster=Cluster(nodes=2), leaves=[Leaf("team", (1,))], jobs=jobs)
    World(gpus=16, leaves=1, jobs=1)
    """

    __slots__ = ("_core", "_end", "_leaves", "_warmup")

    def __init__(
        self,
        *,
        cluster: Cluster,
        leaves: Sequence[Leaf],
        jobs: JobTable,
        warmup: Time = 0,
        end: Time | None = None,
        assumptions: Sequence[str] = (),
    ) -> None:
        table = np.asarray(jobs)
        if table.dtype != JOB_DTYPE:
            raise InvalidArgument(f"jobs have dtype {table.dtype}, must be JOB_DTYPE")
        core = _core.World(
            nodes=cluster.nodes,
            gpus_per_node=cluster.gpus_per_node,
            nodes_per_rack=cluster.nodes_per_rack,
            leaves=[(leaf.path, list(leaf.weights)) for leaf in leaves],
            jobs=table,
            assumptions=list(assumptions),
        )
        warmup_us = to_us(warmup, "warmup")
        last = int(table["submit_us"][-1]) + 1 if len(table) else 0
        end_us = max(last, warmup_us + 1) if end is None else to_us(end, "end")
        self._adopt(core, warmup_us, end_us)

    def _adopt(self, core: _core.World, warmup: int, end: int) -> None:
        if not 0 <= warmup < end:
            raise InvalidArgument(f"measured time is [{warmup}, {end}) us, must not be empty")
        self._core = core
        self._leaves = tuple(Leaf(path, tuple(weights)) for path, weights in core.leaves)
        self._warmup = warmup
        self._end = end
        seen: set[str] = set()
        for leaf in self._leaves:
            if leaf.path in seen:
                raise InvalidArgument(f"leaf {leaf.path!r} is there twice")
            seen.add(leaf.path)

    @classmethod
    def _from_core(cls, core: _core.World, warmup: int, end: int) -> World:
        world = cls.__new__(cls)
        world._adopt(core, warmup, end)
        return world

    def __reduce__(self) -> tuple[Callable[..., World], tuple[Any, ...]]:
        jobs = np.array(self.jobs)
        return _rebuild, (
            self.cluster, self.leaves, jobs, self.warmup_us, self.end_us, self.assumptions
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"World(gpus={self.cluster.gpus}, leaves={len(self.leaves)}, jobs={len(self.jobs)})"

    @property
    def cluster(self) -> Cluster:
        """The nodes."""
        core = self._core
        return Cluster(
            nodes=core.nodes, gpus_per_node=core.gpus_per_node, nodes_per_rack=core.nodes_per_rack
        )

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """Leaves of the budget tree."""
        return self._leaves

    @property
    def jobs(self) -> JobTable:
        """Read-only view, shape (J,), dtype JOB_DTYPE."""
        return self._core.jobs

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the source did not say and was filled in."""
        return tuple(self._core.assumptions)

    @property
    def warmup_us(self) -> int:
        """Start of the measured time, microseconds."""
        return self._warmup

    @property
    def end_us(self) -> int:
        """End of the measured time (exclusive), microseconds."""
        return self._end


def _rebuild(
    cluster: Cluster,
    leaves: Sequence[Leaf],
    jobs: JobTable,
    warmup: int,
    end: int,
    assumptions: Sequence[str],
) -> World:
    return World(
        cluster=cluster, leaves=leaves, jobs=jobs, warmup=warmup, end=end, assumptions=assumptions
    )


SCENARIOS: tuple[str, ...] = ("institute",)
"""Names `generate` knows."""


def generate(
    scenario: str = "institute",
    *,
    load: float = 1.3,
    seed: int = 1,
    days: int = 30,
    warmup_days: int = 7,
    freeload: float = 1.5,
    debug_per_day: int = 450,
    gpus: int = 1024,
    gpus_per_node: int = 8,
    nodes_per_rack: int = 16,
    mincap: Time = 8 * HOUR,
    leaves: int = 0,
    levels: int = 2,
    largest_percent: int = 0,
) -> World:
    """Generate a world; the same arguments give the same table on every machine.

    Parameters
    ----------
    scenario
        "institute": 1,024 GPUs, 15 leaves in 5 programs, 150 users, with medium jobs, large gangs,
        interactive sessions, debug jobs and unfunded sweeps.
    load
        Peak factor of the demand: 1.3 offers about 0.9 of the capacity in funded work, 1.7 about
        1.2, both with 1.3 of unfunded work on top.
    seed
        Any non-negative integer.
    days, warmup_days
        Length of the measured time and of the warm-up before it.
    freeload
        The same as `load` for unfunded sweeps.
    debug_per_day
        Debug jobs in an average day's working hours, of all leaves together.
    gpus, gpus_per_node, nodes_per_rack
        The cluster; demand grows with it.
    mincap
        Longest minimum that users declare: those above are cut to it; if it is longer than 8 h,
        those who else declare 8 h declare it.
    leaves, levels, largest_percent
        Another budget tree: so many leaves, so many levels below the root; shares go with 1, 1/2,
        1/3, ..., or the first leaf has `largest_percent` and the others share the rest equally. 0
        leaves: the institute's own tree.

    Raises
    ------
    NotFound
        There is no such scenario.
    InvalidArgument
        A number is out of its range.

    >>> generate("institute", load=1.3, seed=1, days=1, warmup_days=0).cluster.gpus
    1024
    """
    if scenario not in SCENARIOS:
        raise NotFound(f"unknown scenario {scenario!r}, known: {', '.join(SCENARIOS)}")
    if not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise InvalidArgument(f"seed is {seed!r}, must be an integer in [0, 2^64)")
    if not 0 < days <= 3650:
        raise InvalidArgument(f"days is {days}, must be in [1, 3650]")
    if not 0 <= warmup_days <= 3650:
        raise InvalidArgument(f"warmup_days is {warmup_days}, must be in [0, 3650]")
    if gpus_per_node < 1 or gpus < 1 or gpus % gpus_per_node != 0:
        raise InvalidArgument(f"{gpus} GPUs are not nodes of {gpus_per_node}")
    options = _core.InstituteOptions()
    values = {
        "load": load, "seed": seed, "days": days, "warmup_days": warmup_days,
        "freeload": freeload, "debug_per_day": debug_per_day, "nodes": gpus // gpus_per_node,
        "gpus_per_node": gpus_per_node, "nodes_per_rack": nodes_per_rack,
        "mincap_us": to_us(mincap, "mincap"), "leaves": leaves, "levels": levels,
        "largest_percent": largest_percent,
    }  # fmt: skip
    for name, value in values.items():
        try:
            setattr(options, name, value)
        except TypeError:
            raise InvalidArgument(f"{name} is {value!r}, must be a number") from None
    core = _core.generate_institute(options)
    return World._from_core(core, warmup_days * DAY, (warmup_days + days) * DAY)
