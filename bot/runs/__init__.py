"""Runs: sessions that the runtime keeps going, turn after turn, until they are stopped, limited or broken."""
