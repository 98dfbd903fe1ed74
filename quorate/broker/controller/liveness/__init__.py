"""The active controller knows of the lives of brokers: sessions, ended processes, progress."""
