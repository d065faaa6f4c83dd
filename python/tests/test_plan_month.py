# SPDX-License-Identifier: Apache-2.0
"""benchmarks/plan_search/month.py: its worlds, its intervals and its table."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tenure import simulate

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "plan_search"
MINUTE = 60_000_000


@pytest.fixture(scope="module")
def month() -> Iterator[ModuleType]:
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("month")
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("month", None)


def test_seeds_of_a_trace_move_submissions_by_up_to_a_minute(
    month: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "tiny.swf"
    rows = (f"{i} {i * 600} -1 60 4 -1 -1 4 90 -1 1 1 1 -1 1 1 -1 -1\n" for i in range(1, 40))
    path.write_text("".join(rows))
    plain, moved = month.trace(0, path, 8), month.trace(1, path, 8)
    apart = np.abs(plain.jobs["submit_us"] - moved.jobs["submit_us"])
    assert 0 < apart.max() <= MINUTE
    assert (plain.warmup_us, plain.end_us) == (moved.warmup_us, moved.end_us)


def test_nothing_is_submitted_before_an_outage_ends(month: ModuleType) -> None:
    world = month.outage(1, 1.7, 1, 12)
    assert world.jobs["submit_us"].min() == world.warmup_us == 12 * 60 * MINUTE
    assert (world.jobs["submit_us"] == world.warmup_us).sum() > 100
    assert world.end_us - world.warmup_us == 24 * 60 * MINUTE


def test_a_difference_is_paired_and_marked_if_its_interval_excludes_0(month: ModuleType) -> None:
    assert month.difference([2, 4, 9], [1, 3, 8], 1) == "+1.0 ± 0.0 *"
    assert month.difference([1, -1], [0, 0], 1) == "+0.0 ± 12.7"
    assert month.difference([5], [3], 0) == "+2"


def test_the_table_has_a_column_per_number_of_trials(month: ModuleType) -> None:
    world = month.outage(1, 1.7, 1, 1)
    results = {t: [simulate(world, "budget", {"search_trials": t})] for t in (0, 4)}
    lines = month.table([0, 4], results).splitlines()
    assert lines[0] == "| | 0 trials | 4: difference |"
    assert {line.count("|") for line in lines} == {4}
    assert any(line.startswith("| goodput | 0.") for line in lines)
