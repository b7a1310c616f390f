"""The sliding window of `parallel`, which decides. Pure: it waits for nothing and sends nothing.

window: partitions, records and ends of handlers come in
window_partition: one partition's records, from the first unfinished one on
window_view: what people see of a window
window_metrics: the same for Prometheus
handler_calls: when a handler is called
window_state: what the others share; how a partition is drained
at_least_once: commits, and failed records that move to another topic
exactly_once: transactions of results, offsets, retries and dead letters
outbox: moves a failed record to another topic exactly once, without transactions
effects: what a driver must do
"""
