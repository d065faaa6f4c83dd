# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tenure
from tenure.cli import app
from tenure.report import report_page
from tenure.report.gantt import bars
from tenure.report.usage import measure

VOID = {"meta", "br", "img", "link", "input"}


class Structure(HTMLParser):
    """Elements are closed in order; counts of tags and classes, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.classes.update((dict(attrs).get("class") or "").split())
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.classes.update((dict(attrs).get("class") or "").split())

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def results(world: tenure.World) -> dict[str, tenure.Result]:
    faults = tenure.Faults(mean_uptime=10 * 86_400_000_000)
    return {
        "budget": tenure.simulate(world, "budget", record=True, faults=faults),
        "ai2": tenure.simulate(world, "ai2", faults=faults),
    }


def test_page_has_every_part_and_nothing_from_outside(
    world: tenure.World, results: dict[str, tenure.Result]
) -> None:
    page = report_page(world, results, title="A <b> month", nodes=8, days=1)
    structure = Structure()
    structure.feed(page)
    assert structure.open == []
    text = " ".join(structure.words)
    for part in (
        "A <b> month", "Verdict", "Use against budget", "Waits", "Who waited, and why",
        "Promised starts", "GPU timeline", "Assumed", "owed time delivered", "goodput", "node 7",
    ):  # fmt: skip
        assert part in text
    for leaf in world.leaves:
        assert leaf.path in text
    assert "node 8" not in text
    # One picture a leaf, one of waits, one of promises (if any), one timeline.
    assert structure.tags["svg"] in (len(world.leaves) + 2, len(world.leaves) + 3)
    assert structure.classes["area"] == structure.classes["budget"] == len(world.leaves)
    assert structure.classes["run"] > 50
    assert structure.classes["stopped"] > 0
    assert "url(#hatch)" in page
    assert not re.search(r"(src|href)=|url\((?!#)|@import|<script", page)
    assert "NaN" not in page and "nan" not in re.findall(r'"[^"]*"', page)


def test_no_gpu_is_drawn_twice(world: tenure.World, results: dict[str, tenure.Result]) -> None:
    timeline = results["budget"].timeline
    assert timeline is not None
    begin, end = world.warmup_us, world.end_us
    drawn = bars(world, timeline, 16, begin, end)
    rows: dict[tuple[int, int], list[tuple[int, int]]] = {}
    area = 0
    for bar in drawn:
        run = timeline.runs[bar.run]
        for gpu in range(bar.gpu, bar.gpu + bar.gpus):
            rows.setdefault((bar.node, gpu), []).append((int(run["start_us"]), int(run["end_us"])))
        area += bar.gpus * (min(int(run["end_us"]), end) - max(int(run["start_us"]), begin))
    for spans in rows.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert 0.9 < area / (16 * 8 * (end - begin)) <= 1


def test_use_is_what_the_result_says(
    world: tenure.World, results: dict[str, tenure.Result]
) -> None:
    used = measure(world, results["budget"])
    hours = used.running.sum(axis=1) * used.step_us / 3_600_000_000
    delivered = [leaf.delivered_gpu_h for leaf in results["budget"].leaf]
    np.testing.assert_allclose(hours, delivered, rtol=1e-6, atol=1e-6)
    assert (used.wanted >= used.running - 1e-6).all()
    # The page has entitlements of the whole cluster, the result of the hosts that are up.
    available = results["budget"].availability
    assert available is not None
    entitled = used.entitled[:, None] * available
    owed = np.minimum(used.wanted, entitled).sum() * used.step_us / 3_600_000_000
    assert owed == pytest.approx(sum(x.owed_gpu_h for x in results["budget"].leaf), rel=0.05)


def test_errors(world: tenure.World, results: dict[str, tenure.Result]) -> None:
    with pytest.raises(tenure.InvalidArgument, match="has no timeline"):
        report_page(world, {"ai2": results["ai2"]})
    with pytest.raises(tenure.InvalidArgument, match="needs a result"):
        report_page(world, {})
    with pytest.raises(tenure.InvalidArgument, match="ends before"):
        report_page(world, results, first_day=400)
    with pytest.raises(tenure.InvalidArgument, match="must be more than 0"):
        report_page(world, results, days=0)


def test_command(tmp_path: Path) -> None:
    out = tmp_path / "new" / "report.html"
    got = CliRunner().invoke(
        app,
        ["report", "-o", str(out), "--days", "2", "--warmup-days", "0", "--policies",
         "budget,priority", "--jobs", "1", "--hosts", "4", "--title", "Two days"],
    )  # fmt: skip
    assert got.exit_code == 0, got.output
    page = out.read_text()
    assert "<h1>Two days</h1>" in page and "priority" in page
