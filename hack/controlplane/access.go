package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// writeKeys writes an authority's certificate, the API server's certificate and
// key, and the pair that service accounts' tokens are signed with. It returns the
// authority's certificate, whose key is kept nowhere.
func writeKeys(dir string) ([]byte, error) {
	now := time.Now() //nolint:forbidigo // the edge: certificates are valid from now on
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(serial),
			Subject:      pkix.Name{CommonName: name},
			NotBefore:    now.Add(-time.Hour), // clocks in virtual machines jump
			NotAfter:     now.AddDate(1, 0, 0),
		}
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authority := template(1, "controlplane-ca")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}

	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	server := template(2, "kube-apiserver")
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}

	accountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	accountPublic, err := x509.MarshalPKIXPublicKey(accountKey.Public())
	if err != nil {
		return nil, err
	}

	files := []struct {
		name, kind string
		der        []byte
	}{
		{"ca.crt", "CERTIFICATE", authorityDER},
		{"apiserver.crt", "CERTIFICATE", serverDER},
		{"service-account.pub", "PUBLIC KEY", accountPublic},
	}
	for name, key := range map[string]*ecdsa.PrivateKey{"apiserver.key": serverKey, "service-account.key": accountKey} {
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, err
		}
		files = append(files, struct {
			name, kind string
			der        []byte
		}{name, "EC PRIVATE KEY", der})
	}
	for _, f := range files {
		content := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := writeFile(filepath.Join(dir, f.name), content); err != nil {
			return nil, err
		}
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authorityDER}), nil
}

// writeAccess writes the token file and a kubeconfig for each of its users. It
// returns the administrator's token.
func writeAccess(dir, url string, authority []byte) (string, error) {
	users := []struct{ file, name, group string }{
		{"kubeconfig", "admin", "system:masters"},
		{"scheduler.kubeconfig", "system:kube-scheduler", ""},
		{"controller-manager.kubeconfig", "system:kube-controller-manager", ""},
	}
	var admin string
	var table strings.Builder
	for i, u := range users {
		random := make([]byte, 32)
		if _, err := rand.Read(random); err != nil {
			return "", err
		}
		token := hex.EncodeToString(random)
		if i == 0 {
			admin = token
		}
		fmt.Fprintf(&table, "%s,%s,%s,%q\n", token, u.name, u.name, u.group)
		kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: controlplane
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %[3]s
  user:
    token: %[4]s
contexts:
- name: controlplane
  context:
    cluster: controlplane
    user: %[3]s
current-context: controlplane
`, url, base64.StdEncoding.EncodeToString(authority), u.name, token)
		if err := writeFile(filepath.Join(dir, u.file), []byte(kubeconfig)); err != nil {
			return "", err
		}
	}
	return admin, writeFile(filepath.Join(dir, "tokens.csv"), []byte(table.String()))
}
