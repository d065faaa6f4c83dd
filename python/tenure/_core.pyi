# SPDX-License-Identifier: Apache-2.0
"""The compiled module. Private: use the names of the package."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

JOB_DTYPE: np.dtype[np.void]
JOB_FLAGS: dict[str, int]
WORKLOAD_CLASSES: tuple[str, ...]

class World:
    def __init__(
        self,
        *,
        nodes: int,
        gpus_per_node: int,
        nodes_per_rack: int,
        leaves: Sequence[tuple[str, list[float]]],
        jobs: npt.NDArray[np.void],
        assumptions: list[str],
    ) -> None: ...
    @property
    def nodes(self) -> int: ...
    @property
    def gpus_per_node(self) -> int: ...
    @property
    def nodes_per_rack(self) -> int: ...
    @property
    def leaves(self) -> list[tuple[str, list[float]]]: ...
    @property
    def jobs(self) -> npt.NDArray[np.void]: ...
    @property
    def assumptions(self) -> list[str]: ...

class InstituteOptions:
    load: float
    freeload: float
    seed: int
    days: int
    warmup_days: int
    debug_per_day: int
    nodes: int
    gpus_per_node: int
    nodes_per_rack: int
    mincap_us: int
    leaves: int
    levels: int
    largest_percent: int

class FaultOptions:
    mean_uptime_us: int
    mean_unhealthy_us: int
    mean_repair_us: int
    negotiate_after_us: int
    hard_permille: int
    failed_resume_permille: int
    seed: int
    def set_maintenance(self, windows: list[tuple[int, int, int, int, int]], /) -> None: ...

class SimOptions:
    warmup_us: int
    end_us: int
    pass_interval_us: int
    grace_us: int
    forecast_interval_us: int
    forecast_limits: bool
    notice_permille: int
    report_restorable: bool
    report_idle: bool
    idle_nights_permille: int
    faults: FaultOptions

GAME_STRATEGIES: tuple[str, ...]
RUN_ENDS: tuple[str, ...]

def generate_institute(options: InstituteOptions) -> World: ...
def game(world: World, leaf: int, strategy: str) -> tuple[World, list[int]]: ...
def simulate(
    world: World,
    policy: str,
    parameters: dict[str, str],
    options: SimOptions,
    *,
    record: bool,
    explain: int | None,
    progress: Callable[[float], object] | None,
) -> dict[str, Any]: ...
def policy_names() -> list[str]: ...
def policy_parameters(policy: str) -> list[tuple[str, str, str, str]]: ...

class BudgetTree:
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def add(self, name: str, parent: int, weight: float) -> int: ...
    def set_weight(
        self, id: int, weight: float, *, effective_us: int, author: str, reason: str
    ) -> None: ...
    def apply_edits(self, now_us: int) -> bool: ...
    @property
    def next_edit_us(self) -> int | None: ...
    @property
    def edits(self) -> list[tuple[int, float, float, int, str, str]]: ...
    def close(self, id: int) -> None: ...
    def find(self, path: str) -> int: ...
    def path(self, id: int, /) -> str: ...
    def name(self, id: int, /) -> str: ...
    def weight(self, id: int, /) -> float: ...
    def closed(self, id: int, /) -> bool: ...
    def is_leaf(self, id: int, /) -> bool: ...
    def parent(self, id: int, /) -> int: ...
    def children(self, id: int, /) -> list[int]: ...
    def leaves(self) -> list[int]: ...
    def entitlements(self, capacity_mgpu: int) -> npt.NDArray[np.int64]: ...
    def water_fill(
        self,
        capacity_mgpu: int,
        demand_mgpu: npt.NDArray[np.int64],
        multiplier_q16: npt.NDArray[np.int64] | None,
    ) -> npt.NDArray[np.int64]: ...
    def copy(self) -> BudgetTree: ...

_Start = tuple[int, int, list[int], int]
_Stop = tuple[int, int, str, int | None, int, int]
_Hold = tuple[int, list[int], int, int | None]
_Promise = tuple[int, list[int], int]
_Search = tuple[str, str, int, int, int, int, int, int]

class Scheduler:
    def __init__(self, *, policy: str, parameters: dict[str, str]) -> None: ...
    def tree(self) -> BudgetTree: ...
    @property
    def workloads(self) -> int: ...
    @property
    def dirty(self) -> bool: ...
    @property
    def capacity_mgpu(self) -> int: ...
    def add_allocation(self, name: str, parent: int, weight: float, now_us: int, /) -> int: ...
    def set_weight(
        self,
        id: int,
        weight: float,
        effective_us: int,
        author: str,
        reason: str,
        now_us: int,
        /,
    ) -> None: ...
    def boost(
        self,
        id: int,
        weight: float,
        from_us: int,
        until_us: int,
        author: str,
        reason: str,
        now_us: int,
        /,
    ) -> None: ...
    def move_allocation(
        self, id: int, new_parent: int, author: str, reason: str, now_us: int, /
    ) -> None: ...
    def close_allocation(self, id: int, now_us: int, /) -> None: ...
    def add_domain(self, name: str, parent: int, /) -> int: ...
    def add_node(self, name: str, gpus: int, gpu_type: str, domain: int, now_us: int, /) -> int: ...
    def set_node(
        self, id: int, health: str, since_us: int, now_us: int, /
    ) -> list[tuple[int, int, str]]: ...
    def drained(self, id: int, /) -> bool: ...
    def announce_maintenance(
        self,
        nodes: list[int],
        from_us: int,
        until_us: int,
        author: str,
        reason: str,
        now_us: int,
        /,
    ) -> int: ...
    def cancel_maintenance(self, id: int, now_us: int, /) -> None: ...
    def maintenance(self) -> list[tuple[int, list[int], int, int, str, str]]: ...
    def set_charge_rate(self, gpu_type: str, permille: int, now_us: int, /) -> None: ...
    def charge_rate(self, gpu_type: str, /) -> int: ...
    def node_name(self, id: int, /) -> str: ...
    def submit(
        self,
        *,
        id: int,
        allocation: int,
        nodes: int,
        gpus_per_node: int,
        minimum_us: int,
        kind: str,
        user: int,
        name: str,
        priority: int,
        resumable: bool,
        restorable: bool,
        checkpoint_us: int,
        restart_us: int,
        gpu_type: str | None,
        topology_required: bool,
        topology_level: int | None,
        now_us: int,
    ) -> None: ...
    def cancel(self, id: int, now_us: int, /) -> None: ...
    def report_started(self, id: int, run: int, at_us: int, now_us: int, /) -> None: ...
    def report_start_failed(self, id: int, run: int, now_us: int, /) -> None: ...
    def report_ended(self, id: int, run: int, at_us: int, now_us: int, /) -> None: ...
    def report_stopped(self, id: int, run: int, at_us: int, now_us: int, /) -> str: ...
    def report_stop_failed(self, id: int, run: int, now_us: int, /) -> None: ...
    def report_checkpoint(self, id: int, run: int, at_us: int, now_us: int, /) -> None: ...
    def report_idle(self, id: int, idle: bool, now_us: int, /) -> None: ...
    def set_resume_hint(self, id: int, hint: bytes, now_us: int, /) -> None: ...
    def resume_hint(self, id: int, /) -> bytes: ...
    def reconcile(
        self, running: list[tuple[int, int]], now_us: int, /
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]: ...
    def decide(
        self, now_us: int, /
    ) -> tuple[list[_Start], list[_Stop], list[_Hold], list[_Promise], int | None, _Search]: ...
    def explain(self, id: int, /) -> dict[str, Any]: ...
    def standing(self, id: int, now_us: int, /) -> dict[str, Any]: ...
    def what_if(
        self,
        *,
        id: int,
        allocation: int,
        nodes: int,
        gpus_per_node: int,
        minimum_us: int,
        kind: str,
        user: int,
        name: str,
        priority: int,
        resumable: bool,
        restorable: bool,
        checkpoint_us: int,
        restart_us: int,
        gpu_type: str | None,
        topology_required: bool,
        topology_level: int | None,
        now_us: int,
    ) -> dict[str, Any]: ...
    def forecast(
        self,
        id: int,
        *,
        horizon_us: int,
        unfunded_us: int,
        step_us: int,
        max_passes: int,
        limits_us: dict[int, int],
    ) -> dict[str, Any]: ...
    def clone(self) -> Scheduler: ...
    def snapshot(self) -> bytes: ...
    def restore(self, snapshot: bytes, /) -> None: ...
    def digest(self) -> int: ...

def run_scenario(
    text: str, policy: str, file: str, repeat: bool
) -> tuple[str, list[tuple[str, bool, str, int, list[str], list[str]]]]: ...
