# SPDX-License-Identifier: Apache-2.0
"""Bytes to lines to columns of text: gzip, byte order marks, line ends, ragged rows."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

import polars as pl

from tenure.errors import InvalidArgument
from tenure.importers.report import Recorder


def read_bytes(path: str | Path) -> bytes:
    """Return the content, unpacked if it is gzip (told by its first bytes, not by its name)."""
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidArgument(f"{path}: damaged gzip file: {error}") from None
    return data


def decode(data: bytes) -> str:
    """Text of `data`; bytes that are no UTF-8 become U+FFFD, so that only their row suffers."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def to_lines(recorder: Recorder, text: str) -> pl.DataFrame:
    """Columns `line` (from 1) and `text` (without line ends); blank lines are only noted."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    table = (
        pl.DataFrame({"text": lines}, schema={"text": pl.String})
        .with_row_index("line", offset=1)
        .with_columns(pl.col("text").str.strip_suffix("\r"))
    )
    blank = pl.col("text").str.strip_chars() == ""
    blanks = table.filter(blank).height
    if blanks:
        recorder.notes.append(f"blank lines: {blanks:,}")
    return table.filter(~blank)


def to_columns(recorder: Recorder, lines: pl.DataFrame, required: list[str]) -> pl.DataFrame:
    """Read comma-separated `lines`, the first of which is the header, as columns of text.

    Rows with another number of fields than the header, or with an open quote, are dropped as
    "unparsable". A missing required column is InvalidArgument.
    """
    if lines.is_empty():
        raise InvalidArgument(f"{recorder.path}: the file is empty")
    first_line, header = lines.row(0)
    body = lines.slice(1)
    recorder.rows = body.height
    quotes = pl.col("text").str.count_matches('"', literal=True)
    commas = pl.col("text").str.replace_all(r'"[^"]*"', "").str.count_matches(",", literal=True)
    expected = len(pl.read_csv(io.StringIO(header + "\n"), infer_schema=False).columns)
    body = recorder.drop(
        body, quotes % 2 == 1, "unparsable", pl.lit("a quote is open at the end of the line")
    )
    body = recorder.drop(
        body,
        commas + 1 != expected,
        "unparsable",
        pl.format("{} fields, the header has {}", commas + 1, pl.lit(expected)),
    )
    table = pl.read_csv(io.BytesIO("\n".join([header, *body["text"]]).encode()), infer_schema=False)
    table = table.rename({name: name.strip() for name in table.columns})
    for name in required:
        if name not in table.columns:
            raise InvalidArgument(
                f"{recorder.path}:{first_line}: no column {name!r}, "
                f"found {', '.join(table.columns)}"
            )
    if table.height != body.height:
        raise InvalidArgument(
            f"{recorder.path}: {body.height} lines were read as {table.height} rows"
        )
    return table.with_columns(pl.all().str.strip_chars(), body["line"].alias("line"))
