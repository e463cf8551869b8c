// Package servetest has callers that a server must not wait for, on connections that live in the
// process: in a bubble of testing/synctest their time is the test's.
package servetest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Listener accepts connections to itself.
type Listener struct {
	calls chan net.Conn
	ended chan struct{}
	end   sync.Once
}

// Listen returns a listener.
func Listen() *Listener { return &Listener{calls: make(chan net.Conn), ended: make(chan struct{})} }

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.calls:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.end.Do(func() { close(l.ended) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "servetest", Net: "unix"} }

// Dial returns a connection as soon as it is accepted; nil after Close.
func (l *Listener) Dial() net.Conn {
	here, there := net.Pipe()
	select {
	case l.calls <- there:
		return here
	case <-l.ended:
		return nil
	}
}

// A Caller calls by one connection.
type Caller struct {
	Begin string // sent at once
	// Drip is sent byte by byte, one every Every; then the caller is silent.
	Drip  string
	Every time.Duration
	TLS   bool // after a handshake
}

// Cut returns how long after the caller's begin the server ended the connection.
func (c Caller) Cut(t *testing.T, l *Listener) time.Duration {
	t.Helper()
	conn := l.Dial()
	if conn == nil {
		return 0
	}
	begin := time.Now() //nolint:forbidigo // the time of the test's bubble
	if c.TLS {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // whose it is does not matter here
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, err := io.WriteString(conn, c.Begin)
		for i := 0; i < len(c.Drip) && err == nil; i++ {
			time.Sleep(c.Every) //nolint:forbidigo // the time of the test's bubble
			_, err = io.WriteString(conn, c.Drip[i:i+1])
		}
	}()
	_, _ = io.Copy(io.Discard, conn)
	cut := time.Since(begin) //nolint:forbidigo // the time of the test's bubble
	_ = conn.Close()
	<-said
	return cut
}

// Post calls a server and returns status and body. It reads the answer also where the server
// refuses the rest of the body, which net/http's client may report as an error.
func Post(t *testing.T, l *Listener, url, body string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Close = true
	conn := l.Dial()
	if request.URL.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // whose it is does not matter here
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		_ = request.Write(conn)
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	require.NoError(t, err)
	all, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	_ = response.Body.Close()
	_ = conn.Close()
	<-said
	return response.StatusCode, string(all)
}

// Line sends a call and returns the first line of the answer.
func Line(l *Listener, call string) string {
	conn := l.Dial()
	go func() { _, _ = io.WriteString(conn, call) }() // until the server ends the connection
	line, _ := bufio.NewReader(conn).ReadString('\n')
	_ = conn.Close()
	return strings.TrimSpace(line)
}
