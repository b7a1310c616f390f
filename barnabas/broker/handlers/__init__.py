"""One module per API. Each has `handle(broker, request, call)`, which answers with

- a response, at once;
- a `DeferredReply`, when it waits for something while the connection continues (fetch, produce);
- a coroutine, when the connection must wait for it (whatever changes the catalog);
- None, if the protocol has no response (acks=0).
"""
