# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import timedelta

import pytest

import tenure
from tenure import Scheduler

MINUTE = 60_000_000
HOUR = 60 * MINUTE


def make(policy: str = "budget", **parameters: object) -> tuple[Scheduler, int, int]:
    """Two nodes of 8 GPUs and two teams of equal weight."""
    s = Scheduler(policy, parameters)
    for name in ("n1", "n2"):
        s.add_node(name, 8, now=0)
    return s, s.add_allocation("a", now=0), s.add_allocation("b", now=0)


def start_all(s: Scheduler, now: int) -> list[tenure.Start]:
    starts = list(s.decide(now=now).starts)
    for start in starts:
        s.report_started(start.workload, start.run, now=now)
    return starts


def test_start_run_end() -> None:
    s, a, _ = make()
    s.submit(1, a, nodes=2, gpus_per_node=8, minimum=timedelta(hours=1), now=0)
    assert s.dirty
    (start,) = start_all(s, 0)
    assert start == tenure.Start(workload=1, run=1, nodes=(0, 1), gpus_per_node=8)
    assert s.node_name(start.nodes[0]) == "n1"
    why = s.explain(1)
    assert (why.state, why.reason, why.protected_until_us) == ("running", "none", HOUR)
    standing = s.standing(a, now=MINUTE)
    assert standing.placed_gpus == 16
    assert standing.used_gpu_us == 16 * MINUTE
    s.report_ended(1, 1, now=2 * MINUTE)
    with pytest.raises(tenure.NotFound):
        s.explain(1)
    assert s.standing(a, now=2 * MINUTE).used_gpu_us == 32 * MINUTE


def test_preemption_after_the_minimum() -> None:
    s, a, b = make("ai2")
    s.submit(1, a, nodes=2, gpus_per_node=8, minimum=HOUR, now=0)
    start_all(s, 0)
    s.submit(2, b, nodes=2, gpus_per_node=8, minimum=HOUR, now=MINUTE)
    waiting = s.decide(now=MINUTE)
    assert not waiting.starts and not waiting.stops
    assert s.explain(2).reason == "no-capacity"
    assert s.explain(2).next_protection_end_us == HOUR
    later = s.decide(now=HOUR)
    (stop,) = later.stops
    assert (stop.workload, stop.reason, stop.beneficiary) == (1, "preempted", 2)
    assert stop.grace_us == 10_000_000
    (hold,) = later.holds
    assert (hold.workload, hold.nodes) == (2, (0, 1))
    assert s.explain(2).reason == "waits-for-stop"
    assert s.report_stopped(1, 1, now=HOUR + 5_000_000) == "requeued"
    (start,) = start_all(s, HOUR + 5_000_000)
    assert start.workload == 2


def test_promise_to_a_gang() -> None:
    s, a, b = make("budget", gang=16, first_credit="0", lane_permille=0)
    for job, gpus in ((1, 8), (2, 8)):
        s.submit(job, a, gpus_per_node=gpus, minimum=HOUR, now=0)
    start_all(s, 0)
    s.submit(3, b, nodes=2, gpus_per_node=8, minimum=HOUR, now=MINUTE)
    promises = []
    for minute in range(1, 60):
        promises += s.decide(now=minute * MINUTE).promises
    (promise,) = promises
    assert (promise.workload, promise.nodes, promise.start_by_us) == (3, (0, 1), HOUR + 10_000_000)
    why = s.explain(3)
    assert (why.reason, why.promised_start_us) == ("reserved", HOUR + 10_000_000)
    due = s.decide(now=HOUR)
    assert {(stop.workload, stop.reason, stop.beneficiary) for stop in due.stops} == {
        (1, "promise", 3),
        (2, "promise", 3),
    }


def test_plan_search() -> None:
    for trials in (0, 64):
        s, a, _ = make(lane_permille=0, search_trials=trials, search_backend="cpu")
        for job, gpus in enumerate((4, 2, 6, 4), start=1):
            s.submit(job, a, gpus_per_node=gpus, minimum=HOUR, now=0)
        decisions = s.decide(now=0)
        search = decisions.search
        assert len(decisions.starts) == (3 if trials == 0 else 4)
        assert search.outcome == ("none" if trials == 0 else "taken")
        if trials:
            assert search.backend == "cpu"
            assert 0 < search.winner < search.trials <= trials
            assert search.price < search.price_before
    with pytest.raises(tenure.InvalidArgument, match="search_trials"):
        make(search_trials=10_000_000)


def test_results_are_frozen() -> None:
    s, a, _ = make()
    s.submit(1, a, minimum=HOUR, now=0)
    decisions = s.decide(now=0)
    with pytest.raises(FrozenInstanceError):
        decisions.next_wakeup_us = 3  # type: ignore[misc]
    assert "Start(workload=1" in repr(decisions)


