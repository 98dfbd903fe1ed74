"""`quorate users`: who may log in by SASL, and by which password."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, JsonOption
from quorate.cli.console.cli_errors import ExitCode, fail, user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows

if TYPE_CHECKING:
    from quorate.broker.admin.admin_client import AdminClient

app = typer.Typer(
    no_args_is_help=True,
    help="Users: who may log in by SASL. Their passwords are salted here, and never sent.",
    epilog="Example: quorate users set alice --password-file alice.txt",
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
_MECHANISM = "SCRAM-SHA-512"


@app.command("list", epilog="Example: quorate users list --json")
def list_all(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="The users. Default: all.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show which users have a password, and for which mechanisms."""
    from quorate.broker.admin.users import list_users

    found = ask(bootstrap, lambda admin: list_users(admin, names or ()))
    if as_json:
        print_json([each.as_dict() for each in found])
        return
    print_rows(
        ("user", "mechanism", "iterations"),
        [(each.user, each.mechanism, str(each.iterations)) for each in found],
    )


@app.command("set", epilog="Example: quorate users set alice --mechanism SCRAM-SHA-256")
def set_user(
    name: NameArgument,
    mechanism: Annotated[
        str, typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512.")
    ] = _MECHANISM,
    iterations: Annotated[
        int,
        typer.Option("--iterations", min=4096, max=16384, help="How often the password is hashed."),
    ] = 4096,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="A file whose first line is the password. Default: ask for it on the terminal.",
        ),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Add a user, or change the password of one. Connections that are open stay open.

    There is no option for the password itself: others could read it in the list of processes.
    """
    from quorate.broker.admin.users import MIN_PASSWORD, set_password

    _check_mechanism(mechanism)
    password = _read_password(password_file)
    if len(password) < MIN_PASSWORD:
        raise wrong_usage(f"the password has {len(password)} characters; it needs at least {MIN_PASSWORD}")
    from quorate.runtime.real import SyncStrategy, real_runtime

    entropy = real_runtime(sync=SyncStrategy.INLINE).entropy
    ask(
        bootstrap,
        lambda admin: set_password(
            admin, name, password, mechanism=mechanism, iterations=iterations, entropy=entropy
        ),
    )
    typer.echo(f"set the password of {name} for {mechanism}")


@app.command("remove", epilog="Example: quorate users remove alice")
def remove_user(
    name: NameArgument,
    mechanism: Annotated[
        str | None, typer.Option("--mechanism", metavar="NAME", help="Default: all that the user has.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove a user's passwords, so that the user can't log in any more."""
    from quorate.broker.admin.users import list_users, remove_password

    if mechanism is not None:
        _check_mechanism(mechanism)

    async def remove(admin: "AdminClient") -> list[str]:
        held = [each.mechanism for each in await list_users(admin, (name,))]
        removed = held if mechanism is None else [mechanism]
        for each in removed:
            await remove_password(admin, name, mechanism=each)
        return removed

    removed = ask(bootstrap, remove)
    typer.echo(f"removed the password of {name} for {', '.join(removed)}")


@app.command("create-key", epilog="Example: quorate users create-key /etc/quorate/sealing.key")
def create_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of scram.sealing.key.location.")],
) -> None:
    """Put a new key in front of a file with the keys that seal credentials, or make the file.

    Give the file to every broker and controller. Credentials that are set from then on are sealed by the new
    key. `quorate users seal-again` does the same for the others; after it the older keys can go.
    """
    with user_errors():
        import trio

        from quorate.broker.access.sealing import SealingFileError, prepend_key
        from quorate.runtime.real import SyncStrategy, real_runtime

        runtime = real_runtime(sync=SyncStrategy.INLINE)
        try:
            keys = trio.run(prepend_key, runtime.disk, str(file), runtime.entropy)
        except SealingFileError as error:
            raise wrong_usage(str(error)) from None
    others = f", before {len(keys.keys) - 1} earlier ones" if len(keys.keys) > 1 else ""
    typer.echo(f"{file} begins with key {keys.first.id}{others}")


@app.command("seal-again", epilog="Example: quorate users seal-again --json")
def seal_all_again(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """Seal the credentials of all users by the first key, after a new one was put into every node's file.

    Only a super user may do it. Fails if there is a credential that the active controller can't open.
    """
    from quorate.broker.admin.users import seal_again

    done = ask(bootstrap, seal_again)
    if as_json:
        print_json(done.as_dict())
    else:
        typer.echo(f"sealed {done.sealed} credentials by the first key; {done.kept} were already")
    if done.unopened:
        named = f" {done.missing_key}" if done.missing_key else ""
        raise fail(
            f"{done.unopened} credentials are as they were: the active controller can't open them; put "
            f"key{named} into its file of scram.sealing.key.location, or set these passwords again",
            ExitCode.FAILED,
        )


def _check_mechanism(mechanism: str) -> None:
    from quorate.broker.admin.users import SCRAM_NAMES

    if mechanism not in SCRAM_NAMES:
        raise wrong_usage(f"--mechanism is {mechanism!r:.40}; it must be one of {', '.join(SCRAM_NAMES)}")


def _read_password(file: Path | None) -> str:
    if file is None:
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return password
    with user_errors():
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise wrong_usage(
                f"--password-file: {file} can't be read: {type(error).__name__}; name a text file"
            ) from None
    return lines[0] if lines else ""
