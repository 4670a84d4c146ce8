"""Experiments: defences trained and attacked under one protocol."""
