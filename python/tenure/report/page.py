# SPDX-License-Identifier: Apache-2.0
"""The page as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from tenure._figures import ROWS, format_figure
from tenure._time import DAY
from tenure._version import __version__
from tenure.cases import summarize
from tenure.errors import InvalidArgument
from tenure.report import gantt, usage, waits
from tenure.report.svg import hues
from tenure.simulation import Result, figures
from tenure.world import World

__all__ = ["report_page"]

# Colour-blind safe (Okabe and Ito); the policy that the page is about comes first.
_POLICY_COLOURS = ("#0072B2", "#E69F00", "#999999", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")

# Whether more is better, for those figures where it is plain.
_BETTER = {
    "owed_cum": max, "owed_cum_worst": max, "owed_cum_worst_program": max, "owed_win7": max,
    "owed_win7_worst": max, "owed_strict": max, "leaves_ge_95": max, "goodput": max, "waste": min,
    "occupancy": max, "gangs_done_share": max, "gang_turnaround_s.p50": min,
    "wait_s.all.p50": min, "wait_s.all.p90": min, "wait_s.debug.p90": min,
    "wait_s.interactive.p90": min, "wait_s.training.p90": min, "wait_s.gang.p90": min,
    "preemptions_per_job": min, "sessions_killed": min, "promises_broken": min,
    "repairs_human": min, "runs_lost": min, "jobs_done": max, "jobs_withdrawn": min,
}  # fmt: skip

_STYLE = """
:root { color-scheme: light; }
body { font: 14px/1.45 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #1c2126;
  max-width: 1200px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 25px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 38px 0 6px; }
