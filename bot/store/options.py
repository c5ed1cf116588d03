"""How a store behaves: times and limits, none of which is kept in the store itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How the store behaves; every time is in milliseconds.

    A worker's lease lasts `lease_ms` unless renewed, a sender's `send_lease_ms`, and a right such as that to poll
    `right_ms`, which is how long nobody listens after a kill. Dedupe keys and settled deliveries are kept `keep_ms`
    after their end, what could not be delivered `keep_dead_ms`. A session's inbox takes `inbox_limit` items; a claim
    hands over at most `claim_items` of them. What came while a turn ran is left for `debounce_ms` after the newest of
    it, as more may come. A session holds at most `held_limit` items for people to decide on, and a run at most
    `notes_limit` steering notes of one level that it has not read. `timeout` seconds bound every exchange, which is
    tried once more; where another server may take over, a quarter of that bounds a try, and tries go on for all of it
    after the first failed. One sweep looks at about `sweep_keys` keys of the store at most, and stops on the way once
    that took `walk_seconds`, as messages wait.
    """

    lease_ms: int = 30_000
    send_lease_ms: int = 60_000
    right_ms: int = 2_000
    keep_ms: int = 24 * 60 * 60 * 1000
    keep_dead_ms: int = 7 * 24 * 60 * 60 * 1000
    inbox_limit: int = 1000
    claim_items: int = 32
    debounce_ms: int = 500
    held_limit: int = 50
    notes_limit: int = 100
    claim_events: int = 1000
    timeout: float = 10.0
    sweep_keys: int = 20_000
    walk_seconds: float = 0.1
