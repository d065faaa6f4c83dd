# SPDX-License-Identifier: Apache-2.0
"""A figure of policies side by side. Needs matplotlib (`pip install tenure[plot]`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tenure.comparison import Comparison
from tenure.errors import FailedPrecondition, InvalidArgument

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_comparison", "require_matplotlib"]

# Colour-blind safe (Okabe and Ito), the last ones repeated for more policies.
_COLOURS = ("#999999", "#56B4E9", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#F0E442")

_OWED = (
    ("total", "owed_cum"),
    ("worst\nprogram", "owed_cum_worst_program"),
    ("worst\nleaf", "owed_cum_worst"),
    ("within\n7 days", "owed_win7"),
    ("7 days,\nworst leaf", "owed_win7_worst"),
)
_WORK = (("goodput", "goodput"), ("occupancy", "occupancy"))
_LOSS = (("lost work,\nrestarts", "waste"),)
_WAITS = ("all", "debug", "interactive", "training", "gang")
_TICKS = (
    (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (6 * 3600, "6 h"),
    (86_400, "1 d"), (7 * 86_400, "7 d"),
)  # fmt: skip


def require_matplotlib() -> None:
    """FailedPrecondition if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise FailedPrecondition("a plot needs matplotlib: pip install 'tenure[plot]'") from None


def _bars(
    axes: Axes,
    comparison: Comparison,
    labels: Sequence[str],
    names: Sequence[str],
    scale: float,
    *,
    floor: float = 0.0,
) -> None:
    """Groups of bars, one bar for each policy, with the intervals as whiskers."""
    policies = list(comparison.results)
    width = 0.8 / len(policies)
    for k, policy in enumerate(policies):
        means, intervals = comparison.means(policy), comparison.intervals(policy)
        x = np.arange(len(names)) + (k - (len(policies) - 1) / 2) * width
        height = [
            np.nan if means[n] is None else max((means[n] or 0.0) * scale, floor) for n in names
        ]
        axes.bar(x, height, width * 0.92, color=_COLOURS[k % len(_COLOURS)], label=policy, zorder=2)
        for position, name, top in zip(x, names, height, strict=True):
            interval = intervals[name]
            if interval is not None:
                low, high = (max(v * scale, floor) for v in interval)
                axes.plot([position, position], [low, high], color="black", lw=1, zorder=3)
            if np.isnan(top):
                axes.text(position, 0.02, "-", ha="center", transform=axes.get_xaxis_transform())
    axes.set_xticks(range(len(labels)), labels, fontsize=8)
    axes.grid(axis="y", color="#dddddd", lw=0.6, zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def plot_comparison(comparison: Comparison, path: str | Path) -> None:
    """Draw owed time, goodput, losses and waits of every policy; the format follows the name.

    Raises
    ------
    FailedPrecondition
        matplotlib is not installed.
    InvalidArgument
        It cannot write a file of this name.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7.2), layout="constrained")
    grid = figure.add_gridspec(2, 6)
    owed = figure.add_subplot(grid[0, :])
    _bars(owed, comparison, [a for a, _ in _OWED], [b for _, b in _OWED], 100)
    owed.axhline(98, color="#555555", lw=0.8, ls="--", zorder=1)
    owed.set_ylabel("% of owed GPU time")
    whiskers = "; whiskers: 95 % interval" if len(comparison.seeds) > 1 else ""
    owed.set_title(f"Owed time delivered (dashed: 98 %{whiskers})", loc="left")
    owed.set_ylim(0, 104)

    work = figure.add_subplot(grid[1, 0:2])
    _bars(work, comparison, [a for a, _ in _WORK], [b for _, b in _WORK], 100)
    work.set_title("Capacity used", loc="left")
    work.set_ylabel("% of capacity")
    work.set_ylim(0, 104)

    loss = figure.add_subplot(grid[1, 2])
    _bars(loss, comparison, [a for a, _ in _LOSS], [b for _, b in _LOSS], 100)
    loss.set_title("Waste", loc="left")
    loss.set_ylabel("% of occupied GPU time")
    loss.set_ylim(bottom=0)

    wait = figure.add_subplot(grid[1, 3:])
    _bars(wait, comparison, _WAITS, [f"wait_s.{group}.p90" for group in _WAITS], 1.0, floor=1.0)
    wait.set_yscale("log")
    wait.set_ylim(1, 14 * 86_400)
    wait.set_yticks([t for t, _ in _TICKS], [text for _, text in _TICKS])
    wait.minorticks_off()
    wait.set_title("Queue wait, p90 (log scale; lower is better)", loc="left")

    work_summary: dict[str, Any] = comparison.to_dict()["workload"]
    seeds = f", {len(comparison.seeds)} seeds" if len(comparison.seeds) > 1 else ""
    figure.suptitle(
        f"{comparison.cluster.gpus:,} GPUs, {work_summary['jobs']:,.0f} jobs, offered "
        f"{work_summary['offered_load']:.2f} of the capacity ({comparison.funded_load:.2f} funded)"
        f"{seeds}",
        x=0.01,
        ha="left",
    )
    handles, labels = owed.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:
        raise InvalidArgument(f"{path}: {error}") from None
