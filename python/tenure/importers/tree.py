# SPDX-License-Identifier: Apache-2.0
"""A budget tree from a YAML file, or from the shares teams had in a trace.

A tree file::

    allocations:
      - name: vision
        weight: 35
        children:
          - name: robots
            weight: 8
            groups: [vc_a, vc_b]     # groups of the trace; default: the name
          - name: video
            weight: 27
      - name: language
        weight: 65
    unmatched: language              # leaf of groups named nowhere; without it they are an error
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tenure._yaml import read_model
from tenure.errors import InvalidArgument
from tenure.world import Leaf

__all__ = ["BudgetFile", "read_tree"]


class AllocationModel(BaseModel):
    """A node of the tree below the root."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, pattern=r"^[^/]+$")]
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)]
    groups: list[str | int] | None = None
    children: list[AllocationModel] = []


class TreeModel(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allocations: Annotated[list[AllocationModel], Field(min_length=1)]
    unmatched: str | None = None


@dataclass(frozen=True)
class BudgetFile:
    """Leaves, which leaf each group of a trace belongs to, and the leaf of all other groups."""

    path: str
    leaves: tuple[Leaf, ...]
    leaf_of: Mapping[str, int]
    unmatched: int | None


def read_tree(path: str | Path) -> BudgetFile:
    """Read a tree file; InvalidArgument "FILE:LINE: KEY: what is wrong"."""
    name = str(path)
    tree, place = read_model(path, TreeModel)
    leaves: list[Leaf] = []
    leaf_of: dict[str, int] = {}

    def visit(
        nodes: Sequence[AllocationModel],
        names: tuple[str, ...],
        weights: tuple[float, ...],
        loc: tuple[int | str, ...],
    ) -> None:
        seen: set[str] = set()
        for i, node in enumerate(nodes):
            here = (*loc, i)

            def bad(key: str, text: str, at: tuple[int | str, ...] = here) -> InvalidArgument:
                line, where = place((*at, key))
                return InvalidArgument(f"{name}:{line}: {where}: {text}")

            if node.name in seen:
                raise bad("name", f"{node.name!r} is there twice")
            seen.add(node.name)
            path_names, path_weights = (*names, node.name), (*weights, node.weight)
            if node.children:
                if node.groups is not None:
                    raise bad("groups", "only a leaf has groups")
                visit(node.children, path_names, path_weights, (*here, "children"))
                continue
            for group in [node.name] if node.groups is None else node.groups:
                if str(group) in leaf_of:
                    other = leaves[leaf_of[str(group)]].path
                    raise bad(
                        "groups" if node.groups else "name",
                        f"group {str(group)!r} belongs to {other!r} already",
                    )
                leaf_of[str(group)] = len(leaves)
            leaves.append(Leaf("/".join(path_names), path_weights))

    visit(tree.allocations, (), (), ("allocations",))
    unmatched = None
    if tree.unmatched is not None:
        paths = [leaf.path for leaf in leaves]
        if tree.unmatched not in paths:
            line, key = place(("unmatched",))
            raise InvalidArgument(f"{name}:{line}: {key}: no leaf {tree.unmatched!r}")
        unmatched = paths.index(tree.unmatched)
    return BudgetFile(name, tuple(leaves), leaf_of, unmatched)
