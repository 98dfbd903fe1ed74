"""Tables over a cluster's metadata log, in ordinary PySpark: histories, outages with their causes, a report.

    from quorate.pipelines.tables import all_tables, read_changes
    from quorate.spark_source import spark_session

    spark = spark_session("what happened")
    tables = all_tables(read_changes(spark, {"bootstrapServers": "localhost:9092"}))
    tables["incidents"].show()

`quorate pipeline` keeps the same tables up to date with Spark's declarative pipelines
(`quorate.pipelines.project`). `quorate.pipelines.outage_stream` does so in a continuous stream.
"""
