"""Retriever training: batches, loss, task."""
