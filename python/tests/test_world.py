# SPDX-License-Identifier: Apache-2.0
"""Worlds, job tables and exceptions."""

from __future__ import annotations

import pickle
from datetime import timedelta

import numpy as np
import pytest

import tenure
from tenure import JOB_DTYPE, Cluster, InvalidArgument, Leaf, World


def table(rows: int = 3) -> np.ndarray:
    jobs = np.zeros(rows, JOB_DTYPE)
    jobs["submit_us"] = np.arange(rows)
    jobs["runtime_us"] = 60_000_000
    jobs["minimum_us"] = 60_000_000
    jobs["nodes"] = 1
    jobs["gpus_per_node"] = 2
    jobs["workload_class"] = tenure.WORKLOAD_CLASSES.index("training")
    jobs["flags"] = tenure.JOB_FLAGS["resumable"]
    return jobs


def make(jobs: np.ndarray, **options: object) -> World:
    given = {"cluster": Cluster(nodes=2), "leaves": [Leaf("a", (1,))], "jobs": jobs}
    return World(**(given | options))  # type: ignore[arg-type]


def test_dtype_mirrors_the_row() -> None:
    assert JOB_DTYPE.itemsize == 88
    assert JOB_DTYPE.names is not None
    assert JOB_DTYPE.names[:2] == ("submit_us", "runtime_us")
    assert JOB_DTYPE["submit_us"] == np.int64 and JOB_DTYPE["flags"] == np.uint32


def test_jobs_are_a_read_only_view_that_outlives_the_world() -> None:
    world = make(table())
    jobs = world.jobs
    assert np.shares_memory(jobs, world.jobs)
    assert not jobs.flags.writeable and not jobs.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        jobs["nodes"][0] = 5
    del world
    assert jobs["runtime_us"].tolist() == [60_000_000] * 3


def test_generated_jobs_are_a_view(world: World) -> None:
    assert not world.jobs.flags.writeable
    assert np.shares_memory(world.jobs, world.jobs)


def test_the_table_may_change_afterwards() -> None:
    jobs = table()
    world = make(jobs)
    jobs["nodes"] = 7
    assert world.jobs["nodes"].tolist() == [1, 1, 1]


def test_slices_and_fortran_order_are_accepted() -> None:
    assert len(make(table(9)[::3]).jobs) == 3
    reverse = table(4)[::-1].copy()
    with pytest.raises(InvalidArgument, match="job 1: not sorted"):
        make(reverse)


@pytest.mark.parametrize(
    ("field", "value"),
    [("submit_us", -1), ("runtime_us", 0), ("minimum_us", -1), ("nodes", 0), ("gpus_per_node", -3),
     ("leaf", 1), ("leaf", -1), ("workload_class", 9), ("patience_us", -1)],
)  # fmt: skip
def test_bad_row_names_row_and_field(field: str, value: int) -> None:
    jobs = table(1)
    jobs[field] = value
    with pytest.raises(InvalidArgument, match=f"job 0: {field} is"):
        make(jobs)


def test_bad_tables_and_trees() -> None:
    with pytest.raises(InvalidArgument, match="dtype"):
        make(np.zeros(3))
    with pytest.raises(InvalidArgument, match="dtype"):
        make(np.zeros(3, JOB_DTYPE.descr[:-1]))
    with pytest.raises(InvalidArgument, match="dimensions"):
        make(table(4).reshape(2, 2))
    with pytest.raises(InvalidArgument, match="no leaf"):
        make(table(0), leaves=[])
    with pytest.raises(InvalidArgument, match="'a' is there twice"):
        make(table(), leaves=[Leaf("a", (1,)), Leaf("a", (1,))])
    with pytest.raises(InvalidArgument, match="2 names and 1 weights"):
        Leaf("a/b", (1,))
    with pytest.raises(InvalidArgument, match="empty name"):
        Leaf("a//b", (1, 1, 1))
    with pytest.raises(InvalidArgument, match="weights"):
        Leaf("a", (float("nan"),))
    with pytest.raises(InvalidArgument, match="cluster"):
        make(table(), cluster=Cluster(nodes=0))


def test_measured_time() -> None:
    world = make(table(3))
    assert (world.warmup_us, world.end_us) == (0, 3)
    world = make(table(3), warmup=timedelta(days=1), end=timedelta(days=2))
    assert world.end_us == 2 * 86_400_000_000
    with pytest.raises(InvalidArgument, match="must not be empty"):
        make(table(3), warmup=5, end=5)
    with pytest.raises(InvalidArgument, match=r"end is 1\.5"):
        make(table(3), end=1.5)


def test_pickle(world: World) -> None:
    again = pickle.loads(pickle.dumps(world))
    assert again.jobs.tobytes() == world.jobs.tobytes()
    assert (again.cluster, again.leaves) == (world.cluster, world.leaves)
    assert (again.warmup_us, again.end_us) == (world.warmup_us, world.end_us)


def test_generate_is_reproducible_and_checked() -> None:
    one, two = (tenure.generate(seed=4, days=1, warmup_days=0) for _ in range(2))
    assert one.jobs.tobytes() == two.jobs.tobytes()
    assert tenure.generate(seed=5, days=1, warmup_days=0).jobs.tobytes() != one.jobs.tobytes()
    with pytest.raises(tenure.NotFound, match="unknown scenario 'nowhere'"):
        tenure.generate("nowhere")
    for options in ({"seed": -1}, {"days": 0}, {"warmup_days": -1}, {"load": -1.0},
                    {"load": float("nan")}):  # fmt: skip
        with pytest.raises(InvalidArgument):
            tenure.generate(**options)  # type: ignore[arg-type]


def test_exceptions() -> None:
    names = "InvalidArgument NotFound AlreadyExists FailedPrecondition ResourceExhausted"
    for name in [*names.split(), "Unavailable", "OutOfRange", "Internal", "Cancelled"]:
        assert issubclass(getattr(tenure, name), tenure.Error)
    assert issubclass(InvalidArgument, ValueError)
