"""TLS with OpenSSL, as Python has it. Imported only by a broker or a client that uses TLS.

stores: keys and certificates, from files (PEM, PKCS12) or options
contexts: the settings of OpenSSL: versions, cipher suites, keys, whom to trust
records: a TLS connection without its socket: bytes in, bytes out
stream: a Stream that encrypts another one
"""
