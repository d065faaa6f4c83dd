# SPDX-License-Identifier: Apache-2.0
"""From the rows of any trace to a world: window, order, shapes, budgets, contracts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from tenure._time import DAY, SECOND, Time, format_us, to_us
from tenure.errors import InvalidArgument
from tenure.importers.report import ImportReport, Recorder
from tenure.importers.rule import ContractRule
from tenure.importers.tree import read_tree
from tenure.world import JOB_DTYPE, Cluster, JobTable, Leaf, World

LONGEST = 3650 * DAY
"""Runs and clock steps longer than this are taken for defects of the file."""

SHORTEST = SECOND // 2
"""Run time of jobs whose time was rounded down to 0."""


@dataclass(frozen=True)
class Imported:
    """A world and the account of how it was read."""

    world: World
    report: ImportReport


@dataclass(frozen=True)
class Options:
    """What all importers take; see `tenure.importers.load`."""

    gpus: int | None
    nodes_of: int
    tree: str | Path | None
    rule: ContractRule
    strict: bool
    days: int | None


def seconds_to_us(name: str) -> pl.Expr:
    """Seconds in a float column as integer microseconds; null where they are not a number."""
    value = pl.col(name)
    usable = value.is_finite() & (value.abs() < 9e12)
    return pl.when(usable).then((value * 1e6).round()).otherwise(None).cast(pl.Int64)


def check_runtime(recorder: Recorder, table: pl.DataFrame) -> pl.DataFrame:
    """Drop rows with a negative or absurd `runtime_us`; what was rounded to 0 becomes 0.5 s."""
    run = pl.col("runtime_us")
    seconds = run / SECOND
    table = recorder.drop(table, run < 0, "negative-duration", pl.format("run time {} s", seconds))
    table = recorder.drop(
        table, run > LONGEST, "absurd-duration", pl.format("run time {} s", seconds)
    )
    recorder.change(table, run == 0, "zero-duration", pl.lit("run time 0 s, taken as 0.5 s"))
    return table.with_columns(pl.when(run == 0).then(SHORTEST).otherwise(run).alias("runtime_us"))


def check_clock(recorder: Recorder, table: pl.DataFrame) -> pl.DataFrame:
    """Drop rows with an absurd `submit_us`."""
    submit = pl.col("submit_us")
    table = recorder.drop(
        table, submit < 0, "absurd-submit", pl.format("submitted at {} s", submit / SECOND)
    )
    middle = table["submit_us"].median()
    if middle is None:
        return table
    return recorder.drop(
        table,
        (submit - pl.lit(middle)).abs() > LONGEST,
        "clock-step",
        pl.format("submitted at {} s, over ten years from the others", submit / SECOND),
    )


def note_order(recorder: Recorder, table: pl.DataFrame) -> pl.DataFrame:
    """Sort by submission, stably, counting the rows that come before their predecessor."""
    back = pl.col("submit_us").shift(1) - pl.col("submit_us")
    recorder.keep(
        table.with_columns(back=back),
        pl.col("back") > 0,
        "unsorted",
        pl.format("submitted {} s before the row above", pl.col("back") / SECOND),
    )
    return table.sort("submit_us", maintain_order=True)


def build(
    recorder: Recorder,
    table: pl.DataFrame,
    options: Options,
    assumptions: list[str],
    *,
    max_gpus: int | None = None,
) -> Imported:
    """Make a world of a clean table.

    `table` has the columns line, submit_us, origin, runtime_us, limit_us (0 = none), gpus, team,
    user (null = unknown) and queue (null = unknown), in the order of the file.
    """
    table = note_order(recorder, table)
    origin = int(table["origin"][0])
    if origin:
        assumptions.append(f"time 0 is {_clock(origin)} in the clock of the trace")
    nodes_of = options.nodes_of
    if nodes_of <= 0:
        raise InvalidArgument(f"nodes_of is {nodes_of}, must be positive")
    gpus = pl.col("gpus")
    nodes = (gpus + nodes_of - 1) // nodes_of
    table = table.with_columns(nodes=nodes).with_columns(
        gpus_per_node=(gpus + pl.col("nodes") - 1) // pl.col("nodes")
    )
    real = pl.col("nodes") * pl.col("gpus_per_node")
    recorder.change(
        table, real != gpus, "uneven-gang",
        pl.format("{} GPUs on {} nodes taken as {}", gpus, pl.col("nodes"), real),
    )  # fmt: skip
    assumptions.append(
        f"jobs of fewer than {nodes_of} GPUs run in one node, larger ones on "
        f"ceil(GPUs / {nodes_of}) equal nodes"
    )
    cluster = make_cluster(recorder, table, options, assumptions, max_gpus)
    leaves, table = _budget(recorder, table, options, assumptions)
    if table["user"].null_count() == table.height:
        assumptions.append("users are unknown: one user for each team")
    elif table["user"].null_count():
        assumptions.append("jobs without a user belong to one user for each team")
    who = (
        pl.when(pl.col("user").is_null())
        .then(pl.lit("team ") + pl.col("team"))
        .otherwise(pl.lit("user ") + pl.col("user"))
    )
    table = table.with_columns(user=who.rank("dense").cast(pl.Int32) - 1)
    table = table.with_columns(options.rule.columns())
    assumptions.extend(options.rule.sentences())
    report = recorder.finish(table.height, strict=options.strict)
    end = None if options.days is None else options.days * DAY
    world = World(
        cluster=cluster,
        leaves=leaves,
        jobs=to_jobs(table.with_columns(priority=pl.lit(0), source_row=pl.col("line"))),
        end=end,
        assumptions=assumptions,
    )
    return Imported(world, report)


def to_jobs(table: pl.DataFrame) -> JobTable:
    """Columns to the structured array."""
    assert JOB_DTYPE.names is not None
    jobs: JobTable = np.zeros(table.height, JOB_DTYPE)
    for name in JOB_DTYPE.names:
        jobs[name] = table[name].to_numpy()
    return jobs


def window(
    recorder: Recorder, table: pl.DataFrame, start: Time | None, days: int | None
) -> pl.DataFrame:
    """Keep what was submitted in [start, start + days), and count time from the start.

    `start` is in the trace's own time; without it, the first submission is the start. The start is
    left in the column `origin`.
    """
    if table.is_empty():
        raise InvalidArgument(f"{recorder.path}: no usable row of {recorder.rows}")
    submit = pl.col("submit_us")
    origin = int(table.select(submit.min()).item()) if start is None else to_us(start, "start")
    table = recorder.drop(
        table, submit < origin, "outside-window", pl.lit("submitted before the window"), bad=False
    )
    if days is not None:
        if days <= 0:
            raise InvalidArgument(f"days is {days}, must be positive")
        table = recorder.drop(
            table,
            submit >= origin + days * DAY,
            "outside-window",
            pl.lit("submitted after the window"),
            bad=False,
        )
    if table.is_empty():
        raise InvalidArgument(f"{recorder.path}: no job in the window")
    return table.with_columns(submit - origin, origin=pl.lit(origin, pl.Int64))


def _clock(us: int) -> str:
    """A date where it can only be one, else a duration."""
    if us < 10**8 * SECOND:
        return format_us(us)
    return str(datetime(1970, 1, 1) + timedelta(microseconds=us))


def make_cluster(
    recorder: Recorder,
    table: pl.DataFrame,
    options: Options,
    assumptions: list[str],
    max_gpus: int | None,
) -> Cluster:
    """The cluster that was asked for, or one that holds the largest job of `table`."""
    nodes_of = options.nodes_of
    if options.gpus is not None:
        if options.gpus <= 0 or options.gpus % nodes_of:
            raise InvalidArgument(
                f"{options.gpus} GPUs are not a positive number of nodes of {nodes_of}"
            )
        cluster = Cluster(nodes=options.gpus // nodes_of, gpus_per_node=nodes_of)
    else:
        size = max_gpus or int((table["nodes"] * nodes_of).max() or 1)  # type: ignore[arg-type]
        cluster = Cluster(nodes=-(-size // nodes_of), gpus_per_node=nodes_of)
        source = "as the header says" if max_gpus else "the size of the largest job"
        assumptions.append(f"cluster of {cluster.gpus} GPUs in nodes of {nodes_of}: {source}")
    recorder.keep(
        table,
        (pl.col("nodes") > cluster.nodes) | (pl.col("gpus_per_node") > cluster.gpus_per_node),
        "too-large",
        pl.format("{} GPUs, the cluster has {}", pl.col("gpus"), pl.lit(cluster.gpus)),
    )
    return cluster


def _budget(
    recorder: Recorder, table: pl.DataFrame, options: Options, assumptions: list[str]
) -> tuple[list[Leaf], pl.DataFrame]:
    """Leaves, and `table` with the column leaf."""
    teams = sorted(table["team"].unique().to_list())
    if options.tree is not None:
        tree = read_tree(options.tree)
        missing = [team for team in teams if team not in tree.leaf_of]
        if missing and tree.unmatched is None:
            raise InvalidArgument(
                f"{tree.path}: no leaf for group {missing[0]!r} of {recorder.path} "
                f"({len(missing)} in all) and no key unmatched"
            )
        if missing and tree.unmatched is not None:
            assumptions.append(
                f"groups {', '.join(missing)} belong to {tree.leaves[tree.unmatched].path}"
            )
        where = {team: tree.leaf_of.get(team, tree.unmatched) for team in teams}
        leaves = list(tree.leaves)
    else:
        # In whole seconds: integer sums do not depend on the order of the rows.
        use = pl.col("runtime_us") // SECOND * pl.col("gpus")
        used = dict(table.group_by("team").agg(use.sum()).iter_rows())
        total = max(sum(used.values()), 1)
        leaves = [
            Leaf(team.replace("/", "|"), (max(round(used[team] / total, 4), 0.0001),))
            for team in teams
        ]
        where = {team: i for i, team in enumerate(teams)}
        assumptions.append(
            f"no budgets in the trace: one leaf for each of {len(teams)} teams, weights = their "
            "GPU-time in it"
        )
    leaf = pl.col("team").replace_strict(where, return_dtype=pl.Int32)
    return leaves, table.with_columns(leaf.alias("leaf"))
