"""Noise in integers, from the operating system's entropy."""
