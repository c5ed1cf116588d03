"""Options of a store: times and limits, none of which is kept in the store itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The times and limits of a store.

    Args:
        lease_ms: How long a worker's lease lasts unless renewed, in milliseconds.
        send_lease_ms: How long a sender's hold on a delivery lasts, in milliseconds.
        right_ms: How long a right such as polling lasts, in milliseconds: after a kill nobody listens for that long.
        keep_ms: How long dedupe keys and settled deliveries are kept after their end, in milliseconds.
        keep_dead_ms: How long dead letters are kept, in milliseconds.
        inbox_limit: The most items of a session's inbox.
        claim_items: The most inbox items that a claim hands over.
        debounce_ms: How long messages that came during a turn are left after the newest of them, in milliseconds, as
            more may come.
        parts_ms: How long the parts of one message are left at most, from the first of them, in milliseconds.
        held_limit: The most items that a session holds for people to decide on.
        notes_limit: The most unread steering notes of one level that a run holds.
        claim_events: The most events that a claim reads in one request.
        timeout: The bound of every request in seconds. A request is tried once more. Where another server may take
            over, a quarter of that bounds a try, and tries continue for the whole time after the first failed.
        sweep_keys: About how many keys of the store one sweep looks at.
        walk_seconds: The time in seconds after which a sweep stops on the way, as messages wait.
    """

    lease_ms: int = 30_000
    send_lease_ms: int = 60_000
    right_ms: int = 2_000
    keep_ms: int = 24 * 60 * 60 * 1000
    keep_dead_ms: int = 7 * 24 * 60 * 60 * 1000
    inbox_limit: int = 1000
    claim_items: int = 32
    debounce_ms: int = 500
    parts_ms: int = 5_000
    held_limit: int = 50
    notes_limit: int = 100
    claim_events: int = 1000
    timeout: float = 10.0
    sweep_keys: int = 20_000
    walk_seconds: float = 0.1
