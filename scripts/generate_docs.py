"""Write the parts of pages that follow from the code or from another page. `--check` names stale pages."""

import ast
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path

import grimp
import pyarrow as pa
import typer.main
from pyspark.sql.pandas.types import from_arrow_schema
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from quorate.broker.access.needs import Refuses
from quorate.broker.apis.api_table import ROWS
from quorate.broker.settings.all_keys import CONFIG_KEYS, DYNAMIC_KEYS, GROUP_KEYS, TOPIC_KEYS
from quorate.broker.settings.config_key import ConfigKey, Effect
from quorate.broker.wire.api import APIS, FIRST_OWN
from quorate.cli.all_commands import every_command
from quorate.cli.console.cli_errors import ExitCode
from quorate.metrics.declarations import (
    BROKER_METADATA,
    CONTROLLER,
    EVENT_MANAGER,
    RAFT,
    SNAPSHOTS,
    Declaration,
    MetricKind,
)
from quorate.metrics.raft_metrics import STATES
from quorate.pipelines import histories, intervals, outage_stream, tables
from quorate.raft.core.roles.transitions import ALLOWED
from quorate.spark_source.changes.entities import ENTITY_FIELDS, Entity
from quorate.spark_source.changes.feed import ALL_CHANGES, CHANGE_FIELDS
from quorate.spark_source.scan import schema_of
from quorate.spark_source.source_options import OPTIONS, ViewName
from quorate.spark_source.source_options import SourceOptions as SparkOptions

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "scripts"))

import problem_pages  # noqa: E402
from mutate_table import MUTATIONS, Finder  # noqa: E402
from page_parts import filled, table  # noqa: E402

from tests.simulator.explorer.core_model.bounds import SUITES  # noqa: E402
from tests.simulator.explorer.isr_model.isr_bounds import ISR_SUITES  # noqa: E402

BY = "scripts/generate_docs.py"


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# Configuration


def _keys(keys: Iterable[ConfigKey]) -> str:
    rows = (
        (
            code(key.name),
            key.type.name.lower(),
            "required" if key.default is None else code(key.default) or "empty",
            key.doc,
            key.difference,
        )
        for key in keys
    )
    return table(("key", "type", "default", "meaning", "difference"), rows)


def _with(effect: Effect) -> list[ConfigKey]:
    return [key for key in CONFIG_KEYS.values() if key.effect is effect]


def server_keys() -> str:
    return _keys(_with(Effect.EFFECTIVE))


def keys_without_effect() -> str:
    rows = ((code(key.name), code(key.initial) or "empty", key.doc, key.why) for key in _with(Effect.NONE))
    return table(("key", "default", "in Kafka", "why it does nothing"), rows)


def refused_keys() -> str:
    rows = ((code(key.name), key.doc, key.why) for key in _with(Effect.REFUSED))
    return table(("key", "in Kafka", "why it is refused"), rows)


def dynamic_keys() -> str:
    rows = (
        (
            code(key.name),
            key.update.value,
            f"{key.doc} {key.difference}" if key.effect is Effect.NONE else key.doc,
        )
        for key in DYNAMIC_KEYS.values()
    )
    return table(("key", "update mode", "meaning"), rows)


def group_keys() -> str:
    rows = (
        (code(key.name), key.type.name.lower(), code(key.initial), key.doc, key.difference)
        for key in GROUP_KEYS.values()
    )
    return table(("key", "type", "default", "in Kafka", "difference"), rows)


def topic_keys() -> str:
    rows = (
        (
            code(key.name),
            key.type.name.lower(),
            code(key.initial) or "empty",
            ", ".join(code(synonym.name) for synonym in key.synonyms),
            key.doc,
            key.difference,
        )
        for key in TOPIC_KEYS.values()
    )
    return table(("key", "type", "default", "set for all topics by", "meaning", "difference"), rows)


# Metrics


def metrics_of(*declared: tuple[Declaration, ...]) -> Callable[[], str]:
    def ours(each: Declaration) -> str:
        return f"{each.ours}_total" if each.kind is MetricKind.COUNTER else each.ours

    def kafkas(each: Declaration) -> str:
        return f"{each.kafkas}_total" if each.is_rate else each.kafkas

    rows = [
        (code(ours(each)), code(kafkas(each)), each.kind.value, each.help)
        for declarations in declared
        for each in declarations
    ]
    return lambda: table(("ours", "as Strimzi's exporter spells Kafka's", "kind", "meaning"), rows)


