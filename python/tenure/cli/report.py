# SPDX-License-Identifier: Apache-2.0
"""`tenure report`: one HTML page."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tenure.cases import Case, run_cases
from tenure.cli.app import command, console, executor, progress, writable
from tenure.cli.options import (
    Cluster,
    Conditions,
    Generated,
    Jobs,
    Source,
    TraceReading,
    one_world,
    parse_policies,
)
from tenure.errors import InvalidArgument
from tenure.gaming import game
from tenure.report import report_page


@command()
def report(
    output: Annotated[Path, typer.Option("-o", "--output", help="FILE.html.")],
    source: Source,
    generated: Generated,
    cluster: Cluster,
    conditions: Conditions,
    reading: TraceReading,
    policies: Annotated[
        str, typer.Option(help="What the page is about, and what it is compared with.")
    ] = "budget,ai2,fairtree,priority",
    seed: Annotated[int | None, typer.Option(help="Seed of the generated workload.")] = None,
    title: Annotated[str, typer.Option(help="Heading.")] = "What the scheduler does",
    hosts: Annotated[int, typer.Option(help="Nodes of the GPU timeline.")] = 16,
    from_day: Annotated[
        float | None, typer.Option(help="Day on which it begins. Default: after a week.")
    ] = None,
    show_days: Annotated[float, typer.Option(help="Days that it shows.")] = 3.0,
    jobs: Jobs = 0,
) -> None:
    """Write a page: verdict, use against budget, waits and reasons, promises, GPU timeline."""
    writable(output)
    names = parse_policies(policies)
    parameters = conditions.parameters(names)
    if not names:
        raise InvalidArgument("no policy to report on")
    world = one_world(source, generated, cluster, reading, seed)
    chosen = dict(conditions.options())
    faults, played = chosen.pop("faults"), chosen.pop("game")
    if played is not None:
        world, _ = game(world, *played)
    simulation: dict[str, Any] = chosen
    cases = [
        Case(
            policy=name,
            parameters=parameters.get(name, {}),
            scenario="",
            simulation={**simulation, "record": name == names[0]},
            faults=faults,
        )
        for name in names
    ]
    with ExitStack() as stack:
        pool = stack.enter_context(executor(jobs, len(cases)))
        tick = stack.enter_context(progress(f"{len(cases)} simulations"))
        done = run_cases(cases, worlds=[world] * len(cases), executor=pool, progress=tick)
    results = {name: outcome.result for name, outcome in zip(names, done, strict=True)}
    page = report_page(world, results, title=title, nodes=hosts, first_day=from_day, days=show_days)
    output.write_text(page, encoding="utf-8")
    console().print(f"{len(page) / 1e6:.1f} MB -> {escape(str(output))}")
