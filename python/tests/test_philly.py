# SPDX-License-Identifier: Apache-2.0
"""The Philly reader: the CSV of jobs and the JSON job log."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tenure import InvalidArgument
from tenure.importers import Imported, detect_format, load

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"
GOOD = "2017-10-09 07:01:55,3600.0,1,3600.0,11cb48"


def read(tmp_path: Path, *lines: str, **options: object) -> Imported:
    path = tmp_path / "philly.csv"
    path.write_text("\n".join(lines) + "\n")
    return load(path, **{"gpus": 64, **options})  # type: ignore[arg-type]


def test_plain_row(tmp_path: Path) -> None:
    got = read(tmp_path, HEADER, GOOD)
    job = got.world.jobs[0]
    assert (job["runtime_us"], job["nodes"], job["gpus_per_node"]) == (3_600_000_000, 1, 1)
    assert job["limit_us"] == job["runtime_us"]  # no estimates in the trace
    assert got.world.leaves[0].path == "11cb48"
    assert any("summer time" in text for text in got.world.assumptions)
    assert any("perfect estimate" in text for text in got.world.assumptions)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("2017-10-09 07:01:55,60.0,1,60.0", "unparsable"),
        ("2017-10-09 07:01:55,60.0,1,60.0,a,b", "unparsable"),
        ('2017-10-09 07:01:55,60.0,1,60.0,"a', "unparsable"),
        ("yesterday,60.0,1,60.0,a", "unparsable"),
        ("2017-13-09 07:01:55,60.0,1,60.0,a", "unparsable"),
        ("2017-10-09 07:01:55,soon,1,60.0,a", "unparsable"),
        ("2017-10-09 07:01:55,inf,1,60.0,a", "unparsable"),
        ("2017-10-09 07:01:55,60.0,1.5,60.0,a", "unparsable"),
        ("2017-10-09 07:01:55,60.0,-2,60.0,a", "unparsable"),
        ("None,60.0,1,60.0,a", "submit-missing"),
        (",60.0,1,60.0,a", "submit-missing"),
        ("2017-10-09 07:01:55,,1,60.0,a", "run-missing"),
        ("2017-10-09 07:01:55,None,1,60.0,a", "run-missing"),
        ("2017-10-09 07:01:55,-5,1,60.0,a", "negative-duration"),
        ("2017-10-09 07:01:55,1e9,1,1e9,a", "absurd-duration"),
        ("2017-10-09 07:01:55,1e17,1,1e17,a", "absurd-duration"),
        ("2017-10-09 07:01:55,60.0,0,0.0,a", "no-gpus"),
        ("1970-01-01 00:00:00,60.0,1,60.0,a", "clock-step"),
    ],
)
def test_bad_row_is_counted_and_dropped(tmp_path: Path, line: str, name: str) -> None:
    lines = [HEADER, GOOD, line, GOOD.replace("07:", "08:")]
    got = read(tmp_path, *lines)
    (finding,) = (f for f in got.report.findings if f.action == "dropped")
    assert (finding.name, finding.count, finding.bad) == (name, 1, True)
    assert finding.examples[0][0] == 3
    assert (got.report.rows, got.report.imported) == (3, 2)
    with pytest.raises(InvalidArgument, match=rf"philly\.csv:3: {name}"):
        read(tmp_path, *lines, strict=True)


def test_kept_oddities(tmp_path: Path) -> None:
    got = read(
        tmp_path,
        HEADER,
        GOOD,
        GOOD,
        "2017-10-09 06:00:00,60.0,2,60.0,a",
        "2017-10-09 08:00:00,0.0,1,0.0,",
        "",
        "",
        strict=True,
    )
    counts = {f.name: (f.action, f.count) for f in got.report.findings}
    assert counts == {
        "duplicate": ("kept", 1),
        "gpu-time-mismatch": ("kept", 1),
        "zero-duration": ("changed", 1),
        "unsorted": ("kept", 1),
    }
    assert got.report.imported == 4
    assert "none" in [leaf.path for leaf in got.world.leaves]
    assert "blank lines: 2" in got.report.notes
    dropped = read(tmp_path, HEADER, GOOD, GOOD, duplicates="drop")
    assert (dropped.report.imported, dropped.report.count("duplicate")) == (1, 1)


def test_columns_by_name(tmp_path: Path) -> None:
    got = read(
        tmp_path, "cluster, num_gpus ,extra,timestamp,duration", "a,8,x,2017-10-09 07:01:55,60"
    )
    assert got.world.jobs["gpus_per_node"].tolist() == [8]
    with pytest.raises(InvalidArgument, match=r"philly\.csv:1: no column 'duration'"):
        read(tmp_path, "timestamp,num_gpus,cluster", "x,1,a")


def test_byte_order_mark_and_quotes(tmp_path: Path) -> None:
    got = read(tmp_path, "\ufeff" + HEADER, '2017-10-09 07:01:55,60.0,1,60.0,"a,b/c"')
    assert got.world.leaves[0].path == "a,b|c"


def test_window_by_date(tmp_path: Path) -> None:
    days = [f"2017-10-{day:02d} 12:00:00,3600,1,3600,a" for day in range(1, 11)]
    got = read(tmp_path, HEADER, *days, start="2017-10-04", days=3)
    assert got.report.imported == 3
    assert got.world.jobs["submit_us"][0] == 12 * 3_600_000_000
    assert "time 0 is 2017-10-04 00:00:00 in the clock of the trace" in got.world.assumptions
    with pytest.raises(InvalidArgument, match="must be a date"):
        read(tmp_path, HEADER, *days, start="soon")


def job(**changes: Any) -> dict[str, Any]:
    attempt = {
        "start_time": "2017-10-09 07:10:00",
        "end_time": "2017-10-09 08:10:00",
        "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}],
    }
    entry = {
        "status": "Pass", "vc": "a", "jobid": "application_1", "user": "u",
        "submitted_time": "2017-10-09 07:01:55", "attempts": [attempt],
    }  # fmt: skip
    return entry | changes


def read_json(tmp_path: Path, *entries: object, **options: object) -> Imported:
    path = tmp_path / "cluster_job_log"
    path.write_bytes(gzip.compress(json.dumps(entries).encode()))
    assert detect_format(path) == "philly"
    return load(path, **{"gpus": 64, **options})  # type: ignore[arg-type]


def test_json_job(tmp_path: Path) -> None:
    got = read_json(tmp_path, job())
    row = got.world.jobs[0]
    assert row["nodes"] * row["gpus_per_node"] == 3
    assert row["runtime_us"] == 3_600_000_000
    assert got.report.format == "philly-json"


@pytest.mark.parametrize(
    ("changes", "name", "bad"),
    [
        ({"attempts": []}, "never-started", False),
        ({"attempts": [{"start_time": "2017-10-09 07:10:00", "end_time": None, "detail": []}]},
         "censored", False),
        ({"attempts": [{"start_time": "None", "end_time": "None", "detail": []}]},
         "censored", False),
        ({"attempts": [{"start_time": "2017-10-09 07:10:00",
                        "end_time": "2017-10-09 08:10:00", "detail": []}]}, "no-gpus", True),
        ({"attempts": [{"start_time": "2017-10-09 07:10:00",
                        "end_time": "2017-10-09 06:10:00",
                        "detail": [{"gpus": ["gpu0"]}]}]}, "negative-duration", True),
        ({"attempts": None}, "unparsable", True),
        ({"attempts": [{}]}, "unparsable", True),
        ({"submitted_time": "None"}, "submit-missing", True),
        ({"submitted_time": "noon"}, "unparsable", True),
        ({"jobid": "application_0"}, "duplicate", True),
    ],
)  # fmt: skip
def test_json_bad_entry(tmp_path: Path, changes: dict[str, Any], name: str, bad: bool) -> None:
    got = read_json(tmp_path, job(jobid="application_0"), job(**changes))
    (finding,) = got.report.findings
    assert (finding.name, finding.action, finding.bad) == (name, "dropped", bad)
    assert finding.examples[0][0] == 2
    assert got.report.imported == 1


def test_json_retries_are_one_job(tmp_path: Path) -> None:
    attempts = [
        {"start_time": "2017-10-09 07:00:00", "end_time": "2017-10-09 07:30:00",
         "detail": [{"gpus": ["gpu0"]}]},
        {"start_time": "2017-10-09 08:00:00", "end_time": "2017-10-09 09:00:00",
         "detail": [{"gpus": ["gpu0", "gpu1"]}]},
    ]  # fmt: skip
    got = read_json(tmp_path, job(attempts=attempts))
    assert got.world.jobs["runtime_us"].tolist() == [5_400_000_000]
    assert got.world.jobs["gpus_per_node"].tolist() == [2]
    assert got.report.count("retries") == got.report.count("resized") == 1


def test_json_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('[{"vc": \n]')
    with pytest.raises(InvalidArgument, match=r"log:2: not JSON"):
        load(path)
    with pytest.raises(InvalidArgument, match="no usable row"):
        read_json(tmp_path, 7)
