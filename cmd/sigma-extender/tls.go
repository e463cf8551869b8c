package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/golang/glog"
)

// tlsConfig is the configuration of the server; nil = plain HTTP.
func tlsConfig(o *options) (*tls.Config, error) {
	if o.cert == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	pair := &keyPair{cert: o.cert, key: o.key}
	if _, err := pair.get(nil); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get}
	if o.clientCA != "" {
		text, err := os.ReadFile(o.clientCA)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--client-ca-file %s: no certificate in it", o.clientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// keyPair is a certificate with its key, read again when the file changed: its issuer
// renews it.
type keyPair struct {
	cert, key string

	mu     sync.Mutex
	loaded *tls.Certificate
	at     time.Time // change of the file that was read
}

func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.cert)
	if err == nil && p.loaded != nil && info.ModTime().Equal(p.at) {
		return p.loaded, nil
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(p.cert, p.key)
	}
	if err != nil {
		if p.loaded == nil {
			return nil, err
		}
		glog.Errorf("the certificate cannot be read again and is used as it was: %v", err)
		return p.loaded, nil
	}
	p.loaded, p.at = &pair, info.ModTime()
	return p.loaded, nil
}
