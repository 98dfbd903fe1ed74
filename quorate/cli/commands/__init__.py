"""One module per group of commands of `quorate`. A node imports none."""
