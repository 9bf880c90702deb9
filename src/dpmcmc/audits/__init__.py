"""Audits: how much of a claimed epsilon an attacker sees of this code. Nothing here is trusted for privacy."""
