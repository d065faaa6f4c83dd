#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the benchmarks of a build folder (bash benchmarks/run.sh builds it first).

    python3 benchmarks/run.py build/release               # all: table and growth, some minutes
    python3 benchmarks/run.py build/release Decide        # those whose name matches
    python3 benchmarks/run.py build/release --json FILE   # the targets
    python3 benchmarks/run.py build/release --json FILE --trace philly.swf.gz

Times are medians of three repetitions, CPU time. Peak memory is that of a whole process: in the
table of the largest benchmark that ran in it, in the targets of the one benchmark alone. The trace
(Standard Workload Format) is simulated on 256 GPUs through the Python package in build/venv.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Fields of a result that are not counters of the benchmark.
STANDARD = {
    "aggregate_name", "aggregate_unit", "cpu_time", "family_index", "iterations", "name",
    "per_family_instance_index", "real_time", "repetition_index", "repetitions", "run_name",
    "run_type", "threads", "time_unit",
}  # fmt: skip
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Target:
    """What a benchmark, or several together, may take at most."""

    name: str
    binary: str
    benchmarks: tuple[str, ...]
    unit: str  # of time, or MB for peak memory
    limit: float | None  # None: reported only


TARGETS = (
    Target("institute, 37 days, load 1.7", "simulation_bench",
           ("BM_Simulation_Run/budget/load_percent:170/iterations:1",), "s", 1),
    Target("institute, memory", "simulation_bench",
           ("BM_Simulation_Run/budget/load_percent:170/iterations:1",), "MB", 200),
    Target("pass, 320,000 queued on 1,000 full nodes", "scheduler_bench",
           ("BM_Scheduler_DecideBlocked/1000/320000",), "ms", 20),
    Target("pass, 320,000 queued onto 1,000 empty nodes", "scheduler_bench",
           ("BM_Scheduler_DecideStarting/1000/320000",), "ms", 20),
    Target("320,000 queued, memory", "scheduler_bench",
           ("BM_Scheduler_DecideBlocked/1000/320000",), "MB", 200),
    Target("pass, 4,000 running + 4,000 pending on 500 nodes, nothing can start",
           "scheduler_bench", ("BM_Scheduler_DecideBlocked/500/4000",), "ms", 5),
    Target("the same, runs are stopped for others", "scheduler_bench",
           ("BM_Scheduler_DecidePreempting/500/4000",), "ms", 5),
    Target("can never fit, at 100,000 nodes", "placement_bench",
           ("BM_Placement_NeverFits/100000",), "us", 10),
    Target("submission that can never fit, 100,000 nodes and 1,000,000 queued",
           "scheduler_bench", ("BM_Scheduler_SubmitNeverFits/100000/1000000",), "us", 10),
    Target("submit and cancel, 100,000 nodes and 1,000,000 queued", "scheduler_bench",
           ("BM_Scheduler_SubmitCancel/100000/1000000",), "us", 10),
    Target("a run ends, same size", "scheduler_bench",
           ("BM_Scheduler_ReportEnded/100000/1000000/iterations:50000",), "us", 10),
    Target("pass in which nothing can start, same size", "scheduler_bench",
           ("BM_Scheduler_DecideBlocked/100000/1000000",), "us", None),
    Target("pass in which nothing can start, 1,000,000 leaf allocations of which 15 wait",
           "scheduler_bench", ("BM_Scheduler_DecideLeaves/1000000",), "us", None),
    Target("part of a node, 10,000 nodes", "placement_bench",
           ("BM_Placement_PartNode/10000",), "ns", 50),
    Target("part of a node, 100,000 nodes", "placement_bench",
           ("BM_Placement_PartNode/100000",), "ns", 50),
    Target("gang of 8 nodes, 10,000 nodes", "placement_bench",
           ("BM_Placement_Gang/8/10000",), "us", 0.5),
    Target("gang of 128 nodes, 10,000 nodes", "placement_bench",
           ("BM_Placement_Gang/128/10000",), "us", 0.5),
    Target("victims for half a node, 10,000 nodes", "placement_bench",
           ("BM_VictimSearch_PartNode/10000",), "us", 20),
    Target("victims for a gang of 64 half nodes, 10,000 nodes", "placement_bench",
           ("BM_VictimSearch_Gang/64/10000",), "us", None),
    Target("refresh of 1,000,000 leaves", "ranking_bench",
           ("BM_Ranking_Refresh/1000000",), "s", 1),
    Target("the same of 1,000,000 leaves of which 100 run something", "ranking_bench",
           ("BM_Ranking_RefreshFew/1000000",), "us", None),
    Target("1,000,000 leaves, memory", "ranking_bench",
           ("BM_Ranking_Refresh/1000000",), "MB", 1074),
    Target("snapshot and restore of 100,000 workloads", "scheduler_bench",
           ("BM_Scheduler_Snapshot/100000", "BM_Scheduler_Restore/100000"), "ms", 500),
)  # fmt: skip
JOBS_PER_SECOND = 100_000.0

# Prints the jobs a second of CPU time of one simulation.
TRACE_PROGRAM = """
import sys, time, tenure
world = tenure.importers.load(sys.argv[1], gpus=256).world
begin = time.process_time()
tenure.simulate(world, "budget")
print(len(world.jobs) / (time.process_time() - begin))
"""


