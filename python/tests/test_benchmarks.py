# SPDX-License-Identifier: Apache-2.0
"""benchmarks/run.py and instructions.py: what they make of what was measured."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


run = load("run")
instructions = load("instructions")


def median(name: str, cpu_time: float, unit: str = "ns") -> dict[str, Any]:
    return {"run_name": name, "cpu_time": cpu_time, "time_unit": unit, "aggregate_name": "median"}


def test_medians_are_taken_from_google_benchmark() -> None:
    results = [
        median("BM_A/1", 2.0),
        {**median("BM_A/1", 3.0), "aggregate_name": "mean"},
        {"run_name": "BM_A/1", "cpu_time": 4.0, "time_unit": "ns", "run_type": "iteration"},
    ]
    content = json.dumps({"context": {}, "benchmarks": results})
    assert run.medians_of(content) == [results[0]]
    assert run.medians_of("") == []


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (0.5, "0.5 ns"),
        (999, "999 ns"),
        (1_000, "1 µs"),
        (12_345, "12.3 µs"),
        (2.5e6, "2.5 ms"),
        (1.5e9, "1.5 s"),
        (1.2345e12, "1,234 s"),
    ],
)
def test_durations_have_the_largest_unit_that_fits(nanoseconds: float, shown: str) -> None:
    assert run.duration(nanoseconds) == shown


def test_units_of_time_are_converted() -> None:
    for unit, size in (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        assert run.nanoseconds(median("BM_A", 3.0, unit)) == 3 * size


def test_growth_is_the_factor_for_ten_times_the_size() -> None:
    lines = run.growth(
        [
            median("BM_Linear/1000", 1.0, "us"),
            median("BM_Linear/100000", 100.0, "us"),
            median("BM_Flat/10/iterations:5", 7.0),
            median("BM_Flat/1000/iterations:5", 7.0),
            median("BM_Once/10", 7.0),
            median("BM_Named/big/10", 7.0),
            median("BM_Named/big/100", 7.0),
        ]
    )
    assert lines == [
        "| BM_Linear/N | 1,000: 1 µs, 100,000: 100 µs | 10.00 |",
        "| BM_Flat/N | 10: 7 ns, 1,000: 7 ns | 1.00 |",
    ]


def test_growth_varies_one_argument_at_a_time() -> None:
    medians = [
        median(f"BM_Two/{k}/{n}", float(cost))
        for k, n, cost in ((8, 10, 1), (8, 1000, 4), (80, 10, 5), (80, 1000, 20))
    ]
    assert run.growth(medians) == [
        "| BM_Two/N/10 | 8: 1 ns, 80: 5 ns | 5.00 |",
        "| BM_Two/8/N | 10: 1 ns, 1,000: 4 ns | 2.00 |",
        "| BM_Two/N/1000 | 8: 4 ns, 80: 20 ns | 5.00 |",
        "| BM_Two/80/N | 10: 5 ns, 1,000: 20 ns | 2.00 |",
    ]


def test_a_target_is_met_up_to_its_limit() -> None:
    target = run.Target("both", "x_bench", ("BM_A", "BM_B"), "ms", 5)
    for second, met in ((2.0, True), (2.5, False)):
        row = run.target_row(target, [median("BM_A", 3e6), median("BM_B", second, "ms")], 0)
        assert (row["value"], row["met"]) == (3 + second, met)
    assert row["how"] == "x_bench --benchmark_filter='^(BM_A|BM_B)$'"
    memory = run.Target("memory", "x_bench", ("BM_A",), "MB", 200)
    assert run.target_row(memory, [median("BM_A", 1)], 200_000_000)["met"] is True
    assert run.target_row(memory, [median("BM_A", 1)], 200_000_001)["met"] is False
    reported = run.Target("reported", "x_bench", ("BM_A",), "us", None)
    assert run.target_row(reported, [median("BM_A", 1)], 0)["met"] is None
    with pytest.raises(SystemExit, match="x_bench has no"):
        run.target_row(target, [median("BM_A", 1)], 0)


def test_the_table_says_what_is_missed_and_what_was_not_measured() -> None:
    row = {"name": "a", "value": 1234.0, "unit": "us", "target": 10.0, "met": False}
    absent = {"name": "b", "value": None, "unit": "jobs/s", "target": 100_000.0, "met": None}
    assert run.target_table([row, absent]).splitlines()[2:] == [
        "| a | 10 us | 1,234 us | **missed** |",
        "| b | 100,000 jobs/s | not measured |  |",
    ]


def test_every_target_names_benchmarks_that_exist() -> None:
    for target in run.TARGETS:
        source = (FOLDER / f"{target.binary}.cc").read_text("utf-8")
        for benchmark in target.benchmarks:
            name = benchmark.split("/")[0]
            assert name in source, f"{target.name}: {target.binary}.cc has no {name}"


def test_instructions_are_counted_per_event() -> None:
    report = (
        "1,234,500 (12.3%)  counted_events.cc:Counted_Gang [x]\n  700 ( 0.1%)  ???:Counted_Stops"
    )
    assert instructions.per_event("Gang 100\nStops 7\n", report) == {"Gang": 12345, "Stops": 100}
    with pytest.raises(SystemExit, match="no Counted_Gangs"):
        instructions.per_event("Gangs 1", report)


def test_only_recorded_events_can_have_grown() -> None:
    record = {"A": 1000, "B": 1000}
    assert instructions.grown_events({"A": 1050, "B": 1051, "C": 9}, record) == ["B"]
