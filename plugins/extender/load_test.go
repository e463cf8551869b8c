package extender

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/internal/serve"
	"github.com/sigma-scheduler/sigma/internal/serve/servetest"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	goleak.VerifyTestMain(m)
}

// limit is the default of sigma-extender.
const limit = 4 << 20

// hostile are bodies of 64 MiB, or of as much as is read that becomes large when it is
// decoded.
var hostile = map[string]struct{ begin, part, end string }{
	"names":      {`{"Pod":{"metadata":{"uid":"u"}},"NodeNames":[`, `"",`, `""]}`},
	"names*":     {`{"Pod":{"metadata":{"uid":"u"}},"NodeNames":[`, `"` + strings.Repeat("x", 62) + `",`, `"n0"]}`},
	"containers": {`{"NodeNames":["n0"],"Pod":{"metadata":{"uid":"u"},"spec":{"containers":[`, `null,`, `null]}}}`},
	"dense+":     {`{"NodeNames":["n0"],"Pod":{"metadata":{"uid":"u"},"spec":{"containers":[`, `null,`, `null]}}}`},
	// As many as are allowed.
	"containers*": {`{"NodeNames":["n0"],"Pod":{"metadata":{"uid":"u"},"spec":{"containers":[`, strings.Repeat(" ", 253) + `null,`, `null]}}}`},
	"nodes*":      {`{"Pod":{"metadata":{"uid":"u"}},"Nodes":{"items":[`, strings.Repeat(" ", 60) + `null,`, `null]}}`},
	"text*":       {`{"NodeNames":["n0"],"Pod":{"metadata":{"uid":"u","annotations":{"a":"`, strings.Repeat("x", 100), `"}}}}`},
}

// send sends a body of a size; its length is said before, or not.
func send(t *testing.T, client *http.Client, url, name string, size int, said bool) (status int) {
	t.Helper()
	h := hostile[name]
	n := (size - len(h.begin) - len(h.end)) / len(h.part)
	body := io.MultiReader(strings.NewReader(h.begin), io.LimitReader(&repeated{text: strings.Repeat(h.part, 1000)}, int64(n*len(h.part))), strings.NewReader(h.end))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	require.NoError(t, err)
	if said {
		request.ContentLength = int64(len(h.begin) + n*len(h.part) + len(h.end))
	}
	response, err := client.Do(request)
	if err != nil {
		return 0 // the connection was ended, as it may
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}

// repeated is a text over and over.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		k := copy(p[n:], r.text[r.at:])
		n, r.at = n+k, (r.at+k)%len(r.text)
	}
	return n, nil
}

// press makes 64 callers send a body each. Names with a star or plus are of bodies within the
// limit; those with a star are answered. They cost CPU, and no more than a few are read at a
// time, so fewer callers send them.
func press(t *testing.T, address, name string) (answers map[int]int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	size, callers := 64<<20, 64
	if strings.HasSuffix(name, "*") || strings.HasSuffix(name, "+") {
		size, callers = limit, 12
	}
	answers = map[int]int{}
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range callers {
		all.Go(func() {
			verb := []string{"/filter", "/prioritize"}[i%2]
			status := send(t, client, "http://"+address+verb, name, size, i%4 < 2)
			mu.Lock()
			defer mu.Unlock()
			answers[status]++
		})
	}
	all.Wait()
	return answers
}

// serveDesk serves a desk with nodes as sigma-extender does.
func serveDesk(t *testing.T, d *desk) net.Addr {
	t.Helper()
	d.oneWeb()
	for i := range 100 {
		d.view.setNode(node(fmt.Sprintf("n%d", i), 8))
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error)
	ctx := t.Context()
	go func() {
		ended <- (&serve.Server{Handler: d.Handler(), Connections: 128, Patience: 10 * time.Second}).Serve(ctx, listener)
	}()
	t.Cleanup(func() { require.NoError(t, <-ended) }) // t.Context ends before
	return listener.Addr()
}

// ceiling is what sigma-extender may use, in KiB.
const ceiling = 300 << 10

// 64 callers with 64 MiB each leave it below its ceiling: in a process of its own,
// which tells its address and ends with its input.
func TestMemoryCeiling(t *testing.T) {
	if os.Getenv("SIGMA_CEILING") != "" {
		fmt.Printf("serves %s\n", serveDesk(t, newDesk(t, func(o *Options) { o.MaxRequestBytes = limit })))
		_, err := io.Copy(io.Discard, os.Stdin)
		require.NoError(t, err)
		return
	}
	if testing.Short() {
		t.Skip("the race detector, whose tests are short, takes memory too")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryCeiling$") //nolint:gosec // this test
	child.Env = append(os.Environ(), "SIGMA_CEILING=1")
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	address := ""
	lines := bufio.NewScanner(out)
	for address == "" && lines.Scan() {
		address, _ = strings.CutPrefix(lines.Text(), "serves ")
	}
	t.Logf("at the start %d KiB", peak(t, child.Process.Pid))
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		answers := press(t, address, name)
		after := peak(t, child.Process.Pid)
		t.Logf("%s: peak %d KiB; answers by status: %v", name, after, answers)
		require.Less(t, after, ceiling, name)
		require.Equal(t, strings.HasSuffix(name, "*"), answers[http.StatusOK] > 0, name)
	}
	require.NoError(t, in.Close())
	for lines.Scan() {
	}
	require.NoError(t, child.Wait())
}

// peak is the most memory, in KiB, that a process has had.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(status), "VmHWM:")
	require.True(t, ok)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n
}

