"""Broker options of Kafka's about security, policies and tiered storage (kafka_options.py)."""

TABLE = """\
alter.config.policy.class.name class -
  The Java class that checks changes of options.
authorizer.class.name string ''
  The Java class that decides who may do what.
client.quota.callback.class class -
  The Java class that works out the quotas of clients.
config.providers list '' dynamic
  Where values of options that name a provider come from.
connection.failed.authentication.delay.ms int 100
  How long a connection that failed to authenticate stays open.
connections.max.reauth.ms long 0
  A client must authenticate again after this time.
create.topic.policy.class.name class -
  The Java class that checks new topics.
delegation.token.expiry.check.interval.ms long 3600000
  How often expired delegation tokens are looked for.
delegation.token.expiry.time.ms long 86400000
  How long a delegation token is valid unless it is renewed.
delegation.token.max.lifetime.ms long 604800000
  How long a delegation token can be renewed at most.
delegation.token.secret.key password -
  The key with which delegation tokens are made.
follower.fetch.last.tiered.offset.enable boolean false dynamic
  Does a new follower begin behind what is in remote storage?
log.local.retention.bytes long -2 dynamic
  Default of the topic option local.retention.bytes.
log.local.retention.ms long -2 dynamic
  Default of the topic option local.retention.ms.
principal.builder.class class
    org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic
  The Java class that names the user of a connection.
remote.fetch.max.wait.ms int 500 dynamic
  How long a fetch waits for data of remote storage.
remote.list.offsets.request.timeout.ms long 30000 dynamic
  How long ListOffsets waits for remote storage.
remote.log.index.file.cache.total.size.bytes long 1073741824 dynamic
  Room for indexes of remote segments.
remote.log.manager.copier.thread.pool.size int 10 dynamic
  Threads that copy segments to remote storage.
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 dynamic
  Bytes a second that are copied to remote storage.
remote.log.manager.copy.quota.window.num int 11
  How many windows are kept for that rate.
remote.log.manager.copy.quota.window.size.seconds int 1
  The length of one such window.
remote.log.manager.expiration.thread.pool.size int 10 dynamic
  Threads that delete expired remote segments.
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 dynamic
  Bytes a second that are read from remote storage.
remote.log.manager.fetch.quota.window.num int 11
  How many windows are kept for that rate.
remote.log.manager.fetch.quota.window.size.seconds int 1
  The length of one such window.
remote.log.manager.follower.thread.pool.size int 2 dynamic
  Threads that follow what leaders copied to remote storage.
remote.log.manager.task.interval.ms long 30000
  How often segments to copy or delete are looked for.
remote.log.manager.thread.pool.size int 2
  Threads of tiered storage.
remote.log.metadata.custom.metadata.max.bytes int 128
  The most that a storage plug-in may note for one segment.
remote.log.metadata.manager.class.name string
    org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
  The Java class that keeps the metadata of remote segments.
remote.log.metadata.manager.class.path string -
  Where that class is.
remote.log.metadata.manager.impl.prefix string rlmm.config.
  How the names of its own options begin.
remote.log.metadata.manager.listener.name string -
  The listener through which it connects.
remote.log.reader.max.pending.tasks int 100
  Reads of remote storage that may wait.
remote.log.reader.threads int 10 dynamic
  Threads that read from remote storage.
remote.log.storage.manager.class.name string -
  The Java class that stores remote segments.
remote.log.storage.manager.class.path string -
  Where that class is.
remote.log.storage.manager.impl.prefix string rsm.config.
  How the names of its own options begin.
remote.log.storage.system.enable boolean false
  Is tiered storage on?
sasl.client.callback.handler.class class -
  The Java class that answers SASL callbacks of a client.
sasl.enabled.mechanisms list GSSAPI dynamic
  The SASL mechanisms that clients may use.
sasl.jaas.config password - dynamic
  The JAAS login of the broker.
sasl.kerberos.kinit.cmd string /usr/bin/kinit dynamic
  The path of Kerberos' kinit.
sasl.kerberos.min.time.before.relogin long 60000 dynamic
  The pause between refreshes of a Kerberos ticket.
sasl.kerberos.principal.to.local.rules list DEFAULT dynamic
  How Kerberos principals become user names.
sasl.kerberos.service.name string - dynamic
  The Kerberos name of the broker.
sasl.kerberos.ticket.renew.jitter double 0.05 dynamic
  How much chance is in the time of a refresh.
sasl.kerberos.ticket.renew.window.factor double 0.8 dynamic
  At which part of its life a ticket is refreshed.
sasl.login.callback.handler.class class -
  The Java class that answers SASL callbacks of a login.
sasl.login.class class -
  The Java class that logs in.
sasl.login.connect.timeout.ms int -
  How long connecting to an identity provider may take.
sasl.login.read.timeout.ms int -
  How long an answer of an identity provider may take.
sasl.login.refresh.buffer.seconds short 300 dynamic
  How long before its end a credential is refreshed.
sasl.login.refresh.min.period.seconds short 60 dynamic
  The shortest pause between refreshes of a credential.
sasl.login.refresh.window.factor double 0.8 dynamic
  At which part of its life a credential is refreshed.
sasl.login.refresh.window.jitter double 0.05 dynamic
  How much chance is in the time of a refresh.
sasl.login.retry.backoff.max.ms long 10000
  The longest pause between tries to log in.
sasl.login.retry.backoff.ms long 100
  The first pause between tries to log in.
sasl.mechanism.controller.protocol string GSSAPI
  The SASL mechanism of connections to controllers.
sasl.mechanism.inter.broker.protocol string GSSAPI dynamic
  The SASL mechanism of connections between brokers.
sasl.oauthbearer.assertion.algorithm string RS256
  The algorithm that signs a JWT assertion.
sasl.oauthbearer.assertion.claim.aud string -
  The audience of a JWT assertion.
sasl.oauthbearer.assertion.claim.exp.seconds int 300
  How long a JWT assertion is valid.
sasl.oauthbearer.assertion.claim.iss string -
  The issuer of a JWT assertion.
sasl.oauthbearer.assertion.claim.jti.include boolean false
  Does a JWT assertion have an id of its own?
sasl.oauthbearer.assertion.claim.nbf.seconds int 60
  How long before now a JWT assertion begins to be valid.
sasl.oauthbearer.assertion.claim.sub string -
  The subject of a JWT assertion.
sasl.oauthbearer.assertion.file string -
  A file that holds a JWT assertion.
sasl.oauthbearer.assertion.private.key.file string -
  A file with the key that signs a JWT assertion.
sasl.oauthbearer.assertion.private.key.passphrase password -
  The passphrase of that key.
sasl.oauthbearer.assertion.template.file string -
  A file with the fixed parts of a JWT assertion.
sasl.oauthbearer.client.credentials.client.id string -
  The id of the OAuth client.
sasl.oauthbearer.client.credentials.client.secret password -
  The secret of the OAuth client.
sasl.oauthbearer.clock.skew.seconds int 30
  How far the clock of the identity provider may differ.
sasl.oauthbearer.expected.audience list ''
  The audiences that a token may name.
sasl.oauthbearer.expected.issuer string -
  The issuer that a token must name.
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000
  How often the keys of the identity provider are read.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
  The longest pause between tries to read them.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
  The first pause between tries to read them.
sasl.oauthbearer.jwks.endpoint.url string -
  Where the keys of the identity provider are.
sasl.oauthbearer.jwt.retriever.class class
    org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
  The Java class that fetches tokens.
sasl.oauthbearer.jwt.validator.class class
    org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
  The Java class that checks tokens.
sasl.oauthbearer.scope string -
  The scope that is asked for.
sasl.oauthbearer.scope.claim.name string scope
  The claim that holds the scope.
sasl.oauthbearer.sub.claim.name string sub
  The claim that holds the subject.
sasl.oauthbearer.token.endpoint.url string -
  Where tokens are issued.
sasl.server.callback.handler.class class -
  The Java class that answers SASL callbacks of the broker.
sasl.server.max.receive.size int 524288
  The largest SASL message of a client.
security.inter.broker.protocol string PLAINTEXT
  The security protocol between brokers. PLAINTEXT is the one there is.
security.providers string -
  Java classes that provide security algorithms.
ssl.allow.dn.changes boolean false
  May a new certificate have another distinguished name?
ssl.allow.san.changes boolean false
  May a new certificate have other alternative names?
ssl.cipher.suites list '' dynamic
  The cipher suites that are allowed.
ssl.client.auth string none dynamic
  Must clients show a certificate?
ssl.enabled.protocols list TLSv1.2,TLSv1.3 dynamic
  The versions of TLS that are allowed.
ssl.endpoint.identification.algorithm string https dynamic
  How the name in a certificate is checked.
ssl.engine.factory.class class - dynamic
  The Java class that makes TLS engines.
ssl.key.password password - dynamic
  The password of the private key.
ssl.keymanager.algorithm string SunX509 dynamic
  The algorithm of Java's key manager.
ssl.keystore.certificate.chain password - dynamic
  The broker's certificates, as PEM.
ssl.keystore.key password - dynamic
  The broker's private key, as PEM.
ssl.keystore.location string - dynamic
  The file of the key store.
ssl.keystore.password password - dynamic
  The password of the key store.
ssl.keystore.type string JKS dynamic
  The format of the key store.
ssl.principal.mapping.rules string DEFAULT
  How distinguished names become user names.
ssl.protocol string TLSv1.3 dynamic
  The version of TLS.
ssl.provider string - dynamic
  The Java security provider of TLS.
ssl.secure.random.implementation string - dynamic
  The source of random numbers for TLS.
ssl.trustmanager.algorithm string PKIX dynamic
  The algorithm of Java's trust manager.
ssl.truststore.certificates password - dynamic
  Certificates that are trusted, as PEM.
ssl.truststore.location string - dynamic
  The file of the trust store.
ssl.truststore.password password - dynamic
  The password of the trust store.
ssl.truststore.type string JKS dynamic
  The format of the trust store.
"""
