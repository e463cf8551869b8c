package gate

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// A peer is the other end of a connection.
type peer int

const (
	there  peer = iota
	ending      // it sends no more: it has closed the connection, or its half
	gone        // the connection is broken
)

// lookAt returns the kernel's state of the other end, even with bytes still unread.
func lookAt(c net.Conn) (p peer) {
	control(c, func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if _, err := unix.Poll(polled, 0); err != nil {
			return
		}
		switch got := polled[0].Revents; {
		case got&(unix.POLLERR|unix.POLLHUP) != 0:
			p = gone
		case got&unix.POLLRDHUP != 0:
			p = ending
		}
	})
	return p
}

// quiet reports whether an idle connection is open and has no bytes to read.
func quiet(c net.Conn) bool {
	ok := true
	control(c, func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}
		n, err := unix.Poll(polled, 0)
		ok = err != nil || n == 0
	})
	return ok
}

func control(c net.Conn, do func(fd uintptr)) {
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(do)
		}
	}
}
