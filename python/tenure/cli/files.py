# SPDX-License-Identifier: Apache-2.0
"""`tenure generate` and `tenure import`: workload files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tenure._time import format_us
from tenure._version import __version__
from tenure.cli.app import command, console, writable
from tenure.cli.options import Cluster, Generated, TraceReading
from tenure.cli.tables import print_assumptions
from tenure.importers import Imported, write_workload
from tenure.world import SCENARIOS
from tenure.world import generate as generate_world

Output = Annotated[Path, typer.Option("-o", "--output", help="FILE.csv, .csv.gz or .parquet.")]


@command()
def generate(
    scenario: Annotated[str, typer.Argument(help=f"One of: {', '.join(SCENARIOS)}.")],
    output: Output,
    generated: Generated,
    cluster: Cluster,
    seed: Annotated[int, typer.Option(help="Seed.")] = 1,
    days: Annotated[int, typer.Option(help="Measured days.")] = 30,
) -> None:
    """Write a generated workload to a file."""
    writable(output)
    world = generate_world(
        scenario, seed=seed, days=days, **generated.options(), **cluster.options()
    )
    write_workload(world, output)
    console().print(
        f"{len(world.jobs):,} jobs, {len(world.leaves)} leaves, {world.cluster.gpus:,} GPUs, "
        f"{format_us(world.end_us)} -> {escape(str(output))}"
    )


@command("import")
def import_(
    trace: Annotated[Path, typer.Argument(help="SWF, Philly CSV/JSON or workload file.")],
    output: Output,
    cluster: Cluster,
    reading: TraceReading,
    days: Annotated[int | None, typer.Option(help="Days to take. Default: all.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report here.")] = None,
) -> None:
    """Turn a trace into a workload file and account for every row."""
    writable(output)
    writable(json_file)
    imported = reading.load(trace, cluster, days)
    write_workload(imported.world, output)
    out, world = console(), imported.world
    out.print(escape("\n".join(imported.report.lines())), soft_wrap=True)
    print_assumptions(world.assumptions)
    out.print(f"{len(world.jobs):,} jobs, {len(world.leaves)} teams -> {escape(str(output))}")
    if json_file is not None:
        text = json.dumps(_to_dict(imported), indent=2, allow_nan=False)
        json_file.write_text(text + "\n", encoding="utf-8")


def _to_dict(imported: Imported) -> dict[str, object]:
    report = imported.report
    return {
        "tenure_version": __version__,
        "path": report.path,
        "format": report.format,
        "rows": report.rows,
        "imported": report.imported,
        "findings": [
            {
                "class": f.name,
                "action": f.action,
                "bad": f.bad,
                "count": f.count,
                "examples": [{"line": line, "detail": text} for line, text in f.examples],
            }
            for f in report.findings
        ],
        "notes": list(report.notes),
        "assumptions": list(imported.world.assumptions),
    }
