#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count instructions per event with callgrind and compare with the recorded ones.

    python3 benchmarks/instructions.py build/release             # exit 1 if one has grown by > 5 %
    python3 benchmarks/instructions.py build/release --update    # record these

Needs valgrind. The counts do not depend on what else the machine does; they do depend on compiler
and libraries, so they are recorded with the compiler and compared only with that of the same.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

RECORD = Path(__file__).resolve().parent / "instructions.json"
TOLERANCE = 0.05


def compiler(build: Path) -> str:
    cache = (build / "CMakeCache.txt").read_text("utf-8")
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE)
    if found is None:
        sys.exit(f"error: no compiler in {build}/CMakeCache.txt")
    done = subprocess.run([found[1], "--version"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[0]


def count(build: Path) -> dict[str, int]:
    """Instructions per event, by kind of event."""
    binary = build / "benchmarks/counted_events"
    if not binary.exists():
        sys.exit(f"error: {binary} is missing: bash benchmarks/run.sh builds it")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        done = subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                "--toggle-collect=Counted_*",
                f"--callgrind-out-file={out}",
                str(binary),
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            sys.exit(f"error: {binary} failed under valgrind:\n{done.stderr}")
        report = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    return per_event(done.stdout, report)


def per_event(times: str, report: str) -> dict[str, int]:
    """Instructions per event from the program's lines `NAME TIMES` and callgrind's report."""
    counts = {}
    for line in times.splitlines():
        name, events = line.split()
        found = re.search(rf"^\s*([\d,]+)[^\n]*\bCounted_{name}\b", report, re.MULTILINE)
        if found is None:
            sys.exit(f"error: callgrind reports no Counted_{name}")
        counts[name] = round(int(found[1].replace(",", "")) / int(events))
    return counts


def grown_events(now: dict[str, int], before: dict[str, int]) -> list[str]:
    """Events that are recorded and cost more than the tolerance above the record."""
    return [e for e, n in now.items() if e in before and n > before[e] * (1 + TOLERANCE)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path, help="folder of a release build")
    parser.add_argument("--update", action="store_true", help="record instead of comparing")
    options = parser.parse_args()
    name = compiler(options.build)
    now = count(options.build)
    if options.update:
        record = {"compiler": name, "instructions": now}
        RECORD.write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    record = json.loads(RECORD.read_text("utf-8"))
    before: dict[str, int] = record["instructions"]
    comparable = record["compiler"] == name
    grown = grown_events(now, before)
    print(f"{'event':16} {'recorded':>12} {'now':>12}")
    for event, instructions in now.items():
        recorded = before.get(event)
        print(f"{event:16} {'-' if recorded is None else f'{recorded:,}':>12} {instructions:>12,}")
    if not comparable:
        print(f"recorded with {record['compiler']}, this is {name}: nothing to compare")
    elif grown:
        sys.exit(f"error: more than {TOLERANCE:.0%} above the record: {', '.join(grown)}")


if __name__ == "__main__":
    main()
