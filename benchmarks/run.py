#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the benchmarks of a build folder and print a table: median CPU time, peak memory.

    cmake --preset release && cmake --build --preset release
    python3 benchmarks/run.py build/release            # all, three repetitions, some minutes
    python3 benchmarks/run.py build/release Decide     # those whose name matches

Peak memory is that of the whole process, so of the largest benchmark that ran in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# Fields of a result that are not counters of the benchmark.
STANDARD = {
    "aggregate_name", "aggregate_unit", "cpu_time", "family_index", "iterations", "name",
    "per_family_instance_index", "real_time", "repetition_index", "repetitions", "run_name",
    "run_type", "threads", "time_unit",
}  # fmt: skip


def text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def duration(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{text(nanoseconds / size)} {unit}"
    return f"{text(nanoseconds)} ns"


def run(binary: Path, pattern: str, out: Path) -> int:
    """Run one executable; its peak memory in MiB."""
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
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"error: {binary} failed")
    return usage.ru_maxrss // 1024


def main() -> None:
    if not 2 <= len(sys.argv) <= 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    binaries = sorted((Path(sys.argv[1]) / "benchmarks").glob("*_bench"))
    if not binaries:
        sys.exit(f"error: no benchmarks in {sys.argv[1]}")
    pattern = sys.argv[2] if len(sys.argv) == 3 else "."
    print("| benchmark | CPU time | counters |\n|---|---:|---|")
    for binary in binaries:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            peak = run(binary, pattern, out)
            content = out.read_text("utf-8") if out.exists() else ""
        if not content:
            continue  # nothing matched
        unit = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
        for result in json.loads(content)["benchmarks"]:
            if result.get("aggregate_name") != "median":
                continue
            counters = ", ".join(
                f"{name} {text(value)}" for name, value in result.items() if name not in STANDARD
            )
            time = duration(result["cpu_time"] * unit[result["time_unit"]])
            print(f"| {result['run_name']} | {time} | {counters} |")
        print(f"| *{binary.name}, peak memory* | | {peak} MiB |", flush=True)


if __name__ == "__main__":
    main()
