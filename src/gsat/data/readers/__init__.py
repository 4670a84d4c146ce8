"""Readers of files: one module a family of formats, each from a path to a `Table`."""
