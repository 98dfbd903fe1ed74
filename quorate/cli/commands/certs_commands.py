"""`quorate certs`: the certificates of a quorum's nodes and clients."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import JsonOption
from quorate.cli.console.cli_errors import ExitCode, fail, user_errors, wrong_usage
from quorate.cli.console.output import print_json

if TYPE_CHECKING:
    from quorate.certs import CertificateFolder
    from quorate.runtime import TlsFiles

app = typer.Typer(
    no_args_is_help=True,
    help="The certificates by which the members of a cluster know each other.",
    epilog="Example: quorate certs create-ca ./certs --cluster-id shop",
)

FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder of the authority, and of what it signs.")
]
NodeOption = Annotated[int, typer.Option("--node", "-n", min=0, help="The id of the node.")]
HostsOption = Annotated[
    list[str] | None,
    typer.Option("--host", help="A name or IP address at which Kafka clients reach it. Repeatable."),
]
DaysOption = Annotated[int, typer.Option("--days", min=1, help="The days until the certificate ends.")]


@app.command("create-ca", epilog="Example: quorate certs create-ca ./certs --cluster-id shop")
def create_ca(
    folder: FolderArgument,
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", help="The cluster id in the configuration of the quorum.")
    ],
    days: DaysOption = 3650,
) -> None:
    """Make the authority of a cluster. Whoever has `ca-key.pem` can make members: keep it where no node
    runs."""
    with user_errors():
        path = _folder(folder).create_authority(cluster_id, days=days)
    print(f"the authority of cluster {cluster_id}: {path}; its key stays in {folder}")


@app.command("create-node", epilog="Example: quorate certs create-node ./certs --node 1")
def create_node(
    folder: FolderArgument,
    node: NodeOption,
    hosts: HostsOption = None,
    days: DaysOption = 365,
) -> None:
    """Make the certificate of a node, in place of an earlier one. A running node takes it by itself."""
    from quorate.types import NodeId

    with user_errors():
        files = _folder(folder).create_node(NodeId(node), hosts=hosts or (), days=days)
    _print_files(f"node {node}", files)


@app.command("create-client", epilog="Example: quorate certs create-client ./certs --name web")
def create_client(
    folder: FolderArgument,
    name: Annotated[str, typer.Option("--name", help="The name of the client.")],
    days: DaysOption = 365,
) -> None:
    """Make the certificate of a client, in place of an earlier one."""
    with user_errors():
        files = _folder(folder).create_client(name, days=days)
    _print_files(f"client {name}", files)


@app.command("rotate", epilog="Example: quorate certs rotate ./certs")
def rotate(
    folder: FolderArgument,
    authority: Annotated[
        bool, typer.Option("--authority", help="Make a new authority, and keep the earlier one beside it.")
    ] = False,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Take the earlier authority out of ca.pem.")
    ] = False,
    days: Annotated[
        int | None,
        typer.Option(
            "--days", min=1, help="The days until what is made ends. Default: 365, of an authority 3650."
        ),
    ] = None,
) -> None:
    """Make new certificates for all nodes and clients in the folder, in place of the earlier ones. To replace
    the authority too, rotate with --authority, then without options, then with --drop-old, and give out the
    files after each. Running nodes take them by themselves."""
    if authority and drop_old:
        raise fail(
            "--authority and --drop-old are two steps; make new certificates between them", ExitCode.USAGE
        )
    with user_errors():
        certificates = _folder(folder)
        if authority:
            path = certificates.add_authority(days=days or 3650)
            print(f"a new authority signs from now on, and {path} holds the earlier one too")
            print(f"give {path} to every member, wait 10 s, then: quorate certs rotate {folder}")
        elif drop_old:
            path = certificates.drop_earlier_authorities()
            print(f"{path} holds one authority; give it to every member")
            print("connections that an earlier one vouched for end within 10 s")
        else:
            for files in certificates.renew(days=days or 365):
                _print_files(Path(files.certificate).stem, files)
            for path in certificates.joined:
                node = path.stem.removeprefix("node-")
                print(
                    f"left out {path}, whose key is at the node: make it a token, "
                    f"quorate certs join-token {folder} --node {node} --out node-{node}.token"
                )


@app.command("join-token", epilog="Example: quorate certs join-token ./certs --node 4 --out node-4.token")
def join_token(
    folder: FolderArgument,
    node: NodeOption,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="The file for the token, which only its owner may read (mode 0600)."
        ),
    ],
    hosts: HostsOption = None,
    hours: Annotated[int, typer.Option("--hours", min=1, help="The hours until the token ends.")] = 24,
    days: DaysOption = 365,
) -> None:
    """Make a token by which a node gets its certificate once. The node's key is made at the node, and the key
    of the authority stays here. Whoever has the token can be that node: hand it over unseen."""
    from quorate.types import NodeId

    with user_errors():
        _need_cryptography()
        from quorate.certs import JoinTokens, write_private

        tokens = JoinTokens(folder, now=datetime.now(UTC))
        token, remembered, end = tokens.create(NodeId(node), hosts=hosts or (), hours=hours, days=days)
        write_private(out, f"{token.text()}\n".encode())
    print(f"{out} has the token of node {node}, good until {end:%Y-%m-%d %H:%M} UTC")
    print(f"here: quorate certs sign {folder} --listen HOST:PORT")
    print(f"at the node: quorate certs join {out.name} --server HOST:PORT --out FOLDER")
    print(f"to take it back: delete {remembered}")


@app.command("sign", epilog="Example: quorate certs sign ./certs --listen 0.0.0.0:9443")
def sign(
    folder: FolderArgument,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="The address at which nodes reach it.")
    ],
) -> None:
    """Sign the certificates of nodes that come with a token, until SIGINT or SIGTERM. Run it where the
    authority's key is, and only as long as nodes join."""
    from functools import partial

    from quorate.cli.node.node_process import LogLevel, configure_logging
    from quorate.runtime import Address

    try:
        address = Address.parse(listen)
    except ValueError as error:
        raise wrong_usage(f"--listen: {error}") from None

    def announce(bound: Address) -> None:
        configure_logging(LogLevel.INFO, as_json=False)
        print(f"signs for nodes with a token at {bound}", flush=True)

    with user_errors():
        _need_cryptography()
        import trio

        from quorate.certs import serve_joins
        from quorate.cli.console.until_signal import until_signal
        from quorate.runtime.real import SyncStrategy, real_runtime

        serve = partial(
            serve_joins,
            folder,
            address,
            runtime=real_runtime(sync=SyncStrategy.INLINE),
            started=announce,
        )
        trio.run(until_signal, serve)


