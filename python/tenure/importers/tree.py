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
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
    try:
        root = yaml.compose(Path(path).read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{name}: not UTF-8: {error.reason}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InvalidArgument(f"{name}:{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise InvalidArgument(f"{name}: not YAML: {error}") from None
    if root is None:
        raise InvalidArgument(f"{name}:1: the file is empty")
    _refuse_duplicate_keys(name, root)
    data = yaml.SafeLoader("").construct_document(root)
    try:
        tree = TreeModel.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        line, key = _locate(root, first["loc"])
        raise InvalidArgument(f"{name}:{line}: {key}: {first['msg'].lower()}") from None
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
                line, where = _locate(root, (*at, key))
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
            line, key = _locate(root, ("unmatched",))
            raise InvalidArgument(f"{name}:{line}: {key}: no leaf {tree.unmatched!r}")
        unmatched = paths.index(tree.unmatched)
    return BudgetFile(name, tuple(leaves), leaf_of, unmatched)


def _refuse_duplicate_keys(name: str, node: yaml.Node) -> None:
    """YAML lets the last of two equal keys win silently; refuse that."""
    stack: list[yaml.Node] = [node]
    visited: set[int] = set()
    while stack:
        current = stack.pop()
        if id(current) in visited:
            continue
        visited.add(id(current))
        if isinstance(current, yaml.MappingNode):
            seen: set[Any] = set()
            for key, value in current.value:
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise InvalidArgument(f"{name}:{line}: {key.value}: key is there twice")
                seen.add(key.value)
                stack.append(value)
        elif isinstance(current, yaml.SequenceNode):
            stack.extend(current.value)


def _locate(root: yaml.Node, loc: Sequence[int | str]) -> tuple[int, str]:
    """Line and dotted key of a place in the file, or of its closest parent that is there."""
    node, line, key = root, root.start_mark.line + 1, ""
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            key = f"{key}.{part}" if key else str(part)
            found = next(((k, v) for k, v in node.value if k.value == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            key = f"{key}[{part}]"
            if part >= len(node.value):
                break
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line, key or "file"
