"""The transaction coordinator: one pure shard per partition of __transaction_state."""