def text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def duration(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{text(nanoseconds / size)} {unit}"
    return f"{text(nanoseconds)} ns"


def nanoseconds(result: dict[str, Any]) -> float:
    return float(result["cpu_time"]) * NANOSECONDS[result["time_unit"]]


def medians_of(content: str) -> list[dict[str, Any]]:
    """The medians in what Google Benchmark wrote; it writes nothing if no name matches."""
    results = json.loads(content)["benchmarks"] if content else []
    return [r for r in results if r.get("aggregate_name") == "median"]


def run(binary: Path, pattern: str) -> tuple[list[dict[str, Any]], int]:
    """Run one executable: the medians, and its peak memory in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        process = subprocess.Popen(
            [
                str(binary),
                f"--benchmark_filter={pattern}",
                "--benchmark_min_time=0.05",
                "--benchmark_repetitions=3",
                "--benchmark_report_aggregates_only=true",
                f"--benchmark_out={out}",
                "--benchmark_out_format=json",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        # The pipe is emptied before the status is asked for, so that the child cannot block.
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"error: {binary} failed:\n{errors}")
        content = out.read_text("utf-8") if out.exists() else ""
    return medians_of(content), usage.ru_maxrss * 1024


def growth(medians: list[dict[str, Any]]) -> list[str]:
    """Lines of a table: by what factor the cost grows when one argument grows tenfold."""
    families: dict[tuple[str, int, tuple[str, ...]], list[tuple[int, float]]] = defaultdict(list)
    for result in medians:
        name, *arguments = str(result["run_name"]).split("/")
        arguments = [a for a in arguments if not a.startswith("iterations:")]
        if not all(a.isdigit() for a in arguments):
            continue
        for i, argument in enumerate(arguments):
            others = tuple(a if j != i else "N" for j, a in enumerate(arguments))
            families[name, i, others].append((int(argument), nanoseconds(result)))
    lines = []
    for (name, _, others), points in families.items():
        if len(points) < 2:
            continue
        points.sort()
        (small, first), (large, last) = points[0], points[-1]
        factor = (last / first) ** (1 / math.log10(large / small))
        costs = ", ".join(f"{size:,}: {duration(cost)}" for size, cost in points)
        lines.append(f"| {'/'.join((name, *others))} | {costs} | {factor:.2f} |")
    return lines


def table(build: Path, pattern: str) -> None:
    binaries = sorted((build / "benchmarks").glob("*_bench"))
    if not binaries:
        sys.exit(f"error: no benchmarks in {build}")
    grown: list[str] = []
    print("| benchmark | CPU time | counters |\n|---|---:|---|")
    for binary in binaries:
        medians, peak = run(binary, pattern)
        for result in medians:
            counters = ", ".join(
                f"{name} {text(value)}" for name, value in result.items() if name not in STANDARD
            )
            print(f"| {result['run_name']} | {duration(nanoseconds(result))} | {counters} |")
        if medians:
            print(f"| *{binary.name}, peak memory* | | {peak // 2**20} MiB |", flush=True)
        grown += growth(medians)
    print("\n| benchmark, N varied | cost by N | factor for 10 N |\n|---|---|---:|")
    print("\n".join(grown))


def trace_row(trace: str | None) -> dict[str, Any]:
    python = ROOT / "build/venv/bin/python"
    value: float | None = None
    how = "python3 benchmarks/run.py build/release --json FILE --trace TRACE"
    if trace is not None:
        if not python.exists():
            sys.exit(f"error: {python} is missing: `. tests/setup.sh && setup_python` makes it")
        done = subprocess.run(
            [str(python), "-c", TRACE_PROGRAM, trace],
            stdout=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"error: the simulation of {trace} failed")
        value = float(done.stdout)
    return {
        "name": "trace on 256 GPUs",
        "value": value,
        "unit": "jobs/s",
        "target": JOBS_PER_SECOND,
        "met": None if value is None else value >= JOBS_PER_SECOND,
        "how": how,
    }


def pattern_of(target: Target) -> str:
    return "^(" + "|".join(target.benchmarks) + ")$"


def target_row(target: Target, medians: list[dict[str, Any]], peak: int) -> dict[str, Any]:
    """What was measured for a target; `peak` in bytes. Several benchmarks add up."""
    if len(medians) != len(target.benchmarks):
        sys.exit(f"error: {target.binary} has no {pattern_of(target)}")
    value = (
        peak / 1e6
        if target.unit == "MB"
        else sum(map(nanoseconds, medians)) / NANOSECONDS[target.unit]
    )
    return {
        "name": target.name,
        "value": value,
        "unit": target.unit,
        "target": target.limit,
        "met": None if target.limit is None else value <= target.limit,
        "how": f"{target.binary} --benchmark_filter='{pattern_of(target)}'",
    }


def targets(build: Path, trace: str | None) -> list[dict[str, Any]]:
    rows = []
    for target in TARGETS:
        medians, peak = run(build / "benchmarks" / target.binary, pattern_of(target))
        rows.append(target_row(target, medians, peak))
    rows.append(trace_row(trace))
    return rows


def target_table(rows: list[dict[str, Any]]) -> str:
    lines = ["| what | target | measured | |\n|---|---:|---:|---|"]
    for row in rows:
        met = {True: "met", False: "**missed**", None: ""}[row["met"]]
        measured = "not measured" if row["value"] is None else f"{text(row['value'])} {row['unit']}"
        target = "" if row["target"] is None else f"{text(row['target'])} {row['unit']}"
        lines.append(f"| {row['name']} | {target} | {measured} | {met} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path, help="folder of a release build")
    parser.add_argument("pattern", nargs="?", default=".", help="regular expression of names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="measure the targets")
    parser.add_argument("--trace", metavar="SWF", help="with --json: also simulate this trace")
    options = parser.parse_args()
    if options.json is None:
        table(options.build, options.pattern)
        return
    rows = targets(options.build, options.trace)
    options.json.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
    print(target_table(rows))


if __name__ == "__main__":
    main()
