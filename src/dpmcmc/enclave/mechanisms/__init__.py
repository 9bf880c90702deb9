"""Mechanisms: what may leave the enclave, each with its sensitivity, its noise, its event and its proof."""
