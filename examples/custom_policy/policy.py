# SPDX-License-Identifier: Apache-2.0
"""The policy of main.cc in Python, through the C library and nothing but the standard library.

A class with some of the hooks becomes a policy; the engine asks it while it decides. Teams are
ordered by *lag*, the GPU-time a team is behind its entitlement over the last day. Exits with 0 if
every expectation holds.

    TENURE_LIBRARY=build/release/src/capi/libtenure.so python3 examples/custom_policy/policy.py

Python hooks are slow: good for trying a rule out on a recorded month, not for a large cluster.
"""

from __future__ import annotations

import ctypes as c
import os
import sys
from typing import Any

MINUTE = 60 * 1_000_000
HOUR = 60 * MINUTE


class AllocationView(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("allocation", c.c_uint32),
        ("used_gpu_us", c.c_int64),
        ("entitlement_mgpu", c.c_int64),
    ]


class RequesterView(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("allocation", c.c_uint32),
        ("workload_class", c.c_int32),
        ("tier", c.c_int32),
        ("gpus", c.c_int64),
        ("charge_mgpu", c.c_int64),
        ("allocation_placed_mgpu", c.c_int64),
        ("entitlement_mgpu", c.c_int64),
        ("fluid_mgpu", c.c_int64),
        ("key_us", c.c_int64),
    ]


class RunView(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("allocation", c.c_uint32),
        ("workload", c.c_uint64),
        ("workload_class", c.c_int32),
        ("funded", c.c_int32),
        ("resumable", c.c_int32),
        ("idle", c.c_int32),
        ("gpus", c.c_int64),
        ("charge_mgpu", c.c_int64),
        ("stops", c.c_uint32),
        ("lane", c.c_int32),
        ("now_us", c.c_int64),
        ("start_us", c.c_int64),
        ("protected_until_us", c.c_int64),
        ("progress_since_us", c.c_int64),
        ("checkpoint_interval_us", c.c_int64),
        ("lost_us", c.c_int64),
        ("allocation_placed_mgpu", c.c_int64),
        ("entitlement_mgpu", c.c_int64),
        ("fluid_mgpu", c.c_int64),
        ("key_us", c.c_int64),
        ("gap_us", c.c_int64),
    ]


class NodeView(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("request_nodes", c.c_uint32),
        ("request_gpus", c.c_int32),
        ("gpus", c.c_int32),
        ("free_gpus", c.c_int32),
        ("type", c.c_uint32),
        ("domain", c.c_uint32),
        ("run_count", c.c_int32),
        ("name", c.c_char_p),
    ]


RankKey = c.CFUNCTYPE(c.c_int64, c.c_void_p, c.POINTER(AllocationView))
Tier = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(RequesterView))
MayPreempt = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(RequesterView), c.POINTER(RunView))
VictimCost = c.CFUNCTYPE(c.c_int64, c.c_void_p, c.POINTER(RunView))
NodeScore = c.CFUNCTYPE(c.c_int64, c.c_void_p, c.POINTER(NodeView))


class Hooks(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("reserved", c.c_uint32),
        ("user", c.c_void_p),
        ("rank_key", RankKey),
        ("tier", Tier),
        ("may_preempt", MayPreempt),
        ("victim_cost", VictimCost),
        ("node_score", NodeScore),
    ]


class Workload(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("allocation", c.c_uint32),
        ("id", c.c_uint64),
        ("name", c.c_char_p),
        ("name_size", c.c_uint32),
        ("user", c.c_uint32),
        ("workload_class", c.c_int32),
        ("priority", c.c_int32),
        ("nodes", c.c_uint32),
        ("gpus_per_node", c.c_int32),
        ("gpu_type", c.c_uint32),
        ("topology", c.c_int32),
        ("topology_level", c.c_uint32),
        ("resumable", c.c_int32),
        ("minimum_us", c.c_int64),
        ("checkpoint_interval_us", c.c_int64),
        ("restart_overhead_us", c.c_int64),
    ]


