"""The metadata log as a Spark data source."""
