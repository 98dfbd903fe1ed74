"""The KRaft controller: metadata records, the image, and the operations on it."""
