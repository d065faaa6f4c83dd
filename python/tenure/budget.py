# SPDX-License-Identifier: Apache-2.0
"""The tree of budgets: weights among siblings, dated edits, entitlements and fluid shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tenure import _core
from tenure._time import Time, to_us
from tenure.errors import InvalidArgument

__all__ = ["ROOT", "BudgetEdit", "BudgetTree"]

ROOT = 0
"""The root of every tree."""

Q16 = 65_536
"""1.0 as a multiplier of `BudgetTree.water_fill`."""


@dataclass(frozen=True)
class BudgetEdit:
    """A weight change that took effect at `effective_us`."""

    allocation: int
    before: float
    after: float
    effective_us: int
    author: str
    reason: str


class BudgetTree:
    """Allocations by id: 0 is the root, ids are dense, in order of creation, never reused.

    Shares are integers, thousandths of a GPU (mGPU). No result depends on the order of creation.

    >>> tree = BudgetTree()
    >>> vision = tree.add("vision", weight=3)
    >>> robots, video = tree.add("robots", vision), tree.add("video", vision)
    >>> language = tree.add("language", weight=1)
    >>> tree.path(robots)
    'vision/robots'
    >>> tree.entitlements(64_000).tolist()
    [64000, 48000, 24000, 24000, 16000]
    """

    __slots__ = ("_core",)

    def __init__(self) -> None:
        self._core = _core.BudgetTree()

    def __len__(self) -> int:
        """Number of allocations, the root and closed ones included."""
        return len(self._core)

    def __repr__(self) -> str:
        return f"BudgetTree(allocations={len(self)})"

    def add(self, name: str, parent: int = ROOT, weight: float = 1.0) -> int:
        """Add an allocation and return its id.

        Raises
        ------
        InvalidArgument
            The name is empty, too long or has a "/"; the weight is negative or not finite.
        NotFound
            There is no such parent.
        FailedPrecondition
            The parent is closed, or was charged as a leaf.
        AlreadyExists
            An open sibling has this name.
        """
        return self._core.add(name, parent, weight)

    def set_weight(
        self, id: int, weight: float, *, effective: Time = 0, author: str = "", reason: str = ""
    ) -> None:
        """Plan a weight from `effective` on; it takes effect in `apply_edits`.

        Raises
        ------
        InvalidArgument
            The weight is negative or not finite, or `id` is the root.
        NotFound
            There is no such allocation.
        FailedPrecondition
            It is closed.
        """
        self._core.set_weight(
            id, weight, effective_us=to_us(effective, "effective"), author=author, reason=reason
        )

    def apply_edits(self, now: Time) -> bool:
        """Apply what was planned up to `now`; true if a weight changed."""
        return self._core.apply_edits(to_us(now, "now"))

    @property
    def next_edit_us(self) -> int | None:
        """When `apply_edits` has something to do next, microseconds; None if never."""
        return self._core.next_edit_us

    @property
    def edits(self) -> tuple[BudgetEdit, ...]:
        """What was applied, in order."""
        return tuple(BudgetEdit(*edit) for edit in self._core.edits)

    def close(self, id: int) -> None:
        """Close an allocation and all below it: no share any more, the history stays.

        Raises
        ------
        InvalidArgument
            It is the root.
        NotFound, FailedPrecondition
            There is no such allocation, or it is closed already.
        """
        self._core.close(id)

    def find(self, path: str) -> int:
        """Id of the open allocation with this path ("a/b"); NotFound if there is none."""
        return self._core.find(path)

    def path(self, id: int) -> str:
        """Names from the root down, joined by "/"; "" for the root. NotFound."""
        return self._core.path(id)

    def name(self, id: int) -> str:
        """Name among its siblings. NotFound."""
        return self._core.name(id)

    def weight(self, id: int) -> float:
        """Weight as given, also of a closed allocation. NotFound."""
        return self._core.weight(id)

    def closed(self, id: int) -> bool:
        """True after `close`. NotFound."""
        return self._core.closed(id)

    def is_leaf(self, id: int) -> bool:
        """True if there is nothing below it. NotFound."""
        return self._core.is_leaf(id)

    def parent(self, id: int) -> int:
        """Id of the parent; of the root: the root. NotFound."""
        return self._core.parent(id)

    def children(self, id: int = ROOT) -> tuple[int, ...]:
        """Ids of the children in order of creation, closed ones included. NotFound."""
        return tuple(self._core.children(id))

    def leaves(self) -> tuple[int, ...]:
        """Ids of the leaves, depth first, siblings by name."""
        return tuple(self._core.leaves())

    def entitlements(self, capacity_mgpu: int) -> npt.NDArray[np.int64]:
        """What each may claim of a capacity.

        Parameters
        ----------
        capacity_mgpu
            Thousandths of a GPU, up to 2^21 GPUs.

        Returns
        -------
        ndarray
            Shape (A,), int64, mGPU by id: a child gets floor(parent x weight / weights of all
            siblings).
        """
        return self._core.entitlements(capacity_mgpu)

    def water_fill(
        self,
        capacity_mgpu: int,
        demand_mgpu: npt.ArrayLike,
        multiplier_q16: npt.ArrayLike | None = None,
    ) -> npt.NDArray[np.int64]:
        """What each would get now if GPUs were a fluid (hierarchical max-min fair fill).

        Parameters
        ----------
        capacity_mgpu
            Thousandths of a GPU.
        demand_mgpu
            Shape (A,), integers, by id; only entries of leaves are read.
        multiplier_q16
            Shape (A,), integers, factors on the weights by id; 65536 = 1.0.

        Returns
        -------
        ndarray
            Shape (A,), int64, mGPU by id; never more than the demand.

        >>> tree = BudgetTree()
        >>> busy, idle = tree.add("busy"), tree.add("idle")
        >>> tree.water_fill(8000, [0, 20_000, 1000]).tolist()
        [8000, 7000, 1000]
        """
        factors = None if multiplier_q16 is None else _integers(multiplier_q16, "multiplier_q16")
        return self._core.water_fill(capacity_mgpu, _integers(demand_mgpu, "demand_mgpu"), factors)

    def copy(self) -> BudgetTree:
        """An independent copy."""
        tree = BudgetTree.__new__(BudgetTree)
        tree._core = self._core.copy()
        return tree


def _integers(values: npt.ArrayLike, what: str) -> npt.NDArray[np.int64]:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise InvalidArgument(f"{what} has dtype {array.dtype}, must be integers")
    return np.ascontiguousarray(array, dtype=np.int64)
