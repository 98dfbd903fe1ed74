"""A broker of one node that keeps its partitions in a list: just enough for stock clients to try the wire."""

import sys
import uuid

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.apis.api_table import BROKER_APIS
from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, response_type
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchedTopic,
    KafkaFetchResponse,
    encode_fetch_response,
)
from quorate.broker.wire.codecs.produce_codec import ProducedPartition, ProducedTopic, encode_produce_steps
from quorate.broker.wire.exchanges import Deferred, EncodedResponse
from quorate.broker.wire.kafka_server import serve
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import at_once
from quorate.runtime.network import Address
from quorate.runtime.real.real_network import RealNetwork


def topic_id(name):
    return uuid.uuid5(uuid.NAMESPACE_DNS, name)


class ToyBroker:
    apis = BROKER_APIS

    def __init__(self, address):
        self.address = address
        self.topics = {}
        """Name -> [(base offset, next offset, pieces)]."""
        self.appended = trio.Event()

    async def handle(self, context, request):
        match context.api.key:
            case ApiKey.PRODUCE:
                return self.produce(context, request)
            case ApiKey.FETCH:
                return await self.fetch(request)
            case ApiKey.METADATA:
                return self.metadata(context, request)
            case ApiKey.LIST_OFFSETS:
                return self.list_offsets(context, request)
            case ApiKey.FIND_COORDINATOR:
                here = {"node_id": 0, "host": self.address.host, "port": self.address.port}
                response = response_type(context.api, context.version)
                if context.version < 4:
                    return build(response, **here)
                return build(response, coordinators=[here | {"key": key} for key in request.coordinator_keys])
            case ApiKey.INIT_PRODUCER_ID:
                return build(response_type(context.api, context.version), producer_id=1000, producer_epoch=0)
        raise KafkaError(ErrorCode.unsupported_version, "a toy")

    def metadata(self, context, request):
        for topic in request.topics or ():
            self.topics.setdefault(topic.name, [])
        names = list(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        partition = {"leader_id": 0, "leader_epoch": 0, "replica_nodes": (0,), "isr_nodes": (0,)}
        return build(
            response_type(context.api, context.version),
            brokers=[{"node_id": 0, "host": self.address.host, "port": self.address.port}],
            cluster_id="toy",
            controller_id=0,
            topics=[{"name": name, "topic_id": topic_id(name), "partitions": [partition]} for name in names],
        )

    def end(self, name):
        batches = self.topics.get(name)
        return batches[-1][1] if batches else 0

    def produce(self, context, request):
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                base = self.end(topic.name)
                count = int.from_bytes(part.records[57:61], "big")
                head = base.to_bytes(8, "big") + bytes(part.records[8:12]) + bytes(4)
                self.topics.setdefault(topic.name, []).append((base, base + count, (head, part.records[16:])))
                parts.append(ProducedPartition(index=part.index, base_offset=base))
            topics.append(ProducedTopic(topic.name, parts))
        self.appended.set()
        self.appended = trio.Event()
        if request.acks == 0:
            return None
        answer = EncodedResponse(at_once(encode_produce_steps(topics, version=context.version)))
        if request.acks == 1:
            return answer
        deferred = Deferred()
        deferred.complete(answer)
        return deferred

    def records(self, part, name):
        """Record bytes from the fetch offset on, in pieces."""
        pieces = []
        for _, following, batch in self.topics.get(name, ()):
            if following > part.fetch_offset:
                pieces += batch
        return pieces

    async def fetch(self, request):
        names = {topic_id(name): name for name in self.topics}
        asked = [
            (topic, topic.name if topic.topic_id is None else names[topic.topic_id])
            for topic in request.topics
        ]
        with trio.move_on_after(request.max_wait_ms / 1000):
            while not any(
                part.fetch_offset < self.end(name) for topic, name in asked for part in topic.partitions
            ):
                await self.appended.wait()
        topics = []
        for topic, name in asked:
            end = self.end(name)
            parts = [
                FetchedPartition(
                    index=part.partition,
                    high_watermark=end,
                    last_stable_offset=end,
                    log_start_offset=0,
                    records=self.records(part, name),
                )
                for part in topic.partitions
            ]
            topics.append(FetchedTopic(topic.name, topic.topic_id, parts))
        return EncodedResponse(
            encode_fetch_response(KafkaFetchResponse(version=request.version, topics=topics))
        )

    def list_offsets(self, context, request):
        return build(
            response_type(context.api, context.version),
            topics=[
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": part.partition_index,
                            "offset": 0 if part.timestamp == -2 else self.end(topic.name),
                            "timestamp": -1,
                            "leader_epoch": 0,
                        }
                        for part in topic.partitions
                    ],
                }
                for topic in request.topics
            ],
        )


async def main():
    listener = await RealNetwork().listen(Address("127.0.0.1", 0))
    print(listener.address.port, flush=True)
    await serve(listener, ToyBroker(listener.address), KafkaServerConfig())


if __name__ == "__main__":
    sys.exit(trio.run(main))
