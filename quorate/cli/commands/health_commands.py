"""`quorate cluster health`: is the cluster well, and if not, what mends it."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from quorate.cli.commands.options import BrokersOption, ControllersOption, JsonOption
from quorate.cli.console.cli_errors import CommandExit, ExitCode, fail, user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, command_config, network, parse_addresses
from quorate.cli.console.output import print_json, time_text

if TYPE_CHECKING:
    from quorate.health import Observation, Problem

    Observe = Callable[["Observation | None"], Awaitable["Observation"]]

_PAUSE_S: Final = 2.0


def health(
    bootstrap: BrokersOption = None,
    controllers: ControllersOption = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A node's folder, as it was at its last record.", exists=True, file_okay=False),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until Ctrl-C, and print what changes, with the time.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether the cluster is well: one line if it is, otherwise each problem with its cause and remedy.

    All is asked at once, and within 3 s. What could not be learnt in that time is named. With
    --bootstrap-controller only controllers need be reached; with both options, brokers and controllers are
    asked. Exit codes: 0 well, 1 not, 3 nobody reached.
    """
    if data is not None and (bootstrap is not None or controllers is not None):
        raise wrong_usage("give --data, or an address to ask, not both")
    if data is not None and watch:
        raise wrong_usage("--watch needs a cluster that runs: leave --data out")
    with user_errors():
        import trio

        observe = _folder_observer(data) if data is not None else _live_observer(bootstrap, controllers)
        if watch:
            try:
                trio.run(_watch, observe, as_json)
            except* KeyboardInterrupt:
                pass  # its usual end
            return
        observation = trio.run(observe, None)
        _check_reached(observation, ExitCode.UNAVAILABLE if data is None else ExitCode.STORAGE)
        if not _show(observation, as_json=as_json):
            raise CommandExit(ExitCode.FAILED)


def _live_observer(bootstrap: str | None, controllers: str | None) -> "Observe":
    from quorate.cli.images.observed_metadata import LiveMetadata
    from quorate.health import observe

    if bootstrap is None and controllers is None:
        bootstrap = DEFAULT_BOOTSTRAP
    brokers = [] if bootstrap is None else parse_addresses(bootstrap)
    asked = [] if controllers is None else parse_addresses(controllers, option="--bootstrap-controller")
    used = network()
    # With both, the controllers have what is committed, even when no broker answers.
    metadata = LiveMetadata(used, asked or brokers, controllers=bool(asked))

    async def look(earlier: "Observation | None") -> "Observation":
        return await observe(
            used,
            brokers=brokers,
            controllers=asked,
            read_metadata=metadata.read,
            metadata_source=metadata.place,
            clock_ms=lambda: int(time.time() * 1000),
            earlier=earlier,
        )

    return look


def _folder_observer(folder: Path) -> "Observe":
    from quorate.cli.images.observed_metadata import FolderMetadata
    from quorate.health import observe

    metadata = FolderMetadata(str(folder))

    async def look(earlier: "Observation | None") -> "Observation":
        return await observe(
            network(),
            read_metadata=metadata.read,
            metadata_source=metadata.place,
            clock_ms=metadata.clock_ms,
            earlier=earlier,
        )

    return look


def _unreached(observation: "Observation") -> str | None:
    """Return why nothing at all is known; None: something is."""
    quorum, metadata = observation.quorum, observation.metadata
    if metadata.facts is not None or (quorum is not None and quorum.facts is not None):
        return None
    problems = [metadata.problem, None if quorum is None else quorum.problem]
    return "; ".join(each for each in problems if each)


def _check_reached(observation: "Observation", code: ExitCode) -> None:
    problem = _unreached(observation)
    if problem is not None:
        raise fail(f"nothing is known of the cluster: {problem}", code)


def _show(observation: "Observation", *, as_json: bool) -> bool:
    """Print what was found. Return whether the cluster is well."""
    from quorate.health import diagnose

    problems = diagnose(observation)
    if as_json:
        print_json(_as_dict(observation, problems))
        return not problems
    for each in problems:
        _print_problem(each)
    _print_unknown(observation)
    if not problems:
        typer.echo(_summary(observation))
    return not problems


