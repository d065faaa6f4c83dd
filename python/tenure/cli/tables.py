# SPDX-License-Identifier: Apache-2.0
"""Tables for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.markup import escape
from rich.table import Table

from tenure._figures import ROWS, format_figure
from tenure.cli.app import console
from tenure.comparison import Comparison
from tenure.simulation import Result


def print_assumptions(assumptions: Iterable[str]) -> None:
    texts = list(assumptions)
    if texts:
        out = console()
        out.print("assumed:")
        for text in texts:
            out.print(f"  - {escape(text)}", soft_wrap=True)


def print_comparison(comparison: Comparison) -> None:
    out = console()
    data = comparison.to_dict()
    work, cluster = data["workload"], data["cluster"]
    seeds = f", seeds {', '.join(map(str, comparison.seeds))}" if comparison.seeds else ""
    out.print(
        f"{cluster['gpus']:,} GPUs, {work['jobs']:,.0f} jobs, {work['gpu_hours']:,.0f} GPU-h, "
        f"offered {work['offered_load']:.2f} of the capacity "
        f"({comparison.funded_load:.2f} funded){seeds}",
        soft_wrap=True,
    )
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for policy in comparison.results:
        table.add_column(policy, justify="right")
    means = {p: comparison.means(p) for p in comparison.results}
    intervals = {p: comparison.intervals(p) for p in comparison.results}
    for label, name, written in ROWS:
        how = written.removesuffix("?")
        if how != written and not any(means[p][name] for p in comparison.results):
            continue
        cells = []
        for policy in comparison.results:
            text = format_figure(means[policy][name], how)
            ends = intervals[policy][name]
            if ends is not None and how in ("%", "x"):
                low, high = (format_figure(v, how).removesuffix(" %") for v in ends)
                text += f" [dim]({low} - {high})[/]"
            cells.append(text)
        table.add_row(label, *cells)
    out.print(table)
    print_assumptions(comparison.assumptions)


def print_leaves(result: Result) -> None:
    table = Table(box=box.SIMPLE)
    table.add_column("leaf")
    for name in (
        "share", "owed GPU-h", "delivered GPU-h", "lost GPU-h", "owed", "within 7 days",
        "hour by hour", "wait p90",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for leaf in result.leaf:
        table.add_row(
            escape(leaf.path),
            format_figure(leaf.share, "%"),
            format_figure(leaf.owed_gpu_h, "n"),
            format_figure(leaf.delivered_gpu_h, "n"),
            format_figure(leaf.lost_gpu_h, "n"),
            format_figure(leaf.owed_cum, "%"),
            format_figure(leaf.owed_win7, "%"),
            format_figure(leaf.owed_strict, "%"),
            format_figure(leaf.wait_s.p90, "s"),
        )
    console().print(table)
