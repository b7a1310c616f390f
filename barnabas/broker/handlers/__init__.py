"""One module per API. Each has `handle(broker, request, call)`, which returns

- a response, at once;
- a `DeferredReply`, when it waits for something while the connection continues (fetch, produce);
- a coroutine, when the connection must wait for it (changes of the catalog);
- None, when the protocol has no reply (acks=0).
"""