def raft_states() -> str:
    return ", ".join(code(state) for state in STATES)


# Kafka APIs


def _api_name(key: str) -> str:
    return "".join(word.capitalize() for word in key.split("_"))


def permissions() -> str:
    def rows() -> Iterator[tuple[object, ...]]:
        for key, api in APIS.items():
            row = ROWS.get(key)
            if row is None:
                yield _api_name(api.name), int(key), "nothing", "", ""
                continue
            for needs, at in (
                (row.needs, ""),
                (() if row.controllers_need is None else row.controllers_need, "on the controller listener"),
            ):
                for need in needs:
                    refused = "" if need.refuses is Refuses.LEFT_OUT else f"{int(need.code)}, "
                    yield (
                        _api_name(api.name),
                        int(key),
                        ", or ".join(map(str, need.any_of)),
                        f"{refused}{need.refuses.value}",
                        ", ".join(filter(None, (at, need.when))),
                    )
            if not row.needs:
                yield _api_name(api.name), int(key), "nothing", "", "on a listener of brokers"

    return table(("API", "key", "needs", "else", "where"), rows())


def apis() -> str:
    def served_by(key: int) -> str:
        row = ROWS.get(key)  # Those that every listener answers have none.
        if row is None or (row.brokers is not None and row.controllers is not None):
            return "both"
        return "controllers" if row.brokers is None else "brokers"

    rows = (
        (
            _api_name(api.name),
            int(api.key),
            f"{api.min_version} to {api.max_version}",
            "never" if api.first_flexible is None else f"from {api.first_flexible}",
            served_by(api.key),
            "ours, not named by ApiVersions"
            if api.key >= FIRST_OWN
            else ""
            if api.advertised_from == api.min_version
            else f"advertised from {api.advertised_from}, refused below {api.min_version}",
        )
        for api in APIS.values()
    )
    return table(("API", "key", "versions", "flexible", "served by", "remark"), rows)


# Commands


def commands() -> str:
    root = typer.main.get_command(every_command())
    assert isinstance(root, TyperGroup)
    return "\n\n".join(_command(path, command) for path, command in _walk(root, ()))


def _walk(group: TyperGroup, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _walk(command, (*path, name))
        else:
            assert isinstance(command, TyperCommand)
            yield (*path, name), command


def _command(path: tuple[str, ...], command: TyperCommand) -> str:
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    options = [each for each in command.params if isinstance(each, TyperOption) and each.name != "help"]
    words = " ".join(["quorate", *path, *(str(each.name).upper() for each in arguments)])
    parts = [f"### {words}", " ".join((command.help or "").split())]
    rows = [(code(str(each.name).upper()), _default(each), each.help or "") for each in arguments]
    for each in options:
        names = ", ".join(code(name) for name in (*each.opts, *each.secondary_opts))
        rows.append((names, _default(each), each.help or ""))
    if rows:
        parts.append(table(("option", "default", "meaning"), rows))
    example = (command.epilog or "").removeprefix("Example: ")
    parts.append(f"Example: `{example}`")
    return "\n\n".join(parts)


def _default(parameter: TyperArgument | TyperOption) -> str:
    if parameter.required:
        return "required"
    return "" if parameter.default in (None, False, [], ()) else code(_text(parameter.default))


def _text(default: object) -> object:
    if default is True:
        return "on"
    return getattr(default, "value", default)


def exit_codes() -> str:
    meanings = {
        ExitCode.OK: "Done.",
        ExitCode.FAILED: "The operation was refused or failed; the message says why.",
        ExitCode.USAGE: "The command line or a configuration file is wrong; nothing was done.",
        ExitCode.UNAVAILABLE: "Nobody could be reached, or no answer came in time.",
        ExitCode.STORAGE: "A folder or file can't be used: locked, damaged, foreign, full, not writable.",
    }
    return table(("code", "name", "meaning"), ((int(each), each.name, meanings[each]) for each in ExitCode))


# Spark


def spark_columns() -> str:
    parts = {
        "The view `records`": schema_of(SparkOptions(view=ViewName.RECORDS)),
        "The view `decoded`": schema_of(SparkOptions(view=ViewName.DECODED)),
        "Every change feed": [*CHANGE_FIELDS, ALL_CHANGES.field("entity")],
        **{
            f"The entity `{view.entity}`, in the view `{view.value}`": ENTITY_FIELDS[Entity(view.entity)]
            for view in ViewName
            if view.entity is not None
        },
    }
    return "\n\n".join(f"### {title}\n\n{_spark_table(fields)}" for title, fields in parts.items())


def _spark_table(fields: Iterable[pa.Field]) -> str:
    shown = from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=False)
    return table(
        ("column", "type"), ((code(each.name), code(each.dataType.simpleString())) for each in shown.fields)
    )


