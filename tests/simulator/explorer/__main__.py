"""`python -m tests.simulator.explorer`: check every interleaving of the shipped core, or with `--isr` of the
shipped ISR protocol, within a bound."""

from pathlib import Path
from typing import Annotated

import typer

from tests.simulator.explorer.exploration import Subject, Task, Total, replay, run_all


def main(
    isr: Annotated[bool, typer.Option("--isr", help="The ISR protocol, in place of the core.")] = False,
    bound: Annotated[str, typer.Option(help="How far to go: small, ci or large.")] = "ci",
    jobs: Annotated[int, typer.Option(help="Explorations at the same time.", min=1)] = 1,
    only: Annotated[str | None, typer.Option(help="The name of one exploration of the bound.")] = None,
    reduction: Annotated[
        bool, typer.Option(help="Leave out answers that nobody waits for, which do nothing. Core only.")
    ] = True,
    symmetry: Annotated[
        bool,
        typer.Option(help="Take states that differ by the names of nodes for one, where exact. Core only."),
    ] = True,
    path: Annotated[
        str | None, typer.Option("--replay", help="Go the way to a violation again. Needs --only.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the first violation as a script for quorate raft play. Core only."),
    ] = None,
    states_max: Annotated[
        int | None, typer.Option(help="Stop each exploration after so many states.")
    ] = None,
    coverage: Annotated[
        bool, typer.Option(help="Print which role was given which event. Core only.")
    ] = False,
    verbose: Annotated[bool, typer.Option(help="Print each level. Needs --jobs 1.")] = False,
) -> None:
    """Visit every state that the bound allows, of the quorum's core or of a partition's replication, and
    check the invariants in each."""
    subject = Subject.ISR if isr else Subject.CORE
    if isr and (coverage or not reduction or not symmetry or save is not None):
        raise typer.BadParameter(
            "the ISR protocol has no reduction, no symmetry, no roles to cover and no script; its steps are "
            "printed, and --replay goes them again"
        )
    if bound not in subject.names:
        raise typer.BadParameter(f"there is no bound {bound!r}, only {', '.join(subject.names)}")
    names = subject.names[bound]
    if only is not None and only not in names:
        raise typer.BadParameter(f"there is no exploration {only!r} in {bound}, only {', '.join(names)}")
    tasks = [
        Task(
            subject=subject,
            suite=bound,
            name=name,
            reduce=reduction,
            symmetric=symmetry,
            states_max=states_max,
        )
        for name in (names if only is None else (only,))
    ]
    if path is not None:
        if only is None:
            raise typer.BadParameter("say which exploration's with --only")
        _replay(tasks[0], path, save)
        return
    total = Total()
    for report in run_all(tasks, jobs=jobs, say=typer.echo if verbose else None):
        total.add(report)
        typer.echo(report.line())
        for line in report.counterexample:
            typer.echo(line)
        if report.script and save is not None:
            _save(report.script, save)
            save = None
    stands_for = "" if isr else f" (for {total.stands_for:,} without symmetry)"
    typer.echo(
        f"{bound}: {total.states:,} states{stands_for}, {total.transitions:,} transitions, "
        f"{total.broken} violations"
    )
    if coverage:
        for line in total.coverage.table():
            typer.echo(line)
    whole = not isr and only is None and bound != "small"
    unreached = total.coverage.missing() if whole else ()
    surprising = total.coverage.surprising()
    for role, kind in unreached:
        typer.echo(f"never reached: {kind} as {role.value}")
    for role, kind in surprising:
        typer.echo(f"reached, though said to be unreachable: {kind} as {role.value}")
    if total.broken or surprising or unreached:
        raise typer.Exit(1)


def _save(script: str, file: Path) -> None:
    file.write_text(script, "utf-8")
    typer.echo(f"Step through it: quorate raft play {file}")


def _replay(task: Task, path: str, save: Path | None) -> None:
    try:
        lines, script = replay(task, path)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    for line in lines or ("Nothing is broken on that way.",):
        typer.echo(line)
    if script and save is not None:
        _save(script, save)
    if lines:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
