"""Following leaders: one fetcher per leading broker."""
