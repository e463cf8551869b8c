package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Access holds the credentials that a client presents to a server, and those that a [Server] requires.
type Access struct {
	Token          string
	User, Password string
	Creds          string // file of NATS credentials; clients only
	CA             string // PEM file of the authorities to trust
	Cert, Key      string // PEM files of this side
	Fingerprint    string // of the server's certificate, in place of a CA; clients only
	Keep           string // folder for a certificate that the server makes; "" = it is forgotten
	Plaintext      bool   // the server needs no certificate
}

// patience is the timeout for a server to appear.
const patience = 30 * time.Second

// A Conn is a connection to a server. It reconnects by itself.
type Conn struct {
	nats *nats.Conn
	js   jetstream.JetStream
	say  func(string)
	own  bool // of a [Server] in this process
}

// hopeless returns why a connection that was lost cannot be restored; nil while it may.
func (c *Conn) hopeless() error {
	if err := c.nats.LastError(); !c.nats.IsConnected() && refused(err) {
		return fmt.Errorf("connecting to %s again: %w", c.nats.Opts.Url, err)
	}
	return nil
}

// Connect waits up to half a minute for the server at url. say receives messages
// for people from any goroutine.
func Connect(ctx context.Context, url string, access Access, say func(string)) (*Conn, error) {
	options, err := access.options()
	if err != nil {
		return nil, err
	}
	return connect(ctx, url, options, say)
}

// Connect is a connection without a network.
func (s *Server) Connect(ctx context.Context, say func(string)) (*Conn, error) {
	options, err := Access{Token: s.access.Token, User: s.access.User, Password: s.access.Password}.options()
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, "", append(options, nats.InProcessServer(s.server)), say)
	if err == nil {
		conn.own = true
	}
	return conn, err
}

func (a Access) options() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name("sigma"), nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond), nats.Timeout(5 * time.Second),
	}
	if a.Token != "" {
		options = append(options, nats.Token(a.Token))
	}
	if a.User != "" {
		options = append(options, nats.UserInfo(a.User, a.Password))
	}
	if a.Creds != "" {
		options = append(options, nats.UserCredentials(a.Creds))
	}
	if a.CA != "" {
		options = append(options, nats.RootCAs(a.CA))
	}
	if a.Fingerprint != "" {
		options = append(options, nats.Secure(pinned(a.Fingerprint)))
	}
	if a.Cert != "" {
		if _, err := tls.LoadX509KeyPair(a.Cert, a.Key); err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		options = append(options, nats.ClientCert(a.Cert, a.Key))
	}
	return options, nil
}

func connect(ctx context.Context, url string, options []nats.Option, say func(string)) (*Conn, error) {
	var mu sync.Mutex
	said := ""
	once := func(line string) { // not the line reported last
		mu.Lock()
		defer mu.Unlock()
		if line != said {
			said = line
			say(line)
		}
	}
	lost := func(_ *nats.Conn, err error) {
		if err != nil {
			once(fmt.Sprintf("lost the server: %v; trying again", err))
		}
	}
	back := func(c *nats.Conn) { once("connected again") }
	quiet := func(*nats.Conn, *nats.Subscription, error) {} // the caller of each request retries it
	options = append(options, nats.DisconnectErrHandler(lost), nats.ReconnectHandler(back), nats.ErrorHandler(quiet))
	end := time.Now().Add(patience)
	for reported := false; ; reported = true {
		nc, err := nats.Connect(url, options...)
		if err == nil {
			js, err := jetstream.New(nc)
			if err == nil {
				_, err = js.AccountInfo(ctx)
			}
			if err != nil {
				nc.Close()
				return nil, fmt.Errorf("JetStream on the server %s: %w", url, err)
			}
			return &Conn{nats: nc, js: js, say: say}, nil
		}
		if refused(err) || time.Now().After(end) {
			if errors.Is(err, nats.ErrAuthorization) {
				return nil, fmt.Errorf("connecting to %s: %w: the token, or the user and the password, is missing or wrong", url, err)
			}
			if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
				return nil, fmt.Errorf("connecting to %s: %w: give its fingerprint, or its authority", url, err)
			}
			return nil, fmt.Errorf("connecting to %s: %w", url, err)
		}
		if !reported {
			say(fmt.Sprintf("no server at %s yet: %v", url, err))
		}
		if !sleep(ctx, time.Second) {
			return nil, ctx.Err()
		}
	}
}

// refused reports whether trying again is useless.
func refused(err error) bool {
	for _, e := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrTLS,
		nats.ErrSecureConnRequired, nats.ErrSecureConnWanted, errFingerprint,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var certificate *tls.CertificateVerificationError
	var alert *net.OpError // the other side's verdict on our certificate
	return errors.As(err, &certificate) || errors.As(err, &alert) && alert.Op == "remote error"
}

// Close ends the connection.
func (c *Conn) Close() { c.nats.Close() }

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
