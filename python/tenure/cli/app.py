# SPDX-License-Identifier: Apache-2.0
"""The application that the commands are added to, and what all of them need."""

from __future__ import annotations

import functools
import inspect
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tenure._version import __version__
from tenure.errors import Cancelled, Error, Internal, InvalidArgument

app = typer.Typer(
    help="GPU-time budgets with a guaranteed minimum runtime: simulate and compare policies.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"tenure {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def command(name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to the application.

    A parameter that is annotated with a dataclass stands for the options that its fields describe.
    Errors end the command with one line on stderr and an exit code.
    """

    def add(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name)(_guarded(_expanded(function)))
        return function

    return add


def _expanded(function: Callable[..., None]) -> Callable[..., None]:
    """A function with the fields of its dataclass parameters as parameters of its own."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[Any]] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        if not is_dataclass(hint):
            parameters.append(
                parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
            )
            continue
        assert isinstance(hint, type)
        groups[parameter.name] = hint
        field_hints = get_type_hints(hint, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=field_hints[field.name],
            )
            for field in fields(hint)
        ]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _guarded(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(**given: Any) -> None:
        try:
            function(**given)
        except (Internal, Cancelled) as error:
            fail(str(error), 1)
        except Error as error:
            fail(str(error), 2)
        except OSError as error:
            if error.filename is None:
                raise
            fail(f"{error.filename}: {(error.strerror or 'cannot be used').lower()}", 2)

    return run


def fail(message: str, code: int) -> NoReturn:
    console(stderr=True).print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    raise typer.Exit(code)


def console(*, stderr: bool = False) -> Console:
    out = Console(stderr=stderr, highlight=False)
    if not out.is_terminal:
        out.width = 140  # a file or a pipe: never cut a table
    return out


@contextmanager
def progress(label: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, only on a terminal."""
    err = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)


@contextmanager
def executor(jobs: int, tasks: int) -> Iterator[Executor | None]:
    """Processes for `jobs` (0 = one a CPU), or None for work here.

    New interpreters, not forks: a fork of a process that has threads can hang.
    """
    if jobs < 0:
        raise InvalidArgument(f"--jobs is {jobs}, must not be negative")
    count = min(jobs or os.cpu_count() or 1, tasks)
    if count <= 1:
        yield None
        return
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
    with _ignored_interrupt():  # which the workers inherit: Ctrl-C is for this process
        for _ in range(count):
            pool.submit(os.getpid)
    try:
        yield pool
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


@contextmanager
def _ignored_interrupt() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def writable(path: Path | None) -> None:
    """Fail before long work rather than after it; makes the folder."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidArgument(f"{path}: cannot be written")
