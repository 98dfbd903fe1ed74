"""A local Spark that is quiet and stays on this machine."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from quorate.spark_source.java import find_java
from quorate.spark_source.source import register

_LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.connect.name = org.apache.spark.sql.connect.utils.ErrorUtils
logger.connect.level = off
"""
_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def spark_session(
    app_name: str,
    *,
    master: str = "local[2]",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session with `format("quorate")` registered, on the Java of `find_java`. Raises
    `NoJavaError`.

    It sets JAVA_HOME, PYSPARK_PYTHON and SPARK_LOCAL_IP in this process: Spark's workers must run this
    Python, which has quorate. `config`: further settings of Spark.
    """
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName(app_name)
    settings = {**_DEFAULTS, "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_log4j()}"}
    for key, value in (settings | dict(config or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    register(session)
    return session


def _log4j() -> str:
    """Only errors, and none of Spark Connect, whose clients get them as well. Not by `spark.log.level`, which
    Spark announces on standard error, as it does the default level for its gateway."""
    file = Path(sys.prefix) / "share" / "quorate" / "log4j2.properties"
    if not file.is_file() or file.read_text() != _LOG4J:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.{os.getpid()}")
        temporary.write_text(_LOG4J)
        temporary.replace(file)
    return file.as_uri()
