"""The checks of clients' histories for an order that explains every answer."""
