# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one root, one subclass per status code of the C++ core."""

from __future__ import annotations

__all__ = [
    "AlreadyExists",
    "Cancelled",
    "Error",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "OutOfRange",
    "ResourceExhausted",
    "Unavailable",
]


class Error(Exception):
    """Root of everything the package raises on purpose."""


class InvalidArgument(Error, ValueError):
    """The argument can never be valid."""


class NotFound(Error, LookupError):
    """What is named does not exist."""


class AlreadyExists(Error):
    """What would be made is there already."""


class FailedPrecondition(Error):
    """Valid, but not in this state: change the state first."""


class ResourceExhausted(Error):
    """A limit of the library or of the site is reached."""


class Unavailable(Error):
    """What is asked for is not here, such as a GPU for the plan search."""


class OutOfRange(Error):
    """Time went backwards, or a value left its range."""


class Internal(Error):
    """A defect of the library."""


class Cancelled(Error):
    """The caller's progress callback asked to stop."""
