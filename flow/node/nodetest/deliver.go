package nodetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// content is the stream of bytes of a seed.
func content(seed uint64) io.Reader {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// ListenVerify serves [Deliver] in a namespace.
func ListenVerify(t testing.TB, ns netns.NsHandle, address string) {
	t.Helper()
	serve(t, ns, address, func(c net.Conn) {
		defer context.AfterFunc(t.Context(), func() { _ = c.Close() })() // the client may have left
		answer := "all is there"
		if err := verify(c); err != nil {
			answer = err.Error()
		}
		_, _ = io.WriteString(c, answer) // a client that has left reports its own error
	})
}

// verify compares the received bytes with those that their head announces.
func verify(c io.Reader) error {
	var head [16]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint64(head[8:]))
	want := content(binary.BigEndian.Uint64(head[:]))
	is, ought := make([]byte, 1<<16), make([]byte, 1<<16)
	for at := int64(0); ; {
		n, err := c.Read(is)
		_, _ = io.ReadFull(want, ought[:n]) // never fails
		if string(is[:n]) != string(ought[:n]) {
			return fmt.Errorf("of bytes %d to %d some are others", at, at+int64(n))
		}
		at += int64(n)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && at == size:
			return nil
		default:
			return fmt.Errorf("%d bytes of %d: %w", at, size, err)
		}
	}
}

// Deliver sends so many bytes of the stream of a seed to a server of ListenVerify. It returns an error where not all
// of them arrive as they were sent, or the context ends.
func Deliver(ctx context.Context, ns netns.NsHandle, server string, seed uint64, size int64) error {
	var c net.Conn
	if err := Within(ns, func() (err error) {
		c, err = (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", server)
		return err
	}); err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // both ends have been closed by then
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	late := time.AfterFunc(time.Minute, func() { _ = c.Close() })
	defer late.Stop()
	head := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, seed), uint64(size))
	if _, err := c.Write(head); err != nil {
		return err
	}
	if _, err := io.CopyN(c, content(seed), size); err != nil {
		return err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err == nil && string(answer) != "all is there" {
		err = fmt.Errorf("the peer says: %q", answer)
	}
	return err
}