def _summary(observation: "Observation") -> str:
    quorum = None if observation.quorum is None else observation.quorum.facts
    metadata = observation.metadata.facts
    parts: list[str] = []
    if quorum is not None:
        parts.append(_counted(len(quorum.voters), "voter"))
    if metadata is not None:
        parts.append(_counted(len(metadata.brokers), "broker"))
        parts.append(f"{_counted(len(metadata.partitions), 'partition')}, all in sync")
    known = "well, as far as is known" if observation.unknown else "well"
    if observation.quorum is None:
        return f"{known}: {', '.join(parts)}; as of {_time(observation.now_ms)}"
    return f"{known}: {', '.join(parts)}; asked in {observation.took_s:.1f} s"


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _print_problem(problem: "Problem") -> None:
    colors = {"critical": typer.colors.RED, "serious": typer.colors.YELLOW, "warning": typer.colors.CYAN}
    word = problem.kind.severity.word
    typer.secho(f"{word}: ", nl=False, bold=True, fg=colors[word])
    typer.echo(f"{problem.where} {problem.title}")
    since = "" if problem.since_ms is None else f"since {_time(problem.since_ms)}"
    reason = ": ".join(each for each in (since, problem.why) if each)
    if problem.until_ms is not None:
        reason += f"; named until {_time(problem.until_ms)} unless it happens again"
    if reason:
        typer.echo(f"  why:       {reason}")
    typer.echo(f"  threatens: {problem.kind.threatens}")
    typer.echo(f"  remedy:    {_remedy(problem)}")
    typer.echo(f"  more:      {problem.kind.section}")


def _remedy(problem: "Problem") -> str:
    """Return the remedy with the option of this command's own file."""
    used = command_config()
    if used is None:
        return problem.remedy
    return problem.remedy.replace("`quorate ", f"`quorate --command-config {used} ")


def _print_unknown(observation: "Observation") -> None:
    for part in observation.unknown:
        typer.echo(f"not known: {part.source}: {part.problem} (asked at {_time(part.at_ms)})")


def _time(time_ms: int) -> str:
    return time_text(time_ms, lambda at: at.isoformat(" ", "seconds"))


def _as_dict(observation: "Observation", problems: "tuple[Problem, ...]") -> dict[str, object]:
    metadata = observation.metadata.facts
    quorum = None if observation.quorum is None else observation.quorum.facts
    return {
        "well": not problems,
        "atMs": observation.now_ms,
        "tookMs": round(observation.took_s * 1000),
        "leaderId": None if quorum is None else quorum.leader,
        "voters": None if quorum is None else len(quorum.voters),
        "brokers": None if metadata is None else len(metadata.brokers),
        "partitions": None if metadata is None else len(metadata.partitions),
        "metadataOffset": None if metadata is None else metadata.offset,
        "changesSinceMs": None if metadata is None else metadata.recent.since_ms,
        "problems": [_problem_as_dict(each) for each in problems],
        "unknown": [
            {"source": part.source, "problem": part.problem, "atMs": part.at_ms}
            for part in observation.unknown
        ],
    }


def _problem_as_dict(problem: "Problem") -> dict[str, object]:
    return {
        "name": problem.kind.name,
        "severity": problem.kind.severity.word,
        "where": problem.where,
        "title": problem.title,
        "why": problem.why,
        "sinceMs": problem.since_ms,
        "untilMs": problem.until_ms,
        "becauseOf": list(problem.because_of),
        "threatens": problem.kind.threatens,
        "remedy": _remedy(problem),
        "page": problem.kind.section,
    }


# --watch


async def _watch(observe: "Observe", as_json: bool) -> None:
    import trio

    from quorate.health import diagnose

    before: dict[str, Problem] = {}
    earlier: Observation | None = None
    reached: bool | None = None
    while True:
        observation = await observe(earlier)
        earlier = observation
        problem = _unreached(observation)
        if problem is None:
            now = {str(each): each for each in diagnose(observation)}
            if reached is None and not now and not as_json:
                typer.echo(f"{_time(observation.now_ms)} {_summary(observation)}")
            for text in before.keys() - now.keys():
                _say_change(observation, "mended", before[text], as_json=as_json)
            for text in [each for each in now if each not in before]:
                _say_change(observation, "found", now[text], as_json=as_json)
            before, reached = now, True
        elif reached is not False:
            if as_json:
                print_json({"atMs": observation.now_ms, "change": "unreachable", "problem": problem})
            else:
                typer.echo(f"{_time(observation.now_ms)} nothing is known of the cluster: {problem}")
            reached = False
        await trio.sleep(_PAUSE_S)


def _say_change(observation: "Observation", change: str, problem: "Problem", *, as_json: bool) -> None:
    if as_json:
        print_json({"atMs": observation.now_ms, "change": change, **_problem_as_dict(problem)})
        return
    at = _time(observation.now_ms)
    if change == "mended":
        typer.echo(f"{at} mended: {problem.where} {problem.title}")
    else:
        why = f": {problem.why}" if problem.why else ""
        typer.echo(f"{at} {problem}{why}. {_remedy(problem)}")
