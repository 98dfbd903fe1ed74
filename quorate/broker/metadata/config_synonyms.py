"""The synonyms of a configuration value in DescribeConfigs: its source, and the sources behind it
(KIP-226)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile

from quorate.broker.metadata.configs import ALL_BROKERS, ConfigSource, levels, stored
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.settings.all_keys import BROKER_KEYS, BROKER_VALUES
from quorate.broker.settings.config_key import ConfigKey, Synonym


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One place that has a value, in that place's own unit: `log.retention.hours` in hours."""

    name: str
    value: str
    source: ConfigSource


def of_topic(
    image: MetadataImage, topic: str, key: ConfigKey, *, static: Mapping[str, str]
) -> Iterator[ConfigSynonym]:
    """Return the synonyms of a topic's key, from the one in effect to the built-in default. `static`: the
    node's server.properties."""
    own = stored(image, ConfigResource(ConfigType.TOPIC, topic)).get(key.name)
    if own is not None:
        yield ConfigSynonym(key.name, own, ConfigSource.DYNAMIC_TOPIC)
    yield from _of_brokers(image, key, key.synonyms, static=static)


def of_broker(image: MetadataImage, name: str, *, static: Mapping[str, str]) -> Iterator[ConfigSynonym]:
    """Return the synonyms of a broker's key that sets a default of topics, or may change while it runs.
    Begins with the key itself: another that counts more for topics doesn't change this one's value."""
    if name not in BROKER_KEYS:
        yield from _of_brokers(image, BROKER_VALUES[name], (Synonym(name),), static=static)
        return
    key, synonym = BROKER_KEYS[name]
    found = _of_brokers(image, key, key.synonyms[key.synonyms.index(synonym) :], static=static)
    yield from dropwhile(lambda each: each.name != name, found)


def of_all_brokers(image: MetadataImage, name: str) -> Iterator[ConfigSynonym]:
    """Return the synonyms of a key of all brokers: the values set for them alone."""
    key, _ = BROKER_KEYS.get(name, (None, None))
    synonyms = (name,) if key is None else tuple(each.name for each in key.synonyms)
    held = stored(image, ALL_BROKERS)
    found = (
        ConfigSynonym(each, held[each], ConfigSource.DYNAMIC_DEFAULT_BROKER)
        for each in synonyms
        if each in held
    )
    yield from dropwhile(lambda each: each.name != name, found)


def of_group(image: MetadataImage, group: str, key: ConfigKey) -> Iterator[ConfigSynonym]:
    """Return the synonyms of a group's key."""
    own = stored(image, ConfigResource(ConfigType.GROUP, group)).get(key.name)
    if own is not None:
        yield ConfigSynonym(key.name, own, ConfigSource.GROUP)
    yield ConfigSynonym(key.name, key.initial, ConfigSource.DEFAULT)


def _of_brokers(
    image: MetadataImage, key: ConfigKey, synonyms: tuple[Synonym, ...], *, static: Mapping[str, str]
) -> Iterator[ConfigSynonym]:
    for values, source in levels(image, static):
        for synonym in synonyms:
            held = values.get(synonym.name)
            if held is not None:
                yield ConfigSynonym(synonym.name, held, source)
    first = synonyms[0] if synonyms else None
    if first is None:
        yield ConfigSynonym(key.name, key.initial, ConfigSource.DEFAULT)
    elif first.factor == 1:
        yield ConfigSynonym(first.name, key.initial, ConfigSource.DEFAULT)
    else:
        yield ConfigSynonym(first.name, str(int(key.initial) // first.factor), ConfigSource.DEFAULT)
