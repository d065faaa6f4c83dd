# SPDX-License-Identifier: Apache-2.0
"""Published traces, where they are at hand: every row is accounted for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tenure
from tenure.importers import load, write_workload

Find = Callable[[str], Path]


@pytest.mark.parametrize(
    ("name", "rows", "findings"),
    [
        ("philly.csv.gz", 82_247, {"duplicate": 65, "unsorted": 44_878}),
        ("philly_30d.swf.gz", 47_294, {}),
        ("theta_2022.swf.gz", 23_911, {"run-over-limit": 6_264}),
        ("theta_2023.swf.gz", 8_401, {"run-over-limit": 2_354, "unsorted": 2_726,
                                      "over-max-procs": 8, "too-large": 8}),
        ("wagap-2013.swf.gz", 17_900, {"negative-duration": 2, "run-over-limit": 702}),
        ("hpc2n-alea-subset.swf.gz", 3_170, {"run-missing": 25, "run-over-limit": 320}),
        ("lublin_256.swf.gz", 10_000, {}),
    ],
)  # fmt: skip
def test_rows_add_up(data: Find, name: str, rows: int, findings: dict[str, int]) -> None:
    got = load(data(name), nodes_of=1)
    report = got.report
    assert report.rows == rows == report.imported + report.dropped
    assert {f.name: f.count for f in report.findings} == findings
    assert len(got.world.jobs) == report.imported


def test_philly_window(data: Find) -> None:
    got = load(data("philly.csv.gz"), gpus=256, start="2017-09-28", days=30)
    assert len(got.world.jobs) == 47_294
    assert len(got.world.leaves) == 12
    comparison = tenure.compare(got.world, ["fairtree", "budget"])
    assert comparison.workloads[0].offered_load == pytest.approx(2.49, abs=0.01)
    for results in comparison.results.values():
        assert results[0].jobs == 47_294


def test_swf_and_csv_of_the_same_jobs_agree(data: Find) -> None:
    csv = load(data("philly.csv.gz"), gpus=256, start="2017-09-28", days=30).world.jobs
    swf = load(data("philly_30d.swf.gz"), gpus=256).world.jobs
    assert csv["runtime_us"].tolist() == swf["runtime_us"].tolist()
    assert csv["gpus_per_node"].tolist() == swf["gpus_per_node"].tolist()
    assert (csv["submit_us"] - csv["submit_us"][0]).tolist() == swf["submit_us"].tolist()


def test_through_the_workload_file(data: Find, tmp_path: Path) -> None:
    world = load(data("philly_5k.swf.gz"), gpus=64).world
    write_workload(world, tmp_path / "w.parquet")
    again = load(tmp_path / "w.parquet").world
    assert again.jobs.tobytes() == world.jobs.tobytes()
    one, two = (tenure.simulate(w, "budget") for w in (world, again))
    assert one.decision_digest == two.decision_digest