class Start(c.Structure):
    _fields_ = [
        ("workload", c.c_uint64),
        ("run", c.c_uint32),
        ("node_begin", c.c_uint32),
        ("node_count", c.c_uint32),
        ("gpus_per_node", c.c_int32),
    ]


class Stop(c.Structure):
    _fields_ = [
        ("workload", c.c_uint64),
        ("beneficiary", c.c_uint64),
        ("run", c.c_uint32),
        ("reason", c.c_int32),
        ("grace_us", c.c_int64),
        ("lost_gpu_us", c.c_int64),
    ]


class Decisions(c.Structure):
    _fields_ = [
        ("struct_size", c.c_uint32),
        ("reserved", c.c_uint32),
        ("starts", c.POINTER(Start)),
        ("start_capacity", c.c_size_t),
        ("start_count", c.c_size_t),
        ("stops", c.POINTER(Stop)),
        ("stop_capacity", c.c_size_t),
        ("stop_count", c.c_size_t),
        ("holds", c.c_void_p),
        ("hold_capacity", c.c_size_t),
        ("hold_count", c.c_size_t),
        ("promises", c.c_void_p),
        ("promise_capacity", c.c_size_t),
        ("promise_count", c.c_size_t),
        ("nodes", c.POINTER(c.c_uint32)),
        ("node_capacity", c.c_size_t),
        ("node_count", c.c_size_t),
        ("next_wakeup_us", c.c_int64),
    ]


library = c.CDLL(os.environ.get("TENURE_LIBRARY", "libtenure.so.1"))
library.tenure_last_error_message.restype = c.c_char_p


def check(status: int) -> None:
    if status != 0:
        raise RuntimeError(library.tenure_last_error_message().decode())


