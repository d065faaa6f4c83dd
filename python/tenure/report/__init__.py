# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML page about a policy on a world, beside others."""

from __future__ import annotations

from tenure.report.page import report_page

__all__ = ["report_page"]
