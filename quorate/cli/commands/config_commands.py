"""`quorate configs`: describe and alter what topics, brokers, loggers and groups are configured with."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, JsonOption, ValidateOption
from quorate.cli.console.cli_errors import wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows

if TYPE_CHECKING:
    from quorate.broker.admin.admin_client import AdminClient
    from quorate.broker.admin.configs import DescribedConfig, Entity, EntityType

app = typer.Typer(
    no_args_is_help=True,
    help="Configs of topics, brokers and groups, and levels of loggers, while the cluster runs.",
    epilog="Example: quorate configs describe --entity-type topics --entity-name orders",
)

_TYPES = ("topics", "brokers", "broker-loggers", "groups")
TypeOption = Annotated[
    str, typer.Option("--entity-type", metavar="TYPE", help=f"The kind of entity: {', '.join(_TYPES)}.")
]
_DEFAULT_HELP = "The defaults of all brokers, with --entity-type brokers."


def _entity_type(text: str) -> "EntityType":
    from quorate.broker.admin.configs import EntityType

    for each in EntityType:
        if each.text == text:
            return each
    raise wrong_usage(f"--entity-type: {text!r} is none of {', '.join(_TYPES)}")


def _entity(kind: str, name: str | None, *, default: bool) -> "Entity | None":
    """Return the entity that the options name, or None: they name none."""
    from quorate.broker.admin.configs import Entity, EntityType

    of = _entity_type(kind)
    if default and name is not None:
        raise wrong_usage("--entity-name and --entity-default exclude one another; leave one out")
    if default and of is not EntityType.BROKERS:
        raise wrong_usage(f"--entity-default: only brokers have defaults, not {kind}")
    if name == "":
        raise wrong_usage("--entity-name is empty; for all brokers write --entity-default")
    if name is None and not default:
        return None
    return Entity(of, name or "")


_ITEM = re.compile(r"\s*([^=,\s]+)\s*=\s*(\[[^\]]*\]|[^,\[\]]*)\s*(?:,|$)")


def _parse_added(text: str) -> Mapping[str, str]:
    """Parse Kafka's form: key=value,key=[a,b]."""
    found: dict[str, str] = {}
    end = 0
    while end < len(text):
        item = _ITEM.match(text, end)
        if item is None:
            raise wrong_usage(
                f"--add-config: {text[end:]!r} is not key=value or key=[value,value], separated by commas"
            )
        name, value = item.group(1), item.group(2).strip().removeprefix("[").removesuffix("]")
        if name in found:
            raise wrong_usage(f"--add-config names {name} twice; name it once")
        found[name] = value
        end = item.end()
    return found


def _read_added(file: Path) -> Mapping[str, str]:
    import javaproperties

    try:
        read: dict[str, str] = javaproperties.loads(file.read_text())
    except (OSError, UnicodeDecodeError, javaproperties.InvalidUEscapeError) as error:
        raise wrong_usage(f"--add-config-file: {file} can't be read: {error}") from None
    return {name: value.strip() for name, value in read.items()}


@app.command(epilog="Example: quorate configs describe --entity-type topics --entity-name orders --all")
def describe(
    entity_type: TypeOption,
    entity_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A topic, a broker's id or a group. Default: all of the type."),
    ] = None,
    entity_default: Annotated[bool, typer.Option("--entity-default", help=_DEFAULT_HELP)] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show what is not set for the entity itself, too.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show configs, where their values come from, and what would hold without them.

    Of groups without a name, those that have configs are shown.
    """
    entity = _entity(entity_type, entity_name, default=entity_default)
    kind = _entity_type(entity_type)
    from quorate.broker.admin import configs

    async def read(admin: "AdminClient") -> "list[tuple[Entity, list[DescribedConfig]]]":
        asked = await configs.entities(admin, kind) if entity is None else [entity]
        return [(each, await configs.describe_configs(admin, each, everything=everything)) for each in asked]

    described = ask(bootstrap, read)
    if as_json:
        print_json([_as_dict(each, held) for each, held in described])
        return
    print_rows(
        ("entity", "key", "value", "source", "else"),
        [
            (
                each.name or "(default)",
                config.name,
                "(hidden)" if config.sensitive else config.value,
                config.source,
                ", ".join(f"{place.name}={place.value}" for place in config.synonyms[1:2]),
            )
            for each, held in described
            for config in held
        ],
    )


def _as_dict(entity: "Entity", configs: "list[DescribedConfig]") -> dict[str, object]:
    """Return an entity's configs for programs. A name of None: the defaults of all brokers."""
    return {
        "entityType": entity.type.text,
        "entityName": entity.name or None,
        "configs": [
            {
                "name": each.name,
                "value": each.value,
                "source": each.source,
                "readOnly": each.read_only,
                "sensitive": each.sensitive,
                "synonyms": [
                    {"name": place.name, "value": place.value, "source": place.source}
                    for place in each.synonyms
                ],
            }
            for each in configs
        ],
    }


@app.command(
    epilog="Example: quorate configs alter --entity-type topics --entity-name orders "
    "--add-config retention.ms=3600000,cleanup.policy=[compact,delete]"
)
def alter(
    entity_type: TypeOption,
    entity_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="A topic, a broker's id or a group.")
    ] = None,
    entity_default: Annotated[bool, typer.Option("--entity-default", help=_DEFAULT_HELP)] = False,
    add_config: Annotated[
        str | None,
        typer.Option(metavar="KEY=VALUE,...", help="Keys to set. Brackets hold a list: key=[a,b]."),
    ] = None,
    add_config_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A properties file with keys to set.")
    ] = None,
    delete_config: Annotated[
        str | None, typer.Option(metavar="KEY,...", help="Keys whose own value is deleted.")
    ] = None,
    validate_only: ValidateOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Set and delete configs, all or none. They take effect at once, without a restart."""
    entity = _entity(entity_type, entity_name, default=entity_default)
    if entity is None:
        raise wrong_usage("name what is altered: --entity-name, or --entity-default")
    if add_config is not None and add_config_file is not None:
        raise wrong_usage("--add-config and --add-config-file exclude one another; leave one out")
    add: dict[str, str] = {} if add_config is None else dict(_parse_added(add_config))
    if add_config_file is not None:
        add = dict(_read_added(add_config_file))
    delete = [each.strip() for each in (delete_config or "").split(",") if each.strip()]
    if not add and not delete:
        raise wrong_usage("nothing is altered: give --add-config, --add-config-file or --delete-config")
    twice = sorted(add.keys() & set(delete))
    if twice:
        raise wrong_usage(f"{twice[0]} is both set and deleted; leave one out")
    from quorate.broker.admin import configs

    changes = {**add, **dict.fromkeys(delete)}
    ask(bootstrap, lambda admin: configs.alter_configs(admin, entity, changes, validate_only=validate_only))
    typer.echo(f"{'would alter' if validate_only else 'altered'} {entity}")
