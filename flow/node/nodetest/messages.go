package nodetest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ListenMessages serves [Message] in a namespace: a message has in eight bytes the number of those that follow, and
// gets an answer of one byte.
func ListenMessages(t testing.TB, ns netns.NsHandle, address string) {
	t.Helper()
	serve(t, ns, address, func(c net.Conn) {
		head := make([]byte, 8)
		for {
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint64(head))); err != nil {
				return
			}
			if _, err := c.Write(head[:1]); err != nil {
				return
			}
		}
	})
}

// Connect makes a connection for messages, with cubic.
func Connect(ns netns.NsHandle, server string) (c net.Conn, err error) {
	d := &net.Dialer{Timeout: time.Minute, Control: cubic}
	err = Within(ns, func() error {
		c, err = d.Dial("tcp", server)
		return err
	})
	return c, err
}

// Message sends a message of so many bytes, at least eight, and returns the time until its answer.
func Message(c net.Conn, now func() time.Time, size int64) (time.Duration, error) {
	begin := now()
	if err := c.SetDeadline(begin.Add(time.Minute)); err != nil {
		return 0, err
	}
	message := make([]byte, size)
	binary.BigEndian.PutUint64(message, uint64(size-8))
	if _, err := c.Write(message); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(c, message[:1])
	return now().Sub(begin), err
}

// cubic has a connection use that congestion control.
func cubic(_, _ string, c syscall.RawConn) error {
	var err error
	return errors.Join(c.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
	}), err)
}
