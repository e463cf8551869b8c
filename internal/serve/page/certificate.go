package page

import (
	"crypto/tls"
	"net"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// TLS is the configuration of a server with the certificate of two files, read again when
// they change. Without files (both names are empty) the certificate is of its own making and
// lasts for a year: it encrypts, but callers cannot verify it.
func TLS(certFile, keyFile string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if certFile == "" {
		chain, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(chain, key)
		config.Certificates = []tls.Certificate{pair}
		return config, err
	}
	pair := &keyPair{cert: certFile, key: keyFile}
	if _, err := pair.get(nil); err != nil {
		return nil, err
	}
	config.GetCertificate = pair.get
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
		klog.Background().Error(err, "The certificate cannot be read again and is used as it was")
		return p.loaded, nil
	}
	p.loaded, p.at = &pair, info.ModTime()
	return p.loaded, nil
}
