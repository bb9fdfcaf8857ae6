"""What users see: the stock `pulsar-client` producing to and consuming from a broker.

    python -m benchmarks.real_client JOB

JOB and answer are those of `benchmarks.load`. Producing is `send_async` with a callback for every
message and batching on, consuming is `receive` and `acknowledge` one by one: the usual loops. The
client's own cost is most of it, so this says what to expect rather than what the broker can do.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from typing import Any

import pulsar

from benchmarks.load import Figures, Job, Meter, percentiles
from benchmarks.peers.channel import payload
from benchmarks.peers.process import usage_of

MAX_PENDING = 1000


def quiet() -> logging.Logger:
    logger = logging.getLogger("pulsar-client")
    logger.setLevel(logging.ERROR)
    return logger


def run(job: Job) -> Figures:
    client = pulsar.Client(f"pulsar://{job.address}", logger=quiet())
    try:
        return (produce if job.kind == "publish" else consume)(client, job)
    finally:
        client.close()


def produce(client: Any, job: Job) -> Figures:
    producer = client.create_producer(
        job.name,
        batching_enabled=job.per_entry > 1,
        batching_max_messages=max(2, job.per_entry),
        batching_max_publish_delay_ms=1,
        batching_max_allowed_size_in_bytes=1 << 20,
        max_pending_messages=MAX_PENDING,
        block_if_queue_full=True,
    )
    content, latencies = payload(job.size), []
    done = threading.Semaphore(0)
    failed: list[object] = []

    def sent(since: float, result: object) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)
        latencies.append((time.perf_counter() - since, 1))
        done.release()

    def send() -> None:
        since = time.perf_counter()
        producer.send_async(content, lambda result, _: sent(since, result))

    meter = Meter(job.pid)
    meter.edge()
    start = time.perf_counter()
    for _ in range(job.messages):
        send()
    producer.flush()
    for _ in range(job.messages):
        done.acquire()
    seconds = time.perf_counter() - start
    meter.edge()
    assert not failed, failed[:3]
    return rates(job, seconds, meter) | percentiles(latencies)


def consume(client: Any, job: Job) -> Figures:
    consumer = client.subscribe(
        job.name,
        f"bench-{time.monotonic_ns()}",
        initial_position=pulsar.InitialPosition.Earliest,
        receiver_queue_size=MAX_PENDING,
    )
    meter = Meter(job.pid)
    meter.edge()
    start = time.perf_counter()
    for _ in range(job.messages):
        consumer.acknowledge(consumer.receive(20_000))
    seconds = time.perf_counter() - start
    meter.edge()
    return rates(job, seconds, meter)


def rates(job: Job, seconds: float, meter: Meter) -> Figures:
    size = job.messages * job.size
    return {
        "msg/s": job.messages / seconds,
        "MB/s": size / seconds / 1e6,
        "CPU s/GB": meter.cpu_seconds / (size / 1e9),
        "CPU us/msg": 1e6 * meter.cpu_seconds / job.messages,
        "RSS MB": usage_of(job.pid).rss_mb,
    }


if __name__ == "__main__":
    print(json.dumps(run(Job(**json.loads(sys.argv[1])))))
