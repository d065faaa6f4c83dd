# SPDX-License-Identifier: Apache-2.0
"""What a scheduler answers. All are frozen; times are microseconds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Decisions",
    "Explanation",
    "Forecast",
    "Hold",
    "LostRun",
    "MaintenanceWindow",
    "NodeReport",
    "Promise",
    "ReconcileReport",
    "SearchRecord",
    "Standing",
    "Start",
    "Stop",
    "WhatIf",
]


@dataclass(frozen=True)
class Start:
    """Launch this run: `gpus_per_node` GPUs on each of `nodes`."""

    workload: int
    run: int
    nodes: tuple[int, ...]
    gpus_per_node: int


@dataclass(frozen=True)
class Stop:
    """Stop this run, which may use `grace_us` to save its work.

    `reason` is "preempted" or "promise" (both for the workload `beneficiary`), "drain",
    "cancelled" or "idle" (a session beyond its team's cap on idle ones). `lost_gpu_us` estimates
    the lost work, GPU-microseconds.
    """

    workload: int
    run: int
    reason: str
    beneficiary: int | None
    grace_us: int
    lost_gpu_us: int


@dataclass(frozen=True)
class Hold:
    """GPUs that are kept for a workload until its victims are gone."""

    workload: int
    nodes: tuple[int, ...]
    gpus_per_node: int
    expires_us: int | None


@dataclass(frozen=True)
class Promise:
    """A gang is promised a start on these nodes by `start_by_us`."""

    workload: int
    nodes: tuple[int, ...]
    start_by_us: int


@dataclass(frozen=True)
class SearchRecord:
    """What the plan search of a pass did (parameter `search_trials`).

    `outcome` is "none" (off, or nothing could be placed), "no-gain", "taken" (the decisions are
    those of trial `winner`), "refused" or "failed"; `backend` "off", "cpu" or "cuda". `trials` were
    made. Prices in GPU-minutes: `price_before` without the search, `price` of the winner.
    `faults` counts, so far, back ends that failed or answered what their plan does not cost.
    """

    outcome: str
    backend: str
    trials: int
    seed: int
    winner: int
    price_before: int
    price: int
    faults: int


@dataclass(frozen=True)
class Decisions:
    """The answer of one pass, in the order of decision.

    Call `decide` again at `next_wakeup_us` at the latest; None if time alone changes nothing.
    """

    starts: tuple[Start, ...]
    stops: tuple[Stop, ...]
    holds: tuple[Hold, ...]
    promises: tuple[Promise, ...]
    next_wakeup_us: int | None
    search: SearchRecord


@dataclass(frozen=True)
class Explanation:
    """Why a workload waits or runs, with the numbers that decide, as of the last pass.

    `entitlement_mgpu` and `fluid_mgpu` (thousandths of a GPU) are what its leaf may claim and what
    it is due right now; `placed_gpus` and `queued_gpus` its funded GPUs; `used_gpu_us` its use in
    the window with committed minimums; `key_us` = used / entitlement: lower is served first.
    """

    workload: int
    state: str
    reason: str
    allocation: int
    entitlement_mgpu: int
    fluid_mgpu: int
    placed_gpus: int
    queued_gpus: int
    used_gpu_us: int
    key_us: int
    tier: int
    leaves_ahead: int
    requests_ahead: int
    protected_until_us: int
    promised_start_us: int | None
    next_protection_end_us: int | None
    stops: int


@dataclass(frozen=True)
class Standing:
    """Where an allocation stands; units as in `Explanation`.

    `natural_mgpu` is the fluid share by weight and demand alone, `fluid_mgpu` what the window makes
    of it; `committed_gpu_us` the rest of running protections; `unfunded_gpus` run for free.
    """

    allocation: int
    entitlement_mgpu: int
    natural_mgpu: int
    fluid_mgpu: int
    used_gpu_us: int
    committed_gpu_us: int
    unfunded_gpu_us: int
    key_us: int
    placed_gpus: int
    queued_gpus: int
    unfunded_gpus: int


@dataclass(frozen=True)
class LostRun:
    """A run that was lost with its node.

    `outcome` is "requeued", "failed-with-node" (not resumable: it is over) or "cancelled".
    """

    workload: int
    run: int
    outcome: str


@dataclass(frozen=True)
class NodeReport:
    """What a change of a node's health did at once: the runs lost, by workload."""

    lost: tuple[LostRun, ...]


@dataclass(frozen=True)
class MaintenanceWindow:
    """Nodes that are out of service in [start_us, until_us)."""

    id: int
    nodes: tuple[int, ...]
    start_us: int
    until_us: int
    author: str
    reason: str


@dataclass(frozen=True)
class ReconcileReport:
    """Runs, as (workload, run), that were closed, and ones that nobody here knows."""

    ended: tuple[tuple[int, int], ...]
    unknown: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Forecast:
    """When a workload starts, seen from the last call.

    `start_us` is the start of its run if it `started`; the latest start if it is `promised`; else
    an estimate, None if it lies beyond the horizon or the passes allowed. `searched_until_us` says
    how far the future was played, in `passes` passes; `reason` why it waits now.
    """

    start_us: int | None
    promised: bool
    started: bool
    reason: str
    searched_until_us: int
    passes: int


@dataclass(frozen=True)
class WhatIf:
    """What one pass right after a submission would do for it.

    It starts now, or GPUs are `held` for it while the `victims` are stopped, or a start by
    `promised_us` is `reserved` for it, on `nodes`; else it would wait, because of `reason`.
    `losses` sums the work that victims lose by allocation: (allocation, GPU-microseconds).
    """

    starts_now: bool
    held: bool
    reserved: bool
    promised_us: int | None
    nodes: tuple[int, ...]
    victims: tuple[Stop, ...]
    losses: tuple[tuple[int, int], ...]
    reason: str
