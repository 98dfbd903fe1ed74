"""Steps that cores took elsewhere, told as scripts of teaching mode (`quorate raft play FILE`)."""
