"""`python -m tests.simulator`: run seeds of whole-cluster simulations."""

from typing import Annotated

import typer

from tests.simulator import shrinking
from tests.simulator.seeds import Subject, run_many, run_seeds


def main(
    seed: Annotated[int, typer.Option(help="The first seed to run.")] = 1,
    seeds: Annotated[int, typer.Option(help="How many to run, counting up.")] = 1,
    core: Annotated[bool, typer.Option("--core", help="Simulate the protocol alone: quick.")] = False,
    sessions: Annotated[
        bool, typer.Option("--sessions", help="Simulate the clients of a quorum, in short runs.")
    ] = False,
    access: Annotated[
        bool, typer.Option("--access", help="Simulate users whose rights change, in short runs.")
    ] = False,
    quorum: Annotated[bool, typer.Option("--quorum/--broker", help="What to simulate.")] = True,
    jobs: Annotated[
        int, typer.Option(help="Run that many at once, and say only what fails and the counts.")
    ] = 0,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Tell a failing seed with as few kinds of faults as it takes.")
    ] = False,
    verbose: Annotated[bool, typer.Option(help="Print every event.")] = False,
) -> None:
    """Break simulated clusters and check their invariants. The same seed and code give the same run."""
    what = Subject.QUORUM if quorum else Subject.BROKER
    if core or sessions:
        what = Subject.CORE if core else Subject.SESSIONS
    if access:
        what = Subject.ACCESS
    if shrink:
        if shrinking.shrink(seed, what=what, say=typer.echo):
            raise typer.Exit(1)
        return
    numbers = range(seed, seed + seeds)
    if jobs:
        if run_many(numbers, what=what, jobs=jobs, say=typer.echo).failures:
            raise typer.Exit(1)
        return
    failed = run_seeds(numbers, what=what, verbose=verbose, say=typer.echo)
    if failed:
        typer.echo(f"{len(failed)} of {seeds} failed: {failed}")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
