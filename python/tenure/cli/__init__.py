# SPDX-License-Identifier: Apache-2.0
"""The command `tenure`. Exit codes: 0 done, 1 something failed, 2 bad input.

One module for each group of commands; options that several of them have are defined once, in
`tenure.cli.options`.
"""

from __future__ import annotations

from tenure._figures import format_figure
from tenure.cli import (  # noqa: F401  (they add their commands)
    check,
    compare,
    explain,
    files,
    replay,
    report,
    sweep,
)
from tenure.cli.app import app
from tenure.cli.options import parse_seeds

__all__ = ["app", "format_figure", "main", "parse_seeds"]


def main() -> None:
    """Entry point."""
    app()