def test_clone_snapshot_and_digest() -> None:
    s, a, b = make()
    s.submit(1, a, gpus_per_node=8, minimum=HOUR, now=0)
    start_all(s, 0)
    copy, saved = s.clone(), s.snapshot()
    assert copy.digest() == s.digest()
    s.submit(2, b, minimum=HOUR, now=MINUTE)
    assert copy.digest() != s.digest()
    fresh = Scheduler("budget")
    fresh.restore(saved)
    assert fresh.digest() == copy.digest()
    for each in (fresh, copy):
        each.submit(2, b, minimum=HOUR, now=MINUTE)
    assert fresh.decide(now=MINUTE) == copy.decide(now=MINUTE) == s.decide(now=MINUTE)
    with pytest.raises(tenure.InvalidArgument):
        fresh.restore(saved[:-1])
    with pytest.raises(tenure.Error):
        Scheduler("budget", {"lookback": "24h"}).restore(saved)


def test_a_refused_call_changes_nothing() -> None:
    s, a, _ = make()
    s.submit(1, a, minimum=HOUR, now=MINUTE)
    before = s.digest()
    with pytest.raises(tenure.AlreadyExists):
        s.submit(1, a, minimum=HOUR, now=MINUTE)
    with pytest.raises(tenure.NotFound):
        s.submit(2, 77, minimum=HOUR, now=MINUTE)
    with pytest.raises(tenure.FailedPrecondition):
        s.submit(2, 0, minimum=HOUR, now=MINUTE)
    with pytest.raises(tenure.OutOfRange, match="backwards"):
        s.cancel(1, now=0)
    with pytest.raises(tenure.NotFound):
        s.cancel(9, now=MINUTE)
    with pytest.raises(tenure.FailedPrecondition):
        s.report_started(1, 1, now=MINUTE)
    for options in (
        {"id": -1}, {"nodes": 0}, {"nodes": -1}, {"nodes": 2**40}, {"gpus_per_node": 0},
        {"minimum": -1}, {"kind": "party"}, {"kind": "debug", "gpus_per_node": 9},
        {"user": -1}, {"topology_level": 300}, {"minimum": 2**62},
    ):  # fmt: skip
        given = {"id": 5, "allocation": a, "minimum": HOUR, "now": MINUTE} | options
        with pytest.raises(tenure.InvalidArgument):
            s.submit(**given)  # type: ignore[arg-type]
    assert s.digest() == before


def test_nodes() -> None:
    s, a, _ = make()
    rack = s.add_domain("rack-1")
    node = s.add_node("n3", 4, domain=rack, gpu_type="h100", now=0)
    s.submit(1, a, gpus_per_node=4, minimum=HOUR, gpu_type="h100", now=0)
    (start,) = start_all(s, 0)
    assert start.nodes == (node,)
    s.submit(2, a, gpus_per_node=1, minimum=HOUR, resumable=False, now=0)
    (other,) = start_all(s, 0)
    assert other.nodes != (node,)
    report = s.set_node(node, "down", now=MINUTE)
    assert report.lost == (tenure.LostRun(1, 1, "requeued"),)
    assert s.explain(1).state != "running"
    report = s.set_node(other.nodes[0], "down", now=MINUTE)
    assert report.lost == (tenure.LostRun(2, 1, "failed-with-node"),)
    with pytest.raises(tenure.NotFound):
        s.explain(2)
    assert s.set_node(other.nodes[0], "up", now=MINUTE).lost == ()
    s.set_node(0, "draining", now=MINUTE)
    assert s.drained(0)
    with pytest.raises(tenure.InvalidArgument, match="health"):
        s.set_node(0, "tired", now=MINUTE)
    with pytest.raises(tenure.NotFound):
        s.set_node(99, "up", now=MINUTE)
    with pytest.raises(tenure.AlreadyExists):
        s.add_node("n1", 8, now=MINUTE)
    with pytest.raises(tenure.NotFound):
        s.node_name(77)


