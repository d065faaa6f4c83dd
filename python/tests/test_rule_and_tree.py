# SPDX-License-Identifier: Apache-2.0
"""Contracts and budgets for traces that have none."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from tenure import WORKLOAD_CLASSES, InvalidArgument
from tenure.importers import ContractRule, load, read_tree

MINUTE = 60_000_000


def read(tmp_path: Path, rows: list[tuple[int, int, int, str]], **options: object):  # type: ignore[no-untyped-def]
    """Rows: run and requested seconds, GPUs, group."""
    path = tmp_path / "log.swf"
    path.write_text(
        "".join(
            f"{i} {i} -1 {run} {gpus} -1 -1 {gpus} {limit} -1 1 -1 {group} -1 2 1 -1 -1\n"
            for i, (run, limit, gpus, group) in enumerate(rows)
        )
    )
    return load(path, **{"gpus": 64, **options}).world  # type: ignore[arg-type]


def kinds(world) -> list[str]:  # type: ignore[no-untyped-def]
    return [WORKLOAD_CLASSES[k] for k in world.jobs["workload_class"]]


def test_default_rule(tmp_path: Path) -> None:
    hour = 3600
    world = read(
        tmp_path,
        [(60, 900, 8, "a"), (60, 901, 8, "a"), (60, 900, 9, "a"), (9, 2 * hour, 1, "a"),
         (9, 100 * hour, 1, "a")],
    )  # fmt: skip
    assert kinds(world) == ["debug", "training", "training", "training", "training"]
    minutes = [us // MINUTE for us in world.jobs["minimum_us"].tolist()]
    assert minutes == [15, 15, 15, 30, 480]
    assert [us // MINUTE for us in world.jobs["checkpoint_us"].tolist()] == [0, 10, 10, 20, 60]
    assert [us // MINUTE for us in world.jobs["restart_us"].tolist()] == [0, 5, 5, 5, 5]
    assert (world.jobs["flags"] & 1).tolist() == [0, 1, 1, 1, 1]
    assert world.jobs["patience_us"].tolist() == [0] * 5


def test_every_parameter_has_an_effect(tmp_path: Path) -> None:
    rows = [(1200, 7200, 4, "a"), (1200, 7200, 4, "b")]
    base = read(tmp_path, rows)
    changed = {
        "base": "true",
        "minimum_fraction": "1/2",
        "minimum_low": "1h",
        "minimum_high": "20m",
        "debug_gpus": "3",
        "debug_time": "3h",
        "debug_minimum": "10m",
        "resumable": "false",
        "checkpoint_max": "7m",
        "checkpoint_fraction": "1/3",
        "restart": "9m",
        "checkpoint_on_notice": "true",
        "unfunded_teams": "b",
        "interactive_queues": "2",
        "missing_limit": "none",
        "patience": "3h",
    }
    assert set(changed) == set(ContractRule.__dataclass_fields__)
    for key, value in changed.items():
        options = [f"{key}={value}"]
        if key in ("debug_minimum", "debug_gpus"):
            options.append("debug_time=3h")
            base_here = read(tmp_path, rows, rule=ContractRule(debug_time=timedelta(hours=3)))
        elif key == "missing_limit":
            here = [(1200, -1, 4, "a")]
            assert read(tmp_path, here).jobs["limit_us"][0] == 1200_000_000
            world = read(tmp_path, here, rule=ContractRule.from_options(options))
            assert world.jobs["limit_us"][0] == 0
            continue
        else:
            base_here = base
        world = read(tmp_path, rows, rule=ContractRule.from_options(options))
        assert world.jobs.tobytes() != base_here.jobs.tobytes(), key
        assert world.assumptions != base_here.assumptions or key == "base", key


def test_unfunded_and_interactive(tmp_path: Path) -> None:
    rule = ContractRule(unfunded_teams=("b",), interactive_queues=("2",))
    world = read(tmp_path, [(1200, 7200, 4, "a"), (1200, 7200, 4, "b")], rule=rule)
    assert kinds(world) == ["interactive", "sweep"]
    assert world.jobs["minimum_us"].tolist() == [30 * MINUTE, 0]
    assert world.jobs["checkpoint_us"].tolist() == [20 * MINUTE, 60 * MINUTE]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("colour=red", "must be KEY=VALUE"),
        ("restart", "must be KEY=VALUE"),
        ("restart=soon", "rule restart is 'soon'"),
        ("restart=-5m", "rule restart"),
        ("minimum_fraction=1/0", "must be a number"),
        ("minimum_fraction=2", r"must be in \(0, 1\]"),
        ("debug_gpus=many", "must be a number"),
        ("resumable=perhaps", "must be true or false"),
        ("base=guess", "must be requested or true"),
        ("missing_limit=x", "must be runtime or none"),
        ("minimum_low=9h", "exceeds minimum_high"),
        ("minimum_low=0", "must be positive"),
    ],
)
def test_bad_rule(option: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ContractRule.from_options([option])


def test_rule_takes_timedelta_and_fraction_but_no_float_time() -> None:
    rule = ContractRule(restart=timedelta(minutes=2), minimum_fraction=Fraction(1, 3))
    assert rule.restart == 2 * MINUTE
    with pytest.raises(InvalidArgument, match=r"restart is 1\.5"):
        ContractRule(restart=1.5)  # type: ignore[arg-type]


TREE = """\
# budgets of the institute
allocations:
  - name: vision
    weight: 35
    children:
      - name: robots
        weight: 8
        groups: [a, 7]
      - name: video
        weight: 27
  - name: language
    weight: 65
