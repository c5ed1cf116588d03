"""The processes of one store: their keys and settings agree, their clocks are compared, and losses are watched for."""
