# SPDX-License-Identifier: Apache-2.0
"""What a team might do to get more than its budget."""

from __future__ import annotations

from tenure import _core
from tenure.errors import InvalidArgument
from tenure.world import World

__all__ = ["GAME_STRATEGIES", "game"]

GAME_STRATEGIES: tuple[str, ...] = _core.GAME_STRATEGIES
"""none

inflate
    Every session, training and serving job declares the longest minimum.
split
    Funded training of more than 8 GPUs becomes independent jobs of at most 8.
pieces
    The same, and each part becomes a series of pieces of 15 minutes, submitted all at once.
resubmit
    Training becomes a series of jobs as long as their minimum: whatever runs is protected.
hold
    With each session come 8 that hold a GPU for 7 days and do not use it.
subaccounts
    The leaf is divided into 4 children of equal weight; users are dealt among them.
high
    Everything has the highest priority.
lane
    Training declares minimums of 15 minutes, up to 8 GPUs as class debug.
"""


def game(world: World, strategy: str, leaf: int | str) -> tuple[World, tuple[int, ...]]:
    """Return `world` with one team playing, and the indices of its leaves afterwards.

    The amount of real work stays the same; only what is declared about it changes.

    Parameters
    ----------
    world
        Is left as it is.
    strategy
        One of GAME_STRATEGIES.
    leaf
        Index or path of the team's leaf.

    Raises
    ------
    InvalidArgument
        There is no such strategy or leaf.

    >>> from tenure import generate
    >>> world = generate(days=1, warmup_days=0)
    >>> game(world, "subaccounts", "vision/generation")[1]
    (4, 15, 16, 17)
    """
    if isinstance(leaf, str):
        paths = [known.path for known in world.leaves]
        if leaf not in paths:
            raise InvalidArgument(f"no leaf {leaf!r} in the world")
        leaf = paths.index(leaf)
    core, leaves = _core.game(world._core, leaf, strategy)
    return World._from_core(core, world.warmup_us, world.end_us), tuple(leaves)
