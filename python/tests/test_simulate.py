# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import json
import os
import pickle
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

import tenure
from tenure import InvalidArgument


@pytest.fixture(scope="module")
def long_world() -> tenure.World:
    """Takes seconds to simulate."""
    return tenure.generate(load=1.7, seed=1, days=60, warmup_days=0)


@pytest.mark.parametrize("policy", sorted(tenure.policies()))
def test_every_policy_accounts_for_every_job(world: tenure.World, policy: str) -> None:
    r = tenure.simulate(world, policy)
    total = (
        r.jobs_done + r.jobs_running + r.jobs_queued + r.jobs_withdrawn + r.jobs_failed
        + r.jobs_never_fit
    )  # fmt: skip
    assert total == r.jobs == len(world.jobs)
    assert r.occupancy is not None and 0 < r.occupancy <= 1
    assert len(r.leaf) == len(world.leaves)
    assert r.leaf[0].path == world.leaves[0].path
    for figure in (r.owed_cum, r.owed_strict, r.goodput, r.waste):
        assert figure is not None and 0 <= figure <= 1


def test_same_input_same_decisions(world: tenure.World) -> None:
    one, two = (tenure.simulate(world, "budget") for _ in range(2))
    assert dataclasses.replace(one, sim_wall_s=0) == dataclasses.replace(two, sim_wall_s=0)
    other = tenure.simulate(world, "budget", {"quantum": "2h"})
    assert other.decision_digest != one.decision_digest


def test_result_is_frozen_and_picklable(world: tenure.World) -> None:
    result = tenure.simulate(world)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.waste = 0.0  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(result)) == result
    assert repr(result).startswith("Result(policy='budget', owed_cum=")


def test_restorable_jobs_are_reported() -> None:
    world = tenure.generate(load=1.7, seed=3, days=6, warmup_days=0)
    told = tenure.simulate(world, notice_permille=1000, report_restorable=True)
    untold = tenure.simulate(world, notice_permille=1000)
    assert told.decision_digest != untold.decision_digest
    assert told.waste < untold.waste


def test_errors(world: tenure.World) -> None:
    with pytest.raises(InvalidArgument, match="unknown policy 'nobody', known: "):
        tenure.simulate(world, "nobody")
    with pytest.raises(InvalidArgument, match="no parameter 'colour'"):
        tenure.simulate(world, "budget", {"colour": 1})
    with pytest.raises(InvalidArgument, match="lookback"):
        tenure.simulate(world, "budget", {"lookback": "soon"})
    with pytest.raises(InvalidArgument, match="must not be empty"):
        tenure.simulate(world, end=0)
    with pytest.raises(InvalidArgument, match="notice_permille"):
        tenure.simulate(world, notice_permille=1001)
    for options in ({"pass_interval": 0}, {"grace": -1}):
        with pytest.raises(InvalidArgument, match="simulation of"):
            tenure.simulate(world, **options)  # type: ignore[arg-type]


def test_progress_and_its_exceptions(long_world: tenure.World) -> None:
    seen: list[float] = []
    tenure.simulate(long_world, progress=seen.append)
    assert seen == sorted(seen) and all(0 <= f <= 1 for f in seen) and seen

    def stop(fraction: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        tenure.simulate(long_world, progress=stop)


def test_other_threads_run_meanwhile(long_world: tenure.World) -> None:
    worker = threading.Thread(target=tenure.simulate, args=(long_world,))
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
        time.sleep(0.001)
    worker.join()
    assert turns > 20  # without the GIL released it would be about one


def test_ctrl_c(long_world: tenure.World) -> None:
    # A shell starts background jobs with the signal ignored, and Python leaves that as it is.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            tenure.simulate(long_world)
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


def figures(comparison: tenure.Comparison) -> str:
    data = comparison.to_dict()
    for entry in data["policies"].values():
        del entry["sim_wall_s"]
    return json.dumps(data, allow_nan=False)


def test_compare_means_and_intervals() -> None:
    got = tenure.compare(
        "institute", ["fairtree", "budget"], seeds=[1, 2, 3], days=2, warmup_days=0
    )
    results = got.results["budget"]
    mean = got.means("budget")["owed_cum"]
    assert mean == pytest.approx(sum(r.owed_cum or 0 for r in results) / 3)
    interval = got.intervals("budget")["owed_cum"]
    assert interval is not None and mean is not None
    assert min(r.owed_cum or 0 for r in results) <= interval[0] <= mean <= interval[1]
    one = tenure.compare("institute", ["budget"], seeds=[2], days=2, warmup_days=0)
    assert set(one.intervals("budget").values()) == {None}
    assert one.results["budget"][0].decision_digest == results[1].decision_digest


def test_executors_give_the_same_figures() -> None:
    def run(executor: ThreadPoolExecutor | ProcessPoolExecutor | None) -> str:
        return figures(
            tenure.compare(
                "institute",
                ["priority", "budget"],
                seeds=[3, 1],
                executor=executor,
                days=1,
                warmup_days=0,
            )
        )

    expected = run(None)
    with ThreadPoolExecutor(2) as threads:
        assert run(threads) == expected
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert run(processes) == expected


def test_compare_worlds(world: tenure.World) -> None:
    got = tenure.compare([world, world], ["budget"], parameters={"budget": {"quantum": "1h"}})
    assert got.seeds == ()
    assert len(got.results["budget"]) == 2
    assert got.workloads[0].jobs == len(world.jobs)
    assert got.workloads[0].offered_load > got.workloads[0].funded_load > 0


def test_compare_errors(world: tenure.World) -> None:
    small = tenure.World(cluster=tenure.Cluster(nodes=4), leaves=world.leaves, jobs=world.jobs[:10])
    for args, options, message in (
        ((world, []), {}, "no policy"),
        ((world, ["budget", "budget"]), {}, "named twice"),
        (([], ["budget"]), {}, "no world"),
        ((world, ["budget"], [1]), {}, "seeds: for generated scenarios only"),
        ((world, ["budget"]), {"load": 1.0}, "load: for generated scenarios only"),
        (("institute", ["budget"], [1, 1]), {}, "seed is named twice"),
        ((world, ["budget"]), {"parameters": {"ai2": {}}}, "which is not compared"),
        (([world, small], ["budget"]), {}, "2 different clusters"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            tenure.compare(*args, **options)  # type: ignore[arg-type]


def test_progress_of_a_comparison(world: tenure.World) -> None:
    seen: list[float] = []
    tenure.compare(world, ["priority", "budget"], progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == 1.0
