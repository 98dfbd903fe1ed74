"""The cluster's metadata: records, their codec, the image of all records, changes between images."""
