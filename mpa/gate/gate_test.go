package gate

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

func open(t *testing.T, change func(*Options)) *Gate {
	t.Helper()
	o := DefaultOptions()
	change(&o)
	g, err := New(o)
	require.NoError(t, err)
	return g
}

var every = flag.Bool("every", false, "let 10⁶ requests through, not a tenth")

// The number inside never passes the limit in force at admission, and nothing is lost or
// stuck, while the limit changes.
func TestNeverAboveTheLimit(t *testing.T) {
	requests, changes := 100_000, 100
	if *every {
		requests, changes = 1_000_000, 1000
	}
	g := open(t, func(o *Options) { o.Limit, o.Queue, o.MaxWait = 8, 100, time.Minute })
	most := 0
	g.admitted = func(inside, limit int) {
		if limit > 0 && inside > limit {
			t.Errorf("%d inside with a limit of %d", inside, limit)
		}
		most = max(most, inside)
	}
	const callers = 64
	var workers sync.WaitGroup
	for c := range callers {
		workers.Go(func() {
			for range requests / callers {
				leave, err := g.Enter(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched() // others come while this one is inside
				leave(Outcome(c % 3))
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a stream that a seed begins
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	for i := range changes {
		// Evenly over the requests.
		for {
			_, _, totals := g.Now()
			if totals.Answered+totals.Failed+totals.Gone >= uint64(i)*uint64(requests/callers*callers)/uint64(changes) || t.Failed() {
				break
			}
			runtime.Gosched()
		}
		require.NoError(t, g.SetLimit(random.IntN(17)))
	}
	<-done
	inside, waiting, totals := g.Now()
	assert.Zero(t, inside)
	assert.Zero(t, waiting)
	assert.EqualValues(t, requests/callers*callers, totals.Answered+totals.Failed+totals.Gone)
	assert.Greater(t, most, 8)
	t.Logf("%d requests over a limit that changed %d times: never more inside than the limit in force at admission, none lost, none stuck.", totals.Answered+totals.Failed+totals.Gone, changes)
}

// The queue is bounded, in order, and left by those whose time or caller ends.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := open(t, func(o *Options) { o.Limit, o.Queue = 1, 2 })
		leave, err := g.Enter(t.Context())
		require.NoError(t, err)
		results := make(chan error, 2)
		wait := func(ctx context.Context) {
			go func() { _, err := g.Enter(ctx); results <- err }()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx)
		wait(t.Context())
		_, err = g.Enter(t.Context())
		require.ErrorIs(t, err, ErrFull)
		cancel()
		require.ErrorIs(t, <-results, context.Canceled)
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, <-results, ErrLate)
		wait(t.Context())
		leave(Answered)
		require.NoError(t, <-results)
		inside, waiting, totals := g.Now()
		assert.Equal(t, []int{1, 0}, []int{inside, waiting})
		assert.Equal(t, Totals{Answered: 1, Full: 1, Late: 1, Left: 1, Busy: 10 * time.Second}, totals)
		require.NoError(t, g.SetLimit(0))
		for range 100 {
			_, err := g.Enter(t.Context())
			require.NoError(t, err)
		}
		require.ErrorContains(t, g.SetLimit(-1), "limit: -1, want 0 (any number) to 10000")
		assert.Zero(t, g.Limit())
	})
}

func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		used := Usage{CPU: 5, Quota: .5, Memory: 1 << 20, MemoryLimit: 8 << 20}
		var broken error
		set := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		g := open(t, func(o *Options) {
			o.Limit, o.Usage = 4, func() (Usage, error) { mu.Lock(); defer mu.Unlock(); return used, broken }
		})
		end := make(chan struct{})
		var load sync.WaitGroup
		load.Go(func() { // two inside for a second of every two
			for {
				a, errA := g.Enter(context.Background())
				b, errB := g.Enter(context.Background())
				if errA != nil || errB != nil {
					t.Error(errA, errB)
					return
				}
				set(func() { used.Memory = 3 << 20 })
				time.Sleep(time.Second)
				set(func() { used.CPU += .25; used.Memory = 2 << 20 })
				a(Answered)
				b(Failed)
				select {
				case <-end:
					return
				case <-time.After(time.Second):
				}
			}
		})
		defer load.Wait()
		defer close(end)
		time.Sleep(500 * time.Millisecond)
		w, err := g.Window(t.Context(), 4*time.Second)
		require.NoError(t, err)
		require.NoError(t, w.Check())
		w.Time = time.Time{}
		assert.Equal(t, capacity.Window{
			Length: capacity.Some(4), Limit: capacity.Some(4), Inside: capacity.Some(1), Answered: capacity.Some(2), Failed: capacity.Some(2), Gone: capacity.Some(0),
			CPU: capacity.Some(.5), Quota: capacity.Some(.5), Memory: capacity.Some(3 << 20), MemoryLimit: capacity.Some(8 << 20),
		}, w)

		set(func() { broken = errors.New("no such file") })
		w, err = g.Window(t.Context(), time.Second)
		require.NoError(t, err)
		assert.False(t, w.CPU.Known || w.Memory.Known, "what cannot be read is missing")

		time.AfterFunc(time.Second, func() { assert.NoError(t, g.SetLimit(9)) })
		_, err = g.Window(t.Context(), 2*time.Second)
		require.ErrorIs(t, err, ErrChanged)
	})
}

