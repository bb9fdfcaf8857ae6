"""Everything a value of wire_codec says, as plain tuples: to tell two readings of bytes apart."""

from __future__ import annotations

from anabranch.protocol.wire_codec import Ack, Delivery, EntryView, Flow, Receipt, Send, WireId


def id_facts(found: WireId | None) -> object:
    if found is None:
        return None
    return (
        found.ledger,
        found.entry,
        found.partition,
        found.batch_index,
        found.batch_size,
        found.ack_set,
        id_facts(found.first_chunk),
    )


def _view_facts(view: EntryView) -> tuple[object, ...]:
    return (
        bytes(view.body),
        view.prefix,
        view.checksum,
        view.is_intact,
        view.metadata_start,
        view.payload_start,
        view.publish_time_ms,
        view.batch_size,
    )


def facts(value: Send | Delivery | Receipt | Ack | Flow) -> tuple[object, ...]:
    match value:
        case Send():
            return (
                *_view_facts(value),
                (value.producer_id, value.sequence_id, value.highest_sequence_id),
                (value.num_messages, value.is_chunk, value.is_marker),
                (value.has_txn, value.txn_least, value.txn_most),
                id_facts(value.source),
            )
        case Delivery():
            return (
                *_view_facts(value),
                value.consumer_id,
                id_facts(value.id),
                (value.redelivery_count, value.ack_set, value.consumer_epoch),
            )
        case Receipt():
            return (
                (value.producer_id, value.sequence_id, value.highest_sequence_id),
                id_facts(value.id),
            )
        case Ack():
            return (
                (value.consumer_id, value.is_cumulative, value.validation_error),
                tuple(id_facts(acked) for acked in value.ids),
                (value.has_txn, value.txn_least, value.txn_most),
                (value.has_request_id, value.request_id),
            )
        case Flow():
            return (value.consumer_id, value.permits)
