"""The training loop: batches, optimizer, checkpoints, logs, several processes."""
