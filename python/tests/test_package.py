# SPDX-License-Identifier: Apache-2.0
"""The examples in the documentation run, the types hold, the stubs match."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import tenure
from tenure import _core

PACKAGE = Path(__file__).resolve().parents[1] / "tenure"
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(tenure.__path__, "tenure.")
    if name != "tenure._core"
)


@pytest.mark.parametrize("name", ["tenure", *MODULES])
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_public_names_are_documented() -> None:
    assert len(set(tenure.__all__)) == len(tenure.__all__)
    for name in tenure.__all__:
        thing = getattr(tenure, name)
        if callable(thing):
            assert thing.__doc__, name


def test_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path),
               str(PACKAGE)]  # fmt: skip
    got = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert got.returncode == 0, got.stdout + got.stderr


def test_stub_names_what_the_module_has() -> None:
    stub = Path(tenure.__file__).with_name("_core.pyi").read_text()
    for name in vars(_core):
        if not name.startswith("_"):
            assert f" {name}(" in stub or f"{name}:" in stub, name
    for cls in (_core.BudgetTree, _core.Scheduler, _core.World):
        for name in vars(cls):
            if not name.startswith("_"):
                assert f"def {name}(" in stub, f"{cls.__name__}.{name}"
