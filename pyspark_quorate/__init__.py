"""`format("quorate")`, found by Spark itself: it imports every module whose name begins so, and registers its
`DefaultSource`. Without what the source needs there is none, and no session fails for it."""

from importlib.util import find_spec

if all(find_spec(name) for name in ("numpy", "pyarrow", "quorate")):
    from quorate.spark_source.source import MetadataLogSource as DefaultSource

    __all__ = ["DefaultSource"]
