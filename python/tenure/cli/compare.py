# SPDX-License-Identifier: Apache-2.0
"""`tenure compare` and `tenure simulate`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from tenure.cli.app import command, executor, progress, writable
from tenure.cli.options import (
    Cluster,
    Conditions,
    Generated,
    Jobs,
    JsonFile,
    PlotFile,
    Seeds,
    Source,
    TraceReading,
    generate_options,
    one_world,
    parse_policies,
    parse_seeds,
)
from tenure.cli.tables import print_comparison, print_leaves
from tenure.comparison import Comparison
from tenure.comparison import compare as run_comparison
from tenure.errors import InvalidArgument
from tenure.world import World


def run(
    source: Source,
    generated: Generated,
    cluster: Cluster,
    reading: TraceReading,
    conditions: Conditions,
    policies: list[str],
    seeds: str | None,
    jobs: int,
) -> Comparison:
    """Compare `policies` on what the options describe."""
    parameters = conditions.parameters(policies)
    scenario = source.chosen()
    worlds: World | str = scenario
    options: dict[str, Any] = {}
    tasks = len(policies)
    if source.trace is not None:
        if seeds is not None:
            raise InvalidArgument("--seeds is for generated scenarios")
        worlds = one_world(source, generated, cluster, reading, None)
    else:
        options = generate_options(source, generated, cluster)
        options["seeds"] = parse_seeds(seeds or "1-3")
        tasks *= len(options["seeds"])
    with ExitStack() as stack:
        pool = stack.enter_context(executor(jobs, tasks))
        report = stack.enter_context(progress(f"{tasks} simulations"))
        return run_comparison(
            worlds,
            policies,
            parameters=parameters,
            executor=pool,
            progress=report,
            **conditions.options(),
            **options,
        )


def _prepare(json_file: Path | None, plot_file: Path | None) -> None:
    writable(json_file)
    writable(plot_file)
    if plot_file is not None:
        from tenure.plot import require_matplotlib

        require_matplotlib()


def _save(comparison: Comparison, json_file: Path | None, plot_file: Path | None) -> None:
    if json_file is not None:
        json_file.write_text(comparison.to_json(), encoding="utf-8")
    if plot_file is not None:
        from tenure.plot import plot_comparison

        plot_comparison(comparison, plot_file)


@command()
def compare(
    source: Source,
    generated: Generated,
    cluster: Cluster,
    conditions: Conditions,
    reading: TraceReading,
    policies: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "priority,fairtree,ai2,budget",
    seeds: Seeds = None,
    jobs: Jobs = 0,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Run several policies on the same work: means over seeds with 95 % intervals."""
    _prepare(json_file, plot_file)
    names = parse_policies(policies)
    comparison = run(source, generated, cluster, reading, conditions, names, seeds, jobs)
    print_comparison(comparison)
    _save(comparison, json_file, plot_file)


@command()
def simulate(
    source: Source,
    generated: Generated,
    cluster: Cluster,
    conditions: Conditions,
    reading: TraceReading,
    policy: Annotated[str, typer.Option(help="Name of a policy.")] = "budget",
    seed: Annotated[int | None, typer.Option(help="Seed of the generated workload.")] = None,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Run one policy once, with the figures of every leaf."""
    _prepare(json_file, plot_file)
    if source.trace is None and seed is None:
        seed = 1
    seeds = None if seed is None else str(seed)
    comparison = run(source, generated, cluster, reading, conditions, [policy], seeds, 1)
    print_comparison(comparison)
    print_leaves(comparison.results[policy][0])
    _save(comparison, json_file, plot_file)
