// Package nodetest makes pods, a node and a peer of network namespaces, and real connections between them.
package nodetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// A Testbed is two pods, a node that forwards for them, and a peer behind its uplink, each a network namespace.
type Testbed struct{ Node, Pod1, Pod2, Peer netns.NsHandle }

// Addresses of the namespaces.
const (
	AddressPod1 = "10.1.1.2"
	AddressPod2 = "10.1.2.2"
	AddressPeer = "10.1.9.2"
)

// Within calls f on a thread in a namespace; the thread ends with it.
func Within(ns netns.NsHandle, f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("it was given up") // by a failed requirement, which ends the goroutine
		defer func() { result <- err }()
		runtime.LockOSThread() // and never unlocked
		if set := netns.Set(ns); set != nil {
			err = set
			return
		}
		err = f()
	}()
	return <-result
}

// New makes one, or skips where this user or this machine cannot.
func New(t testing.TB) *Testbed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make network namespaces")
	}
	var b Testbed
	for _, to := range []*netns.NsHandle{&b.Node, &b.Pod1, &b.Pod2, &b.Peer} {
		made := make(chan error)
		go func() {
			runtime.LockOSThread()
			var err error
			*to, err = netns.New()
			made <- err
		}()
		if err := <-made; err != nil {
			t.Skipf("no network namespaces here: %v", err)
		}
		t.Cleanup(func() { _ = to.Close() }) // its interfaces go with it
	}
	require.NoError(t, Within(b.Node, func() error {
		for i, ns := range []netns.NsHandle{b.Pod1, b.Pod2, b.Peer} {
			name := []string{"pod1", "pod2", "up0"}[i]
			subnet := []string{"10.1.1", "10.1.2", "10.1.9"}[i]
			attrs := netlink.NewLinkAttrs()
			attrs.Name = name
			attrs.TxQLen = 1000
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}); err != nil {
				return fmt.Errorf("veth %s: %w", name, err)
			}
			if err := raise(name, subnet+".1/24"); err != nil {
				return err
			}
			if err := Within(ns, func() error { return raiseAll(subnet) }); err != nil {
				return err
			}
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetUp(lo), os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	}))
	return &b
}

// raise gives an interface its address.
func raise(name, address string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(l, a), netlink.LinkSetUp(l))
}

// raiseAll makes a namespace with one interface reach the others through the node.
func raiseAll(subnet string) error {
	if err := raise("eth0", subnet+".2/24"); err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(subnet + ".1")})
}

// Listen serves connections in a namespace: a connection has in eight bytes the number that the server must
// send, and then sends itself until it closes.
func Listen(t testing.TB, ns netns.NsHandle, address string) {
	t.Helper()
	serve(t, ns, address, func(c net.Conn) {
		head := make([]byte, 8)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, c)
		_, _ = io.CopyN(c, zeros{}, int64(binary.BigEndian.Uint64(head)))
	})
}

// serve calls f with each connection, until the test ends.
func serve(t testing.TB, ns netns.NsHandle, address string, f func(net.Conn)) {
	t.Helper()
	var l net.Listener
	require.NoError(t, Within(ns, func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		return err
	}))
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = c.Close() }() // f has done all with it
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Exchange sends bytes to a server and gets bytes back. It returns the client's address.
func Exchange(ns netns.NsHandle, server string, send, get int64) (netip.AddrPort, error) {
	from, _, err := exchange(ns, &net.Dialer{Timeout: 5 * time.Second}, func() time.Time { return time.Time{} }, server, send, get, 20*time.Second)
	return from, err
}

// Timed sends bytes to a server with cubic, and returns the time from the beginning of the connection to its answer
// of one byte, which is sent when all have arrived.
func Timed(ns netns.NsHandle, now func() time.Time, server string, send int64) (time.Duration, error) {
	_, took, err := exchange(ns, &net.Dialer{Timeout: time.Minute, Control: cubic}, now, server, send, 1, 5*time.Minute)
	return took, err
}

func exchange(ns netns.NsHandle, dialer *net.Dialer, now func() time.Time, server string, send, get int64, limit time.Duration) (from netip.AddrPort, took time.Duration, err error) {
	var c net.Conn
	var begin time.Time
	if err := Within(ns, func() (err error) {
		begin = now()
		c, err = dialer.Dial("tcp", server)
		return err
	}); err != nil {
		return netip.AddrPort{}, 0, err
	}
	defer func() { _ = c.Close() }() // both ends have been closed by then
	local := c.LocalAddr().(*net.TCPAddr).AddrPort()
	late := time.AfterFunc(limit, func() { _ = c.Close() })
	defer late.Stop()
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(get))); err != nil {
		return local, 0, err
	}
	if _, err := io.CopyN(c, zeros{}, send-8); err != nil {
		return local, 0, err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return local, 0, err
	}
	if n, err := io.Copy(io.Discard, c); err != nil || n != get {
		return local, 0, fmt.Errorf("got %d bytes of %d: %w", n, get, err)
	}
	return local, now().Sub(begin), nil
}

// SizeIs allows for a segment that was sent twice: a busy machine lets timers run out.
func SizeIs(seen uint64, sent int64) bool {
	return int64(seen) >= sent && int64(seen) <= sent+max(3000, sent/50)
}

// Client calls servers in a namespace.
func Client(ns netns.NsHandle) *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
			err = Within(ns, func() (err error) {
				c, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return c, err
		},
	}}
}