def spark_options() -> str:
    return table(
        ("option", "default", "meaning"), ((code(each.name), each.default, each.meaning) for each in OPTIONS)
    )


# Pipelines


def bronze_tables() -> str:
    return table(("table", "content"), ((code(name), text) for name, text in tables.BRONZE.items()))


def pipeline_tables() -> str:
    parts = []
    for each in tables.TABLES:
        details = _docstring(each.make).partition("\n\n")[2]
        made_of = f"Made of {', '.join(map(code, each.reads))}."
        parts += [f"### {each.name}", each.comment, *([details] if details else []), made_of]
    return "\n\n".join(parts)


def functions(*each: Callable[..., object]) -> Callable[[], str]:
    return lambda: "\n\n".join(map(_function, each))


def _function(function: Callable[..., object]) -> str:
    parameters = inspect.signature(function).parameters.values()
    names = ", ".join(f"**{each.name}" if each.kind is each.VAR_KEYWORD else each.name for each in parameters)
    call = f"`{function.__module__}.{function.__name__}({names})`"
    return "\n\n".join([f"### {function.__name__}", call, _docstring(function)])


def _docstring(function: Callable[..., object]) -> str:
    return inspect.getdoc(function) or ""


# Roles


def roles() -> str:
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> unattached"]
    for role, following in ALLOWED.items():
        lines += [f"    {role.value} --> {after.value}" for after in following]
    return "\n".join([*lines, "```"])


# Architecture


def packages() -> str:
    """Every package, and the packages that it imports, as of the whole and of the broker."""
    graph = grimp.build_graph("quorate")
    drawn = {*_packages_in(graph, "quorate"), *_packages_in(graph, "quorate.broker")}

    def purpose(package: str) -> str:
        source = (ROOT.joinpath(*package.split(".")) / "__init__.py").read_text()
        text = ast.get_docstring(ast.parse(source)) or ""
        return " ".join(text.partition("\n\n")[0].split()).rstrip(".")

    def imports(package: str) -> str:
        if package not in (*drawn, "quorate.raft.core"):
            return ""
        imported = graph.find_modules_directly_imported_by(package, as_package=True)
        found = {max((each for each in drawn if within(module, each)), default="") for module in imported}
        names = sorted(each.removeprefix("quorate.") for each in found - {"", package})
        return ", ".join(map(code, names)) or "nothing of ours"

    rows = (
        (f"`{package.replace('.', '/')}/`", purpose(package), imports(package))
        for package in sorted(each for each in graph.modules - {"quorate"} if graph.find_children(each))
    )
    return table(("package", "content", "imports, besides itself"), rows)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _packages_in(graph: grimp.ImportGraph, package: str) -> list[str]:
    return sorted(each for each in graph.find_children(package) if graph.find_children(each))


def drawing(package: str) -> Callable[[], str]:
    """The packages in a package and their imports, without the arrows that follow from others."""

    def drawn() -> str:
        graph = grimp.build_graph("quorate")
        names = {each: each.rpartition(".")[2] for each in _packages_in(graph, package)}
        for child in graph.find_children(package):
            graph.squash_module(child)
        lines = [f"  {name}[{name}]" for name in names.values()]
        for importer, name in names.items():
            direct = (graph.find_modules_directly_imported_by(importer) & names.keys()) - {importer}
            implied = {far for near in direct for far in graph.find_upstream_modules(near) - {near}}
            lines += [f"  {name} --> {names[each]}" for each in sorted(direct - implied)]
        return "\n".join(["```mermaid", "graph TD", *lines, "```"])

    return drawn


# Figures