// A body that stalls keeps no other pod from its answer.
func TestBodyThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, func(o *Options) { o.MaxRequestBytes = limit })
		d.view.setNode(node("a", 4))
		l := servetest.Listen()
		ended := make(chan error)
		go func() {
			ended <- (&serve.Server{Handler: d.Handler(), Connections: 128, Patience: 10 * time.Second}).Serve(t.Context(), l)
		}()
		var all sync.WaitGroup
		for i := range 100 {
			half := fmt.Sprintf("POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", limit, strings.Repeat(" ", i%8<<17))
			all.Go(func() { require.LessOrEqual(t, servetest.Caller{Begin: half}.Cut(t, l), 16*time.Second) })
		}
		synctest.Wait()
		begin := time.Now()
		names := []string{"a"}
		body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("web-1", "web"), NodeNames: &names})
		require.NoError(t, err)
		for _, verb := range []string{"filter", "prioritize"} {
			status, text := servetest.Post(t, l, "http://x/"+verb, string(body))
			require.Equal(t, http.StatusOK, status, text)
		}
		require.Zero(t, time.Since(begin))
		all.Wait()
		require.NoError(t, l.Close())
		require.Error(t, <-ended)
	})
}

// Nothing is decoded under the lock: what cannot be decoded is refused while it is held.
func TestDecodesWithoutTheLock(t *testing.T) {
	d := newDesk(t)
	d.mu.Lock()
	defer d.mu.Unlock()
	status, _ := d.post("/filter", []byte("{"))
	require.Equal(t, http.StatusBadRequest, status)
}

// While others press, a pod's filter costs the CPU that it costs without them.
func TestCPUOfOthers(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.MaxRequestBytes = limit })
	address := serveDesk(t, d).String()
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	each := func(until func() bool) time.Duration {
		begin, n := cputime.Thread(), 0
		for ok := false; !ok; ok = until() {
			for range 20 {
				n++
				passed, _ := d.filter(pod(fmt.Sprint("db-", n%50), "db"), names...)
				require.Len(t, passed, 100)
			}
		}
		return time.Duration((cputime.Thread() - begin) / float64(n) * 1e9)
	}
	var alone, beside time.Duration
	for range 3 { // others use this machine too
		times := 0
		alone = each(func() bool { times++; return times == 20 })
		pressed := make(chan struct{})
		go func() {
			defer close(pressed)
			press(t, address, "names")  //nolint:testifylint // a failure there fails the test, later
			press(t, address, "names*") //nolint:testifylint // the same
		}()
		beside = each(func() bool {
			select {
			case <-pressed:
				return true
			default:
				return false
			}
		})
		t.Logf("a filter: %v alone, %v beside 64 callers", alone, beside)
		if beside < 2*alone {
			return
		}
	}
	require.Less(t, beside, 2*alone)
}

// Pods that are made up are taken only for a while, and only so many.
func TestMadeUpPods(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	ghosts := 0
	for ; ghosts < 100_000; ghosts++ {
		p := pod("ghost", "web")
		p.UID = types.UID(fmt.Sprint("ghost-", ghosts))
		if err := d.view.ask(p); err != nil {
			require.ErrorContains(t, err, "too many pods were asked about that the cluster does not show")
			break
		}
	}
	require.Less(t, ghosts, 32<<10)

	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("one-more", "web"), NodeNames: &[]string{"a", "b"}})
	require.NoError(t, err)
	for _, verb := range []string{"/filter", "/prioritize"} {
		status, text := d.post(verb, body)
		require.Equal(t, http.StatusServiceUnavailable, status, "%s", text)
	}
	require.Empty(t, d.view.assumed)
	d.view.setPod(pod("real", "web")) // of those that the cluster shows there may be more
	require.Equal(t, "a", d.first(pod("real", "web"), "a", "b"))
	d.view.removePod(pod("real", "web"))
	require.Empty(t, d.view.waiting)

	d.now = d.now.Add(31 * time.Second)
	require.Equal(t, "a", d.first(pod("one-more", "web"), "a", "b"))
	require.Len(t, d.view.unseen, 1)
	d.now = d.now.Add(20 * time.Second)
	require.NotEmpty(t, d.first(pod("one-more", "web"), "a", "b"), "it is asked about again")
	d.now = d.now.Add(20 * time.Second)
	d.filter(pod("other", "web"), "a", "b")
	require.Len(t, d.view.unseen, 2)
	d.view.setPod(at(pod("one-more", "web"), "a"))
	d.view.setPod(pod("other", "web"))
	require.Empty(t, d.view.unseen)
	require.Zero(t, d.view.unseenBytes)
}

// A pod that the cluster never shows is gone for the engine too.
func TestMadeUpPodIsForgotten(t *testing.T) {
	d := newDesk(t)
	d.decideBy(spreading)
	d.view.setNode(node("a", 4))
	d.view.setNode(node("b", 4))
	d.prioritize(pod("ghost", "web"), "a", "b")
	d.now = d.now.Add(31 * time.Second)
	d.filter(pod("real", "web"), "a", "b")
	d.filter(pod("real", "web"), "a", "b")
	require.Len(t, d.logged("remove"), 1)
}

// The view may lag behind the scheduler: a call that names only nodes that it does not
// know is made again.
func TestUnknownNodes(t *testing.T) {
	d := newDesk(t)
	d.oneWeb()
	d.view.setNode(node("a", 4))
	d.view.setPod(at(pod("web-1", "web"), "a"))
	body, err := json.Marshal(extenderv1.ExtenderArgs{Pod: pod("web-2", "web"), NodeNames: &[]string{"new", "a"}})
	require.NoError(t, err)
	status, text := d.post("/filter", body)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "node \"new\" is not known yet, and no other is left\n", string(text))
	require.Empty(t, d.view.assumed)
	d.view.setNode(node("new", 4))
	passed, _ := d.filter(pod("web-2", "web"), "new", "a")
	require.Equal(t, []string{"new"}, passed)
}
