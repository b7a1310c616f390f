"""Delivery at a time: moves records of a holding topic to their targets when they are due.

Pure: delayed_record (headers), schedule (which records are moved, and when), delay_ledger (which
were moved), delay_statistics (how late they were).
Flows: holding_topics (the topics of a delayer), holding_reader (what is pending), delay_rows
(its tables).
With asyncio: move_writer (a transaction), held_payloads (what is moved), partition_delayer (one
partition), delayer (a program), delay_metrics (its Prometheus page).
Why a program beside the brokers: docs/adr/0051.
"""
