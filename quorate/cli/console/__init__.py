"""The terminal's side of every command: exit codes and messages, output, and the way to a cluster."""
