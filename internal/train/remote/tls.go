package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
)

// ownCertificate is the file of a [Server]'s own certificate and key.
const ownCertificate = "nats.pem"

// errFingerprint is wrapped when a server has another certificate than the required one.
var errFingerprint = errors.New("the server's certificate has another fingerprint")

const fingerprintPrefix = "sha256:"

// fingerprint is the SHA-256 of a certificate as people type it.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return fingerprintPrefix + hex.EncodeToString(sum[:])
}

// CheckFingerprint returns an error unless a text is a fingerprint.
func CheckFingerprint(text string) error {
	digits, ok := strings.CutPrefix(text, fingerprintPrefix)
	if sum, err := hex.DecodeString(digits); !ok || err != nil || len(sum) != sha256.Size || strings.ToLower(digits) != digits {
		return fmt.Errorf("%q: want %s and %d hexadecimal digits in lower case", text, fingerprintPrefix, 2*sha256.Size)
	}
	return nil
}

// CheckAuthorities returns an error unless a file holds the certificates of authorities.
func CheckAuthorities(path string) error {
	text, err := os.ReadFile(path)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s: no certificate in PEM", path)
	}
	return err
}

// CheckCredentials returns an error unless a file holds NATS credentials: a user's JWT
// and seed.
func CheckCredentials(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := nkeys.ParseDecoratedUserNKey(text); err != nil {
		return fmt.Errorf("%s: no NATS credentials: %w", path, err)
	}
	return nil
}

// pinned trusts the one certificate that has the fingerprint, whatever its name and its
// authority.
func pinned(want string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection decides instead
		VerifyConnection: func(state tls.ConnectionState) error {
			got := fingerprint(state.PeerCertificates[0].Raw)
			if subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
				return fmt.Errorf("%w: %s", errFingerprint, got)
			}
			return nil
		},
	}
}

// makeCertificate returns the file in dir that holds a certificate and its key. Without
// the file it makes both, readable for the owner only. Clients identify the certificate by
// its fingerprint: it has no name and lasts for twenty years.
func makeCertificate(dir string) (path string, err error) {
	path = filepath.Join(dir, ownCertificate)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sigma train"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(20, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(dir, "."+ownCertificate+"-") // readable for the owner only
	if err != nil {
		return "", err
	}
	err = errors.Join(
		pem.Encode(file, &pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.Encode(file, &pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		file.Close(),
	)
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return path, nil
}

// loopback reports whether only this machine can reach a host.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// reachable is a name or an address of this machine, for clients of a server that listens
// at all addresses.
func reachable() string {
	addresses, err := net.InterfaceAddrs()
	if err == nil {
		first := ""
		for _, a := range addresses {
			network, ok := a.(*net.IPNet)
			if !ok || !network.IP.IsGlobalUnicast() {
				continue
			}
			if network.IP.To4() != nil {
				return network.IP.String()
			}
			if first == "" {
				first = network.IP.String()
			}
		}
		if first != "" {
			return first
		}
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "HOST"
}
