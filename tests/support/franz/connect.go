package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// seeds are the brokers, with TLS and a login if the environment says so.
func seeds(servers string) []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(addresses(servers)...)}
	if home := os.Getenv("SECURED_HOME"); home != "" {
		pem, err := os.ReadFile(home + "/ca.pem")
		check(err, "authority")
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(pem)
		login := scram.Auth{User: os.Getenv("SECURED_USER"), Pass: os.Getenv("SECURED_PASSWORD")}
		options = append(options,
			kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}), kgo.SASL(login.AsSha512Mechanism()))
	}
	return options
}
