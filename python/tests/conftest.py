# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tenure


@pytest.fixture(scope="session")
def world() -> tenure.World:
    """Two measured days after one of warm-up; small enough to simulate many times."""
    return tenure.generate("institute", load=1.3, seed=5, days=2, warmup_days=1)


@pytest.fixture(scope="session")
def data() -> Callable[[str], Path]:
    """Path of a published trace; skips where the traces are not there.

    They are looked for in the folder named by TENURE_DATA, else beside the checkout.
    """
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("TENURE_DATA") or root.parent / "shared" / "data")

    def find(name: str) -> Path:
        path = folder / name
        if not path.is_file():
            pytest.skip(f"no {name}: set TENURE_DATA to a folder that has it")
        return path

    return find
