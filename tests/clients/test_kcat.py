"""kcat (Debian's, librdkafka 2.0) through the death of a leader."""

import subprocess
import time
from collections.abc import Callable

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from tests.clients.killable import ACK_TIMEOUT_MS, Killable, check, values

pytestmark = pytest.mark.clients


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_through_a_leaders_death(
    killable: Killable, need: Callable[[str], str]
) -> None:
    kcat, topic = need("kcat"), "kcat"
    admin = KafkaAdminClient(bootstrap_servers=killable.bootstrap.split(","))
    admin.create_topics([NewTopic(topic, 1, 3)])
    admin.close()
    producer = subprocess.Popen(
        [kcat, "-b", killable.bootstrap, "-P", "-t", topic, "-X", "acks=all", "-X", "enable.idempotence=true",
         "-X", "linger.ms=1", "-X", "batch.num.messages=20",
         "-X", f"topic.request.timeout.ms={ACK_TIMEOUT_MS}"],
        stdin=subprocess.PIPE,
    )  # fmt: skip
    assert producer.stdin is not None
    sent = []
    try:
        with killable.trouble(topic) as trouble:
            for value in values(trouble):
                if value:
                    producer.stdin.write(value + b"\n")
                    sent.append(value)
                else:
                    producer.stdin.flush()
                    time.sleep(0.002)
            producer.stdin.close()
            assert producer.wait(timeout=90) == 0, "kcat ends with 0 when everything was acknowledged"
    finally:
        producer.kill()
        producer.wait()
    received = subprocess.run(
        [kcat, "-b", killable.bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q"],
        stdout=subprocess.PIPE, timeout=60, check=True,
    ).stdout.splitlines()  # fmt: skip
    check(received, sent, trouble)


def test_a_group_of_kcat_reads_with_committed_offsets(killable: Killable, need: Callable[[str], str]) -> None:
    kcat, topic = need("kcat"), "kcat-group"
    admin = KafkaAdminClient(bootstrap_servers=killable.bootstrap.split(","))
    admin.create_topics([NewTopic(topic, 2, 3)])
    admin.close()
    subprocess.run(
        [kcat, "-b", killable.bootstrap, "-P", "-t", topic], input=b"a\nb\nc\n", timeout=30, check=True
    )
    group = [kcat, "-b", killable.bootstrap, "-q", "-c", "3", "-X", "auto.offset.reset=earliest",
             "-G", "kcat-readers", topic]  # fmt: skip
    first = subprocess.run(group, stdout=subprocess.PIPE, timeout=60, check=True).stdout
    assert sorted(first.split()) == [b"a", b"b", b"c"]
    subprocess.run([kcat, "-b", killable.bootstrap, "-P", "-t", topic], input=b"d\n", timeout=30, check=True)
    second = subprocess.run(
        [*group[:5], "1", *group[6:]], stdout=subprocess.PIPE, timeout=60, check=True
    ).stdout
    assert second.split() == [b"d"], "the group goes on where it had committed"
