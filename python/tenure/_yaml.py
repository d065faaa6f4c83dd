# SPDX-License-Identifier: Apache-2.0
"""YAML files for people: read into a pydantic model, with errors that name file and line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from tenure.errors import InvalidArgument

__all__ = ["Place", "read_model"]

Model = TypeVar("Model", bound=BaseModel)

Place = Callable[[Sequence[int | str]], tuple[int, str]]
"""Line and dotted key of a location in the file, or of its closest parent that is there."""


def read_model(path: str | Path, model: type[Model]) -> tuple[Model, Place]:
    """Read a file; InvalidArgument "FILE:LINE: KEY: what is wrong"."""
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
        return model.model_validate(data), lambda loc: _locate(root, loc)
    except ValidationError as error:
        first = error.errors()[0]
        line, key = _locate(root, first["loc"])
        raise InvalidArgument(f"{name}:{line}: {key}: {first['msg'].lower()}") from None


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
