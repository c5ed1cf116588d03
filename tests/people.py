"""The people of a policy, as tests write them down."""

from pydantic import JsonValue


def principal(
    *accounts: str, role: str = "owner", clearance: str = "top", may_release: bool = False
) -> dict[str, JsonValue]:
    """Return a principal as a policy document has it: an owner who may know everything, unless said otherwise."""
    made: dict[str, JsonValue] = {"role": role, "clearance": clearance, "accounts": list[JsonValue](accounts)}
    return {**made, "may_release": True} if may_release else made
