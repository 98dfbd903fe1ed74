"""`python -m tests.simulator.isr_explorer`: check every interleaving of the shipped ISR protocol, within a
bound."""

from typing import Annotated

import typer

from tests.simulator.isr_explorer import isr_counterexample
from tests.simulator.isr_explorer.isr_run import IsrTask, run_all_isr
from tests.simulator.isr_explorer.isr_suites import ISR_SUITES


def main(
    bound: Annotated[str, typer.Option(help=f"How far to go: {', '.join(ISR_SUITES)}.")] = "ci",
    jobs: Annotated[int, typer.Option(help="Explorations at the same time.", min=1)] = 1,
    only: Annotated[str | None, typer.Option(help="The name of one exploration of the bound.")] = None,
    replay: Annotated[str | None, typer.Option(help="Go the way to a violation again. Needs --only.")] = None,
    states_max: Annotated[
        int | None, typer.Option(help="Stop each exploration after so many states.")
    ] = None,
    verbose: Annotated[bool, typer.Option(help="Print each level. Needs --jobs 1.")] = False,
) -> None:
    """Visit every state of a partition, its brokers and the controller that the bound allows, and check the
    invariants in each."""
    if bound not in ISR_SUITES:
        raise typer.BadParameter(f"there is no bound {bound!r}, only {', '.join(ISR_SUITES)}")
    suite = ISR_SUITES[bound]
    if only is not None and only not in suite:
        raise typer.BadParameter(f"there is no exploration {only!r} in {bound}, only {', '.join(suite)}")
    if replay is not None:
        if only is None:
            raise typer.BadParameter("say which exploration's with --only")
        _replay(bound, only, replay)
        return
    names = [only] if only is not None else list(suite)
    tasks = [IsrTask(suite=bound, name=name, states_max=states_max) for name in names]
    states = transitions = broken = 0
    for report in run_all_isr(tasks, jobs=jobs, say=typer.echo if verbose else None):
        states += report.states
        transitions += report.transitions
        broken += bool(report.counterexample)
        typer.echo(report.line())
        for line in report.counterexample:
            typer.echo(line)
    typer.echo(f"{bound}: {states:,} states, {transitions:,} transitions, {broken} violations")
    if broken:
        raise typer.Exit(1)


def _replay(bound: str, only: str, way: str) -> None:
    try:
        world, breach = isr_counterexample.replayed(ISR_SUITES[bound][only], way)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if breach is None:
        typer.echo("Nothing is broken on that way.")
        return
    for line in isr_counterexample.lines_of(world, breach):
        typer.echo(line)
    raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
