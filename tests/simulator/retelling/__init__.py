"""What cores did elsewhere, told as scripts of teaching mode (`quorate raft play FILE`)."""
