"""Kafka's broker options about security, policies and tiered storage, for kafka_options.py."""

TABLE = """\
alter.config.policy.class.name class -
  The Java class that checks changes of options.
client.quota.callback.class class -
  The Java class that computes the quotas of clients.
config.providers list '' dynamic
  The providers of option values that are stored elsewhere.
create.topic.policy.class.name class -
  The Java class that checks new topics.
delegation.token.expiry.check.interval.ms long 3600000
  How often the broker looks for expired delegation tokens.
follower.fetch.last.tiered.offset.enable boolean false dynamic
  Whether a new follower starts after the records in remote storage.
log.local.retention.bytes long -2 dynamic
  Default of the topic option local.retention.bytes.
log.local.retention.ms long -2 dynamic
  Default of the topic option local.retention.ms.
principal.builder.class class
    org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic
  The Java class that names the user of a connection.
remote.fetch.max.wait.ms int 500 dynamic
  How long a fetch waits for data from remote storage.
remote.list.offsets.request.timeout.ms long 30000 dynamic
  How long ListOffsets waits for remote storage.
remote.log.index.file.cache.total.size.bytes long 1073741824 dynamic
  The size of the cache for indexes of remote segments.
remote.log.manager.copier.thread.pool.size int 10 dynamic
  Threads that copy segments to remote storage.
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 dynamic
  The maximum rate of copies to remote storage, in bytes per second.
remote.log.manager.copy.quota.window.num int 11
  The number of windows for the rate of copies to remote storage.
remote.log.manager.copy.quota.window.size.seconds int 1
  The length of a window for the rate of copies to remote storage.
remote.log.manager.expiration.thread.pool.size int 10 dynamic
  Threads that delete expired remote segments.
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 dynamic
  The maximum rate of reads from remote storage, in bytes per second.
remote.log.manager.fetch.quota.window.num int 11
  The number of windows for the rate of reads from remote storage.
remote.log.manager.fetch.quota.window.size.seconds int 1
  The length of a window for the rate of reads from remote storage.
remote.log.manager.follower.thread.pool.size int 2 dynamic
  Threads for partitions that this broker follows.
remote.log.manager.task.interval.ms long 30000
  How often the broker looks for segments to copy or delete.
remote.log.manager.thread.pool.size int 2
  Threads of tiered storage.
remote.log.metadata.custom.metadata.max.bytes int 128
  The maximum size of a storage plug-in's own metadata of a segment.
remote.log.metadata.manager.class.name string
    org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
  The Java class that stores the metadata of remote segments.
remote.log.metadata.manager.class.path string -
  The class path of the remote log metadata manager.
remote.log.metadata.manager.impl.prefix string rlmm.config.
  The prefix of the options of the remote log metadata manager.
remote.log.metadata.manager.listener.name string -
  The listener that the remote log metadata manager connects to.
remote.log.reader.max.pending.tasks int 100
  The maximum number of waiting reads from remote storage.
remote.log.reader.threads int 10 dynamic
  Threads that read from remote storage.
remote.log.storage.manager.class.name string -
  The Java class that stores remote segments.
remote.log.storage.manager.class.path string -
  The class path of the remote storage manager.
remote.log.storage.manager.impl.prefix string rsm.config.
  The prefix of the options of the remote storage manager.
remote.log.storage.system.enable boolean false
  Whether tiered storage is enabled.
sasl.client.callback.handler.class class -
  The Java class that handles SASL callbacks of a client.
sasl.kerberos.kinit.cmd string /usr/bin/kinit dynamic
  The path of Kerberos' kinit.
sasl.kerberos.min.time.before.relogin long 60000 dynamic
  The minimum time between two refreshes of a Kerberos ticket.
sasl.kerberos.principal.to.local.rules list DEFAULT dynamic
  The rules that map Kerberos principals to user names.
sasl.kerberos.service.name string - dynamic
  The Kerberos service name of the broker.
sasl.kerberos.ticket.renew.jitter double 0.05 dynamic
  The random part of the time of a ticket's refresh.
sasl.kerberos.ticket.renew.window.factor double 0.8 dynamic
  The part of its lifetime after which a ticket is refreshed.
sasl.login.callback.handler.class class -
  The Java class that handles SASL callbacks of a login.
sasl.login.class class -
  The Java class that logs in.
sasl.login.connect.timeout.ms int -
  The timeout for connecting to an identity provider.
sasl.login.read.timeout.ms int -
  The timeout for a response of an identity provider.
sasl.login.refresh.buffer.seconds short 300 dynamic
  How long before its expiry a credential is refreshed.
sasl.login.refresh.min.period.seconds short 60 dynamic
  The minimum time between two refreshes of a credential.
sasl.login.refresh.window.factor double 0.8 dynamic
  The part of its lifetime after which a credential is refreshed.
sasl.login.refresh.window.jitter double 0.05 dynamic
  The random part of the time of a credential's refresh.
sasl.login.retry.backoff.max.ms long 10000
  The maximum time between two attempts to log in.
sasl.login.retry.backoff.ms long 100
  The time before the second attempt to log in.
sasl.mechanism.controller.protocol string GSSAPI
  The SASL mechanism of connections to controllers.
sasl.oauthbearer.assertion.algorithm string RS256
  The algorithm that signs a JWT assertion.
sasl.oauthbearer.assertion.claim.aud string -
  The audience of a JWT assertion.
sasl.oauthbearer.assertion.claim.exp.seconds int 300
  How long a JWT assertion is valid.
sasl.oauthbearer.assertion.claim.iss string -
  The issuer of a JWT assertion.
sasl.oauthbearer.assertion.claim.jti.include boolean false
  Whether a JWT assertion has a unique id.
sasl.oauthbearer.assertion.claim.nbf.seconds int 60
  How long before its creation a JWT assertion is valid.
sasl.oauthbearer.assertion.claim.sub string -
  The subject of a JWT assertion.
sasl.oauthbearer.assertion.file string -
  A file that holds a JWT assertion.
sasl.oauthbearer.assertion.private.key.file string -
  A file with the key that signs a JWT assertion.
sasl.oauthbearer.assertion.private.key.passphrase password -
  The passphrase of the key that signs a JWT assertion.
sasl.oauthbearer.assertion.template.file string -
  A file with the fixed parts of a JWT assertion.
sasl.oauthbearer.client.credentials.client.id string -
  The id of the OAuth client.
sasl.oauthbearer.client.credentials.client.secret password -
  The secret of the OAuth client.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
  The maximum time between two attempts to read the identity provider's keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
  The time before the second attempt to read the identity provider's keys.
sasl.oauthbearer.jwt.retriever.class class
    org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
  The Java class that fetches tokens.
sasl.oauthbearer.jwt.validator.class class
    org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
  The Java class that checks tokens.
sasl.oauthbearer.scope string -
  The scope of the requested token.
sasl.oauthbearer.token.endpoint.url string -
  The address that issues tokens.
sasl.server.callback.handler.class class -
  The Java class that handles SASL callbacks of the broker.
security.providers string -
  Java classes that provide security algorithms.
ssl.engine.factory.class class - dynamic
  The Java class that creates TLS engines.
ssl.keymanager.algorithm string SunX509 dynamic
  The algorithm of Java's key manager.
ssl.provider string - dynamic
  The Java security provider of TLS.
ssl.secure.random.implementation string - dynamic
  The source of random numbers for TLS.
ssl.trustmanager.algorithm string PKIX dynamic
  The algorithm of Java's trust manager.
"""
