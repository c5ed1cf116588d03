"""The records under the store's keys: `kinds` of records, their `form`, and `codec`, which makes values of them."""
