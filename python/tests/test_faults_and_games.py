# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import tenure
from tenure import Faults, InvalidArgument, Maintenance

FAULTY = Faults(mean_uptime=timedelta(days=6), failed_resume_permille=100)


def test_faults_are_the_same_for_every_policy(world: tenure.World) -> None:
    budget = tenure.simulate(world, "budget", faults=FAULTY)
    priority = tenure.simulate(world, "priority", faults=FAULTY)
    for result in (budget, priority):
        assert result.repairs > 0 and result.runs_lost > 0 and result.failed_resumes > 0
        assert result.availability is not None and result.availability < 1
    assert budget.host_drain_h.max is not None and budget.host_drain_h.max <= 8.1
    assert tenure.simulate(world, "budget").repairs == 0
    again = tenure.simulate(world, "budget", faults=FAULTY)
    assert again.decision_digest == budget.decision_digest
    other = tenure.simulate(world, "budget", faults=Faults(mean_uptime=timedelta(days=6), seed=2))
    assert other.decision_digest != budget.decision_digest


def test_maintenance_takes_hosts_away(world: tenure.World) -> None:
    hour = 3_600_000_000
    window = Maintenance(first_node=0, nodes=64, begin=30 * hour, end=54 * hour)
    result = tenure.simulate(world, "budget", faults=Faults(maintenance=(window,)), record=True)
    assert result.availability is not None and 0.5 < result.availability < 0.8
    assert result.timeline is not None
    runs = result.timeline.runs
    down = (runs["start_us"] >= window.begin) & (runs["start_us"] < window.end)
    assert down.any()
    for run in runs[down]:
        first, nodes = int(run["first_node"]), int(world.jobs[run["job"]]["nodes"])
        assert (result.timeline.nodes[first : first + nodes] >= 64).all()


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (Faults(mean_uptime=-1), "mean_uptime"),
        (Faults(hard_permille=1001), "hard_permille is 1001"),
        (Faults(seed=-1), "not integers"),
        (Faults(maintenance=(Maintenance(first_node=0, nodes=500, begin=0, end=1),)), "500 nodes"),
    ],
)
def test_bad_faults(world: tenure.World, faults: Faults, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        tenure.simulate(world, faults=faults)


def test_sleeping_sessions_are_suspended(world: tenure.World) -> None:
    awake = tenure.simulate(world, "ai2")
    asleep = tenure.simulate(world, "ai2", idle_nights_permille=1000)
    assert awake.sessions_suspended == 0 < asleep.sessions_suspended


@pytest.mark.parametrize("strategy", tenure.GAME_STRATEGIES)
def test_games_leave_the_others_alone(world: tenure.World, strategy: str) -> None:
    played, leaves = tenure.game(world, strategy, "vision/generation")
    assert leaves[0] == 4
    kept = world.jobs["leaf"] != 4
    others = ~np.isin(played.jobs["leaf"], leaves)
    np.testing.assert_array_equal(played.jobs[others], world.jobs[kept])
    assert (len(played.assumptions) > len(world.assumptions)) == (strategy != "none")
    assert played.end_us == world.end_us and played.warmup_us == world.warmup_us


def test_bad_games(world: tenure.World) -> None:
    for strategy, leaf, message in (
        ("bribe", 0, "no gaming strategy 'bribe'"),
        ("hold", 99, "leaf is 99"),
        ("hold", "vision", "no leaf 'vision'"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            tenure.game(world, strategy, leaf)


def test_other_trees_and_clusters() -> None:
    world = tenure.generate(
        days=1, warmup_days=0, gpus=88, nodes_per_rack=0, leaves=30, levels=4, debug_per_day=100
    )
    assert world.cluster.gpus == 88
    assert len(world.leaves) == 30
    assert all(leaf.path.count("/") == 3 for leaf in world.leaves)
    monarch = tenure.generate(days=1, warmup_days=0, leaves=5, levels=1, largest_percent=90)
    result = tenure.simulate(monarch)
    assert result.leaf[0].share == pytest.approx(0.9)
    short = tenure.generate(days=1, warmup_days=0, mincap=timedelta(hours=1))
    long = tenure.generate(days=1, warmup_days=0, mincap=timedelta(hours=24))
    assert short.jobs["minimum_us"].max() == 3_600_000_000
    assert long.jobs["minimum_us"].max() == 24 * 3_600_000_000
    assert len(short.jobs) == len(long.jobs)
    with pytest.raises(InvalidArgument, match="gpus_per_node"):
        tenure.generate(gpus=30, gpus_per_node=3)
    with pytest.raises(InvalidArgument, match="leaves is 'many'"):
        tenure.generate(leaves="many")  # type: ignore[arg-type]


def test_timeline_agrees_with_the_result(world: tenure.World) -> None:
    result = tenure.simulate(world, record=True)
    assert result.timeline is not None
    runs = result.timeline.runs
    assert len(runs) == result.starts
    ends = np.bincount(runs["end"], minlength=len(tenure.RUN_ENDS))
    assert ends[tenure.RUN_ENDS.index("open")] == result.jobs_running
    assert ends[tenure.RUN_ENDS.index("finished")] == result.jobs_done
    assert (np.diff(runs["start_us"]) >= 0).all()
    stopped = runs[runs["end"] == tenure.RUN_ENDS.index("stopped")]
    assert (stopped["end_us"] >= stopped["protected_us"]).all()
    plain = tenure.simulate(world)
    assert plain.timeline is None and plain.decision_digest == result.decision_digest
    assert plain == tenure.simulate(world).__class__(
        **{**vars(result), "sim_wall_s": plain.sim_wall_s}
    )


def test_forecasts_are_compared_with_what_happened(world: tenure.World) -> None:
    result = tenure.simulate(world, forecast_interval=timedelta(hours=1))
    assert len(result.forecasts) > 10
    assert any(f.actual_s is not None for f in result.forecasts)
    for forecast in result.forecasts:
        assert forecast.until_end_s > 0
        if forecast.promised and forecast.actual_s is not None:
            assert forecast.predicted_s is not None
            assert forecast.actual_s <= forecast.predicted_s + 15


def test_figures_have_dotted_names(world: tenure.World) -> None:
    result = tenure.simulate(world)
    named = tenure.figures(result)
    assert named["wait_s.debug.p90"] == result.wait_s["debug"].p90
    assert named["gang_from_reservation_s.max"] == result.gang_from_reservation_s.max
    assert named["jobs"] == result.jobs
    assert "decision_digest" not in named and "policy" not in named
