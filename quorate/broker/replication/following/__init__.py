"""Following leaders: one fetcher per leading broker."""

from quorate.broker.replication.following.fetcher import FetcherContext, Fetchers
from quorate.broker.replication.following.lost_leaders import LostLeaders
from quorate.broker.replication.following.taking_in import asked_for, take_in

__all__ = ["FetcherContext", "Fetchers", "LostLeaders", "asked_for", "take_in"]
