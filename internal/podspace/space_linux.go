package podspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// A Space is a network namespace that has loopback alone. It holds only the processes of [Space.Start]
// and the connections of [Space.DialContext].
type Space struct {
	file  *os.File
	calls chan func()
}

// New makes a space. A thread stays in it until [Space.Close].
func New() (*Space, error) {
	s := &Space{calls: make(chan func())}
	made := make(chan error)
	go onThread(func() { s.keep(made) })
	if err := <-made; err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	return s, nil
}

// onThread runs a function on a thread that ends with it, as its goroutine never unlocks it. The process's first thread
// would not end: it is held meanwhile, so that another one is taken.
func onThread(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			onThread(f)
			return
		}
		f()
	}()
	<-ended
}

// keep runs the space's thread.
func (s *Space) keep(made chan<- error) {
	err := s.enter()
	made <- err
	if err != nil {
		return
	}
	for f := range s.calls {
		f()
	}
}

// enter moves this thread into a new namespace.
func (s *Space) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	file, err := os.Open("/proc/thread-self/ns/net")
	s.file = file
	return err
}

func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// Start starts a command in the space. The kernel kills the process when the space is closed, and when this process
// ends, however that ends.
func (s *Space) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = unix.SIGKILL // when the thread ends that has started it
	started := make(chan error)
	s.calls <- func() { started <- cmd.Start() }
	return <-started
}

// DialContext dials within the space: the socket stays there.
func (s *Space) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	onThread(func() {
		if err = unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err == nil {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		}
	})
	return conn, err
}

// Close ends the space's processes. Nothing may be started or dialled there from then on.
func (s *Space) Close() error {
	if s.file == nil {
		return errors.New("the space is closed")
	}
	close(s.calls)
	err := s.file.Close()
	s.file = nil
	return err
}
