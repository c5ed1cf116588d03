"""Adapters to the places where people are.

An adapter turns a platform's updates into `Inbound` values and sends `Outbound` values. It knows neither bot nor policy
nor another adapter: it receives its needs of them as values and ports.
"""
