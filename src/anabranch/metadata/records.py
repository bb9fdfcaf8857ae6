"""What we store, and under which path.

    /topics/{tenant}/{namespace}/{name}                       a scalable topic
    …/controller, …/controller:epoch                          its leader (ephemeral), fencing number
    …/subscriptions/{subscription}                            a subscription and its type
    …/subscriptions/{subscription}/consumers/{consumer}       a registered consumer
    …/pruned/{segment}                                        what is left of a pruned segment
    …/segments/{segment}/load                                 the last load report of its owner
    /managed-ledgers/{tenant}/{namespace}/{domain}/{name}     the ledgers of a topic or segment
    …/{cursor}                                                names of its cursors
    /loadbalance/brokers/{broker}                             a live broker (ephemeral)
    /ownership/{group}                                        who owns a group (ephemeral)
    /txn/…                                                    metadata transactions

Every element that somebody chose is encoded as Java's URLEncoder does it, because Pulsar's tools
read these paths. No encoded element contains `:` or `/`, so `controller:epoch` and `{a}:{b}` are
free for us. Deleting a topic is deleting the subtree at `topic(…)`.
"""

from __future__ import annotations

from urllib.parse import quote_plus, unquote_plus

from anabranch.errors import InvalidInput

BROKERS = "/loadbalance/brokers"
OWNERSHIP = "/ownership"
TRANSACTION_PARALLELISM = "/txn/tc/parallelism"


def encode_element(name: str) -> str:
    """One path element from any non-empty text; `decode_element` gives the text back."""
    if not name:
        raise InvalidInput("a name in a metadata path must not be empty")
    if name in (".", ".."):  # harmless in a URL encoder, but no path element may look like this
        return name.replace(".", "%2E")
    try:
        return quote_plus(name, safe="*").replace("~", "%7E")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"name {name!r} is not valid text: {error.reason}") from None


def decode_element(element: str) -> str:
    try:
        return unquote_plus(element, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(f"path element {element!r} does not decode to UTF-8 text") from None


# Topics


def namespace_topics(tenant: str, namespace: str) -> str:
    """Its children are the encoded names of the namespace's scalable topics."""
    return f"/topics/{encode_element(tenant)}/{encode_element(namespace)}"


def topic(tenant: str, namespace: str, name: str) -> str:
    return f"{namespace_topics(tenant, namespace)}/{encode_element(name)}"


def controller(topic_path: str) -> str:
    return f"{topic_path}/controller"


def subscriptions(topic_path: str) -> str:
    return f"{topic_path}/subscriptions"


def subscription(topic_path: str, name: str) -> str:
    return f"{subscriptions(topic_path)}/{encode_element(name)}"


def consumers(topic_path: str, subscription_name: str) -> str:
    return f"{subscription(topic_path, subscription_name)}/consumers"


def consumer(topic_path: str, subscription_name: str, name: str) -> str:
    return f"{consumers(topic_path, subscription_name)}/{encode_element(name)}"


def pruned_segments(topic_path: str) -> str:
    return f"{topic_path}/pruned"


def pruned_segment(topic_path: str, segment: int) -> str:
    return f"{pruned_segments(topic_path)}/{segment}"


def segment_load(topic_path: str, segment: int) -> str:
    return f"{topic_path}/segments/{segment}/load"


# Storage and ownership


def managed_ledgers(tenant: str, namespace: str, domain: str) -> str:
    """Its children are the encoded names of what is stored there."""
    elements = (encode_element(part) for part in (tenant, namespace, domain))
    return "/managed-ledgers/" + "/".join(elements)


def managed_ledger(tenant: str, namespace: str, domain: str, name: str) -> str:
    return f"{managed_ledgers(tenant, namespace, domain)}/{encode_element(name)}"


def cursor(managed_ledger_path: str, name: str) -> str:
    return f"{managed_ledger_path}/{encode_element(name)}"


def broker(broker_id: str) -> str:
    return f"{BROKERS}/{encode_element(broker_id)}"


def owner(group: int) -> str:
    return f"{OWNERSHIP}/{group}"


# Locks


def epoch_of(lock_path: str) -> str:
    """The fencing number of whoever holds the lock; it outlives every holder."""
    return f"{lock_path}:epoch"


# Transactions


def transaction(most: int, least: int) -> str:
    return f"/txn/id/{most}_{least}"


def transaction_operation(most: int, least: int) -> str:
    """Put sequentially: one record for every write and acknowledgement."""
    return f"/txn/op/{most}_{least}"


def transaction_writer(writer: str) -> str:
    return f"/txn/writer/{encode_element(writer)}"


def segment_events(segment_name: str) -> str:
    """Put sequentially: outcomes that the segment's owner has to apply."""
    return f"/txn/segment-events/{encode_element(segment_name)}"


def subscription_events(segment_name: str, subscription_name: str) -> str:
    """Put sequentially: outcomes that the subscription's cursor has to apply."""
    pair = f"{encode_element(segment_name)}:{encode_element(subscription_name)}"
    return f"/txn/subscription-events/{pair}"


def transaction_watermark(segment_name: str) -> str:
    return f"/txn/segment-state/watermark/{encode_element(segment_name)}"


def aborted_transaction(segment_name: str, most: int, least: int) -> str:
    return f"/txn/segment-state/aborted/{encode_element(segment_name)}:{most}_{least}"


def transaction_leader(partition: int) -> str:
    return f"/txn/tc/leader/{partition}"


def transaction_counter(partition: int) -> str:
    return f"/txn/tc-seq/{partition}"
