#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reproduces every figure of README.md beside this file.

python benchmarks/evidence/run.py                      everything, tables written into README.md
python benchmarks/evidence/run.py published gaming     these sections only
python benchmarks/evidence/run.py --data DIR           with the Philly trace, philly_30d.swf.gz
python benchmarks/evidence/run.py --set big_gap=24h    as if this were a default of budget, hier

Needs the Python package `tenure` with its extra `plot`. Finished simulations are kept in
build/evidence and not run again; remove the folder to measure anew.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import acceptance  # noqa: E402
import pictures  # noqa: E402
import sections as sc  # noqa: E402
from experiments import Experiment, Line  # noqa: E402
from store import Row, Store, row_of  # noqa: E402

from tenure.cases import Case, Outcome, run_cases  # noqa: E402
from tenure.cli import parse_seeds  # noqa: E402

HELD_OUT = "81-86"
ALL = (*sc.SECTIONS, "philly", "acceptance")


def run(cases: Sequence[Case], store: Store, jobs: int) -> None:
    """Simulate what the store lacks."""
    missing = [case for case in cases if store.get(case) is None]
    # Neighbours share a world, which is then generated once.
    missing.sort(key=lambda case: str(sorted(case.world.items())))
    print(f"{len(cases)} simulations, {len(missing)} of them to be run", flush=True)
    if not missing:
        return
    begin = time.monotonic()
    done = 0

    def keep(i: int, outcome: Outcome) -> None:
        nonlocal done
        done += 1
        store.put(missing[i], row_of(outcome))
        if done % 20 == 0 or done == len(missing):
            spent = time.monotonic() - begin
            left = spent / done * (len(missing) - done)
            print(f"{done} of {len(missing)}, {spent:.0f} s, about {left:.0f} s left", flush=True)

    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        run_cases(missing, executor=pool, each=keep)


def with_defaults(experiment: Experiment, defaults: Mapping[str, str]) -> Experiment:
    """The same with other defaults of `budget` and `hier`."""

    def changed(case: Case) -> Case:
        if case.policy not in ("budget", "hier"):
            return case
        return dataclasses.replace(case, parameters={**defaults, **case.parameters})

    return dataclasses.replace(
        experiment,
        lines=tuple(
            dataclasses.replace(line, cases=tuple(changed(case) for case in line.cases))
            for line in experiment.lines
        ),
    )


def write_section(readme: Path, name: str, body: str) -> None:
    """Put `body` between the markers of section `name`."""
    begin, end = f"<!-- BEGIN {name} -->", f"<!-- END {name} -->"
    text = readme.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{readme} has no section {begin} ... {end}")
    new = pattern.sub(lambda _: f"{begin}\n{body.strip()}\n{end}", text)
    readme.write_text(new, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate and write the tables of README.md.")
    parser.add_argument("sections", nargs="*", help=f"by default all of: {', '.join(ALL)}")
    parser.add_argument("--seeds", default=HELD_OUT, help=f"by default {HELD_OUT}")
    parser.add_argument(
        "--policies", help="only simulate these, write no table; to do a part beforehand"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE",
        help="as if this were the default of budget and hier",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--data", type=Path, help="folder with philly_30d.swf.gz")
    parser.add_argument(
        "--build", type=Path, default=HERE.parents[1] / "build" / "evidence",
        help="where finished simulations are kept",
    )  # fmt: skip
    parser.add_argument("--readme", type=Path, default=HERE / "README.md")
    arguments = parser.parse_args()
    chosen = arguments.sections or [s for s in ALL if s != "philly" or arguments.data]
    if unknown := set(chosen) - set(ALL):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    if "philly" in chosen and arguments.data is None:
        parser.error("section philly needs --data")

    seeds = parse_seeds(arguments.seeds)
    defaults = dict(text.split("=", 1) for text in arguments.set)
    store = Store(arguments.build)

    def rows_of(_: Experiment, line: Line) -> list[Row]:
        rows = [store.get(case) for case in line.cases]
        if any(row is None for row in rows):
            raise KeyError(line.label)
        return [row for row in rows if row is not None]

    def rows_of_default(experiment: Experiment, line: Line) -> list[Row]:
        return rows_of(experiment, with_defaults(Experiment("", (line,)), defaults).lines[0])

    cases: dict[str, Case] = {}
    for name in chosen:
        if name == "acceptance":
            continue
        print(f"--- {name}", flush=True)
        experiment = sc.philly(arguments.data) if name == "philly" else sc.SECTIONS[name][0](seeds)
        experiment = with_defaults(experiment, defaults)
        own = {repr(case): case for line in experiment.lines for case in line.cases}
        if arguments.policies is not None:
            only = arguments.policies.split(",")
            run([c for c in own.values() if c.policy in only], store, arguments.jobs)
            continue
        run(list(own.values()), store, arguments.jobs)
        cases |= own

        def rows(line: Line, experiment: Experiment = experiment) -> list[Row]:
            return rows_of(experiment, line)

        show = sc.philly_table if name == "philly" else sc.SECTIONS[name][1]
        used = f"Seeds {', '.join(map(str, experiment.seeds))}.\n\n" if experiment.seeds else ""
        write_section(arguments.readme, name, used + show(experiment, rows))
        pictures.draw(name, experiment, rows, arguments.readme.parent)
    if "acceptance" in chosen and arguments.policies is None:
        write_section(arguments.readme, "acceptance", acceptance.table(seeds, rows_of_default))
    if not arguments.sections and arguments.policies is None:
        walls = [row["sim_wall_s"] for c in cases.values() if (row := store.get(c)) is not None]
        write_section(
            arguments.readme,
            "time",
            f"{len(walls):,} simulations, each once although several tables show it, took "
            f"{sum(walls) / 60:.0f} min together: half of that on two cores.",
        )


if __name__ == "__main__":
    main()