QUOTED = (
    "commit latency, 1 in flight, p50",
    "commits, 256 in flight",
    "CPU per commit, three nodes, 256 in flight",
    "kill -9 the leader to next commit, p50",
    "resident memory of an idle node",
)
"""The measures that the README takes from the page's table."""


def figures() -> str:
    lines = (ROOT / "docs" / "explanation" / "performance.md").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| measure |"))
    head, rule, *rows = takewhile(lambda line: line.startswith("|"), lines[first:])
    by_measure = {row.split("|")[1].strip(): row for row in rows}
    return "\n".join([head, rule, *(by_measure[measure] for measure in QUOTED)])


# What the tests hold


FINDERS = {
    Finder.EXPLORER: "the explorer",
    Finder.ISR_EXPLORER: "the ISR explorer",
    Finder.UNIT: "unit tests",
    Finder.TRACE: "golden traces",
    Finder.SIMULATION: "simulation",
}


def counts() -> str:
    found_by = Counter(each.finder for each in MUTATIONS)
    explorations = {"explorer": SUITES, "ISR explorer": ISR_SUITES}
    rows = [
        ("golden traces", len(list((ROOT / "tests" / "traces").glob("*.txt")))),
        *(
            (f"explorations of the {name}, {bound} bound", len(suites[bound]))
            for name, suites in explorations.items()
            for bound in ("ci", "large")
        ),
        *((f"planted faults for {name}", found_by[finder]) for finder, name in FINDERS.items()),
        ("planted faults, all", len(MUTATIONS)),
    ]
    return table(("what", "how many"), rows)


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"figures": figures},
    "docs/reference/configuration.md": {
        "server keys": server_keys,
        "keys without effect": keys_without_effect,
        "refused keys": refused_keys,
        "dynamic keys": dynamic_keys,
        "topic keys": topic_keys,
        "group keys": group_keys,
    },
    "docs/reference/metrics.md": {
        "raft metrics": metrics_of(RAFT),
        "raft states": raft_states,
        "snapshot metrics": metrics_of(SNAPSHOTS),
        "broker metadata metrics": metrics_of(BROKER_METADATA),
        "controller metrics": metrics_of(CONTROLLER, EVENT_MANAGER),
    },
    "docs/reference/kafka-protocol.md": {"apis": apis},
    "docs/reference/problems.md": {"problems": problem_pages.problems},
    "docs/how-to/prometheus.md": {"alerts": problem_pages.alerts},
    "docs/reference/permissions.md": {"permissions": permissions},
    "docs/reference/commands.md": {"commands": commands, "exit codes": exit_codes},
    "docs/explanation/verification.md": {"counts": counts},
    "docs/reference/spark-source.md": {"options": spark_options, "columns": spark_columns},
    "docs/reference/pipeline-tables.md": {
        "bronze": bronze_tables,
        "histories": functions(histories.history),
        "intervals": functions(intervals.intervals, intervals.merge),
        "tables": pipeline_tables,
        "all tables": functions(tables.read_changes, tables.all_tables),
        "streams": functions(outage_stream.follow_outages, outage_stream.read_outages, outage_stream.advance),
    },
    "docs/architecture.md": {
        "packages": packages,
        "drawing": drawing("quorate"),
        "drawing of raft": drawing("quorate.raft"),
        "drawing of broker": drawing("quorate.broker"),
        "roles": roles,
    },
}
"""The parts between the markers of each file."""
DASHBOARDS = {"quorate.json": True, "controller-and-replication.json": False}
"""Whether a dashboard is of any quorum, or of brokers and their controllers."""
FILES: dict[str, Callable[[], str]] = {
    "dashboards/alerts.yml": problem_pages.rules,
    **{
        f"dashboards/{name}": partial(
            problem_pages.dashboard, ROOT / "dashboards" / name, of_any_quorum=of_any_quorum
        )
        for name, of_any_quorum in DASHBOARDS.items()
    },
}
"""The files that are written whole."""


def main(*, check: bool) -> int:
    stale = []
    texts = {name: partial(filled, (ROOT / name).read_text(), parts, by=BY) for name, parts in PARTS.items()}
    for name, write in (texts | FILES).items():
        path = ROOT / name
        new = write()
        if not path.exists() or new != path.read_text():
            stale.append(name)
            if not check:
                path.write_text(new)
    for name in stale:
        print(f"{name}: {'out of date; run scripts/generate_docs.py' if check else 'written'}")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
