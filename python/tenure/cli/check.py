# SPDX-License-Identifier: Apache-2.0
"""`tenure check`: an acceptance file."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from tenure.acceptance import Verdict, read_acceptance
from tenure.cli.app import command, console, executor, progress
from tenure.cli.options import Jobs


def _bound(verdict: Verdict) -> str:
    parts = [
        f"{sign} {bound:g}"
        for sign, bound in ((">=", verdict.minimum), ("<=", verdict.maximum))
        if bound is not None
    ]
    of = f" x {verdict.against}" if verdict.against else ""
    return " and ".join(parts) + of + (", every seed" if verdict.every else "")


@command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Acceptance file (YAML).")],
    jobs: Jobs = 0,
) -> None:
    """Simulate what an acceptance file asks for; exit code 1 if a bound is not kept."""
    acceptance = read_acceptance(file)
    with ExitStack() as stack:
        pool = stack.enter_context(executor(jobs, 1_000))
        report = stack.enter_context(progress("check"))
        verdicts = acceptance.check(executor=pool, progress=report)
    table = Table(box=box.SIMPLE)
    for column in ("figure", "bound", "measured", ""):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for verdict in verdicts:
        measured = "nothing" if verdict.value is None else f"{verdict.value:.6g}"
        mark = "kept" if verdict.kept else "[bold red]NOT KEPT[/]"
        table.add_row(escape(verdict.figure), escape(_bound(verdict)), measured, mark)
    out = console()
    out.print(table)
    broken = sum(not verdict.kept for verdict in verdicts)
    out.print(f"{len(verdicts) - broken} bounds kept, {broken} not")
    if broken:
        raise typer.Exit(1)
