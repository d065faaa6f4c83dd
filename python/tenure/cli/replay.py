# SPDX-License-Identifier: Apache-2.0
"""`tenure replay` and `tenure policies`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from tenure.cli.app import command, console
from tenure.scenario import replay as run_scenario
from tenure.simulation import policies as known_policies


@command()
def replay(
    scenario: Annotated[Path, typer.Argument(metavar="FILE", help="Scenario file (YAML).")],
    policy: Annotated[str, typer.Option(metavar="NAME", help="ai2, budget or hier.")] = "budget",
) -> None:
    """Run a scenario file and say what differs from its expectations."""
    out = console()
    report = run_scenario(scenario, policy=policy)
    out.print(escape(report.title), style="bold")
    for case in report.cases:
        if case.skipped:
            verdict = f"skipped: {case.skip_reason}"
        else:
            verdict = f"{case.checks} checks, {len(case.failures)} failed"
        out.print(f"\n{escape(case.name)} under {policy}: {escape(verdict)}")
        for line in case.log:
            out.print(f"  {escape(line)}")
        for line in case.failures:
            out.print(f"  [bold red]{escape(line)}[/]")
    if not report.passed:
        raise typer.Exit(1)


@command()
def policies() -> None:
    """List the policies and their parameters (for --set)."""
    table = Table(box=box.SIMPLE)
    for column in ("policy", "parameter", "default", "unit", "meaning"):
        table.add_column(column)
    for name, parameters in known_policies().items():
        table.add_row(name)
        for p in parameters:
            table.add_row("", escape(p.name), escape(p.default), escape(p.unit), escape(p.help))
    console().print(table)
