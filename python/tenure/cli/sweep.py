# SPDX-License-Identifier: Apache-2.0
"""`tenure sweep`: a grid of simulations."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from tenure._figures import format_figure
from tenure._time import parse_us
from tenure.cli.app import command, console, executor, progress, writable
from tenure.cli.options import Cluster, Generated, Jobs, parse_seeds
from tenure.comparison import mean
from tenure.errors import InvalidArgument
from tenure.grid import sweep as run_sweep
from tenure.grid import write_rows
from tenure.simulation import policies

# Shown on the terminal; the file has every figure.
_SHOWN = (
    ("owed_cum", "owed", "%"), ("owed_cum_worst", "worst leaf", "%"), ("goodput", "goodput", "%"),
    ("waste", "waste", "%"), ("gangs_done_share", "gangs finished", "%"),
    ("wait_s.all.p90", "wait p90", "s"), ("preemptions_per_job", "preemptions per job", "x"),
)  # fmt: skip


def parse_grid(texts: list[str]) -> dict[str, list[Any]]:
    """Read "KEY=V1,V2,..." texts: numbers, durations such as 30m, and words.

    Values of policy parameters stay as they are.

    >>> parse_grid(["load=1.3,1.7", "budget.quantum=30m", "faults.mean_uptime=60d"])
    {'load': [1.3, 1.7], 'budget.quantum': ['30m'], 'faults.mean_uptime': [5184000000000]}
    """
    known = policies()
    out: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise InvalidArgument(f"--grid {text!r} must be KEY=VALUE,VALUE,...")
        if key in out:
            raise InvalidArgument(f"--grid: {key!r} is given twice")
        keep = key == "policy" or key.partition(".")[0] in known
        out[key] = [v.strip() if keep else _value(v.strip()) for v in values.split(",")]
    return out


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float, parse_us):
        try:
            return read(text)
        except (ValueError, InvalidArgument):
            continue
    return text


@command()
def sweep(
    grid: Annotated[
        list[str],
        typer.Option(
            help="KEY=VALUE,VALUE,...: policy, POLICY.KEY, an option of generate (load, gpus, "
            "leaves, ...) or of simulate (notice_permille, ...), faults.KEY; may be repeated."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="FILE.csv, .parquet or .json.")],
    generated: Generated,
    cluster: Cluster,
    days: Annotated[int, typer.Option(help="Measured days.")] = 30,
    seeds: Annotated[str, typer.Option(help="Such as 1-5 or 1,4,9.")] = "1-3",
    jobs: Jobs = 0,
) -> None:
    """Simulate every combination of values on every seed; a row of figures each."""
    if output.suffix not in (".csv", ".parquet", ".json"):
        raise InvalidArgument(f"{output}: must end in .csv, .parquet or .json")
    writable(output)
    values = parse_grid(grid)
    options = {"days": days, **generated.options(), **cluster.options()}
    for key in values:
        options.pop(key, None)
    chosen = parse_seeds(seeds)
    with ExitStack() as stack:
        pool = stack.enter_context(executor(jobs, len(chosen) * 2))
        report = stack.enter_context(progress("sweep"))
        rows = run_sweep(values, chosen, executor=pool, progress=report, **options)
    write_rows(rows, output)
    keys = [key for key in values if any(row.get(key) is not None for row in rows)]
    table = Table(box=box.SIMPLE)
    for key in keys:
        table.add_column(escape(key))
    for _, label, _ in _SHOWN:
        table.add_column(label, justify="right")
    points: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        points.setdefault(repr([row.get(key) for key in keys]), []).append(row)
    for own in points.values():
        table.add_row(
            *(escape(str(own[0].get(key, ""))) for key in keys),
            *(format_figure(mean(row[name] for row in own), how) for name, _, how in _SHOWN),
        )
    console().print(table)
    console().print(f"{len(rows)} rows, means over {len(chosen)} seeds -> {escape(str(output))}")
