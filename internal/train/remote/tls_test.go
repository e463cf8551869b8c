package remote

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// openServer listens for other machines.
func openServer(t *testing.T, access Access) (s *Server, here string) {
	t.Helper()
	s, err := StartServer(":0", access)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	at, err := url.Parse(s.URL())
	require.NoError(t, err)
	require.NotEqual(t, "0.0.0.0", at.Hostname(), "no worker can use it")
	return s, at.Scheme + "://" + net.JoinHostPort("127.0.0.1", at.Port())
}

// A server for other machines makes a certificate, which its clients know by the
// fingerprint alone.
func TestOwnCertificate(t *testing.T) {
	keep := t.TempDir()
	access := Access{Token: "secret", Keep: keep}
	s, here := openServer(t, access)
	require.Regexp(t, "^tls://127", here)
	require.NoError(t, CheckFingerprint(s.Fingerprint()))
	try := func(at string, a Access) error {
		conn, err := Connect(t.Context(), at, a, quiet)
		if err == nil {
			conn.Close()
		}
		return err
	}
	right := Access{Token: "secret", Fingerprint: s.Fingerprint()}
	require.NoError(t, try(here, right))
	plain := strings.Replace(here, "tls:", "nats:", 1)
	require.NoError(t, try(plain, right))
	require.ErrorContains(t, try(here, Access{Token: "secret"}), "give its fingerprint, or its authority")
	require.ErrorContains(t, try(plain, Access{Token: "secret"}), "give its fingerprint, or its authority")
	require.ErrorContains(t, try(here, Access{Token: "guess", Fingerprint: s.Fingerprint()}), "Authorization Violation")
	other := Access{Token: "secret", Fingerprint: fingerprint([]byte("other"))}
	require.ErrorIs(t, try(here, other), errFingerprint)
	require.ErrorIs(t, try(plain, other), errFingerprint)

	again, _ := openServer(t, access)
	require.Equal(t, s.Fingerprint(), again.Fingerprint())
	info, err := os.Stat(filepath.Join(keep, ownCertificate))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	forgotten, _ := openServer(t, Access{Token: "secret"})
	require.NotEqual(t, s.Fingerprint(), forgotten.Fingerprint())

	open, here := openServer(t, Access{Token: "secret", Plaintext: true})
	require.Empty(t, open.Fingerprint())
	require.Regexp(t, "^nats://", here)
	require.NoError(t, try(here, Access{Token: "secret"}))
	require.ErrorContains(t, try(here, right), "secure connection not available")
	require.Empty(t, startServer(t, Access{Token: "secret"}).Fingerprint(), "only this machine reaches it")

	require.NoError(t, os.WriteFile(filepath.Join(keep, ownCertificate), []byte("x"), 0o600))
	_, err = StartServer(":0", access)
	require.ErrorContains(t, err, ownCertificate)
}

// A trainer that comes back with another certificate ends its workers, which would never
// trust it.
func TestCertificateChanges(t *testing.T) {
	s, here := openServer(t, Access{Token: "secret"})
	var mu sync.Mutex
	said := map[string]int{}
	conn, err := Connect(t.Context(), here, Access{Token: "secret", Fingerprint: s.Fingerprint()}, func(line string) {
		mu.Lock()
		defer mu.Unlock()
		said[line]++
	})
	require.NoError(t, err)
	defer conn.Close()
	ended := make(chan error, 1)
	go func() { ended <- (&Worker{Name: "w", Threads: 1}).Run(t.Context(), conn) }()
	require.NoError(t, s.Close())
	at, err := url.Parse(here)
	require.NoError(t, err)
	other, err := StartServer(":"+at.Port(), Access{Token: "secret"})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, errFingerprint)
		require.ErrorContains(t, err, other.Fingerprint())
	case <-time.After(20 * time.Second):
		t.Fatal("it tries for ever")
	}
	mu.Lock()
	defer mu.Unlock()
	for line, times := range said {
		require.Equal(t, 1, times, line)
	}
}

func TestCheckFingerprint(t *testing.T) {
	good := fingerprint(nil)
	require.NoError(t, CheckFingerprint(good))
	for _, bad := range []string{"", "sha256:", good[:len(good)-1], good + "00", strings.ToUpper(good), strings.TrimPrefix(good, "sha256:"), "sha256:" + strings.Repeat("g", 64)} {
		require.ErrorContains(t, CheckFingerprint(bad), "want sha256: and 64 hexadecimal digits", bad)
	}
}
