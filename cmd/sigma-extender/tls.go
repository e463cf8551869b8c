package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/sigma-scheduler/sigma/internal/serve/page"
)

// tlsConfig is the configuration of the server for calls; nil = plain HTTP.
func tlsConfig(o *options) (*tls.Config, error) {
	if o.pages.CertFile == "" {
		return nil, nil //nolint:nilnil // plain HTTP
	}
	config, err := page.TLS(o.pages.CertFile, o.pages.KeyFile)
	if err != nil || o.clientCA == "" {
		return config, err
	}
	text, err := os.ReadFile(o.clientCA)
	if err != nil {
		return nil, err
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--client-ca-file %s: no certificate in it", o.clientCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}
