"""A cluster of `quorate cluster start --secure` in Spark: Spark's own Kafka source on a topic, and ours on
the metadata, by each way of saying who one is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest

from quorate.certs import keystore_of
from quorate.cli.node.local_cluster import LocalCluster
from quorate.spark_source.source_options import ViewName
from tests.kit.clusters import running_cluster
from tests.kit.planted_secrets import search, secrets_of

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "kafka_tools"))

from jars import CantRunHereError, of_spark

pytestmark = [pytest.mark.clients, pytest.mark.spark, pytest.mark.slow]

TOPIC = "orders"
RECORDS = 50
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from quorate import spark_source

given = json.load(open(sys.argv[1]))
spark = SparkSession.builder.master("local[2]").config("spark.jars", given["jars"]).config(
    "spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark_source.register(spark)
found = {}
for name, settings in given["ways"].items():
    options = {f"kafka.{key}": value for key, value in settings.items()}
    kafka = spark.read.format("kafka").options(**options).option("subscribe", given["topic"])
    ours = spark.read.format("quorate").options(**options).option("view", "topics")
    try:
        found[name] = [kafka.load().count(), given["topic"] in str(ours.load().collect())]
    except Exception as error:
        found[name] = str(error)
shown = {}
for view in given["views"]:
    for feed in ("false", "true"):
        options = {f"kafka.{key}": value for key, value in given["ways"]["certificate"].items()}
        reader = spark.read.format("quorate").options(**options).option("view", view)
        try:
            rows = reader.option("readChangeFeed", feed).load().collect()
            shown[f"{view} {feed}"] = str(rows)
        except Exception as error:
            shown[f"{view} {feed}"] = f"refused: {error}"
json.dump(shown, open(given["shown"], "w"))
print(json.dumps(found))
"""


def ways(cluster: LocalCluster, password: str) -> dict[str, dict[str, str]]:
    """The settings of Kafka's clients, by what they are."""
    folder = cluster.secrets.folder
    authorities = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem")}
    found = {
        "certificate": {
            "bootstrap.servers": ",".join(f"{cluster.host}:{node.broker_port}" for node in cluster.nodes),
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore_of(folder / "client-admin.pem")),
            **authorities,
        }
    }
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"):
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        found[mechanism] = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module}LoginModule required "
            f'username="admin" password="{password}";',
            **authorities,
        }
    return found


def test_both_sources_read_a_protected_cluster_by_every_way(tmp_path: Path) -> None:
    try:
        jars = of_spark("kafka")
    except CantRunHereError as why:
        pytest.skip(str(why))
    with running_cluster(tmp_path / "cluster", secure=True) as cluster:
        folder = cluster.secrets.folder
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": "sasl_ssl",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": cluster.secrets.password,
                "ssl.ca.location": str(folder / "ca.pem"),
            }
        )
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%d" % number)
        assert producer.flush(30) == 0
        asked = ways(cluster, cluster.secrets.password)
        asked["a wrong password"] = ways(cluster, "wrong")["SCRAM-SHA-512"]
        given = tmp_path / "given.json"
        shown = tmp_path / "shown.json"
        asks = {"jars": ",".join(map(str, jars)), "topic": TOPIC, "ways": asked, "shown": str(shown)}
        given.write_text(json.dumps({**asks, "views": [each.value for each in ViewName]}))
        program = tmp_path / "program.py"
        program.write_text(PROGRAM)
        done = subprocess.run(
            [sys.executable, program, given],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        wrong = found.pop("a wrong password")
        assert found.keys() == {"certificate", "SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"}
        for name, rows in found.items():
            assert rows == [RECORDS, True], f"{name}: {rows}"
        assert "invalid credentials" in wrong, wrong
        assert cluster.secrets.password not in done.stderr
        secrets = secrets_of(cluster)
        views = json.loads(shown.read_text())
        read = {name: rows for name, rows in views.items() if not rows.startswith("refused: ")}
        assert len(read) > len(ViewName), f"refused: {views.keys() - read.keys()}"
        assert any("UserScramCredential" in rows and "[hidden]" in rows for rows in read.values())
        for name, rows in views.items():
            search(name, rows.encode(), secrets)
        assert cluster.running() == [1, 2, 3]
