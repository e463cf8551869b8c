package podspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A Space is a network namespace that has loopback alone. It holds only the processes of [Space.Start]
// and the connections of [Space.DialContext].
type Space struct {
	file  *os.File
	calls chan func()
}

// Missing returns the features that this machine lacks for pods as processes, by name; nil = it has all.
func Missing() (list []string) {
	if os.Getuid() != 0 {
		list = append(list, "root")
	}
	list = append(list, missingCgroups(CgroupRoot)...)
	if s, err := New(); err != nil {
		list = append(list, err.Error())
	} else {
		_ = s.Close()
	}
	return list
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

// StartIn starts a program in the space and in a cgroup. A shell waits until it is there, as runtimes look at their
// quota when they begin. The program's standard input stays open until the writer is closed.
func (s *Space) StartIn(group *Cgroup, env []string, stdout, stderr io.Writer, program string, args ...string) (*exec.Cmd, io.Closer, error) {
	cmd := exec.Command("sh", append([]string{"-c", `read -r _ && exec "$0" "$@"`, program}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, stdout, stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := s.Start(cmd); err != nil {
		return nil, nil, err
	}
	err = group.Add(cmd.Process.Pid)
	if err == nil {
		_, err = io.WriteString(stdin, "go\n")
	}
	return cmd, stdin, err
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

// Await sends requests to a URL in the space until one is answered with a status below 300, for half a minute. It
// returns the error of the last one.
func (s *Space) Await(ctx context.Context, url string, header http.Header) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	transport := &http.Transport{DialContext: s.DialContext, DisableKeepAlives: true}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		maps.Copy(request.Header, header)
		response, err := transport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode < http.StatusMultipleChoices {
				return nil
			}
			err = fmt.Errorf("%s: %s", url, response.Status)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.NewTimer(20 * time.Millisecond).C:
		}
	}
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
