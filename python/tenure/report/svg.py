# SPDX-License-Identifier: Apache-2.0
"""The little SVG that the report needs: scales, axes, text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["LogScale", "Scale", "hues", "number", "path", "svg", "text"]


def number(value: float) -> str:
    """A coordinate in as few characters as are of use."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True)
class Scale:
    """From [low, high] to [begin, end]."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        return self.begin + (value - self.low) / span * (self.end - self.begin)


@dataclass(frozen=True)
class LogScale:
    """The same for logarithms; smaller values are drawn at `low`."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        inner = Scale(math.log(self.low), math.log(self.high), self.begin, self.end)
        return inner(math.log(min(max(value, self.low), self.high)))


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    mark = f' class="{kind}"' if kind else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}"{mark} text-anchor="{anchor}">{escape(words)}</text>'
    )


def path(points: Iterable[tuple[float, float]], kind: str, *, close: bool = False) -> str:
    """A line through the points."""
    steps = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return f'<path class="{kind}" d="M{steps.replace(" ", " L", 1)}{" Z" if close else ""}"/>'


def svg(width: float, height: float, parts: Iterable[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {number(width)} {number(height)}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def hues(paths: Sequence[str]) -> list[str]:
    """A colour for each leaf: a hue for each top-level allocation, lighter from leaf to leaf."""
    programs = list(dict.fromkeys(path.split("/")[0] for path in paths))
    seen: dict[str, int] = {}
    out = []
    for leaf in paths:
        program = leaf.split("/")[0]
        index = seen.setdefault(program, 0)
        seen[program] += 1
        total = sum(other.split("/")[0] == program for other in paths)
        # The golden angle keeps neighbours apart however many there are.
        hue = (215 + 137.5 * programs.index(program)) % 360
        lightness = 42 + 30 * index / max(total, 2)
        out.append(f"hsl({hue:.0f} 55% {lightness:.0f}%)")
    return out
