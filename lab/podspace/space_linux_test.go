package podspace

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// serverVar is set in the environment of this program where it is the server of a test.
const serverVar = "SIGMA_PODSPACE_SERVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(serverVar); name != "" {
		listener, err := net.Listen("tcp", "127.0.0.1:8080")
		if err != nil {
			panic(err)
		}
		panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })))
	}
	os.Exit(m.Run())
}

func open(t *testing.T) *Space {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make network namespaces")
	}
	s, err := New()
	require.NoError(t, err)
	return s
}

func serve(t *testing.T, s *Space, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{serverVar + "=" + name}
	require.NoError(t, s.Start(cmd))
	return cmd
}

// ask asks the server at the port that both have.
func ask(s *Space) (string, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: s.DialContext, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Get("http://127.0.0.1:8080")
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// Two servers at one port, each in its space, and none of them outside; a server ends with its space.
func TestSpaces(t *testing.T) {
	one, two := open(t), open(t)
	servers := []*exec.Cmd{serve(t, one, "one"), serve(t, two, "two")}
	for s, want := range map[*Space]string{one: "one", two: "two"} {
		require.NoError(t, s.Await(t.Context(), "http://127.0.0.1:8080", nil))
		got, err := ask(s)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	if response, err := (&http.Client{Timeout: time.Second}).Get("http://127.0.0.1:8080"); err == nil {
		text, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		assert.NotContains(t, []string{"one", "two"}, string(text), "a server is reached from outside of its space")
	}
	require.NoError(t, one.Close())
	assertKilled(t, servers[0])
	got, err := ask(two)
	require.NoError(t, err)
	assert.Equal(t, "two", got, "the other one's space is as it was")
	require.NoError(t, two.Close())
	assertKilled(t, servers[1])
	require.Error(t, two.Close())
}

// The process's first thread never ends, so nothing is dialled on it: it would stay in the space.
func TestFirstThread(t *testing.T) {
	require.NoError(t, open(t).Close())
	was, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return onFirst(func() {
			s, err := New()
			if !assert.NoError(t, err) {
				return
			}
			runtime.UnlockOSThread() // what is started from here is the next on this thread
			_, err = s.DialContext(t.Context(), "tcp", "127.0.0.1:8080")
			assert.ErrorIs(t, err, syscall.ECONNREFUSED, "nobody listens there")
			assert.NoError(t, s.Close())
		})
	}, 10*time.Second, 10*time.Millisecond, "the thread of a space that was closed is free soon")
	now, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Equal(t, was, now)
}

// onFirst runs a function that is locked to the process's first thread, where that is free: the others are held meanwhile.
func onFirst(f func()) (done bool) {
	const threads = 64 // more than there are
	first, held := make(chan bool), make(chan struct{})
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			is := unix.Gettid() == unix.Getpid()
			if is {
				f()
			}
			first <- is
			<-held
		})
	}
	for range threads {
		done = <-first || done
	}
	close(held)
	all.Wait()
	return done
}

func assertKilled(t *testing.T, server *exec.Cmd) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	case <-time.After(10 * time.Second):
		_ = server.Process.Kill()
		t.Error("the server has not ended with its space")
	}
}
