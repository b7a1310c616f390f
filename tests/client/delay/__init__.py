"""Delivery at a time: headers, ledger, schedule, and random histories of a delayer."""
