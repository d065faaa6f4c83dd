# SPDX-License-Identifier: Apache-2.0
"""The scheduler: events in, decisions out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from tenure import _core
from tenure._time import SECOND, Time, to_us
from tenure.answers import (
    Decisions,
    Explanation,
    Forecast,
    Hold,
    LostRun,
    MaintenanceWindow,
    NodeReport,
    Promise,
    ReconcileReport,
    SearchRecord,
    Standing,
    Start,
    Stop,
    WhatIf,
)
from tenure.budget import ROOT, BudgetTree

__all__ = ["Scheduler"]


class Scheduler:
    """The state machine. No clock: every call says what time it is.

    Parameters
    ----------
    policy
        "budget", "ai2", "hier", "responsive" or "lag".
    parameters
        As in `tenure.policies()`, values are converted to text.
    grace
        Time a stopped run may use to save its work; a parameter of that name wins.

    The caller reports what happens and carries out what `decide` answers: launch the starts and
    report them started, signal the stops and report them stopped. `now` is a timedelta or integer
    microseconds since any origin and must not go backwards (OutOfRange). A refused call changes
    nothing. Not thread-safe.

    >>> s = Scheduler("budget")
    >>> _ = s.add_node("n1", 8, now=0)
    >>> team = s.add_allocation("vision", now=0)
    >>> s.submit(7, team, gpus_per_node=4, minimum=3_600_000_000, now=0)
    >>> start = s.decide(now=0).starts[0]
    >>> start
    Start(workload=7, run=1, nodes=(0,), gpus_per_node=4)
    >>> s.report_started(7, start.run, now=0)
    >>> s.explain(7).state
    'running'
    """

    __slots__ = ("_core",)

    def __init__(
        self,
        policy: str = "budget",
        parameters: Mapping[str, object] | None = None,
        *,
        grace: Time = 10 * SECOND,
    ) -> None:
        self._core = _core.Scheduler(
            policy=policy,
            parameters={
                "grace": f"{to_us(grace, 'grace')}us",
                **{key: str(value) for key, value in (parameters or {}).items()},
            },
        )

    def __repr__(self) -> str:
        return f"Scheduler(workloads={self._core.workloads}, digest={self.digest():#018x})"

    # Budgets.

    def add_allocation(
        self, name: str, parent: int = ROOT, weight: float = 1.0, *, now: Time
    ) -> int:
        """Add an allocation and return its id; errors as in `BudgetTree.add`."""
        return self._core.add_allocation(name, parent, weight, to_us(now, "now"))

    def set_weight(
        self,
        id: int,
        weight: float,
        *,
        now: Time,
        effective: Time | None = None,
        author: str = "",
        reason: str = "",
    ) -> None:
        """Change a weight from `effective` on (by default now); history is not rescaled."""
        now_us = to_us(now, "now")
        at = now_us if effective is None else to_us(effective, "effective")
        self._core.set_weight(id, weight, at, author, reason, now_us)

    def boost(
        self,
        id: int,
        weight: float,
        *,
        until: Time,
        now: Time,
        start: Time | None = None,
        author: str = "",
        reason: str = "",
    ) -> None:
        """Give an allocation another weight from `start` (by default now) to `until`.

        Then it weighs again what it did before. NotFound; InvalidArgument if no time is left
        between the two or the weight is negative, not finite or too large beside its siblings'.
        """
        now_us = to_us(now, "now")
        from_us = now_us if start is None else to_us(start, "start")
        self._core.boost(id, weight, from_us, to_us(until, "until"), author, reason, now_us)

    def move_allocation(
        self, id: int, new_parent: int, *, now: Time, author: str = "", reason: str = ""
    ) -> None:
        """Put an allocation and all below it under another parent, with its history.

        NotFound; InvalidArgument (the root, below itself, already there); FailedPrecondition
        (either is closed, the new parent was charged as a leaf); AlreadyExists (its name is taken).
        """
        self._core.move_allocation(id, new_parent, author, reason, to_us(now, "now"))

    def close_allocation(self, id: int, *, now: Time) -> None:
        """No new starts below it; running work goes on and stays charged."""
        self._core.close_allocation(id, to_us(now, "now"))

    def tree(self) -> BudgetTree:
        """A copy of the budget tree."""
        tree = BudgetTree.__new__(BudgetTree)
        tree._core = self._core.tree()
        return tree

    # Nodes.

    def add_domain(self, name: str, parent: int = 0) -> int:
        """Add a topology domain (a rack, a block) and return its id."""
        return self._core.add_domain(name, parent)

    def add_node(
        self, name: str, gpus: int, *, now: Time, gpu_type: str = "gpu", domain: int = 0
    ) -> int:
        """Add a node and return its id. InvalidArgument, NotFound, AlreadyExists."""
        return self._core.add_node(name, gpus, gpu_type, domain, to_us(now, "now"))

    def set_node(self, id: int, health: str, *, now: Time, since: Time | None = None) -> NodeReport:
        """Set the health of a node: "up", "draining" or "down".

        "down" ends every run on it at `since` (by default now), protected or not; the report says
        what became of each. NotFound, InvalidArgument.
        """
        now_us = to_us(now, "now")
        at = now_us if since is None else to_us(since, "since")
        lost = self._core.set_node(id, health, at, now_us)
        return NodeReport(tuple(LostRun(*run) for run in lost))

    def drained(self, id: int) -> bool:
        """True once a node that drains or is closed for maintenance is empty."""
        return self._core.drained(id)

    def announce_maintenance(
        self,
        nodes: Iterable[int],
        *,
        start: Time,
        until: Time,
        now: Time,
        author: str = "",
        reason: str = "",
    ) -> int:
        """Take nodes out of service in [start, until); returns the id of the window.

        They close one grace and one tick before: from then on they take nothing, count as no
        capacity, and whatever is unfunded or past its minimum is stopped. Until then they take work
        whose minimum is over when they close. Windows may overlap. InvalidArgument (no nodes, no
        time left), NotFound.
        """
        return self._core.announce_maintenance(
            list(nodes),
            to_us(start, "start"),
            to_us(until, "until"),
            author,
            reason,
            to_us(now, "now"),
        )

    def cancel_maintenance(self, id: int, *, now: Time) -> None:
        """Call a window off, also one that has begun. NotFound: unknown or over."""
        self._core.cancel_maintenance(id, to_us(now, "now"))

    def maintenance(self) -> tuple[MaintenanceWindow, ...]:
        """The windows that are announced or under way, in order of announcement."""
        return tuple(
            MaintenanceWindow(id, tuple(nodes), start, until, author, reason)
            for id, nodes, start, until, author, reason in self._core.maintenance()
        )

    def set_charge_rate(self, gpu_type: str, permille: int, *, now: Time) -> None:
        """From now on a GPU of `gpu_type` is charged as `permille` / 1000 GPUs (1000 unless set).

        Running work too; what was charged stays. Entitlements divide the capacity weighted alike.
        NotFound; InvalidArgument (below 1 or too large); ResourceExhausted (could not be counted
        exactly: take rates with a large common divisor).
        """
        self._core.set_charge_rate(gpu_type, permille, to_us(now, "now"))

    def charge_rate(self, gpu_type: str) -> int:
        """Charge rate of a GPU type, thousandths. NotFound."""
        return self._core.charge_rate(gpu_type)

    @property
    def capacity_mgpu(self) -> int:
        """Healthy GPUs weighted by their charge rates, thousandths of a GPU."""
        return self._core.capacity_mgpu

    def node_name(self, id: int) -> str:
        """Name of a node. NotFound."""
        return self._core.node_name(id)

    # Workloads.

    def submit(
        self,
        id: int,
        allocation: int,
        *,
        now: Time,
        nodes: int = 1,
        gpus_per_node: int = 1,
        minimum: Time = 0,
        kind: str = "training",
        user: int = 0,
        name: str = "",
        priority: int = 0,
        resumable: bool = True,
        restorable: bool = False,
        checkpoint_interval: Time = 0,
        restart_overhead: Time = 0,
        gpu_type: str | None = None,
        topology_required: bool = False,
        topology_level: int | None = None,
    ) -> None:
        """Submit a workload: a gang of `nodes` members with `gpus_per_node` GPUs each.

        Parameters
        ----------
        id, allocation
            An unused number; a leaf of the budget tree.
        minimum
            Shortest run that makes sense: protected and charged. 0 = unfunded.
        kind
            One of `tenure.WORKLOAD_CLASSES`.
        priority
            Larger first; compared inside the allocation only.
        user
            The caller's number of its owner, for caps and reports; 2**32 - 1 is nobody, whom no cap
            on a user holds for.
        resumable, checkpoint_interval, restart_overhead
            Whether it survives a stop, how often it saves its work (0 = unknown), and what a
            restart costs.
        restorable
            It saves all its work in the grace of a stop (a checkpoint on notice, a session that is
            suspended and restored), so that a stop costs the restart only.
        gpu_type
            None = any.
        topology_required, topology_level
            Whether all members must lie in one domain of the level (None = the deepest).

        Raises
        ------
        InvalidArgument
            The contract can never be valid.
        AlreadyExists, NotFound, FailedPrecondition
            The id is in use; no such allocation; it is closed or not a leaf.
        """
        self._core.submit(
            id=id,
            allocation=allocation,
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            minimum_us=to_us(minimum, "minimum"),
            kind=kind,
            user=user,
            name=name,
            priority=priority,
            resumable=resumable,
            restorable=restorable,
            checkpoint_us=to_us(checkpoint_interval, "checkpoint_interval"),
            restart_us=to_us(restart_overhead, "restart_overhead"),
            gpu_type=gpu_type,
            topology_required=topology_required,
            topology_level=topology_level,
            now_us=to_us(now, "now"),
        )

    def cancel(self, id: int, *, now: Time) -> None:
        """Remove waiting work, or stop a run in the next pass. NotFound."""
        self._core.cancel(id, to_us(now, "now"))

    def report_started(self, id: int, run: int, *, now: Time, at: Time | None = None) -> None:
        """A start was carried out (at `at`, by default now).

        Reports raise NotFound (no such workload), FailedPrecondition (that run cannot do this now:
        an old run, a duplicate) or InvalidArgument (a time in the future or before the start).
        """
        now_us = to_us(now, "now")
        self._core.report_started(id, run, now_us if at is None else to_us(at, "at"), now_us)

    def report_start_failed(self, id: int, run: int, *, now: Time) -> None:
        """A launch was refused: not charged, waits again."""
        self._core.report_start_failed(id, run, to_us(now, "now"))

    def report_ended(self, id: int, run: int, *, now: Time, at: Time | None = None) -> None:
        """A run finished by itself."""
        now_us = to_us(now, "now")
        self._core.report_ended(id, run, now_us if at is None else to_us(at, "at"), now_us)

    def report_stopped(self, id: int, run: int, *, now: Time, at: Time | None = None) -> str:
        """A stop was carried out; what became of the workload.

        "requeued", "failed-by-preemption" (not resumable), "cancelled" or "suspended".
        """
        now_us = to_us(now, "now")
        return self._core.report_stopped(id, run, now_us if at is None else to_us(at, "at"), now_us)

    def report_stop_failed(self, id: int, run: int, *, now: Time) -> None:
        """A stop did not work, the run goes on."""
        self._core.report_stop_failed(id, run, to_us(now, "now"))

    def report_checkpoint(self, id: int, run: int, *, now: Time, at: Time | None = None) -> None:
        """Work done before `at` is saved."""
        now_us = to_us(now, "now")
        self._core.report_checkpoint(id, run, now_us if at is None else to_us(at, "at"), now_us)

    def set_resume_hint(self, id: int, hint: bytes, *, now: Time) -> None:
        """Keep bytes that are wanted back when the workload starts again.

        An image to restore, a checkpoint, an address: never interpreted, part of snapshots,
        forgotten when the workload is over. Empty takes them back. NotFound, InvalidArgument (more
        than 4096 bytes).
        """
        self._core.set_resume_hint(id, hint, to_us(now, "now"))

    def resume_hint(self, id: int) -> bytes:
        """What `set_resume_hint` was given last; empty if nothing. NotFound."""
        return self._core.resume_hint(id)

    def report_idle(self, id: int, idle: bool, *, now: Time) -> None:
        """A session does (not) use its GPUs; idle ones lose their protection."""
        self._core.report_idle(id, idle, to_us(now, "now"))

    def reconcile(self, running: Iterable[tuple[int, int]], *, now: Time) -> ReconcileReport:
        """Compare with the full list of running work, as (workload, run)."""
        ended, unknown = self._core.reconcile(list(running), to_us(now, "now"))
        return ReconcileReport(tuple(ended), tuple(unknown))

    # Answers.

    @property
    def dirty(self) -> bool:
        """True if something was reported since the last pass that may change the answer."""
        return self._core.dirty

    def decide(self, *, now: Time) -> Decisions:
        """One pass. Releases the GIL."""
        starts, stops, holds, promises, wakeup, search = self._core.decide(to_us(now, "now"))
        return Decisions(
            tuple(Start(w, r, tuple(nodes), gpus) for w, r, nodes, gpus in starts),
            tuple(Stop(*stop) for stop in stops),
            tuple(Hold(w, tuple(nodes), gpus, expires) for w, nodes, gpus, expires in holds),
            tuple(Promise(w, tuple(nodes), start_by) for w, nodes, start_by in promises),
            wakeup,
            SearchRecord(*search),
        )

    def explain(self, id: int) -> Explanation:
        """Why a workload waits or runs. NotFound."""
        return Explanation(**self._core.explain(id))

    def standing(self, allocation: int, *, now: Time) -> Standing:
        """Where an allocation stands. NotFound."""
        return Standing(**self._core.standing(allocation, to_us(now, "now")))

    def forecast(
        self,
        id: int,
        *,
        horizon: Time = timedelta(days=14),
        unfunded: Time = timedelta(hours=1),
        step: Time = timedelta(minutes=5),
        max_passes: int = 10_000,
        limits: Mapping[int, Time] | None = None,
    ) -> Forecast:
        """When a workload starts. Changes nothing; releases the GIL.

        The estimate plays the future on a copy: nobody submits anything, nothing fails, a run ends
        at the limit that `limits` has for its workload (longest time of one run), else with its
        minimum; unfunded runs without a limit last `unfunded`.

        Parameters
        ----------
        horizon
            Look no further than this.
        step
            The answer is accurate to this.

        Raises
        ------
        NotFound
            No such workload.
        InvalidArgument
            A duration is negative or beyond a year, or `step` is 0.
        """
        return Forecast(
            **self._core.forecast(
                id,
                horizon_us=to_us(horizon, "horizon"),
                unfunded_us=to_us(unfunded, "unfunded"),
                step_us=to_us(step, "step"),
                max_passes=max_passes,
                limits_us={key: to_us(limit, "limit") for key, limit in (limits or {}).items()},
            )
        )

    def what_if(
        self,
        id: int,
        allocation: int,
        *,
        now: Time,
        nodes: int = 1,
        gpus_per_node: int = 1,
        minimum: Time = 0,
        kind: str = "training",
        user: int = 0,
        name: str = "",
        priority: int = 0,
        resumable: bool = True,
        restorable: bool = False,
        checkpoint_interval: Time = 0,
        restart_overhead: Time = 0,
        gpu_type: str | None = None,
        topology_required: bool = False,
        topology_level: int | None = None,
    ) -> WhatIf:
        """What submitting a workload would lead to: arguments and errors as for `submit`.

        Changes nothing; releases the GIL.
        """
        answer = self._core.what_if(
            id=id,
            allocation=allocation,
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            minimum_us=to_us(minimum, "minimum"),
            kind=kind,
            user=user,
            name=name,
            priority=priority,
            resumable=resumable,
            restorable=restorable,
            checkpoint_us=to_us(checkpoint_interval, "checkpoint_interval"),
            restart_us=to_us(restart_overhead, "restart_overhead"),
            gpu_type=gpu_type,
            topology_required=topology_required,
            topology_level=topology_level,
            now_us=to_us(now, "now"),
        )
        answer["nodes"] = tuple(answer["nodes"])
        answer["victims"] = tuple(Stop(*stop) for stop in answer["victims"])
        answer["losses"] = tuple(answer["losses"])
        return WhatIf(**answer)

    def clone(self) -> Scheduler:
        """An independent copy, for what-if questions."""
        copy = Scheduler.__new__(Scheduler)
        copy._core = self._core.clone()
        return copy

    def snapshot(self) -> bytes:
        """The whole state as bytes."""
        return self._core.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """Take over a snapshot of a scheduler with the same policy and parameters.

        Raises
        ------
        InvalidArgument
            The bytes are damaged.
        FailedPrecondition
            They belong to other options.
        """
        self._core.restore(snapshot)

    def digest(self) -> int:
        """64-bit hash of the state: equal states have equal digests."""
        return self._core.digest()