def test_maintenance() -> None:
    s, a, _ = make()
    window = s.announce_maintenance(
        [1, 0, 1], start=2 * HOUR, until=4 * HOUR, now=0, author="ann", reason="firmware"
    )
    expected = tenure.MaintenanceWindow(window, (0, 1), 2 * HOUR, 4 * HOUR, "ann", "firmware")
    assert s.maintenance() == (expected,)
    s.submit(1, a, gpus_per_node=8, minimum=HOUR, now=0)
    s.submit(2, a, gpus_per_node=8, minimum=3 * HOUR, now=0)
    assert [start.workload for start in start_all(s, 0)] == [1]
    assert s.explain(2).reason == "maintenance"
    closing = s.decide(now=2 * HOUR - 15_000_000)
    assert [(stop.workload, stop.reason) for stop in closing.stops] == [(1, "drain")]
    assert s.capacity_mgpu == 0
    assert closing.next_wakeup_us is not None and closing.next_wakeup_us <= 4 * HOUR
    assert s.report_stopped(1, 1, now=2 * HOUR) == "requeued"
    assert s.drained(0) and s.drained(1)
    assert [start.workload for start in start_all(s, 4 * HOUR)] == [1, 2]
    assert s.maintenance() == ()
    with pytest.raises(tenure.NotFound):
        s.cancel_maintenance(window, now=4 * HOUR)
    with pytest.raises(tenure.NotFound):
        s.announce_maintenance([7], start=5 * HOUR, until=6 * HOUR, now=4 * HOUR)
    for nodes, start, until in (([], 5, 6), ([0], 6, 5), ([0], 1, 2)):
        with pytest.raises(tenure.InvalidArgument, match="maintenance"):
            s.announce_maintenance(nodes, start=start * HOUR, until=until * HOUR, now=4 * HOUR)
    again = s.announce_maintenance([0], start=5 * HOUR, until=6 * HOUR, now=4 * HOUR)
    s.cancel_maintenance(again, now=4 * HOUR)
    assert s.maintenance() == ()


def test_cancel_reconcile_and_budgets() -> None:
    s, a, b = make()
    s.submit(1, a, minimum=HOUR, now=0)
    start_all(s, 0)
    report = s.reconcile([(1, 1), (8, 3)], now=MINUTE)
    assert report.unknown == ((8, 3),) and report.ended == ()
    s.cancel(1, now=MINUTE)
    (stop,) = s.decide(now=MINUTE).stops
    assert stop.reason == "cancelled" and stop.beneficiary is None
    assert s.report_stopped(1, 1, now=2 * MINUTE) == "cancelled"
    s.set_weight(b, 3, now=2 * MINUTE, author="ann", reason="review")
    s.decide(now=3 * MINUTE)
    assert s.tree().weight(b) == 3
    s.close_allocation(b, now=3 * MINUTE)
    with pytest.raises(tenure.FailedPrecondition):
        s.submit(2, b, minimum=HOUR, now=3 * MINUTE)


def test_boost_and_move() -> None:
    s, a, b = make()
    s.boost(b, 3, start=HOUR, until=2 * HOUR, now=0, author="ann", reason="deadline")
    for now, weight in ((0, 1), (HOUR, 3), (2 * HOUR, 1)):
        s.decide(now=now)
        assert s.tree().weight(b) == weight
    before = s.digest()
    with pytest.raises(tenure.InvalidArgument):
        s.boost(b, 3, until=HOUR, now=2 * HOUR)
    with pytest.raises(tenure.NotFound):
        s.boost(77, 3, until=4 * HOUR, now=2 * HOUR)
    assert s.digest() == before
    program = s.add_allocation("program", now=2 * HOUR)
    s.submit(1, a, gpus_per_node=8, minimum=HOUR, now=2 * HOUR)
    start_all(s, 2 * HOUR)
    s.move_allocation(a, program, now=3 * HOUR, author="ann", reason="merged")
    assert s.tree().path(a) == "program/a"
    assert s.standing(program, now=3 * HOUR).used_gpu_us == 8 * HOUR
    with pytest.raises(tenure.InvalidArgument):
        s.move_allocation(program, a, now=3 * HOUR)


def test_charge_rates() -> None:
    s = Scheduler()
    s.add_node("n1", 8, gpu_type="h100", now=0)
    s.add_node("n2", 8, gpu_type="l4", now=0)
    team = s.add_allocation("a", now=0)
    assert s.charge_rate("l4") == 1000 and s.capacity_mgpu == 16_000
    s.set_charge_rate("l4", 250, now=0)
    assert s.charge_rate("l4") == 250 and s.capacity_mgpu == 10_000
    s.submit(1, team, gpus_per_node=8, minimum=HOUR, gpu_type="l4", now=0)
    start_all(s, 0)
    assert s.standing(team, now=HOUR).used_gpu_us == 2 * HOUR
    for rate in (0, -1, 2**40):
        with pytest.raises(tenure.InvalidArgument, match="charge rate"):
            s.set_charge_rate("l4", rate, now=HOUR)
    with pytest.raises(tenure.NotFound, match="a100"):
        s.set_charge_rate("a100", 500, now=HOUR)
    with pytest.raises(tenure.NotFound, match="a100"):
        s.charge_rate("a100")


