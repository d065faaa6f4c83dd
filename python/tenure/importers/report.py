# SPDX-License-Identifier: Apache-2.0
"""What an importer found in a file: every row is imported or counted in a class, none vanishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from tenure.errors import InvalidArgument

__all__ = ["Finding", "ImportReport"]

Action = Literal["dropped", "changed", "kept"]

_EXAMPLES = 5


@dataclass(frozen=True)
class Finding:
    """Rows of one class.

    `action` is what became of them: "dropped", "changed" (imported with a value replaced) or "kept"
    (imported as they are). `bad` is true for defects, on which strict reading fails. `examples` are
    the first few (line, detail).
    """

    name: str
    action: Action
    bad: bool
    count: int
    examples: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class ImportReport:
    """Outcome of reading one file: `rows` = `imported` + the rows of all dropped findings.

    `notes` say what the header told or did not tell (time zone, ignored columns).
    """

    path: str
    format: str
    rows: int
    imported: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def dropped(self) -> int:
        """Rows that are not in the table."""
        return sum(f.count for f in self.findings if f.action == "dropped")

    @property
    def bad(self) -> int:
        """Rows with a defect."""
        return sum(f.count for f in self.findings if f.bad)

    def count(self, name: str) -> int:
        """Rows in the class `name`."""
        return sum(f.count for f in self.findings if f.name == name)

    def lines(self) -> list[str]:
        """The report as text, a few lines for each class."""
        out = [f"{self.path}: {self.rows:,} rows, {self.imported:,} imported ({self.format})"]
        for finding in self.findings:
            out.append(f"  {finding.count:,} {finding.name} ({finding.action})")
            out += [f"    {self.path}:{line}: {detail}" for line, detail in finding.examples[:3]]
        return out + [f"  note: {note}" for note in self.notes]


class Recorder:
    """Collects findings while a table shrinks from step to step.

    Every table has a column `line`, the line in the file (or entry in an array).
    """

    def __init__(self, path: str, format: str) -> None:
        self.path = path
        self.format = format
        self.rows = 0
        self.notes: list[str] = []
        self._findings: dict[str, Finding] = {}

    def _record(
        self, rows: pl.DataFrame, name: str, detail: pl.Expr, action: Action, bad: bool
    ) -> None:
        if rows.is_empty():
            return
        first = rows.sort("line").head(_EXAMPLES).select("line", detail.alias("detail"))
        examples = tuple((int(line), str(text)) for line, text in first.iter_rows())
        before = self._findings.get(name)
        count = rows.height
        if before is not None:
            count += before.count
            examples = tuple(sorted(before.examples + examples)[:_EXAMPLES])
        self._findings[name] = Finding(name, action, bad, count, examples)

    def drop(
        self, table: pl.DataFrame, where: pl.Expr, name: str, detail: pl.Expr, *, bad: bool = True
    ) -> pl.DataFrame:
        """Remove the rows `where` is true and count them as `name`."""
        hit = table.select(where.fill_null(False)).to_series()
        self._record(table.filter(hit), name, detail, "dropped", bad)
        return table.filter(~hit)

    def change(
        self, table: pl.DataFrame, where: pl.Expr, name: str, detail: pl.Expr, *, bad: bool = False
    ) -> None:
        """Count rows of which the caller replaces a value."""
        self._record(table.filter(where.fill_null(False)), name, detail, "changed", bad)

    def keep(self, table: pl.DataFrame, where: pl.Expr, name: str, detail: pl.Expr) -> None:
        """Count rows that are imported as they are."""
        self._record(table.filter(where.fill_null(False)), name, detail, "kept", False)

    def finish(self, imported: int, *, strict: bool) -> ImportReport:
        """Return the report; InvalidArgument naming the first bad row if `strict`."""
        report = ImportReport(
            path=self.path,
            format=self.format,
            rows=self.rows,
            imported=imported,
            findings=tuple(self._findings.values()),
            notes=tuple(self.notes),
        )
        if report.rows != report.imported + report.dropped:
            raise AssertionError(
                f"{self.path}: {report.rows} rows, {report.imported} imported, "
                f"{report.dropped} dropped"
            )
        if strict and report.bad:
            line, name, detail = min(
                (f.examples[0][0], f.name, f.examples[0][1]) for f in report.findings if f.bad
            )
            raise InvalidArgument(f"{self.path}:{line}: {name}: {detail}")
        return report
