"""Stock clients' administration of the data on brokers."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from quorate.cli.node.local_cluster import LocalCluster

pytestmark = pytest.mark.clients


def test_confluent_kafka_deletes_records(client_cluster: LocalCluster) -> None:
    topic = "confluent-deletes"
    server = {"bootstrap.servers": client_cluster.bootstrap}
    admin = AdminClient(server)
    admin.create_topics([NewTopic(topic, 2, 3)])[topic].result(timeout=30)
    producer = Producer({**server, "acks": "all"})
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    asked = [TopicPartition(topic, 0, 4), TopicPartition(topic, 1, -1)]
    deleted = {
        each.partition: future.result(timeout=30) for each, future in admin.delete_records(asked).items()
    }
    assert [deleted[index].low_watermark for index in (0, 1)] == [4, 0]
    consumer = Consumer({**server, "group.id": "after-deletion"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30) == (4, 10)
    consumer.assign([TopicPartition(topic, 0, 4)])
    values = [message.value() for message in consumer.consume(6, timeout=30)]
    consumer.close()
    assert values == [b"%d" % number for number in range(4, 10)]


def test_kafka_python_deletes_records_and_describes_directories(client_cluster: LocalCluster) -> None:
    kafka_admin = pytest.importorskip("kafka.admin")
    kafka = pytest.importorskip("kafka")
    topic = "kafka-python-deletes"
    servers = client_cluster.bootstrap.split(",")
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all")
    admin = kafka_admin.KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([kafka_admin.NewTopic(topic, 1, 3)])
    for number in range(10):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush(timeout=30)
    producer.close()
    partition = kafka.TopicPartition(topic, 0)
    deleted = admin.delete_records({partition: 7}, timeout_ms=10_000)
    assert deleted[partition]["low_watermark"] == 7
    described = admin.describe_log_dirs()
    admin.close()
    assert topic in repr(described)
