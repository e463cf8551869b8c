package remote

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A Server is a NATS server inside this process. It keeps nothing after its end: a
// resumed trainer sends missing messages again.
type Server struct {
	server      *server.Server
	store       string
	access      Access
	fingerprint string // of its certificate; "" = no certificate
}

// Bounds of the server: connections at a time, also of callers without a token, which lose theirs after
// seconds; bytes of a command; and bytes that wait for one that does not read.
const (
	connections  = 512
	controlBytes = 4 << 10
	pendingBytes = 16 << 20
)

// StartServer listens at address, "host:port", for clients that present the
// credentials in access: a token, or a user and a password. With a CA the clients
// need certificates of it. Without credentials everyone may connect: the caller
// decides.
//
// Connections from other machines are encrypted: without a certificate in access the
// server makes one, which it keeps in access.Keep. access.Plaintext permits unencrypted
// connections.
func StartServer(address string, access Access) (*Server, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listening at %q: want HOST:PORT", address)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("listening at %q: port %q: want a number from 0 to 65535", address, portText)
	}
	host = cmp.Or(host, "0.0.0.0")
	store, err := os.MkdirTemp("", "sigma-nats-")
	if err != nil {
		return nil, err
	}
	s := &Server{store: store, access: access}
	if err := s.start(host, int(port)); err != nil {
		return nil, errors.Join(fmt.Errorf("listening at %s: %w", address, err), os.RemoveAll(store))
	}
	return s, nil
}

func (s *Server) start(host string, port int) error {
	access := &s.access
	if access.Cert == "" && !loopback(host) && !access.Plaintext {
		own, err := makeCertificate(cmp.Or(access.Keep, s.store))
		if err != nil {
			return fmt.Errorf("making a certificate: %w", err)
		}
		access.Cert, access.Key = own, own
	}
	o := &server.Options{
		ServerName: "sigma", Host: host, Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: s.store,
		MaxConn: connections, MaxControlLine: controlBytes, MaxPending: pendingBytes,
		Authorization: access.Token, Username: access.User, Password: access.Password,
	}
	if port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if access.Cert != "" {
		config, err := server.GenTLSConfig(&server.TLSConfigOpts{
			CertFile: access.Cert, KeyFile: access.Key, CaFile: access.CA, Verify: access.CA != "",
		})
		if err != nil {
			return fmt.Errorf("certificate %s: %w", access.Cert, err)
		}
		o.TLS, o.TLSVerify, o.TLSConfig, o.TLSTimeout = true, access.CA != "", config, 5
		s.fingerprint = fingerprint(config.Certificates[0].Certificate[0])
	}
	// Try here first, since the server does not report why it cannot listen.
	free, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	if err := free.Close(); err != nil {
		return err
	}
	if s.server, err = server.NewServer(o); err != nil {
		return err
	}
	s.server.Start()
	if !s.server.ReadyForConnections(10 * time.Second) {
		s.server.Shutdown()
		return errors.New("the server did not begin to listen")
	}
	return nil
}

// URL is the server's address for clients.
func (s *Server) URL() string {
	u, err := url.Parse(s.server.ClientURL())
	if err != nil {
		return s.server.ClientURL()
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		u.Host = net.JoinHostPort(reachable(), u.Port())
	}
	return u.String()
}

// Fingerprint is that of the server's certificate; empty where connections are not
// encrypted.
func (s *Server) Fingerprint() string { return s.fingerprint }

// Close ends the server.
func (s *Server) Close() error {
	s.server.Shutdown()
	s.server.WaitForShutdown()
	return os.RemoveAll(s.store)
}

// TokenFile returns the token in a file. Without the file it makes both, readable for
// the owner only.
func TokenFile(path string) (string, error) {
	token, err := ReadSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	token = rand.Text()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(token + "\n")
	return token, errors.Join(err, file.Close())
}

// ReadSecret returns the secret that a file holds.
func ReadSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(text))
	if s == "" {
		return "", fmt.Errorf("%s: it is empty", path)
	}
	return s, nil
}
