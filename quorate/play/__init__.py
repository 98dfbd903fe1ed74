"""Teaching mode (`quorate raft play`): the production core in a small world that one steps through by hand.

Nothing else in quorate imports it but the command, because it holds wrong rules on purpose.
"""
