package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

func TestAccess(t *testing.T) {
	ctx := t.Context()
	token := startServer(t, Access{Token: "secret"})
	user := startServer(t, Access{User: "ada", Password: "secret"})
	for _, c := range []struct {
		s      *Server
		access Access
		ok     bool
	}{
		{token, Access{Token: "secret"}, true},
		{token, Access{Token: "guess"}, false},
		{token, Access{User: "ada", Password: "secret"}, false},
		{token, Access{}, false},
		{user, Access{User: "ada", Password: "secret"}, true},
		{user, Access{User: "ada", Password: "guess"}, false},
		{user, Access{}, false},
	} {
		begin := time.Now()
		conn, err := Connect(ctx, c.s.URL(), c.access, quiet)
		if c.ok {
			require.NoError(t, err)
			conn.Close()
			continue
		}
		require.ErrorContains(t, err, "Authorization Violation")
		require.Less(t, time.Since(begin), 5*time.Second, "it is not tried again")
	}
	_, err := StartServer(token.server.Addr().String(), Access{})
	require.ErrorContains(t, err, "address already in use")
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, caKey := certificate(t, dir, "ca", nil, nil)
	certificate(t, dir, "server", ca, caKey)
	certificate(t, dir, "client", ca, caKey)
	certificate(t, dir, "stranger", nil, nil)
	file := func(name string) string { return filepath.Join(dir, name) }
	with := func(name string) Access {
		return Access{CA: file("ca.pem"), Cert: file(name + ".pem"), Key: file(name + ".key")}
	}
	encrypted := Access{Token: "secret", Cert: file("server.pem"), Key: file("server.key")}
	s := startServer(t, encrypted)
	require.Regexp(t, "^tls://", s.URL())
	try := func(s *Server, a Access) error {
		conn, err := Connect(t.Context(), s.URL(), a, quiet)
		if err == nil {
			conn.Close()
		}
		return err
	}
	require.NoError(t, try(s, Access{Token: "secret", CA: file("ca.pem")}))
	require.ErrorContains(t, try(s, Access{Token: "secret"}), "certificate")
	require.ErrorContains(t, try(s, Access{Token: "secret", CA: file("stranger.pem")}), "certificate")
	require.ErrorContains(t, try(s, Access{Token: "guess", CA: file("ca.pem")}), "Authorization Violation")
	conn, err := s.Connect(t.Context(), quiet)
	require.NoError(t, err)
	conn.Close()

	mutual := startServer(t, with("server"))
	require.NoError(t, try(mutual, with("client")))
	require.ErrorContains(t, try(mutual, with("stranger")), "tls")
	require.ErrorContains(t, try(mutual, Access{CA: file("ca.pem")}), "tls")
}

// certificate writes name.pem and name.key, signed by parent or by itself.
func certificate(t *testing.T, dir, name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(name))), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if parent == nil {
		parent, parentKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	write := func(file, kind string, bytes []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
	}
	write(name+".pem", "CERTIFICATE", der)
	write(name+".key", "PRIVATE KEY", private)
	c, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return c, key
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	first, err := TokenFile(path)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(first), 20)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	again, err := TokenFile(path)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = TokenFile(path)
	require.ErrorContains(t, err, "empty")
}

// The rights that docs/distributed-training.md names are enough.
func TestPermissions(t *testing.T) {
	rights := []string{"sigma.>", "$JS.API.>", "$JS.ACK.>", "$O.>", "_INBOX.>"}
	both := &server.SubjectPermission{Allow: rights}
	o := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		Users: []*server.User{{Username: "ada", Password: "secret", Permissions: &server.Permissions{Publish: both, Subscribe: both}}},
	}
	elsewhere, err := server.NewServer(o)
	require.NoError(t, err)
	elsewhere.Start()
	t.Cleanup(elsewhere.WaitForShutdown)
	t.Cleanup(elsewhere.Shutdown)
	require.True(t, elsewhere.ReadyForConnections(10*time.Second))
	s := &Server{server: elsewhere, access: Access{User: "ada", Password: "secret"}}
	startWorker(t, s, &Worker{Name: "w", Threads: 1})
	cfg := config(t)
	want := result(t, cfg)
	cfg.Distribute = distribute(dial(t, s, s.access), TrainerOptions{})
	require.Equal(t, want, result(t, cfg))
	page, err := os.ReadFile("../../../docs/distributed-training.md")
	require.NoError(t, err)
	for _, r := range rights {
		require.Contains(t, string(page), "`"+r+"`")
	}
}

// Callers that connect and are silent take no more than the connections that there are, and lose them.
func TestConnectionsAreBounded(t *testing.T) {
	s, err := StartServer("127.0.0.1:0", Access{Token: "secret"})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	at, err := url.Parse(s.URL())
	require.NoError(t, err)
	for range connections {
		conn, err := net.Dial("tcp", at.Host)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
	}
	require.Eventually(t, func() bool { return s.server.NumClients() == connections }, 10*time.Second, time.Millisecond)
	conn, err := net.Dial("tcp", at.Host)
	require.NoError(t, err)
	text, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(text), "maximum connections exceeded")
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return s.server.NumClients() == 0 }, 20*time.Second, 10*time.Millisecond, "who shows no token in time")
}
