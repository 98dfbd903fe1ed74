"""The errors of reading a metadata log, grouped by what the caller can do."""


class HistoryError(Exception):
    """The root of the errors of this package. A snapshot that is damaged raises `DamagedSnapshotError` of
    `quorate.log`: an earlier one may be whole."""


class LogUnavailableError(HistoryError):
    """No node answered, or the files on this machine can't be read."""


class UnreadableFilesError(LogUnavailableError):
    """The folder or file on this machine can't be read, or is none of a metadata log."""


class UnknownHighWatermarkError(UnreadableFilesError):
    """The node's folder does not say which records are committed."""


class SnapshotNameError(HistoryError):
    """The name of a file does not say which snapshot it holds."""


class DamagedRecordError(HistoryError):
    """Bytes in the log are not a record, because of a disk fault or of a fault in quorate."""