func TestHandler(t *testing.T) {
	g := open(t, func(o *Options) { o.Limit, o.Queue = 1, 0 })
	late, cancelLate := context.WithTimeout(t.Context(), 0)
	defer cancelLate()
	answer := httptest.NewRecorder()
	g.Handler(nil).ServeHTTP(answer, httptest.NewRequestWithContext(late, http.MethodGet, "/", nil))
	assert.Equal(t, http.StatusServiceUnavailable, answer.Code, "a deadline of a handler around it: its caller waits for an answer")
	assert.Equal(t, "1", answer.Header().Get("Retry-After"))

	begun, end := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			begun <- struct{}{}
			select {
			case <-end:
			case <-r.Context().Done():
			}
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/error":
			w.WriteHeader(http.StatusInternalServerError)
		case "/none":
			http.NotFound(w, r)
		}
	})))
	defer server.Close()
	get := func(path string) (int, http.Header) {
		response, err := http.Post(server.URL+path, "", strings.NewReader("once")) // GET would be tried again
		if err != nil {
			return 0, nil
		}
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode, response.Header
	}
	result := make(chan int, 1)
	go func() { code, _ := get("/wait"); result <- code }()
	<-begun
	code, header := get("/")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "1", header.Get("Retry-After"))
	end <- struct{}{}
	assert.Equal(t, http.StatusOK, <-result)
	for path, want := range map[string]int{"/panic": 0, "/error": 500, "/none": 404} {
		require.Eventually(t, func() bool { inside, _, _ := g.Now(); return inside == 0 }, 5*time.Second, time.Millisecond)
		code, _ := get(path)
		assert.Equal(t, want, code, path)
	}
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/wait", nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool { inside, _, _ := g.Now(); return inside == 0 }, 5*time.Second, time.Millisecond)
	go func() { <-begun; cancel() }()
	_, err = http.DefaultClient.Do(request) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { inside, _, _ := g.Now(); return inside == 0 }, 5*time.Second, time.Millisecond)
	_, _, totals := g.Now()
	totals.Busy = 0
	assert.Equal(t, Totals{Answered: 2, Failed: 2, Gone: 1, Full: 1}, totals)

	text := `# HELP sigma_gate_requests_total Requests by result: answered, failed by the pod, gone = the caller left, full and late = refused, left = the caller left while it waited.
# TYPE sigma_gate_requests_total counter
sigma_gate_requests_total{result="answered"} 2
sigma_gate_requests_total{result="failed"} 2
sigma_gate_requests_total{result="full"} 1
sigma_gate_requests_total{result="gone"} 1
sigma_gate_requests_total{result="late"} 0
sigma_gate_requests_total{result="left"} 0
`
	require.NoError(t, testutil.CollectAndCompare(g, strings.NewReader(text), "sigma_gate_requests_total"))
	problems, err := testutil.CollectAndLint(g)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestAdmin(t *testing.T) {
	g := open(t, func(o *Options) { o.Limit = 3 })
	call := func(method, path, body string) (int, string) {
		answer := httptest.NewRecorder()
		g.Admin().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		return answer.Code, strings.TrimSpace(answer.Body.String())
	}
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"GET", "/limit", "", 200, "3"},
		{"PUT", "/limit", "12\n", 204, ""},
		{"GET", "/limit", "", 200, "12"},
		{"PUT", "/limit", "many", 400, `limit: "many" is no number`},
		{"PUT", "/limit", "10001", 400, "limit: 10001, want 0 (any number) to 10000"},
		{"PUT", "/limit", strings.Repeat("1", 65), 400, "http: request body too large"},
		{"GET", "/limit", "", 200, "12"},
		{"GET", "/window?seconds=NaN", "", 400, `seconds: "NaN", want .01 to 60`},
		{"POST", "/limit", "1", 405, "Method Not Allowed"},
	} {
		code, says := call(c.method, c.path, c.body)
		assert.Equal(t, []any{c.code, c.says}, []any{code, says}, "%s %s %s", c.method, c.path, c.body)
	}
	code, text := call("GET", "/window?seconds=.02", "")
	require.Equal(t, 200, code, text)
	var w capacity.Window
	require.NoError(t, json.Unmarshal([]byte(text), &w))
	require.NoError(t, w.Check())
	assert.Equal(t, capacity.Some(12), w.Limit)
	assert.False(t, w.CPU.Known)
}

