"""Metadata images as the command line reads them: live, from a folder or a snapshot, now or as they were."""
