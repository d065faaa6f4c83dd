# SPDX-License-Identifier: Apache-2.0
"""The SWF reader on every defect that is seen in published logs."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tenure import InvalidArgument
from tenure.importers import ContractRule, Imported, load

HOUR = 3_600_000_000


def row(
    job: object = 1,
    submit: object = 0,
    run: object = 3600,
    allocated: object = 8,
    requested: object = 8,
    limit: object = 7200,
    status: object = 1,
    user: object = 1,
    group: object = 1,
    queue: object = 1,
    preceding: object = -1,
) -> str:
    fields = [
        job, submit, -1, run, allocated, -1, -1, requested, limit, -1, status, user, group, -1,
        queue, 1, preceding, -1,
    ]  # fmt: skip
    return " ".join(str(f) for f in fields)


def read(tmp_path: Path, *lines: str, **options: object) -> Imported:
    path = tmp_path / "log.swf"
    path.write_text("\n".join(lines) + "\n")
    return load(path, format="swf", **{"gpus": 64, **options})  # type: ignore[arg-type]


def test_plain_row(tmp_path: Path) -> None:
    got = read(tmp_path, "; Version: 2.2", "; Group: 1 vision", row(submit=0))
    job = got.world.jobs[0]
    assert job["runtime_us"] == HOUR
    assert job["limit_us"] == 2 * HOUR
    assert (job["nodes"], job["gpus_per_node"]) == (1, 8)
    assert job["minimum_us"] == HOUR // 2  # a quarter of the requested time
    assert job["checkpoint_us"] == HOUR // 3
    assert job["source_row"] == 3
    assert got.world.leaves[0].path == "vision"
    assert got.report.findings == ()


@pytest.mark.parametrize(
    ("line", "name", "detail"),
    [
        ("1 2 3", "unparsable", "3 fields, must have 18"),
        (row(submit="abc"), "unparsable", "field 2 (submit) is abc"),
        (row(run="1e400"), "unparsable", "field 4 (run) is 1e400"),
        (row(run="nan"), "unparsable", "field 4 (run) is nan"),
        (row(requested=2.5), "unparsable", "2.5 processors"),
        (row(requested=10**9), "unparsable", "1000000000.0 processors"),
        (row(submit=-1), "submit-missing", "no submission time"),
        (row(submit=-500), "absurd-submit", "submitted at -500.0 s"),
        (row(submit=1e15), "absurd-submit", "submit 1000000000000000.0 s"),
        (row(run=-1, status=0), "run-missing", "no run time, status 0.0"),
        (row(run=-1359980917), "negative-duration", "run time -1359980917.0 s"),
        (row(run=4e8), "absurd-duration", "run time 400000000.0 s"),
        (row(run=95e11), "absurd-duration", "run 9500000000000.0 s"),
        (row(allocated=-1, requested=-1), "no-gpus", "requested -1.0, allocated -1.0 processors"),
        (row(allocated=0, requested=0), "no-gpus", "requested 0.0, allocated 0.0 processors"),
    ],
)
def test_bad_row_is_counted_and_dropped(tmp_path: Path, line: str, name: str, detail: str) -> None:
    good = row(job=2, submit=10)
    got = read(tmp_path, "; Version: 2.2", line, good)
    report = got.report
    assert [(f.name, f.action, f.bad, f.count) for f in report.findings] == [
        (name, "dropped", True, 1)
    ]
    assert report.findings[0].examples == ((2, detail),)
    assert (report.rows, report.imported) == (2, 1)
    with pytest.raises(InvalidArgument, match=r"log\.swf:2: ") as error:
        read(tmp_path, "; Version: 2.2", line, good, strict=True)
    assert name in str(error.value) and detail in str(error.value)


def test_strict_names_the_first_bad_row_of_the_file(tmp_path: Path) -> None:
    lines = [row(job=1), row(job=2, run=-7), row(job=3, submit="x"), row(job=4, run=-9)]
    with pytest.raises(InvalidArgument, match=r":2: negative-duration"):
        read(tmp_path, *lines, strict=True)


@pytest.mark.parametrize("run", [0, -1])
def test_cancelled_in_the_queue_is_no_defect(tmp_path: Path, run: int) -> None:
    got = read(tmp_path, row(status=5, run=run), row(job=2), strict=True)
    assert got.report.count("never-started") == 1
    assert got.report.imported == 1


def test_cancelled_while_running_is_a_job(tmp_path: Path) -> None:
    assert read(tmp_path, row(status=5, run=60)).report.imported == 1


def test_run_time_zero_becomes_half_a_second(tmp_path: Path) -> None:
    got = read(tmp_path, row(run=0))
    assert got.world.jobs["runtime_us"].tolist() == [500_000]
    assert got.report.count("zero-duration") == 1


def test_leading_spaces_tabs_floats_crlf_and_extra_columns(tmp_path: Path) -> None:
    lines = [
        "   " + row(job=1, submit="0.25", run="10.5") + "\r",
        row(job=2, submit=1).replace(" ", "\t"),
        row(job=3, submit=2, preceding="4&5&6"),
        row(job=4, submit=3) + " {1241,1241} q_2w 1:ppn=12",
        "",
    ]
    got = read(tmp_path, *lines)
    assert got.report.imported == 4
    assert got.world.jobs["submit_us"].tolist() == [0, 750_000, 1_750_000, 2_750_000]
    assert got.world.jobs["runtime_us"][0] == 10_500_000
    assert "fields after the 18th of 1 rows are not read" in got.report.notes
    assert "blank lines: 1" in got.report.notes


def test_column_names_without_semicolon(tmp_path: Path) -> None:
    names = "\t".join(f"name{i}" for i in range(18))
    got = read(tmp_path, names, row(), strict=True)
    assert got.report.count("text-header") == 1
    assert got.report.imported == 1


@pytest.mark.parametrize(
    ("allocated", "requested", "gpus"), [(4, -1, 4), (-1, 2, 2), (4, 2, 2), (3, -1, 3)]
)
def test_missing_processor_count(tmp_path: Path, allocated: int, requested: int, gpus: int) -> None:
    job = read(tmp_path, row(allocated=allocated, requested=requested)).world.jobs[0]
    assert job["nodes"] * job["gpus_per_node"] == gpus


def test_unix_times_without_start(tmp_path: Path) -> None:
    got = read(tmp_path, row(submit=1356996147), row(job=2, submit=1356996695))
    assert got.world.jobs["submit_us"].tolist() == [0, 548_000_000]
    assert "time 0 is 2012-12-31 23:22:27 in the clock of the trace" in got.world.assumptions
    assert any("Unix seconds" in text for text in got.world.assumptions)


def test_clock_step(tmp_path: Path) -> None:
    lines = [row(job=i, submit=1356996147 + i) for i in range(5)]
    got = read(tmp_path, *lines, row(job=9, submit=5))
    assert got.report.count("clock-step") == 1
    assert got.report.imported == 5


def test_unsorted_rows_are_sorted_stably(tmp_path: Path) -> None:
    got = read(tmp_path, row(job=1, submit=50), row(job=2, submit=10), row(job=3, submit=50))
    assert got.report.count("unsorted") == 1
    assert got.world.jobs["source_row"].tolist() == [2, 1, 3]


def test_limits(tmp_path: Path) -> None:
    lines = [row(job=1, run=9000), row(job=2, limit=-1), row(job=3, limit=0)]
    got = read(tmp_path, *lines)
    assert got.report.count("run-over-limit") == 1
    assert got.world.jobs["limit_us"].tolist() == [2 * HOUR, HOUR, HOUR]
    got = read(tmp_path, *lines, rule=ContractRule(missing_limit="none"))
    assert got.world.jobs["limit_us"].tolist() == [2 * HOUR, 0, 0]


def test_larger_than_the_cluster_is_kept(tmp_path: Path) -> None:
    got = read(tmp_path, "; MaxProcs: 100", row(requested=4389), row(job=2, requested=64))
    assert got.report.count("too-large") == 1
    assert got.report.count("over-max-procs") == 1
    assert got.report.imported == 2


def test_cluster_of_the_header_or_the_largest_job(tmp_path: Path) -> None:
    assert read(tmp_path, "; MaxProcs: 100", row(), gpus=None).world.cluster.gpus == 104
    assert read(tmp_path, row(requested=20), gpus=None).world.cluster.gpus == 24


def test_shapes(tmp_path: Path) -> None:
    lines = [row(job=i, requested=g) for i, g in enumerate([1, 7, 8, 9, 12, 16])]
    got = read(tmp_path, *lines)
    shapes = got.world.jobs[["nodes", "gpus_per_node"]].tolist()
    assert shapes == [(1, 1), (1, 7), (1, 8), (2, 5), (2, 6), (2, 8)]
    assert got.report.count("uneven-gang") == 1
    got = read(tmp_path, *lines, nodes_of=1)
    assert got.world.jobs["nodes"].tolist() == [1, 7, 8, 9, 12, 16]


def test_bursts_of_a_checkpointed_job_count_once(tmp_path: Path) -> None:
    lines = [
        row(job=1, status=1, run=300),
        row(job=1, status=2, run=100),
        row(job=1, status=3, run=200),
        row(job=2, status=2, run=100),
        row(job=2, status=4, run=50),
    ]
    got = read(tmp_path, *lines, strict=True)
    assert got.report.count("burst") == 2
    assert got.report.count("burst-without-summary") == 2
    assert got.world.jobs["runtime_us"].tolist() == [300_000_000, 100_000_000, 50_000_000]


def test_duplicates(tmp_path: Path) -> None:
    got = read(tmp_path, row(), row(), row(run=60))
    assert got.report.count("duplicate") == 1
    assert got.report.count("duplicate-id") == 1
    assert got.report.imported == 2


def test_teams(tmp_path: Path) -> None:
    lines = [row(job=1, group=3, user=7), row(job=2, group=-1, user=8), row(job=3, group=1, user=7)]
    got = read(tmp_path, "; Group: 3 vc_a", *lines)
    assert [leaf.path for leaf in got.world.leaves] == ["1", "none", "vc_a"]
    assert got.world.jobs["leaf"].tolist() == [2, 1, 0]
    users = got.world.jobs["user"]
    assert users[0] == users[2] != users[1]
    by_user = read(tmp_path, *lines, leaf_by="user").world
    assert [leaf.path for leaf in by_user.leaves] == ["7", "8"]
    one = read(tmp_path, *lines, leaf_by="none").world
    assert [leaf.path for leaf in one.leaves] == ["all"]
    nobody = read(tmp_path, row(group=-1, user=-1)).world
    assert [leaf.path for leaf in nobody.leaves] == ["all"]
    assert "no group: one team, all" in nobody.assumptions
    with pytest.raises(InvalidArgument, match="leaf_by"):
        read(tmp_path, *lines, leaf_by="colour")


def test_weights_follow_gpu_time(tmp_path: Path) -> None:
    got = read(tmp_path, row(job=1, group=1, run=3000), row(job=2, group=2, run=1000))
    assert [leaf.weights for leaf in got.world.leaves] == [(0.75,), (0.25,)]


def test_window(tmp_path: Path) -> None:
    lines = [row(job=i, submit=i * 43_200) for i in range(8)]
    got = read(tmp_path, *lines, start="1d", days=2)
    assert got.report.count("outside-window") == 4
    assert got.world.jobs["submit_us"].tolist() == [i * 12 * HOUR for i in range(4)]
    assert got.world.end_us == 48 * HOUR
    with pytest.raises(InvalidArgument, match="no job in the window"):
        read(tmp_path, *lines, start="30d")
    with pytest.raises(InvalidArgument, match="days is 0"):
        read(tmp_path, *lines, days=0)


def test_gzip_by_content(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"  # no .gz in the name
    path.write_bytes(gzip.compress((row() + "\n").encode()))
    assert load(path, format="swf", gpus=8).report.imported == 1
    path.write_bytes(gzip.compress((row() + "\n").encode())[:-9])
    with pytest.raises(InvalidArgument, match="damaged gzip"):
        load(path, format="swf", gpus=8)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(b"; Note: caf\xe9\n" + row().encode() + b"\n\xff\x00\xfe 1 2\n")
    got = load(path, format="swf", gpus=8)
    assert got.report.imported == 1
    assert got.report.count("unparsable") == 1


def test_nothing_usable(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no usable row of 1"):
        read(tmp_path, "1 2 3")
    with pytest.raises(InvalidArgument, match="no usable row of 0"):
        read(tmp_path, "; Version: 2.2")


def test_random_damage_never_escapes(tmp_path: Path) -> None:
    """Whatever the bytes, the answer is a table whose rows add up, or InvalidArgument."""
    rng = np.random.default_rng(11)
    clean = "\n".join([row(job=i, submit=i) for i in range(30)]).encode()
    for _ in range(100):
        data = bytearray(clean)
        for at in rng.integers(0, len(data), size=rng.integers(1, 40)):
            data[at] = rng.integers(0, 256)
        path = tmp_path / "log.swf"
        path.write_bytes(bytes(data))
        try:
            report = load(path, format="swf", gpus=64).report
        except InvalidArgument:
            continue
        assert report.rows == report.imported + report.dropped
