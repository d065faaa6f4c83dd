# SPDX-License-Identifier: Apache-2.0
"""The Standard Workload Format 2.2 (18 columns, one line a job)."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from tenure._time import SECOND, Time
from tenure.errors import InvalidArgument
from tenure.importers._build import (
    Imported,
    Options,
    build,
    check_clock,
    check_runtime,
    seconds_to_us,
    window,
)
from tenure.importers._text import decode, read_bytes, to_lines
from tenure.importers.report import Recorder

LEAF_BY = ("group", "user", "queue", "partition", "none")

_COLUMNS = 18
# Numeric fields that are read, by position. Other fields may hold anything (a list of preceding
# jobs, node names) and are not looked at.
_NUMBERS = {
    "submit": 1, "run": 3, "allocated": 4, "requested": 7, "requested_time": 8, "status": 10,
}  # fmt: skip
_WORDS = {"job": 0, "user": 11, "group": 12, "queue": 14, "partition": 15}
_UNIX = 10**8  # seconds; a first submission after this is a date, not an offset
_HEADER = re.compile(r"^\s*;\s*([A-Za-z]+)\s*:\s*(.*?)\s*$")


def _read_header(comments: list[str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Labels of the header, and the names it gives to groups, users, queues and partitions."""
    labels: dict[str, str] = {}
    names: dict[str, dict[str, str]] = {}
    for text in comments:
        match = _HEADER.match(text)
        if not match:
            continue
        label, value = match[1], match[2]
        labels.setdefault(label, value)
        kind = label.lower()
        number, _, name = value.partition(" ")
        if kind in LEAF_BY and number.lstrip("-").isdigit() and name.strip():
            names.setdefault(kind, {})[number] = name.strip()
    return labels, names


def _number(labels: dict[str, str], label: str) -> int | None:
    digits = re.match(r"\d+", labels.get(label, ""))
    return int(digits[0]) if digits else None


def read_swf(
    path: str | Path, options: Options, *, leaf_by: str = "group", start: Time | None = None
) -> Imported:
    """Read an SWF file, plain or gzip. See `tenure.importers.load`."""
    if leaf_by not in LEAF_BY:
        raise InvalidArgument(f"leaf_by is {leaf_by!r}, must be one of {', '.join(LEAF_BY)}")
    recorder = Recorder(str(path), "swf")
    lines = to_lines(recorder, decode(read_bytes(path))).with_columns(
        pl.col("text").str.strip_chars()
    )
    comment = pl.col("text").str.starts_with(";")
    labels, names = _read_header(lines.filter(comment)["text"].to_list())
    table = lines.filter(~comment).with_columns(fields=pl.col("text").str.extract_all(r"\S+"))
    recorder.rows = table.height
    table = _take_text_header(recorder, table)
    table = _split(recorder, table)
    notes, assumptions = _time_notes(labels), []
    recorder.notes.extend(notes)
    assumptions.extend(notes)
    table = _drop_repeats(recorder, table)
    table = _sizes_and_times(recorder, table, _number(labels, "MaxProcs"))
    table = check_clock(recorder, check_runtime(recorder, table))
    table = window(recorder, table, start, options.days)
    if int(table["origin"][0]) > _UNIX * SECOND:
        assumptions.append("submission times are Unix seconds (the header says no UnixStartTime)")
    recorder.keep(
        table,
        (pl.col("limit_us") > 0) & (pl.col("runtime_us") > pl.col("limit_us")),
        "run-over-limit",
        pl.format(
            "ran {} s, requested {} s",
            pl.col("runtime_us") / SECOND,
            pl.col("limit_us") / SECOND,
        ),
    )
    assumptions.append("processors are read as GPUs")
    table = _teams(table, leaf_by, names, assumptions)
    max_gpus = _number(labels, "MaxProcs")
    return build(recorder, table, options, assumptions, max_gpus=max_gpus or None)


def _take_text_header(recorder: Recorder, table: pl.DataFrame) -> pl.DataFrame:
    """Drop a first row of column names (some files have one, without a semicolon)."""
    if table.is_empty():
        return table
    first = table["fields"][0].cast(pl.Float64, strict=False)
    if first.null_count() < max(len(first), 1):
        return table
    line = int(table["line"][0])
    return recorder.drop(
        table, pl.col("line") == line, "text-header", pl.lit("column names, not a job"), bad=False
    )


def _split(recorder: Recorder, table: pl.DataFrame) -> pl.DataFrame:
    """Fields to columns."""
    count = pl.col("fields").list.len()
    table = recorder.drop(
        table,
        count < _COLUMNS,
        "unparsable",
        pl.format("{} fields, must have {}", count, pl.lit(_COLUMNS)),
    )
    extra = table.filter(count > _COLUMNS).height
    if extra:
        recorder.notes.append(f"fields after the {_COLUMNS}th of {extra:,} rows are not read")
    field = pl.col("fields").list
    table = table.with_columns(
        *(field.get(i, null_on_oob=True).alias(name) for name, i in _WORDS.items()),
        *(
            field.get(i, null_on_oob=True).cast(pl.Float64, strict=False).alias(name)
            for name, i in _NUMBERS.items()
        ),
    )
    for name, i in _NUMBERS.items():
        value = pl.col(name)
        table = recorder.drop(
            table,
            value.is_null() | ~value.is_finite(),
            "unparsable",
            pl.format("field {} ({}) is {}", pl.lit(i + 1), pl.lit(name), field.get(i)),
        )
    return table


