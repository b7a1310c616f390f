"""Delivery at a time: moves records of a holding topic to their targets when they are due.

Pure: delayed_record (headers), schedule (which records are moved, and when), delay_ledger (which
were moved).
Flows: holding_topics (the topics of a delayer), holding_reader (what is pending).
With asyncio: move_writer (a transaction), held_payloads (what is moved), partition_delayer (one
partition), delayer (a program).
Why a program beside the brokers: docs/adr/0051.
"""
