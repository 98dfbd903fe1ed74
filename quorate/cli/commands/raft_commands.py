"""`quorate raft`: the protocol itself, to be looked at."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.console.cli_errors import CommandError, user_errors, wrong_usage

if TYPE_CHECKING:
    from quorate.play.script import Script

app = typer.Typer(no_args_is_help=True, help="The Raft protocol.", epilog="Example: quorate raft play")


@app.command(epilog="Example: quorate raft play --check my-story.jsonl")
def play(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A saved script, to be opened in the page.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Serve nothing: play FILE, and fail unless it goes as it expects."),
    ] = False,
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="The port of the page. 0: any that is free.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page, if this is a terminal.")
    ] = True,
) -> None:
    """Play Raft in a page on this host: up to five nodes, or a script's seven, run the production core, and
    every message, disk and timer waits for a click. Runs until SIGINT or SIGTERM."""
    if check and file is None:
        raise wrong_usage("--check needs the FILE of a script")
    with user_errors():
        script = None if file is None else _parse(_read(file))
        if script is not None and check:
            _check(script)
        else:
            _serve(script, port, opens=browser and sys.stdout.isatty())


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except UnicodeDecodeError:
        raise wrong_usage(f"{file} is no text; give a script that the page saved") from None
    except OSError as error:
        raise wrong_usage(f"{file}: {error.strerror}") from None


def _parse(text: str) -> "Script":
    from quorate.play.script import ScriptError, parse_script

    try:
        return parse_script(text)
    except ScriptError as error:
        raise wrong_usage(str(error)) from None


def _check(script: "Script") -> None:
    from quorate.play.script import ExpectationError, play_script

    for rule in script.rules:
        try:
            played = play_script(script, rule)
        except ExpectationError as error:
            raise CommandError(str(error)) from None
        violated = ", ".join(each.invariant for each in played.world.violations) or "no invariant"
        print(f"by the {rule.value} rule: {len(played.steps)} steps as expected, {violated} violated")


def _serve(script: "Script | None", port: int, *, opens: bool) -> None:
    from functools import partial

    import trio

    from quorate.cli.console.until_signal import until_signal
    from quorate.play.server import serve_play
    from quorate.runtime.real import SyncStrategy, real_runtime

    def announce(address: str) -> None:
        print(f"Raft is played at {address} until Ctrl-C", flush=True)
        if opens:
            import webbrowser

            webbrowser.open(address)

    runtime = real_runtime(sync=SyncStrategy.INLINE)
    serve = partial(
        serve_play,
        runtime.network,
        port,
        token=runtime.entropy.uuid().hex,
        script=script,
        started=announce,
    )
    trio.run(until_signal, serve)
