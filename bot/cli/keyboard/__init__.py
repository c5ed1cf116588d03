"""`lockgate chat` at a terminal that obeys control sequences: an editor with history and completion."""