class LagPolicy:
    """Methods that are there become hooks; for the others the preset answers."""

    def rank_key(self, a: AllocationView) -> int:
        # GPU-milliseconds of use minus what the entitlement was worth in a day, not negative.
        worth = a.entitlement_mgpu * (24 * HOUR // 1000)
        return int((1 << 50) + (a.used_gpu_us - worth) // 1000)

    def tier(self, requester: RequesterView) -> int:
        return 1

    def may_preempt(self, requester: RequesterView, victim: RunView) -> bool:
        return not victim.funded or victim.gap_us > 3600 * 1000  # one GPU-hour

    def victim_cost(self, run: RunView) -> int:
        return int((run.now_us - run.start_us) // 1000 + (1 << 40 if run.funded else 0))

    def node_score(self, node: NodeView) -> int:
        return int(node.free_gpus)


class Scheduler:
    def __init__(self, policy: object, **options: str) -> None:
        self.hooks = Hooks(struct_size=c.sizeof(Hooks))
        for field in Hooks._fields_[3:]:
            name, kind = field[0], field[1]
            method = getattr(policy, name, None)
            if method is not None:
                setattr(self.hooks, name, kind(self._hook(method)))
        handle = c.c_void_p()
        check(library.tenure_options_create(b"budget", c.byref(handle)))
        for name, value in options.items():
            check(library.tenure_options_set(handle, name.encode(), value.encode()))
        check(library.tenure_options_set_hooks(handle, c.byref(self.hooks)))
        self.handle = c.c_void_p()
        check(library.tenure_scheduler_create(handle, c.byref(self.handle)))
        library.tenure_options_destroy(handle)
        self.starts, self.stops, self.nodes = (Start * 64)(), (Stop * 64)(), (c.c_uint32 * 256)()
        self.decisions = Decisions(
            struct_size=c.sizeof(Decisions), starts=self.starts, start_capacity=64,
            stops=self.stops, stop_capacity=64, nodes=self.nodes, node_capacity=256,
        )  # fmt: skip

    @staticmethod
    def _hook(method: Any) -> Any:
        return lambda user, *views: int(method(*(view.contents for view in views)))

    def add_node(self, name: str, gpus: int, now: int) -> None:
        kind, node = c.c_uint32(), c.c_uint32()
        check(library.tenure_gpu_type_add(self.handle, b"h100", c.byref(kind)))
        check(library.tenure_node_add(self.handle, name.encode(), gpus, kind, 0, c.c_int64(now),
                                      c.byref(node)))  # fmt: skip

    def add_allocation(self, name: str, weight: float, now: int) -> int:
        out = c.c_uint32()
        check(library.tenure_allocation_add(self.handle, 0, name.encode(), c.c_double(weight),
                                            c.c_int64(now), c.byref(out)))  # fmt: skip
        return out.value

    def submit(self, workload: int, allocation: int, gpus: int, now: int) -> int:
        w = Workload(
            struct_size=c.sizeof(Workload), allocation=allocation, id=workload, workload_class=2,
            nodes=1, gpus_per_node=gpus, gpu_type=0xFFFFFFFF, topology_level=0xFF, resumable=1,
            minimum_us=HOUR,
        )  # fmt: skip
        check(library.tenure_workload_submit(self.handle, c.byref(w), c.c_int64(now)))
        return workload

    def decide(self, now: int) -> tuple[list[Start], list[Stop]]:
        """One pass; what it starts is running afterwards."""
        check(library.tenure_scheduler_decide(self.handle, c.c_int64(now), c.byref(self.decisions)))
        starts = [self.starts[i] for i in range(self.decisions.start_count)]
        for s in starts:
            check(library.tenure_run_started(self.handle, c.c_uint64(s.workload), s.run,
                                             c.c_int64(now), c.c_int64(now)))  # fmt: skip
        return starts, [self.stops[i] for i in range(self.decisions.stop_count)]

    def stopped(self, stop: Stop, now: int) -> None:
        check(library.tenure_run_stopped(self.handle, c.c_uint64(stop.workload), stop.run,
                                         c.c_int64(now), c.c_int64(now), None))  # fmt: skip

    def __del__(self) -> None:
        library.tenure_scheduler_destroy(self.handle)


failures = 0


def expect(holds: bool, what: str) -> None:
    global failures
    print("ok    " if holds else "FAILED", what)
    failures += not holds


def main() -> int:
    now = 0
    scheduler = Scheduler(LagPolicy(), lookback="24h", lane_permille="0")
    for name in ("node-1", "node-2"):
        scheduler.add_node(name, 8, now)
    large = scheduler.add_allocation("large", 3, now)
    small = scheduler.add_allocation("small", 1, now)

    scheduler.submit(1, small, 4, now)
    scheduler.submit(2, small, 4, now)
    starts, _ = scheduler.decide(now)
    expect([s.workload for s in starts] == [1, 2], "both requests start in queue order")
    nodes = [scheduler.nodes[s.node_begin] for s in starts]
    expect(len(set(nodes)) == 2, "spread over two nodes")
    for youngest in (3, 4):
        scheduler.submit(youngest, small, 4, now)
        now += 10 * MINUTE
        scheduler.decide(now)

    now += 30 * MINUTE
    scheduler.submit(5, large, 4, now)
    starts, stops = scheduler.decide(now)
    expect(not starts and not stops, "nothing is stopped inside its minimum")

    now += 2 * HOUR
    _, stops = scheduler.decide(now)
    expect([s.workload for s in stops] == [4], "one run is stopped, the youngest one")
    expect([s.beneficiary for s in stops] == [5], "for the large team")
    for stop in stops:
        scheduler.stopped(stop, now)
    starts, _ = scheduler.decide(now)
    expect([s.workload for s in starts] == [5], "which then starts")

    now += 3 * HOUR
    _, stops = scheduler.decide(now)
    expect(not stops, "no ping-pong")
    return 0 if failures == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
