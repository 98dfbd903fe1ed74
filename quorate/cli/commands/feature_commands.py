"""`quorate features`: the levels at which the cluster works."""

from typing import Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, JsonOption
from quorate.cli.console.cli_errors import wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows

app = typer.Typer(
    no_args_is_help=True,
    help="The levels at which the cluster works, such as metadata.version.",
    epilog="Example: quorate features describe -b localhost:9092",
)
_UP, _DOWN, _DOWN_WITH_LOSS = 1, 2, 3

FeatureOption = Annotated[
    list[str],
    typer.Option("--feature", metavar="NAME=LEVEL", help="A feature and its new level. Repeatable."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check whether it could be done. Change nothing.")
]


def _levels(features: list[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in features:
        name, _, level = text.partition("=")
        if not name or not level.isdecimal() or int(level) >= 1 << 15:
            raise wrong_usage(f"--feature: {text!r} is not of the form name=level")
        if name in levels:
            raise wrong_usage(f"--feature: {name} is given twice")
        levels[name] = int(level)
    return levels


def _set(bootstrap: str, levels: dict[str, int], *, upgrade_type: int, dry_run: bool) -> None:
    from quorate.broker.admin.brokers import set_features

    ask(bootstrap, lambda admin: set_features(admin, levels, upgrade_type=upgrade_type, dry_run=dry_run))
    done = "can be set" if dry_run else "is set"
    for name, level in levels.items():
        typer.echo(f"{name} {done} to {level}")


@app.command(epilog="Example: quorate features describe --json")
def describe(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """Show each feature, the levels that the broker can work at, and the level of the cluster (0: off)."""
    from dataclasses import asdict

    from quorate.broker.admin.brokers import describe_features

    described = ask(bootstrap, describe_features)
    if as_json:
        print_json({"features": [asdict(each) for each in described.features], "epoch": described.epoch})
        return
    print_rows(
        ("feature", "supported", "finalized"),
        [(each.name, f"{each.min_level} to {each.max_level}", each.finalized) for each in described.features],
    )


@app.command(epilog="Example: quorate features upgrade --feature kraft.version=1")
def upgrade(
    feature: FeatureOption, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, dry_run: DryRunOption = False
) -> None:
    """Raise features' levels, all or none. Every registered broker must support them.

    kraft.version=1 writes the voters of controller.quorum.voters into the log, as `quorate quorum
    adopt-voters` does.
    """
    _set(bootstrap, _levels(feature), upgrade_type=_UP, dry_run=dry_run)


@app.command(epilog="Example: quorate features downgrade --feature metadata.version=1 --dry-run")
def downgrade(
    feature: FeatureOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    dry_run: DryRunOption = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Also where metadata is lost by it.")] = False,
) -> None:
    """Lower features' levels, all or none. Level 0 switches a feature off."""
    _set(bootstrap, _levels(feature), upgrade_type=_DOWN_WITH_LOSS if unsafe else _DOWN, dry_run=dry_run)
