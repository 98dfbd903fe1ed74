"""The operating system's errors as those of `quorate.runtime.disk`."""

import errno

from quorate.runtime.disk import DescriptorsExhaustedError, DiskError, DiskFullError
from quorate.runtime.real import descriptors


def disk_error(error: OSError, path: str) -> DiskError:
    """Return what `error`, of an operation on the file or folder `path`, is to callers of a disk."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFullError("no space left on the device", path=path)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return DescriptorsExhaustedError(descriptors.exhausted_message(), path=path)
    return DiskError(error.strerror or str(error), path=path)