// What is no limit leaves the last good one in force, and is told once.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limit")
	synctest.Test(t, func(t *testing.T) {
		g := open(t, func(o *Options) { o.Limit = 3 })
		var told []string
		ctx, cancel := context.WithCancel(t.Context())
		go g.Follower(path, func(err error) { told = append(told, strings.TrimPrefix(err.Error(), path)) }).Follow(ctx, 100*time.Millisecond)
		for _, step := range []struct {
			text string
			want int
		}{{"", 3}, {"7\n", 7}, {"seven", 7}, {"-2", 7}, {" ", 7}, {"9", 9}} {
			require.NoError(t, os.WriteFile(path, []byte(step.text), 0o600))
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, step.want, g.Limit(), step.text)
		}
		require.NoError(t, g.SetLimit(5))
		time.Sleep(time.Second)
		assert.Equal(t, 5, g.Limit(), "another may set it between changes of the text")
		assert.Equal(t, []string{`: limit: "seven" is no number; 7 stays`, ": limit: -2, want 0 (any number) to 10000; 7 stays"}, told)
		cancel()
	})
}

func TestCgroup(t *testing.T) {
	dir := t.TempDir()
	write := func(files map[string]string) {
		for name, text := range files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	write(map[string]string{
		"two/cpu.stat": "usage_usec 1500000\nuser_usec 1\n", "two/cpu.max": "25000 100000\n", "two/memory.current": "5000\n",
		"two/memory.max": "max\n", "two/memory.stat": "anon 1\ninactive_file 1000\n",
		"cpuacct/one/cpuacct.usage": "2500000000\n", "cpu/one/cpu.cfs_quota_us": "-1\n", "cpu/one/cpu.cfs_period_us": "100000\n",
		"memory/one/memory.usage_in_bytes": "7000\n", "memory/one/memory.limit_in_bytes": "9000\n", "memory/one/memory.stat": "total_inactive_file 2000\n",
		"bad/cpu.stat": "usage_usec many\n",
	})
	u, err := Cgroup(dir, "two")()
	require.NoError(t, err)
	assert.Equal(t, Usage{CPU: 1.5, Quota: .25, Memory: 4000}, u)
	u, err = Cgroup(dir, "one")()
	require.NoError(t, err)
	assert.Equal(t, Usage{CPU: 2.5, Memory: 5000, MemoryLimit: 9000}, u)
	for _, name := range []string{"bad", "none"} {
		_, err := Cgroup(dir, name)()
		require.Error(t, err, name)
	}
}