@app.command(
    "join", epilog="Example: quorate certs join node-4.token --server ca.example:9443 --out /etc/quorate"
)
def join_cluster(
    token_file: Annotated[
        typer.FileText,
        typer.Argument(metavar="FILE", help="The file with the token. - reads standard input."),
    ],
    server: Annotated[
        str, typer.Option("--server", metavar="HOST:PORT", help="The address of `quorate certs sign`.")
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="The folder for the files, in place of earlier ones."),
    ],
) -> None:
    """Get the certificate of this node. Its key is made here, and stays here. If no answer comes, repeat the
    command: the token counts again for the same key."""
    from functools import partial

    from quorate.runtime import Address

    try:
        address = Address.parse(server)
    except ValueError as error:
        raise wrong_usage(f"--server: {error}") from None
    with user_errors():
        _need_cryptography()
        import trio

        from quorate.certs import TOKEN_MAX_CHARACTERS, JoinToken, join
        from quorate.runtime.real import RealNetwork

        try:
            token = JoinToken.parse(token_file.read(TOKEN_MAX_CHARACTERS + 1))
        except UnicodeDecodeError:
            raise wrong_usage(f"{token_file.name} is no text; give the file of a join token") from None
        files = trio.run(partial(join, token, address, out, network=RealNetwork()))
    print(f"node {token.node} of cluster {token.cluster_id} has its certificate")
    _print_files(f"node {token.node}", files)


@app.command("list", epilog="Example: quorate certs list ./certs")
def list_certificates(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Show the certificates in a folder, whom they name, and when they end. Exits with 1 if one has ended."""
    now = datetime.now(UTC)
    with user_errors():
        found = _folder(folder).certificates()
    if as_json:
        print_json([
            {
                "path": each.path, "uri": each.uri, "issuer": each.issuer,
                "notBefore": each.not_before.isoformat(), "notAfter": each.not_after.isoformat(),
            }
            for each in found
        ])  # fmt: skip
    else:
        for each in found:
            left = each.not_after - now
            ends = f"ends in {left.days} days" if left.total_seconds() > 0 else "HAS ENDED"
            print(f"{Path(each.path).name:24} {each.uri:40} {each.not_after:%Y-%m-%d} {ends}")
    ended = [Path(each.path).name for each in found if each.not_after <= now]
    if ended:
        raise fail(f"ended: {', '.join(ended)}; make new ones", ExitCode.FAILED)


def _need_cryptography() -> None:
    from quorate.runtime import need

    need("making certificates", "cryptography", extra="certs")


def _folder(folder: Path) -> "CertificateFolder":
    _need_cryptography()
    from quorate.certs import CertificateFolder

    return CertificateFolder(folder, now=datetime.now(UTC))


def _print_files(whom: str, files: "TlsFiles") -> None:
    from quorate.certs import keystore_of

    print(f"{whom} needs {files.certificate}, {files.key} and {files.authorities}")
    print(f"for Kafka's ssl.keystore.location: {keystore_of(files.certificate)}")