def test_forecast_and_what_if_change_nothing() -> None:
    s, a, b = make("ai2")
    s.submit(1, a, nodes=2, gpus_per_node=8, minimum=HOUR, now=0)
    start_all(s, 0)
    s.submit(2, b, nodes=2, gpus_per_node=8, minimum=HOUR, now=MINUTE)
    s.decide(now=MINUTE)
    before = s.digest()
    assert s.forecast(1) == tenure.Forecast(0, False, True, "none", MINUTE, 0)
    soon = s.forecast(2)
    assert not soon.promised and not soon.started and soon.reason == "no-capacity"
    assert soon.start_us is not None and HOUR <= soon.start_us <= HOUR + 5 * MINUTE
    early = s.forecast(2, limits={1: timedelta(minutes=30)})
    assert early.start_us is not None and early.start_us < HOUR
    assert s.forecast(2, horizon=10 * MINUTE).start_us is None
    with pytest.raises(tenure.NotFound):
        s.forecast(9)
    for options in ({"step": 0}, {"horizon": -1}, {"max_passes": -1}):
        with pytest.raises(tenure.InvalidArgument):
            s.forecast(2, **options)
    now = HOUR + MINUTE
    answer = s.what_if(3, b, nodes=2, gpus_per_node=8, minimum=HOUR, now=now)
    assert answer.reason in ("no-capacity", "waits-for-stop") and not answer.starts_now
    s.cancel(2, now=MINUTE)
    before = s.digest()
    answer = s.what_if(3, b, gpus_per_node=8, minimum=HOUR, now=now)
    assert answer.held and answer.reason == "waits-for-stop" and len(answer.nodes) == 1
    assert [(v.workload, v.reason, v.beneficiary) for v in answer.victims] == [(1, "preempted", 3)]
    assert answer.losses == ((a, 16 * now),)
    with pytest.raises(tenure.AlreadyExists):
        s.what_if(1, b, minimum=HOUR, now=now)
    assert s.what_if(3, b, minimum=HOUR, gpu_type="tpu", now=now).reason == "never-fits"
    assert s.digest() == before


def test_a_refused_call_takes_over_no_gpu_type() -> None:
    s, a, _ = make()
    before = s.digest()
    with pytest.raises(tenure.InvalidArgument):
        s.submit(1, a, nodes=0, minimum=HOUR, gpu_type="tpu", now=0)
    with pytest.raises(tenure.AlreadyExists):
        s.add_node("n1", 8, gpu_type="tpu", now=0)
    assert s.digest() == before
    s.submit(1, a, minimum=HOUR, gpu_type="tpu", now=0)
    assert s.explain(1).reason == "never-fits"
    s.add_node("n3", 8, gpu_type="tpu", now=0)
    assert len(start_all(s, 0)) == 1


def test_resume_hints_and_caps_per_user() -> None:
    s = Scheduler("budget", {"user_training_gpus": "4", "borrowed_cap": "1h", "lane_permille": "0"})
    s.add_node("n1", 8, now=0)
    a = s.add_allocation("a", now=0)
    s.submit(1, a, user=7, gpus_per_node=4, minimum=HOUR, restorable=True, now=0)
    s.submit(2, a, user=7, gpus_per_node=1, minimum=HOUR, now=0)
    assert len(start_all(s, 0)) == 1
    assert s.explain(2).reason == "user-cap"
    assert s.resume_hint(1) == b""
    s.set_resume_hint(1, b"image\0 17", now=0)
    restored = Scheduler(
        "budget", {"user_training_gpus": "4", "borrowed_cap": "1h", "lane_permille": "0"}
    )
    restored.restore(s.snapshot())
    assert restored.resume_hint(1) == b"image\0 17"
    with pytest.raises(tenure.InvalidArgument, match="4097 bytes exceed 4096"):
        s.set_resume_hint(1, bytes(4097), now=0)
    with pytest.raises(tenure.NotFound):
        s.resume_hint(3)
    with pytest.raises(tenure.InvalidArgument, match="restorable, but not resumable"):
        s.submit(3, a, minimum=HOUR, resumable=False, restorable=True, now=0)
    with pytest.raises(tenure.InvalidArgument, match="a user may have 4 GPUs of class training"):
        s.submit(3, a, user=7, gpus_per_node=8, minimum=HOUR, now=0)


def test_policies_and_parameters() -> None:
    for policy in ("ai2", "budget", "hier", "responsive", "lag"):
        assert Scheduler(policy, {"lookback": "24h"}).digest() != Scheduler(policy).digest()
    with pytest.raises(tenure.InvalidArgument, match="no scheduler policy 'fairtree'"):
        Scheduler("fairtree")
    with pytest.raises(tenure.InvalidArgument, match="has no parameter 'colour'"):
        Scheduler("budget", {"colour": "red"})
    with pytest.raises(tenure.InvalidArgument, match="lookback"):
        Scheduler("budget", {"lookback": "0"})
    with pytest.raises(tenure.InvalidArgument, match="now is"):
        make()[0].decide(now=1.5)  # type: ignore[arg-type]
