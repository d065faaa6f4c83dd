# SPDX-License-Identifier: Apache-2.0
"""The version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("tenure")
except PackageNotFoundError:  # a source tree on the path
    __version__ = "0+unknown"
