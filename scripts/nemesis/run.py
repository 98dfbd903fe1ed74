"""A run of the nemesis on any kind of cluster: its events, clients, end and exit code."""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import trio
from machines import HERE, CantRunHereError, Machines, missing

SKIPPED = 77
BUGS = ("Traceback", "InvariantError")
C = TypeVar("C", bound=Machines)


class Run(ABC, Generic[C]):
    """Builds a cluster, runs it, and removes it, also if a signal ends the run."""

    def __init__(self, options: argparse.Namespace, seed: int, folder: Path) -> None:
        self.options = options
        self.seed = seed
        self.folder = folder
        self.began = time.monotonic()
        self.problems: list[str] = []
        self.clients: dict[str, trio.Process] = {}

    @abstractmethod
    def make_cluster(self, nursery: trio.Nursery) -> C:
        """Return the cluster, of which nothing is built yet."""

    @abstractmethod
    async def carry_out(self, cluster: C) -> None:
        """Start the nodes, trouble them, and check the outcome. The machines are built."""

    def keep_results(self) -> None:
        """Write the results where the options say."""

    def say(self, event: str) -> None:
        line = f"{time.monotonic() - self.began:7.2f} {event}"
        with (self.folder / "events.txt").open("a") as events:
            print(line, file=events)
        if not self.options.quiet:
            print(line, flush=True)

    async def main(self) -> None:
        cluster = None
        try:
            async with trio.open_nursery() as nursery:
                cluster = self.make_cluster(nursery)
                nursery.start_soon(self._end_on_signal, nursery.cancel_scope)
                await cluster.build()
                await self.carry_out(cluster)
                nursery.cancel_scope.cancel()
        finally:
            # Within the run: a process that ended unheard can't be asked about outside of it.
            for client in self.clients.values():
                if client.returncode is None:
                    client.kill()
            if cluster is not None:
                cluster.remove()

    async def _end_on_signal(self, scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self.problems.append(f"ended by {signal.Signals(number).name}")
                scope.cancel()
                return

    async def start_client(self, name: str, program: str, arguments: dict[str, object]) -> None:
        """Start a program of this folder. It writes the answers that it got to NAME.jsonl, and errors to
        NAME.log."""
        given = arguments | {"output": str(self.folder / f"{name}.jsonl")}
        with (self.folder / f"{name}.log").open("wb") as errors:
            self.clients[name] = await trio.lowlevel.open_process(
                [sys.executable, str(HERE / program), json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def errors_of(self, client: str) -> str:
        """Return the end of what a client wrote to its standard error."""
        return (self.folder / f"{client}.log").read_text(errors="replace")[-2000:]

    def find_bugs(self, cluster: C) -> None:
        """Report stack traces in the logs of nodes as problems."""
        for node, host in cluster.hosts.items():
            text = host.log_file.read_text(errors="replace")
            if any(bug in text for bug in BUGS):
                place = max(map(text.find, BUGS))
                self.problems.append(f"node {node} logged a bug: {text[max(0, place - 200) : place + 1500]}")


def parser_of(description: str | None, *, seconds: float, help_of_seconds: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every run."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=seconds, help=f"{help_of_seconds} ({seconds:g})")
    parser.add_argument("--seed", type=int, help="the source of the faults (default: drawn)")
    parser.add_argument("--keep", action="store_true", help="keep the folder, not only if something is wrong")
    parser.add_argument("--quiet", action="store_true", help="only the figures")
    return parser


def end_of_run(
    make_run: Callable[[argparse.Namespace, int, Path], Run[C]], options: argparse.Namespace
) -> int:
    """Carry out a run. Return the exit code: 0 if all was well, 1 if not, `SKIPPED` if it can't run here."""
    if (why := missing()) is not None:
        print(f"can't run here: {why}")
        return SKIPPED
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="nemesis-"))
    run = make_run(options, seed, folder)
    print(f"seed {seed}, folder {folder}", flush=True)
    refusals: list[BaseException] = []
    try:
        trio.run(run.main)
    except* CantRunHereError as group:
        refusals += group.exceptions
    if refusals and not run.problems:
        print(f"can't run here: {refusals[0]}")
        shutil.rmtree(folder, ignore_errors=True)
        return SKIPPED
    run.problems += map(str, refusals)
    for problem in run.problems:
        print(f"WRONG: {problem}")
    run.keep_results()
    if run.problems or options.keep:
        print(f"kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print("all was well" if not run.problems else f"{len(run.problems)} problems")
    return 1 if run.problems else 0
