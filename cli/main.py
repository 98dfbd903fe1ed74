"""The `quorate` command."""

import typer

from quorate.cli import cluster, demo, log_dump, quorum, server, storage, topics

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A self-managed metadata quorum, and a broker cluster that speaks Kafka's protocol.",
    epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage or configuration, 3 nobody reached, "
    "4 storage can't be used.",
)
app.add_typer(cluster.app, name="cluster")
app.add_typer(server.app, name="server")
app.add_typer(storage.app, name="storage")
app.add_typer(quorum.app, name="quorum")
app.add_typer(topics.app, name="topics")
app.add_typer(log_dump.app, name="log")
app.command("demo", epilog="Example: quorate demo --file README.md")(demo.demo)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
