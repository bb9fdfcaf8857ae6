from __future__ import annotations

import pytest

from anabranch.errors import InvalidInput
from anabranch.metadata import records
from anabranch.metadata.records import decode_element, encode_element
from anabranch.metadata.store import check_path

TOPIC = records.topic("public", "default", "orders/eu 1")


def test_paths_are_those_of_the_design() -> None:
    assert TOPIC == "/topics/public/default/orders%2Feu+1"
    assert records.controller(TOPIC) == f"{TOPIC}/controller"
    assert records.epoch_of(records.controller(TOPIC)) == f"{TOPIC}/controller:epoch"
    assert records.subscription(TOPIC, "a/b") == f"{TOPIC}/subscriptions/a%2Fb"
    assert records.consumer(TOPIC, "s", "c:1") == f"{TOPIC}/subscriptions/s/consumers/c%3A1"
    assert records.pruned_segment(TOPIC, 7) == f"{TOPIC}/pruned/7"
    assert records.segment_load(TOPIC, 7) == f"{TOPIC}/segments/7/load"
    assert records.broker("b1:8080") == "/loadbalance/brokers/b1%3A8080"
    assert records.owner(12) == "/ownership/12"
    assert (
        records.managed_ledger("t", "n", "persistent", "a/b")
        == "/managed-ledgers/t/n/persistent/a%2Fb"
    )


def test_transaction_paths_are_those_of_the_design() -> None:
    assert records.transaction(1, 2) == "/txn/id/1_2"
    assert records.transaction_operation(1, 2) == "/txn/op/1_2"
    assert (
        records.segment_events("segment://t/n/x") == "/txn/segment-events/segment%3A%2F%2Ft%2Fn%2Fx"
    )
    assert records.subscription_events("a", "b:c") == "/txn/subscription-events/a:b%3Ac"
    assert records.transaction_watermark("a") == "/txn/segment-state/watermark/a"
    assert records.aborted_transaction("a", 1, 2) == "/txn/segment-state/aborted/a:1_2"
    assert records.transaction_leader(0) == "/txn/tc/leader/0"
    assert records.transaction_counter(3) == "/txn/tc-seq/3"
    assert records.transaction_writer("w") == "/txn/writer/w"


@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("plain-name_1.x*", "plain-name_1.x*"),
        ("a b", "a+b"),
        ("a+b", "a%2Bb"),
        ("~", "%7E"),
        ("é", "%C3%A9"),
        (".", "%2E"),
        ("..", "%2E%2E"),
    ],
)
def test_elements_are_encoded_as_java_does(name: str, element: str) -> None:
    assert encode_element(name) == element
    assert decode_element(element) == name
    check_path(f"/x/{element}")


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_names_that_are_no_text_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        encode_element(name)


def test_elements_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidInput):
        decode_element("%ff")
