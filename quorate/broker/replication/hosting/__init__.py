"""Replicas follow the metadata: their logs are opened and removed, they take roles, and the controller learns
where they are."""
