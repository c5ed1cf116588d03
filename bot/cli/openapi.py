"""`lockgate openapi`: the document of the HTTP API."""

from bot.app.programs import document
from bot.cli.output import print_json


def openapi() -> None:
    """Print the document, OpenAPI 3.1."""
    print_json(document())
