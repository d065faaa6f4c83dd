# SPDX-License-Identifier: Apache-2.0
"""The canonical workload file, CSV or Parquet: what every importer writes and `compare` reads.

One row a job. Required columns: submit_us, team, gpus, runtime_us. The others have defaults:

job
    Name of the row, not read.
submit_us, runtime_us
    Submission since the start of the trace and true run time, microseconds.
team, team_weight
    Leaf of the budget tree, names joined by "/", and their weights among siblings, joined by "/".
    Without weights they follow the GPU-time of the leaves.
user, priority
    Any text; a number that compares inside a team.
gpus, nodes, gpus_per_node
    gpus = nodes x gpus_per_node; without nodes the shape follows from gpus.
minimum_us, limit_us, checkpoint_us, restart_us, patience_us
    The contract, microseconds; without minimum_us the rule for traces gives the whole contract.
resumable, idle, checkpoint_on_notice
    true or false.
kind
    debug, interactive, training, serving or sweep.
source_row
    Line of the file the job came from.

The cluster, the measured time and the assumptions are kept in comment lines (CSV, "# key: value")
or in the metadata (Parquet, key "tenure").
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl

from tenure._time import DAY, SECOND, Time
from tenure.errors import InvalidArgument
from tenure.importers._build import (
    Imported,
    Options,
    build,
    check_clock,
    check_runtime,
    make_cluster,
    note_order,
    to_jobs,
    window,
)
from tenure.importers._text import decode, read_bytes, to_columns, to_lines
from tenure.importers.report import Recorder
from tenure.world import JOB_FLAGS, WORKLOAD_CLASSES, Cluster, Leaf, World

FORMAT_LINE = "# tenure workload 1"

_REQUIRED = ("submit_us", "team", "gpus", "runtime_us")
_TIMES = ("minimum_us", "limit_us", "checkpoint_us", "restart_us", "patience_us")
_FLAGS = {"resumable": True, "idle": False, "checkpoint_on_notice": False}


def to_table(world: World) -> pl.DataFrame:
    """The canonical columns of a world."""
    jobs = world.jobs
    table = pl.DataFrame({name: jobs[name] for name in jobs.dtype.names or ()})
    paths = [leaf.path for leaf in world.leaves]
    weights = ["/".join(repr(w) for w in leaf.weights) for leaf in world.leaves]
    index = list(range(len(paths)))
    leaf = pl.col("leaf")
    flag = pl.col("flags")
    return table.with_row_index("job").select(
        "job",
        "submit_us",
        leaf.replace_strict(index, paths, return_dtype=pl.String).alias("team"),
        leaf.replace_strict(index, weights, return_dtype=pl.String).alias("team_weight"),
        "user",
        (pl.col("nodes").cast(pl.Int64) * pl.col("gpus_per_node")).alias("gpus"),
        "nodes",
        "gpus_per_node",
        "runtime_us",
        *_TIMES,
        *((flag & JOB_FLAGS[name] != 0).alias(name) for name in _FLAGS),
        "priority",
        pl.col("workload_class")
        .replace_strict(
            list(range(len(WORKLOAD_CLASSES))), list(WORKLOAD_CLASSES), return_dtype=pl.String
        )
        .alias("kind"),
        "source_row",
    )


def write_workload(world: World, path: str | Path) -> None:
    """Write `world` as CSV (.csv, .csv.gz) or Parquet (.parquet).

    InvalidArgument if the name ends in neither.
    """
    table = to_table(world)
    about = {
        "nodes": world.cluster.nodes,
        "gpus_per_node": world.cluster.gpus_per_node,
        "nodes_per_rack": world.cluster.nodes_per_rack,
        "warmup_us": world.warmup_us,
        "end_us": world.end_us,
        "leaves": [[leaf.path, list(leaf.weights)] for leaf in world.leaves],
        "assumptions": list(world.assumptions),
    }
    name = str(path)
    if name.endswith(".parquet"):
        table.write_parquet(path, metadata={"tenure": json.dumps(about)})
    elif name.endswith((".csv", ".csv.gz")):
        head = [FORMAT_LINE, *(f"# {key}: {json.dumps(value)}" for key, value in about.items())]
        data = ("\n".join(head) + "\n" + table.write_csv()).encode()
        if name.endswith(".gz"):
            import gzip

            data = gzip.compress(data, mtime=0)
        Path(path).write_bytes(data)
    else:
        raise InvalidArgument(f"{name}: the name must end in .csv, .csv.gz or .parquet")


def read_workload(path: str | Path, options: Options, *, start: Time | None = None) -> Imported:
    """Read a canonical workload file. See `tenure.importers.load`."""
    recorder = Recorder(str(path), "workload")
    data = read_bytes(path)
    if data[:4] == b"PAR1":
        table, about = _read_parquet(recorder, data)
    else:
        table, about = _read_csv(recorder, data)
    table = _check(recorder, table)
    table = check_clock(recorder, check_runtime(recorder, table))
    # The file counts from its own start already.
    table = window(recorder, table, 0 if start is None else start, options.days)
    assumptions = [str(text) for text in about.get("assumptions", [])]
    if "minimum_us" not in table.columns or options.tree is not None:
        if "minimum_us" in table.columns:
            raise InvalidArgument(
                f"{path}: a tree file applies to traces; this file has budgets and contracts"
            )
        return build(recorder, table, options, assumptions)
    return _with_contracts(recorder, table, options, about, assumptions)


def _read_parquet(recorder: Recorder, data: bytes) -> tuple[pl.DataFrame, dict[str, Any]]:
    try:
        table = pl.read_parquet(io.BytesIO(data))
        metadata = pl.read_parquet_metadata(io.BytesIO(data))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InvalidArgument(f"{recorder.path}: not Parquet: {error}") from None
    recorder.rows = table.height
    for name in _REQUIRED:
        if name not in table.columns:
            raise InvalidArgument(
                f"{recorder.path}: no column {name!r}, found {', '.join(table.columns)}"
            )
    table = table.with_columns(pl.all().cast(pl.String)).with_row_index("line", offset=1)
    return table, _about(recorder, {"tenure": metadata.get("tenure", "{}")}, "tenure")


def _read_csv(recorder: Recorder, data: bytes) -> tuple[pl.DataFrame, dict[str, Any]]:
    lines = to_lines(recorder, decode(data))
    comment = pl.col("text").str.starts_with("#")
    pairs: dict[str, str] = {}
    for text in lines.filter(comment)["text"]:
        key, colon, value = text[1:].partition(":")
        if colon:
            pairs[key.strip()] = value.strip()
    table = to_columns(recorder, lines.filter(~comment), list(_REQUIRED))
    return table, _about(recorder, pairs, None)


def _about(recorder: Recorder, texts: dict[str, str], key: str | None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            out[name] = json.loads(text)
        except json.JSONDecodeError:
            if key is None:
                continue  # somebody's own comment
            raise InvalidArgument(f"{recorder.path}: metadata {name!r} is not JSON") from None
    found = out if key is None else out[key]
    for name in ("nodes", "gpus_per_node", "nodes_per_rack", "warmup_us", "end_us"):
        if name in found and (not isinstance(found[name], int) or isinstance(found[name], bool)):
            raise InvalidArgument(f"{recorder.path}: {name} is {found[name]!r}, must be an integer")
    if not isinstance(found.get("assumptions", []), list):
        raise InvalidArgument(f"{recorder.path}: assumptions are not a list")
    return dict(found)


def _check(recorder: Recorder, table: pl.DataFrame) -> pl.DataFrame:
    """Columns of text to their types, row by row."""

    def whole(table: pl.DataFrame, name: str, low: int, high: int = 2**62) -> pl.DataFrame:
        value = pl.col(name).cast(pl.Int64, strict=False)
        table = recorder.drop(
            table,
            value.is_null() | (value < low) | (value > high),
            "unparsable",
            pl.format("{} is {}", pl.lit(name), pl.col(name).fill_null("empty")),
        )
        return table.with_columns(value)

    for name in ("submit_us", "runtime_us"):
        table = whole(table, name, -(2**62))
    table = whole(table, "gpus", -(2**21), 2**21)
    table = recorder.drop(
        table, pl.col("gpus") <= 0, "no-gpus", pl.format("gpus is {}", pl.col("gpus"))
    )
    for name in ("nodes", "gpus_per_node"):
        if name in table.columns:
            table = whole(table, name, 1, 2**21)
    for name in _TIMES:
        if name in table.columns:
            table = whole(table, name, 0)
    for name, low in (("priority", -(2**31)), ("source_row", 0)):
        if name in table.columns:
            table = whole(table, name, low, 2**31 - 1 if name == "priority" else 2**32 - 1)
    for name in _FLAGS:
        if name in table.columns:
            text = pl.col(name).str.to_lowercase()
            table = recorder.drop(
                table,
                ~text.is_in(["true", "false", "1", "0"]) | text.is_null(),
                "unparsable",
                pl.format("{} is {}", pl.lit(name), pl.col(name).fill_null("empty")),
            ).with_columns(text.is_in(["true", "1"]).alias(name))
    if "kind" in table.columns:
        table = recorder.drop(
            table,
            ~pl.col("kind").is_in(list(WORKLOAD_CLASSES)) | pl.col("kind").is_null(),
            "unparsable",
            pl.format("kind is {}", pl.col("kind").fill_null("empty")),
        )
    table = recorder.drop(
        table,
        pl.col("team").is_null() | pl.col("team").str.contains(r"^$|^/|/$|//"),
        "unparsable",
        pl.format("team is {}", pl.col("team").fill_null("empty")),
    )
    if "user" not in table.columns:
        table = table.with_columns(user=pl.lit(None, pl.String))
    return table.with_columns(
        limit_us=pl.col("limit_us") if "limit_us" in table.columns else pl.lit(0, pl.Int64),
        queue=pl.lit(None, pl.String),
    )


def _with_contracts(
    recorder: Recorder,
    table: pl.DataFrame,
    options: Options,
    about: dict[str, Any],
    assumptions: list[str],
) -> Imported:
    """A world of a file that has budgets and contracts."""
    table = note_order(recorder, table)
    nodes_of = options.nodes_of
    gpus = pl.col("gpus")
    if "nodes" not in table.columns:
        table = table.with_columns(nodes=(gpus + nodes_of - 1) // nodes_of)
    if "gpus_per_node" not in table.columns:
        table = table.with_columns(gpus_per_node=(gpus + pl.col("nodes") - 1) // pl.col("nodes"))
    real = pl.col("nodes") * pl.col("gpus_per_node")
    recorder.change(
        table, real != gpus, "uneven-gang",
        pl.format("{} GPUs on {} nodes taken as {}", gpus, pl.col("nodes"), real),
    )  # fmt: skip
    if options.gpus is None and "nodes" in about:
        cluster = Cluster(
            nodes=about["nodes"],
            gpus_per_node=about.get("gpus_per_node", nodes_of),
            nodes_per_rack=about.get("nodes_per_rack", 0),
        )
    else:
        cluster = make_cluster(recorder, table, options, assumptions, None)
    table, leaves = _leaves(recorder, table, about, assumptions)
    kind = pl.col("kind") if "kind" in table.columns else pl.lit("training")
    numbers = list(range(len(WORKLOAD_CLASSES)))
    flags = pl.lit(0, pl.UInt32)
    for name, default in _FLAGS.items():
        value = pl.col(name) if name in table.columns else pl.lit(default)
        flags = flags + value.cast(pl.UInt32) * JOB_FLAGS[name]
    table = table.with_columns(
        *(pl.lit(0, pl.Int64).alias(name) for name in _TIMES if name not in table.columns),
        *(
            expression.alias(name)
            for name, expression in (("priority", pl.lit(0)), ("source_row", pl.col("line")))
            if name not in table.columns
        ),
        kind.replace_strict(list(WORKLOAD_CLASSES), numbers, return_dtype=pl.UInt32).alias(
            "workload_class"
        ),
        flags.alias("flags"),
        _users(table).alias("user"),
    )
    report = recorder.finish(table.height, strict=options.strict)
    origin = int(table["origin"][0])
    if origin or options.days is not None:
        warmup, end = 0, None if options.days is None else options.days * DAY
    else:
        warmup, end = about.get("warmup_us", 0), about.get("end_us")
    world = World(
        cluster=cluster,
        leaves=leaves,
        jobs=to_jobs(table),
        warmup=warmup,
        end=end,
        assumptions=assumptions,
    )
    return Imported(world, report)


def _users(table: pl.DataFrame) -> pl.Expr:
    """Numbers stay; other names are numbered in sorted order; empty ones are one user a team."""
    user = pl.col("user").cast(pl.String)
    number = user.cast(pl.Int32, strict=False)
    if table.select((number.is_not_null() & (number >= 0)).all()).item():
        return number
    name = (
        pl.when(user.is_null())
        .then(pl.lit("team ") + pl.col("team"))
        .otherwise(pl.lit("user ") + user)
    )
    return name.rank("dense").cast(pl.Int32) - 1


def _leaves(
    recorder: Recorder, table: pl.DataFrame, about: dict[str, Any], assumptions: list[str]
) -> tuple[pl.DataFrame, list[Leaf]]:
    """`table` with the column leaf, and the leaves."""
    teams = table["team"].unique().sort().to_list()
    leaves: list[Leaf] = []
    if isinstance(about.get("leaves"), list):
        try:
            leaves = [Leaf(str(path), tuple(weights)) for path, weights in about["leaves"]]
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"{recorder.path}: leaves: {error}") from None
    known = {leaf.path for leaf in leaves}
    missing = [team for team in teams if team not in known]
    if missing and "team_weight" in table.columns:
        rows = table.filter(pl.col("team").is_in(missing)).unique(
            ["team", "team_weight"], maintain_order=True
        )
        for team, text, line in rows.select("team", "team_weight", "line").iter_rows():
            try:
                leaf = Leaf(team, tuple(float(w) for w in (text or "").split("/")))
            except ValueError as error:
                raise InvalidArgument(f"{recorder.path}:{line}: team_weight: {error}") from None
            if team in known:
                raise InvalidArgument(
                    f"{recorder.path}:{line}: team_weight: {team!r} has two weights"
                )
            known.add(team)
            leaves.append(leaf)
    elif missing:
        use = pl.col("runtime_us") // SECOND * pl.col("gpus")
        used = dict(table.group_by("team").agg(use.sum()).iter_rows())
        total = max(sum(used.values()), 1)
        assumptions.append("no budgets in the file: weights = GPU-time of each name in it")
        prefixes: dict[str, int] = {}
        for team, amount in used.items():
            parts = team.split("/")
            for depth in range(1, len(parts) + 1):
                prefix = "/".join(parts[:depth])
                prefixes[prefix] = prefixes.get(prefix, 0) + amount
        for team in missing:
            parts = team.split("/")
            weights = (
                max(round(prefixes["/".join(parts[: i + 1])] / total, 4), 0.0001)
                for i in range(len(parts))
            )
            leaves.append(Leaf(team, tuple(weights)))
    where = {leaf.path: i for i, leaf in enumerate(leaves)}
    index = pl.col("team").replace_strict(where, return_dtype=pl.Int32)
    return table.with_columns(index.alias("leaf")), leaves
