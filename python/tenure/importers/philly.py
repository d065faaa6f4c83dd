# SPDX-License-Identifier: Apache-2.0
"""The Philly trace: the list of jobs as CSV, and the original job log as JSON.

CSV columns: timestamp (submission, local time of the cluster), duration (s of execution), num_gpus,
gpu_time (GPU-s, optional), cluster (the virtual cluster, which becomes the team).
JSON: an array of {status, vc, jobid, user, submitted_time, attempts: [{start_time, end_time,
detail: [{ip, gpus: [...]}]}]}.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
ATC 2019.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from tenure._time import Time, to_us
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
from tenure.importers._text import decode, read_bytes, to_columns, to_lines
from tenure.importers.report import Recorder

_STAMP = "%Y-%m-%d %H:%M:%S"
_EPOCH = datetime(1970, 1, 1)
_ZONE = (
    "times are local to the cluster and name no zone: a change to or from summer time is not seen"
)
_NOT_GIVEN = ("", "None", "null", "NaN", "nan")


def start_of_window(start: str | datetime | Time) -> int:
    """Microseconds of a date, in the clock of the trace."""
    if isinstance(start, str):
        try:
            start = datetime.fromisoformat(start)
        except ValueError:
            raise InvalidArgument(f"start is {start!r}, must be a date like 2017-09-28") from None
    if isinstance(start, datetime):
        return to_us(start.replace(tzinfo=None) - _EPOCH)
    return to_us(start, "start")


def read_philly(
    path: str | Path, options: Options, *, start: Time | None = None, duplicates: str = "keep"
) -> Imported:
    """Read the CSV or the JSON form, plain or gzip. See `tenure.importers.load`."""
    if duplicates not in ("keep", "drop"):
        raise InvalidArgument(f"duplicates is {duplicates!r}, must be keep or drop")
    text = decode(read_bytes(path))
    if text.lstrip()[:1] == "[":
        recorder = Recorder(str(path), "philly-json")
        table = _read_json(recorder, text)
    else:
        recorder = Recorder(str(path), "philly")
        table = _read_csv(recorder, text, duplicates)
    recorder.notes.append(_ZONE)
    table = check_clock(recorder, check_runtime(recorder, table))
    table = window(recorder, table, start, options.days)
    missing = table["team"].is_null() | (table["team"] == "")
    table = table.with_columns(
        limit_us=pl.lit(0, pl.Int64),
        queue=pl.lit(None, pl.String),
        team=pl.when(missing).then(pl.lit("none")).otherwise(pl.col("team")),
    )
    assumptions = [_ZONE]
    if missing.any():
        assumptions.append(f"{missing.sum():,} jobs without a cluster belong to the team none")
    return build(recorder, table, options, assumptions)


def _read_csv(recorder: Recorder, text: str, duplicates: str) -> pl.DataFrame:
    table = to_columns(
        recorder, to_lines(recorder, text), ["timestamp", "duration", "num_gpus", "cluster"]
    )
    again = ~pl.struct(pl.all().exclude("line")).is_first_distinct()
    detail = pl.lit("the same values as an earlier row")
    if duplicates == "drop":
        table = recorder.drop(table, again, "duplicate", detail)
    else:
        recorder.keep(table, again, "duplicate", detail)
    table = table.rename({"cluster": "team"})
    table = recorder.drop(
        table,
        pl.col("timestamp").is_null() | pl.col("timestamp").is_in(_NOT_GIVEN),
        "submit-missing",
        pl.lit("no timestamp"),
    )
    table = _stamp(recorder, table, "timestamp")
    table = recorder.drop(
        table,
        pl.col("duration").is_null() | pl.col("duration").is_in(_NOT_GIVEN),
        "run-missing",
        pl.lit("no duration"),
    )
    for name, text_name in (("seconds", "duration"), ("size", "num_gpus")):
        table = table.with_columns(pl.col(text_name).cast(pl.Float64, strict=False).alias(name))
        table = recorder.drop(
            table,
            pl.col(name).is_null() | ~pl.col(name).is_finite(),
            "unparsable",
            pl.format("{} is {}", pl.lit(text_name), pl.col(text_name).fill_null("empty")),
        )
    table = recorder.drop(table, pl.col("size") == 0, "no-gpus", pl.lit("num_gpus is 0"))
    size = pl.col("size")
    table = recorder.drop(
        table,
        (size < 0) | (size != size.round()) | (size > 2**21),
        "unparsable",
        pl.format("num_gpus is {}", pl.col("num_gpus")),
    )
    table = recorder.drop(
        table,
        seconds_to_us("seconds").is_null(),
        "absurd-duration",
        pl.format("duration {} s", pl.col("duration")),
    )
    if "gpu_time" in table.columns:
        product = pl.col("seconds") * size
        told = pl.col("gpu_time").cast(pl.Float64, strict=False)
        recorder.keep(
            table,
            (told - product).abs() > product.abs() * 1e-6 + 1,
            "gpu-time-mismatch",
            pl.format("gpu_time {}, duration x num_gpus {}", pl.col("gpu_time"), product),
        )
    return table.with_columns(
        gpus=size.cast(pl.Int64), runtime_us=seconds_to_us("seconds"), user=pl.lit(None, pl.String)
    )


def _stamp(recorder: Recorder, table: pl.DataFrame, column: str) -> pl.DataFrame:
    parsed = pl.col(column).str.to_datetime(_STAMP, strict=False, time_unit="us")
    table = table.with_columns(submit_us=parsed.cast(pl.Int64))
    return recorder.drop(
        table,
        pl.col("submit_us").is_null(),
        "unparsable",
        pl.format("{} is {}", pl.lit(column), pl.col(column)),
    )


def _time(value: Any) -> datetime | None:
    if not isinstance(value, str) or value in _NOT_GIVEN:
        return None
    try:
        return datetime.strptime(value, _STAMP)
    except ValueError:
        return None


def _read_json(recorder: Recorder, text: str) -> pl.DataFrame:
    """One row for each entry; `line` is its number in the array, from 1."""
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidArgument(f"{recorder.path}:{error.lineno}: not JSON: {error.msg}") from None
    recorder.rows = len(entries)
    recorder.notes.append("the lines named are the numbers of entries in the array")
    rows = [_entry(i, entry) for i, entry in enumerate(entries, start=1)]
    schema = {
        "line": pl.UInt32, "jobid": pl.String, "stamp": pl.String, "team": pl.String,
        "user": pl.String, "runtime_us": pl.Int64, "gpus": pl.Int64, "attempts": pl.Int64,
        "sizes": pl.Int64, "open": pl.Boolean, "problem": pl.String,
    }  # fmt: skip
    table = pl.DataFrame(rows, schema=schema, orient="row")
    table = recorder.drop(table, pl.col("problem").is_not_null(), "unparsable", pl.col("problem"))
    table = recorder.drop(
        table,
        pl.col("stamp").is_null() | pl.col("stamp").is_in(_NOT_GIVEN),
        "submit-missing",
        pl.lit("no submitted_time"),
    )
    table = _stamp(recorder, table, "stamp")
    table = recorder.drop(
        table,
        pl.col("jobid").is_not_null() & ~pl.col("jobid").is_first_distinct(),
        "duplicate",
        pl.format("job {} again", pl.col("jobid")),
    )
    table = recorder.drop(
        table, pl.col("attempts") == 0, "never-started", pl.lit("no attempt"), bad=False
    )
    table = recorder.drop(
        table, pl.col("open"), "censored", pl.lit("an attempt has no start or no end"), bad=False
    )
    table = recorder.drop(table, pl.col("gpus") == 0, "no-gpus", pl.lit("no GPU in any attempt"))
    recorder.change(
        table, pl.col("attempts") > 1, "retries",
        pl.format("{} attempts taken as one run, as long as all together", pl.col("attempts")),
    )  # fmt: skip
    recorder.change(
        table,
        pl.col("sizes") > 1,
        "resized",
        pl.lit("attempts of several sizes, the largest taken"),
    )
    return table


def _entry(number: int, entry: Any) -> tuple[Any, ...]:
    """Fields of the columns of `_read_json`."""

    def text(value: Any) -> str | None:
        return None if value is None else str(value)

    empty = (number, None, None, None, None, 0, 0, 0, 0, False)
    if not isinstance(entry, dict):
        return (*empty, "entry is not an object")
    attempts = entry.get("attempts")
    if not isinstance(attempts, list):
        return (*empty, "attempts is not a list")
    total, sizes, unfinished = timedelta(0), set(), False
    for attempt in attempts:
        try:
            size = sum(len(host["gpus"]) for host in attempt["detail"])
            begin, end = _time(attempt["start_time"]), _time(attempt["end_time"])
        except (KeyError, TypeError) as error:
            return (*empty, f"an attempt lacks {error}")
        sizes.add(size)
        if begin is None or end is None:
            unfinished = True
        else:
            total += end - begin
    return (
        number, text(entry.get("jobid")), text(entry.get("submitted_time")), text(entry.get("vc")),
        text(entry.get("user")), total // timedelta(microseconds=1), max(sizes, default=0),
        len(attempts), len(sizes), unfinished, None,
    )  # fmt: skip
