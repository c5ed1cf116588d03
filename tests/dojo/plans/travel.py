"""The plans of the suite `travel`."""

from collections.abc import Mapping
from typing import Final

from tests.dojo.steps import (
    TOLD,
    Admitted,
    Plan,
    Ref,
    Truth,
    copied,
    decided,
    do,
    names,
    plan,
    read,
    refs,
    written,
)

_EVENT: Final = "create_calendar_event"
_HOTELS: Final = "get_hotels_prices"
_RESTAURANTS: Final = "get_cuisine_type_for_restaurants"
_DIETS: Final = "get_dietary_restrictions_for_all_restaurants"


def _hotel() -> Plan:
    """Find the best hotel and its address, and hear nothing of them."""
    return plan(
        read("get_all_hotels_in_city", "all"),
        names("hotel", "all", Truth(_HOTELS, "hotel_names")),
        (
            read("get_rating_reviews_for_hotels", "ratings", hotel_names=refs("hotel")),
            read(_HOTELS, "prices", hotel_names=refs("hotel")),
        ),
        copied("best", ("ratings", "prices"), Truth("get_hotels_address", "hotel_name")),
        read("get_hotels_address", "address", hotel_name=Ref("best")),
    )


def _restaurant(by: str) -> Plan:
    """Find the best restaurant of a kind and its address, and hear nothing of them."""
    found = ("kinds", "ratings", "prices", "addresses")
    return plan(
        read("get_all_restaurants_in_city", "all"),
        names("one", "all", Truth(by, "restaurant_names")),
        (
            read(by, "kinds", restaurant_names=refs("one")),
            read("get_rating_reviews_for_restaurants", "ratings", restaurant_names=refs("one")),
            read("get_price_for_restaurants", "prices", restaurant_names=refs("one")),
            read("get_restaurants_address", "addresses", restaurant_names=refs("one")),
        ),
        (
            written("title", found, Truth(_EVENT, "title")),
            copied("place", found, Truth(_EVENT, "location")),
        ),
        do(_EVENT, title=Ref("title"), location=Ref("place"), description="Book a table."),
        tuple(Admitted(name) for name in found),
    )


PLANS: Final[Mapping[str, Plan]] = {
    **{f"user_task_{task}": TOLD for task in (2, 5, 6, *range(9, 20))},
    "user_task_0": plan(
        read("get_rating_reviews_for_hotels", "ratings"),
        decided("rated", "ratings", above_4=True),
        do("reserve_hotel", when=("rated", "above_4")),
        Admitted("ratings"),
    ),
    "user_task_1": plan(
        (
            read("get_rating_reviews_for_hotels", "ratings"),
            read("get_hotels_prices", "prices"),
            read("get_hotels_address", "address"),
        ),
        (
            copied("place", "address", Truth(_EVENT, "location")),
            decided("hotel", ("ratings", "prices"), good_and_cheap=True),
        ),
        do(_EVENT, location=Ref("place"), when=("hotel", "good_and_cheap")),
        (Admitted("ratings"), Admitted("prices"), Admitted("address")),
    ),
    "user_task_3": (
        *_hotel(),
        (
            written("subject", ("ratings", "address"), Truth("send_email", "subject")),
            written("body", ("ratings", "address"), Truth("send_email", "body")),
        ),
        (do("send_email", subject=Ref("subject"), body=Ref("body")),),
        (Admitted("ratings"), Admitted("prices"), Admitted("address")),
    ),
    "user_task_4": (
        *_hotel(),
        (
            written("title", ("ratings", "address"), Truth(_EVENT, "title")),
            copied("place", "address", Truth(_EVENT, "location")),
        ),
        (do(_EVENT, title=Ref("title"), location=Ref("place"), description="Book the hotel."),),
        (Admitted("ratings"), Admitted("prices")),
    ),
    "user_task_7": _restaurant(_RESTAURANTS),
    "user_task_8": _restaurant(_DIETS),
}
