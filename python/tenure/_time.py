# SPDX-License-Identifier: Apache-2.0
"""Time to and from integer microseconds."""

from __future__ import annotations

import re
from datetime import timedelta

from tenure.errors import InvalidArgument

Time = int | timedelta
"""A duration, or a time since the start: integer microseconds or a timedelta; never a float."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {"us": 1, "ms": 1000, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_TEXT = re.compile(r"(\d+)\s*(us|ms|s|m|h|d)")


def to_us(value: Time, what: str = "time") -> int:
    """Return `value` in microseconds; InvalidArgument naming `what` if it is not a Time."""
    if isinstance(value, timedelta):
        return (value.days * 86_400 + value.seconds) * SECOND + value.microseconds
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgument(f"{what} is {value!r}, must be a timedelta or integer microseconds")
    return value.__index__()


def parse_us(text: str, what: str = "duration") -> int:
    """Parse "90s", "15m", "8h", "7d" or "1h30m" into microseconds.

    >>> parse_us("1h30m")
    5400000000
    """
    total, end = 0, 0
    stripped = text.strip()
    for match in _TEXT.finditer(stripped):
        if match.start() != end:
            break
        total += int(match[1]) * _UNITS[match[2]]
        end = match.end()
    if stripped == "0":
        return 0
    if end == 0 or end != len(stripped):
        raise InvalidArgument(f'{what} is {text!r}, must look like "90s", "15m", "8h" or "1h30m"')
    return total


def format_us(us: int) -> str:
    """The inverse of `parse_us`, in the fewest units.

    >>> format_us(5400000000)
    '1h30m'
    """
    if us == 0:
        return "0s"
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, us = divmod(us, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)
