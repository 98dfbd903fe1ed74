"""`python -m tests.simulator.explorer`: check every interleaving of the shipped core, within a bound."""

from typing import Annotated

import typer

from tests.simulator.explorer import counterexample
from tests.simulator.explorer.run import Task, Total, run_all
from tests.simulator.explorer.suites import SUITES


def main(
    bound: Annotated[str, typer.Option(help=f"How far to go: {', '.join(SUITES)}.")] = "ci",
    jobs: Annotated[int, typer.Option(help="Explorations at the same time.", min=1)] = 1,
    only: Annotated[str | None, typer.Option(help="The name of one exploration of the bound.")] = None,
    reduction: Annotated[
        bool, typer.Option(help="Leave out answers that nobody waits for, which do nothing.")
    ] = True,
    symmetry: Annotated[
        bool, typer.Option(help="Take states that differ by the names of nodes for one, where that is exact.")
    ] = True,
    replay: Annotated[str | None, typer.Option(help="Go the way to a violation again. Needs --only.")] = None,
    states_max: Annotated[
        int | None, typer.Option(help="Stop each exploration after so many states.")
    ] = None,
    coverage: Annotated[bool, typer.Option(help="Print which role was given which event.")] = False,
    verbose: Annotated[bool, typer.Option(help="Print each level. Needs --jobs 1.")] = False,
) -> None:
    """Visit every state of the quorum's core that the bound allows, and check the invariants in each."""
    if bound not in SUITES:
        raise typer.BadParameter(f"there is no bound {bound!r}, only {', '.join(SUITES)}")
    suite = SUITES[bound]
    if only is not None and only not in suite:
        raise typer.BadParameter(f"there is no exploration {only!r} in {bound}, only {', '.join(suite)}")
    if replay is not None:
        if only is None:
            raise typer.BadParameter("say which exploration's with --only")
        _replay(bound, only, replay, reduction=reduction)
        return
    total = Total()
    names = [only] if only is not None else list(suite)
    tasks = [
        Task(suite=bound, name=name, reduce=reduction, symmetric=symmetry, states_max=states_max)
        for name in names
    ]
    for report in run_all(tasks, jobs=jobs, say=typer.echo if verbose else None):
        total.add(report)
        typer.echo(report.line())
        for line in report.counterexample:
            typer.echo(line)
    typer.echo(
        f"{bound}: {total.states:,} states (for {total.stands_for:,} without symmetry), "
        f"{total.transitions:,} transitions, {total.broken} violations"
    )
    if coverage:
        for line in total.coverage.table():
            typer.echo(line)
    unreached = total.coverage.missing()
    surprising = total.coverage.surprising()
    if only is None and bound != "small":
        for role, kind in unreached:
            typer.echo(f"never reached: {kind} as {role.value}")
    for role, kind in surprising:
        typer.echo(f"reached, though said to be unreachable: {kind} as {role.value}")
    if total.broken or surprising or (only is None and bound != "small" and unreached):
        raise typer.Exit(1)


def _replay(bound: str, only: str, path: str, *, reduction: bool) -> None:
    try:
        world, violation = counterexample.replay(SUITES[bound][only], path, reduce=reduction)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if violation is None:
        typer.echo("Nothing is broken on that way.")
        return
    for line in counterexample.lines_of(world, violation):
        typer.echo(line)
    raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
