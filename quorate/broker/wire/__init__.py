"""Kafka's protocol for our server and client: framing, versions, codecs, error codes.

A frame's way in: `framing` cuts it out of the stream, `headers` reads the API and the client, `request_codec`
turns the body into a message in the form of the newest version (hand-written for Produce and Fetch; kio
behind `guard` for the rest), the connection in `connection` hands it to a `RequestHandler` and sends the
answers back in order.
"""