def _time_notes(labels: dict[str, str]) -> list[str]:
    if "TimeZoneString" in labels:
        return [f"time zone {labels['TimeZoneString']} (times are used as offsets)"]
    if "TimeZone" in labels:
        return [f"time zone offset {labels['TimeZone']} s (a deprecated field; times are offsets)"]
    return ["no time zone in the file: times are used as offsets"]


def _drop_repeats(recorder: Recorder, table: pl.DataFrame) -> pl.DataFrame:
    """Count a job once: bursts of a checkpointed job or their summary; no exact duplicate."""
    table = recorder.drop(
        table,
        ~pl.col("text").is_first_distinct(),
        "duplicate",
        pl.lit("the same line as an earlier one"),
    )
    burst = pl.col("status").is_in([2.0, 3.0, 4.0])
    summarized = (~burst).any().over("job")
    table = recorder.drop(
        table,
        burst & summarized,
        "burst",
        pl.format("part of job {}, which has a summary row", pl.col("job")),
        bad=False,
    )
    recorder.keep(table, burst, "burst-without-summary", pl.format("part of job {}", pl.col("job")))
    recorder.keep(
        table,
        ~burst & ~pl.col("job").is_first_distinct(),
        "duplicate-id",
        pl.format("job {} again, with other values", pl.col("job")),
    )
    return table


def _sizes_and_times(
    recorder: Recorder, table: pl.DataFrame, max_procs: int | None
) -> pl.DataFrame:
    """Columns gpus, submit_us, runtime_us, limit_us."""
    table = recorder.drop(
        table, pl.col("submit") == -1, "submit-missing", pl.lit("no submission time")
    )
    run, status = pl.col("run"), pl.col("status")
    table = recorder.drop(
        table,
        (status == 5) & ((run == 0) | (run == -1)),
        "never-started",
        pl.lit("cancelled in the queue"),
        bad=False,
    )
    table = recorder.drop(
        table, run == -1, "run-missing", pl.format("no run time, status {}", status)
    )
    requested, allocated = pl.col("requested"), pl.col("allocated")
    size = pl.when(requested == -1).then(allocated).otherwise(requested)
    table = table.with_columns(size=size)
    table = recorder.drop(
        table,
        pl.col("size") <= 0,
        "no-gpus",
        pl.format("requested {}, allocated {} processors", requested, allocated),
    )
    table = recorder.drop(
        table,
        (pl.col("size") != pl.col("size").round()) | (pl.col("size") > 2**21),
        "unparsable",
        pl.format("{} processors", pl.col("size")),
    )
    for name in ("submit", "run"):
        table = recorder.drop(
            table,
            seconds_to_us(name).is_null(),
            "absurd-duration" if name == "run" else "absurd-submit",
            pl.format("{} {} s", pl.lit(name), pl.col(name)),
        )
    limit = pl.when(pl.col("requested_time") > 0).then(seconds_to_us("requested_time"))
    table = table.with_columns(
        gpus=pl.col("size").cast(pl.Int64),
        submit_us=seconds_to_us("submit"),
        runtime_us=seconds_to_us("run"),
        limit_us=limit.otherwise(0).fill_null(0),
    )
    if max_procs:
        recorder.keep(
            table,
            pl.col("gpus") > max_procs,
            "over-max-procs",
            pl.format("{} processors, MaxProcs is {}", pl.col("gpus"), pl.lit(max_procs)),
        )
    return table


def _teams(
    table: pl.DataFrame, leaf_by: str, names: dict[str, dict[str, str]], assumptions: list[str]
) -> pl.DataFrame:
    """Columns team, user (null = unknown), queue (null = unknown)."""

    def known(column: str) -> pl.Expr:
        value = pl.col(column)
        return pl.when(value != "-1").then(value).otherwise(None)

    def named(column: str) -> pl.Expr:
        value = known(column)
        return value.replace(names[column]) if column in names else value

    table = table.with_columns(
        user=known("user"), queue=named("queue"),
        team=pl.lit(None, pl.String) if leaf_by == "none" else named(leaf_by),
    )  # fmt: skip
    missing = table["team"].null_count()
    if missing == table.height:
        assumptions.append("one team: all" if leaf_by == "none" else f"no {leaf_by}: one team, all")
        return table.with_columns(team=pl.lit("all"))
    if missing:
        assumptions.append(f"{missing:,} jobs without a {leaf_by} belong to the team none")
    return table.with_columns(pl.col("team").fill_null("none"))
