"""The quorum's protocol over sockets: frames, codecs, peers, server, forwarding."""
