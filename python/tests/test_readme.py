# SPDX-License-Identifier: Apache-2.0
"""The Python example of README.md runs and prints what it promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tenure

README = Path(__file__).resolve().parents[2] / "README.md"


def test_readme_example(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)
    assert len(blocks) == 1
    names: dict[str, object] = {}
    exec(compile(blocks[0], str(README), "exec"), names)
    result, comparison = names["result"], names["comparison"]
    assert isinstance(result, tenure.Result)
    assert isinstance(comparison, tenure.Comparison)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(result.leaf) + len(comparison.results)
    goodput = comparison.means("budget")["goodput"]
    assert goodput is not None
    assert 0 < goodput <= 1
    assert lines[-1] == f"budget {goodput}"


def test_readme_names_existing_policies_and_commands() -> None:
    text = README.read_text("utf-8")
    for policy in tenure.policies():
        assert f"`{policy}`" in text, policy
    from tenure.cli import app

    for command in app.registered_commands:
        name = command.name or command.callback.__name__  # type: ignore[union-attr]
        assert f"`tenure {name}" in text, name


def test_links_of_the_readme_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text("utf-8")):
        assert (README.parent / target).exists(), target
