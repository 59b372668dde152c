"""Shipped profiles and published figures; sources in SOURCES.md."""
