# SPDX-License-Identifier: Apache-2.0
"""The canonical workload file: what is written is read back, and foreign files are checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tenure
from tenure import InvalidArgument
from tenure.importers import load, write_workload


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_round_trip(tmp_path: Path, world: tenure.World, name: str) -> None:
    path = tmp_path / name
    write_workload(world, path)
    again = load(path).world
    for field in world.jobs.dtype.names or ():
        if field == "source_row":  # a generated job has none; the line takes its place
            continue
        np.testing.assert_array_equal(world.jobs[field], again.jobs[field], err_msg=field)
    assert again.cluster == world.cluster
    assert again.leaves == world.leaves
    assert (again.warmup_us, again.end_us) == (world.warmup_us, world.end_us)
    assert again.assumptions == world.assumptions
    write_workload(again, tmp_path / ("second" + name))
    assert (tmp_path / ("second" + name)).read_bytes() == path.read_bytes()


def test_same_results_from_the_file(tmp_path: Path, world: tenure.World) -> None:
    path = tmp_path / "w.parquet"
    write_workload(world, path)
    direct, through = tenure.simulate(world), tenure.simulate(load(path).world)
    assert direct.decision_digest == through.decision_digest


def read(tmp_path: Path, *lines: str, **options: object):  # type: ignore[no-untyped-def]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")
    return load(path, **options)  # type: ignore[arg-type]


def test_smallest_file_gets_contracts_from_the_rule(tmp_path: Path) -> None:
    got = read(
        tmp_path, "# a comment of my own", "submit_us,team,gpus,runtime_us",
        "0,vision/robots,12,7200000000", "5,language,4,60000000", gpus=64,
    )  # fmt: skip
    jobs = got.world.jobs
    assert jobs["nodes"].tolist() == [2, 1]
    assert jobs["minimum_us"].tolist() == [1_800_000_000, 900_000_000]
    assert any("minimum runtime = 1/4" in text for text in got.world.assumptions)


def test_own_contracts(tmp_path: Path) -> None:
    got = read(
        tmp_path,
        "submit_us,team,team_weight,user,gpus,nodes,runtime_us,minimum_us,resumable,kind,priority",
        "0,vision/robots,35/8,ann,16,2,7200000000,3600000000,true,training,5",
        "5,vision/video,35/27,bob,1,1,60000000,0,0,sweep,-1",
        gpus=16,
    )
    world = got.world
    assert [(leaf.path, leaf.weights) for leaf in world.leaves] == [
        ("vision/robots", (35.0, 8.0)),
        ("vision/video", (35.0, 27.0)),
    ]
    assert world.jobs["minimum_us"].tolist() == [3_600_000_000, 0]
    assert world.jobs["priority"].tolist() == [5, -1]
    assert world.jobs["flags"].tolist() == [1, 0]
    assert world.jobs["user"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("submit_us", "soon"),
        ("submit_us", "1.5"),
        ("runtime_us", ""),
        ("gpus", "99999999999999999999"),
        ("team", ""),
        ("team", "/a"),
        ("minimum_us", "-4"),
        ("resumable", "maybe"),
        ("kind", "nonsense"),
        ("priority", "99999999999"),
    ],
)
def test_bad_value_is_counted(tmp_path: Path, column: str, value: str) -> None:
    good = {
        "submit_us": "0", "team": "a", "gpus": "8", "runtime_us": "60000000",
        "minimum_us": "1", "resumable": "true", "kind": "training", "priority": "0",
    }  # fmt: skip
    bad = good | {column: value}
    lines = [",".join(good), ",".join(bad.values()), ",".join(good.values())]
    got = read(tmp_path, *lines)
    (finding,) = got.report.findings
    assert (finding.name, finding.count, finding.examples[0][0]) == ("unparsable", 1, 2)
    assert column in finding.examples[0][1]
    with pytest.raises(InvalidArgument, match=r"jobs\.csv:2: unparsable"):
        read(tmp_path, *lines, strict=True)


def test_other_defects(tmp_path: Path) -> None:
    got = read(
        tmp_path, "submit_us,team,gpus,runtime_us", "0,a,0,1", "0,a,1,-1", "-5,a,1,1", "9,a,1,1"
    )
    counts = {f.name: f.count for f in got.report.findings}
    assert counts == {"no-gpus": 1, "negative-duration": 1, "absurd-submit": 1}
    with pytest.raises(InvalidArgument, match="no column 'team'"):
        read(tmp_path, "submit_us,gpus,runtime_us", "0,1,1", format="workload")
    with pytest.raises(InvalidArgument, match="format not recognized"):
        read(tmp_path, "a,b", "0,1")
    with pytest.raises(InvalidArgument, match="has two weights"):
        read(
            tmp_path, "submit_us,team,team_weight,gpus,runtime_us,minimum_us",
            "0,a,1,1,1,0", "1,a,2,1,1,0",
        )  # fmt: skip


def test_damaged_parquet(tmp_path: Path, world: tenure.World) -> None:
    path = tmp_path / "w.parquet"
    write_workload(world, path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InvalidArgument, match="not Parquet"):
        load(path)
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(InvalidArgument, match="no column 'submit_us'"):
        load(path)


def test_other_name(tmp_path: Path, world: tenure.World) -> None:
    with pytest.raises(InvalidArgument, match=r"must end in \.csv"):
        write_workload(world, tmp_path / "out.xlsx")
