"""The configuration of a node: its server.properties, checked and read into the settings of its parts."""
