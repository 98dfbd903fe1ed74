"""SASL: how clients of a listener prove who they are (KIP-43, KIP-84, KIP-152, KIP-368).

- `scram`, `plain`, `oauthbearer`: the mechanisms, without any input or output
- `login`: the login of one connection, and what those of a listener share
"""
