"""The errors of pipelines that a user can act on."""


class PipelineError(Exception):
    """A pipeline can't be set up or run. The message states the remedy."""
