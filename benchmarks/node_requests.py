"""What the benchmark's client asks the application on a node, beside appending: one byte, and then a key."""

READ = b"r"
SNAPSHOT = b"s"

# Answers begin with one of these: is there such a thing in this version?
SUPPORTED, UNSUPPORTED = b"\1", b"\0"
