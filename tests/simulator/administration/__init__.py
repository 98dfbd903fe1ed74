"""Administrative calls against the committed metadata: granted calls were carried out, and nothing else."""