unmatched: language
"""


def test_tree(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text(TREE)
    tree = read_tree(path)
    assert [(leaf.path, leaf.weights) for leaf in tree.leaves] == [
        ("vision/robots", (35.0, 8.0)),
        ("vision/video", (35.0, 27.0)),
        ("language", (65.0,)),
    ]
    rows = [(60, 900, 8, "a"), (60, 900, 8, "7"), (60, 900, 8, "zz"), (60, 900, 8, "video")]
    world = read(tmp_path, rows, tree=path)
    assert world.jobs["leaf"].tolist() == [0, 0, 2, 1]
    assert "groups zz belong to language" in world.assumptions
    path.write_text(TREE.replace("unmatched: language\n", ""))
    with pytest.raises(InvalidArgument, match="no leaf for group 'zz'"):
        read(tmp_path, rows, tree=path)


@pytest.mark.parametrize(
    ("before", "after", "line", "message"),
    [
        ("weight: 27", "weight: heavy", 10, r"allocations\[0\]\.children\[1\]\.weight"),
        ("weight: 27", "weight: -1", 10, "greater than or equal to 0"),
        ("weight: 27", "weight: .nan", 10, "weight"),
        ("weight: 27", "wieght: 27", 9, r"children\[1\]\.weight: field required"),
        ("groups: [a, 7]", "group: [a, 7]", 8, "extra inputs are not permitted"),
        ("name: video", "name: a/b", 9, "pattern"),
        ("name: video", "name: robots", 9, "'robots' is there twice"),
        ("name: video", "name: a", 9, "group 'a' belongs to 'vision/robots' already"),
        ("weight: 65", "weight: 65\n    weight: 66", 13, "key is there twice"),
        ("unmatched: language", "unmatched: vision", 13, "no leaf 'vision'"),
        ("allocations:", "allocations: [", 3, "not YAML"),
        ("    children:", "    groups: [q]\n    children:", 5, "only a leaf has groups"),
    ],
)
def test_bad_tree_names_line_and_key(
    tmp_path: Path, before: str, after: str, line: int, message: str
) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text(TREE.replace(before, after))
    with pytest.raises(InvalidArgument, match=message) as error:
        read_tree(path)
    assert f"tree.yaml:{line}: " in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "7", "allocations: []", "allocations:\n  - 3"])
def test_tree_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=r"tree\.yaml:"):
        read_tree(path)