p { max-width: 78ch; margin: 6px 0 10px; color: #3c444c; } .lead { font-size: 15px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 0; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, th.words, td.words { text-align: left; }
thead th { border-bottom: 1.5px solid #1c2126; font-weight: 600; }
tbody tr:nth-child(odd) { background: #f5f7f9; } td.best { font-weight: 650; }
td.in { padding-left: 16px; color: #56606a; } th.own, td.own { background: #e8f1f8; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 14px 0 4px; }
.tile { border: 1px solid #d8dee4; border-radius: 6px; padding: 9px 14px; min-width: 128px; }
.tile b { display: block; font-size: 21px; font-weight: 620; } .tile span { color: #56606a; }
.smalls { display: grid; grid-template-columns: repeat(3, 1fr); gap: 10px 16px; }
figure { margin: 0; } figcaption { font-size: 12px; color: #3c444c; }
svg { width: 100%; height: auto; display: block; font-size: 11px; }
svg text { fill: #1c2126; } svg .tick { font-size: 9px; fill: #6a737d; }
.area { fill-opacity: .75; stroke: none; } .owed { fill: none; stroke: #1c2126; stroke-width: .9; }
.budget { fill: none; stroke: #c00; stroke-width: 1; stroke-dasharray: 4 3; }
.grid { stroke: #e3e7eb; stroke-width: .7; } .host { fill: #eef1f4; }
.stopped { fill: #d40000; } .suspended { fill: #e58a00; } .lost { fill: #000; }
.due { stroke: #1c2126; stroke-width: 1.4; } .kept { fill: #0072B2; } .broken { fill: #d40000; }
.legend span { display: inline-block; margin: 0 14px 4px 0; font-size: 12px; }
.legend i { display: inline-block; width: 14px; height: 10px; margin-right: 5px; }
.hatch { background: repeating-linear-gradient(45deg, #7d97ad 0 3px, #d9e3eb 3px 5px); }
.scroll { overflow-x: auto; }
@media (max-width: 820px) { .smalls { grid-template-columns: 1fr; } }
"""


def report_page(
    world: World,
    results: Mapping[str, Result],
    *,
    title: str = "What the scheduler does",
    nodes: int = 16,
    first_day: float | None = None,
    days: float = 3.0,
) -> str:
    """Return the page as HTML without outside references.

    Parameters
    ----------
    world
        What was simulated.
    results
        Results on it by policy. The page is about the first, which needs a timeline; the others
        are compared with it.
    title
        Its heading.
    nodes, first_day, days
        What the GPU timeline shows: the first `nodes` nodes, from day `first_day` on (by default
        a week into the measured time), for `days` days.

    Raises
    ------
    InvalidArgument
        No result, or the first has no timeline.
    """
    if not results:
        raise InvalidArgument("a report needs a result")
    policy, result = next(iter(results.items()))
    if result.timeline is None:
        raise InvalidArgument(f"the result of {policy!r} has no timeline: use record=True")
    colours = hues([leaf.path for leaf in world.leaves])
    policy_colours = {
        name: _POLICY_COLOURS[k % len(_POLICY_COLOURS)] for k, name in enumerate(results)
    }
    used = usage.measure(world, result)
    begin, end = _window(world, first_day, days)
    shown = min(nodes, world.cluster.nodes)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(_setting(world, policy))}</p>',
        _tiles(result),
        "<h2>Verdict</h2>",
        "<p>The same work under every policy. Bold: the best of the row. Owed is a team's "
        "entitlement, capped hour by hour at what it asked for; goodput is funded work that was "
        "kept, as a part of the capacity. The two belong together.</p>",
        _verdict(results),
        "<h2>Use against budget</h2>",
        f"<p>Funded GPUs of each team under <b>{escape(policy)}</b>, means over 6 hours. Red: its "
        "budget; black: what it was owed, the smaller of budget and demand. Time above the black "
        "line is borrowed, time below it is repaid within the window.</p>",
        f'<div class="smalls">{usage.pictures(world, result, used, colours)}</div>',
        "<h2>Waits</h2>",
        "<p>From submission to the first start: the open circle is the median, the full one the "
        "90 % quantile, the line ends at 99 %. Jobs that never started count with their patience "
        "or until the end.</p>",
        _legend(policy_colours),
        waits.distribution(results, policy_colours),
        "<h2>Who waited, and why</h2>",
        _reasons(world, result, used),
        _longest(world, result, used),
        "<h2>Promised starts</h2>",
        "<p>A gang that cannot be placed is promised a start. The dash is the promise, the dot "
        "the start, both in hours after it was made; at 0 its nodes could be taken at once.</p>",
        waits.promises(world, result),
        "<h2>GPU timeline</h2>",
        f"<p>The first {shown} nodes, a row for each GPU, {(end - begin) / DAY:g} days from day "
        f"{begin / DAY:g} on. Point at a bar to read what it is.</p>",
        _timeline_legend(world, colours),
        f'<div class="scroll">'
        f"{gantt.picture(world, result.timeline, colours, shown, begin, end)}</div>",
        _assumptions(world),
        f'<p class="tick">Made by tenure {escape(__version__)}.</p>',
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{chr(10).join(parts)}</body></html>\n"
    )


def _window(world: World, first_day: float | None, days: float) -> tuple[int, int]:
    if days <= 0:
        raise InvalidArgument(f"the timeline shows {days} days, must be more than 0")
    if first_day is None:
        span = world.end_us - world.warmup_us
        begin = world.warmup_us + (7 * DAY if span > 10 * DAY else 0)
    else:
        begin = int(first_day * DAY)
    if not 0 <= begin < world.end_us:
        raise InvalidArgument(f"the timeline begins on day {first_day}, the world ends before")
    return begin, min(begin + int(days * DAY), world.end_us)


def _setting(world: World, policy: str) -> str:
    asked = summarize(world, world.warmup_us, world.end_us)
    return (
        f"Policy {policy} on {world.cluster.gpus:,} GPUs in {world.cluster.nodes:,} nodes, "
        f"{len(world.leaves)} teams, {asked.jobs:,} jobs in "
        f"{(world.end_us - world.warmup_us) / DAY:.0f} measured days. "
        f"{asked.offered_load:.2f} times the capacity was asked for, {asked.funded_load:.2f} of it "
        "funded."
    )


def _tiles(result: Result) -> str:
    kept = result.promises - result.promises_broken
    tiles = (
        ("owed time delivered", format_figure(result.owed_cum, "%")),
        ("worst team", format_figure(result.owed_cum_worst, "%")),
        ("goodput", format_figure(result.goodput, "%")),
        ("waste", format_figure(result.waste, "%")),
        ("gangs finished", format_figure(result.gangs_done_share, "%")),
        ("debug wait, p90", format_figure(result.wait_s["debug"].p90, "s")),
        ("promises kept", f"{kept:,} of {result.promises:,}"),
    )
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
            for name, value in tiles
        )
        + "</div>"
    )


def _table(header: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    heads = "".join(header)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _verdict(results: Mapping[str, Result]) -> str:
    every = {policy: figures(result) for policy, result in results.items()}
    first = next(iter(results))
    header = ["<th></th>"] + [
        f'<th class="own">{escape(p)}</th>' if p == first else f"<th>{escape(p)}</th>"
        for p in results
    ]
    rows = []
    for label, name, written in ROWS:
        how = written.removesuffix("?")
        if how != written and not any(every[p][name] for p in results):
            continue
        numbers = [v for p in results if (v := every[p][name]) is not None]
        best = _BETTER[name](numbers) if name in _BETTER and len(set(numbers)) > 1 else None
        cells = []
        for policy in results:
            value = every[policy][name]
            marks = [m for m, on in (("own", policy == first), ("best", value == best)) if on]
            if value is None or best is None:
                marks = [m for m in marks if m != "best"]
            cells.append(f'<td class="{" ".join(marks)}">{format_figure(value, how)}</td>')
        inner = ' class="in"' if label.startswith(" ") else ""
        rows.append(f"<tr><td{inner}>{escape(label.strip())}</td>{''.join(cells)}</tr>")
    return _table(header, rows, "verdict")


def _legend(colours: Mapping[str, str]) -> str:
    return '<div class="legend">' + "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in colours.items()
    ) + "</div>"  # fmt: skip


def _timeline_legend(world: World, colours: Sequence[str]) -> str:
    marks = (
        '<span><i class="hatch"></i>may be stopped</span>'
        '<span><i style="background:#d40000;width:4px"></i>stopped for another</span>'
        '<span><i style="background:#e58a00;width:4px"></i>suspended while idle</span>'
        '<span><i style="background:#000;width:4px"></i>lost with its host</span>'
    )
    leaves = {leaf.path: colour for leaf, colour in zip(world.leaves, colours, strict=True)}
    if len(leaves) > 30:
        return f'<div class="legend">{marks}</div>'
    return f'<div class="legend">{marks}</div>' + _legend(leaves)


def _reasons(world: World, result: Result, used: usage.Usage) -> str:
    rows = [
        f"<tr><td>{escape(reason)}</td><td>{jobs:,}</td><td>{hours:,.0f}</td></tr>"
        for reason, jobs, hours in waits.reasons(world, result, used)
    ]
    if not rows:
        return "<p>No funded job waited longer than an hour.</p>"
    return _table(
        ["<th>Funded work that waited longer than an hour</th>", "<th>jobs</th>",
         "<th>GPU-hours asked for</th>"], rows,
    )  # fmt: skip


def _longest(world: World, result: Result, used: usage.Usage) -> str:
    rows = []
    for w in waits.longest(world, result, used):
        waited = format_figure(w.wait_us / 1e6, "s") + ("" if w.started else ", never started")
        rows.append(
            f'<tr><td>{w.job}</td><td class="words">{escape(w.leaf)}</td>'
            f'<td class="words">{w.kind}</td><td>{w.gpus}</td>'
            f"<td>d{w.submitted_us / DAY:.1f}</td><td>{waited}</td><td>{100 * w.use:.0f} %</td>"
            f'<td class="words">{escape(w.reason)}</td></tr>'
        )
    if not rows:
        return ""
    return "<p>The longest waits, with what the team used of its budget meanwhile:</p>" + _table(
        [f'<th class="{kind}">{name}</th>' for name, kind in (
            ("job", ""), ("team", "words"), ("class", "words"), ("GPUs", ""), ("submitted", ""),
            ("waited", ""), ("team used", ""), ("why", "words"),
        )],
        rows,
    )  # fmt: skip


def _assumptions(world: World) -> str:
    if not world.assumptions:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in world.assumptions)
    return f"<h2>Assumed</h2><ul>{items}</ul>"
