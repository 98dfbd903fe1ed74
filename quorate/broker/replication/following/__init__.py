"""Following leaders: one fetcher per leading broker."""

from quorate.broker.replication.following.fetcher import FetcherContext, Fetchers
from quorate.broker.replication.following.lost_leaders import LostLeaders

__all__ = ["FetcherContext", "Fetchers", "LostLeaders"]
