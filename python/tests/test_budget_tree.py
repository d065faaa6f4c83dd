# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import tenure
from tenure import BudgetTree


def make() -> tuple[BudgetTree, dict[str, int]]:
    tree = BudgetTree()
    ids = {"vision": tree.add("vision", weight=35), "language": tree.add("language", weight=65)}
    ids["robots"] = tree.add("robots", ids["vision"], 8)
    ids["video"] = tree.add("video", ids["vision"], 27)
    return tree, ids


def test_structure() -> None:
    tree, ids = make()
    assert len(tree) == 5
    assert tree.path(ids["robots"]) == "vision/robots"
    assert tree.find("vision/video") == ids["video"]
    assert tree.children(ids["vision"]) == (ids["robots"], ids["video"])
    assert tree.leaves() == (ids["language"], ids["robots"], ids["video"])
    assert tree.parent(ids["robots"]) == ids["vision"]
    assert tree.is_leaf(ids["language"]) and not tree.is_leaf(0)
    assert tree.name(ids["video"]) == "video" and tree.weight(ids["video"]) == 27


def test_entitlements() -> None:
    tree, ids = make()
    shares = tree.entitlements(1_000_000)
    assert shares.dtype == np.int64
    assert shares[ids["vision"]] == 350_000
    assert shares[ids["robots"]] == 80_000
    assert shares[ids["language"]] == 650_000


def test_water_fill() -> None:
    tree, ids = make()
    demand = np.zeros(5, np.int64)
    demand[ids["robots"]], demand[ids["language"]] = 900_000, 100_000
    got = tree.water_fill(1_000_000, demand)
    assert got[ids["robots"]] == 900_000
    assert got[ids["language"]] == 100_000
    assert got[ids["video"]] == 0
    tilted = [65_536] * 5
    tilted[ids["vision"]] = 0
    demand[:] = 1_000_000
    got = tree.water_fill(1_000_000, demand, tilted)
    assert got[ids["language"]] == 1_000_000


def test_edits_and_closing() -> None:
    tree, ids = make()
    tree.set_weight(ids["vision"], 65, effective=timedelta(seconds=1), author="ann", reason="plan")
    assert tree.next_edit_us == 1_000_000
    assert not tree.apply_edits(999_999)
    assert tree.apply_edits(timedelta(seconds=1))
    assert tree.next_edit_us is None
    (edit,) = tree.edits
    assert (edit.before, edit.after, edit.author, edit.effective_us) == (35, 65, "ann", 1_000_000)
    copy = tree.copy()
    tree.close(ids["vision"])
    assert tree.closed(ids["robots"]) and not copy.closed(ids["robots"])
    assert tree.entitlements(1000)[ids["language"]] == 1000
    assert tree.add("vision") == 5


def test_errors() -> None:
    tree, ids = make()
    with pytest.raises(tenure.InvalidArgument, match="name"):
        tree.add("")
    with pytest.raises(tenure.InvalidArgument, match="weight"):
        tree.add("x", weight=float("nan"))
    with pytest.raises(tenure.AlreadyExists):
        tree.add("vision")
    for bad in (-1, 99, 2**40):
        with pytest.raises(tenure.NotFound):
            tree.add("x", bad)
        with pytest.raises(tenure.NotFound):
            tree.path(bad)
    with pytest.raises(tenure.NotFound):
        tree.find("vision/nobody")
    with pytest.raises(tenure.InvalidArgument):
        tree.close(0)
    tree.close(ids["vision"])
    with pytest.raises(tenure.FailedPrecondition):
        tree.add("x", ids["vision"])
    with pytest.raises(tenure.InvalidArgument, match="capacity"):
        tree.entitlements(-1)
    with pytest.raises(tenure.InvalidArgument, match="5 entries"):
        tree.water_fill(1000, [1, 2])
    with pytest.raises(tenure.InvalidArgument, match="must be integers"):
        tree.water_fill(1000, [0.5] * 5)
    with pytest.raises(tenure.InvalidArgument):
        tree.set_weight(ids["language"], 1, effective=2**63 - 1)
