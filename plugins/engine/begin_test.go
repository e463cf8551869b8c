package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A stall stops the writer of a log at a step.
type stall struct {
	*lab
	reached, release chan struct{}
}

// stallAt stops the writer before each write to a file that begins. The lab does not wait for it.
func stallAt(l *lab) *stall {
	s := &stall{l, make(chan struct{}, 1), make(chan struct{})}
	before := durable.Step
	durable.Step = func(step, path string) {
		if step != "append to" || !strings.HasSuffix(path, ".new") {
			return
		}
		select {
		case s.reached <- struct{}{}:
		default:
		}
		select {
		case <-s.release:
		case <-time.After(10 * time.Second):
			l.Error("decisions wait for the log")
		}
	}
	l.hasty = true
	l.Cleanup(func() {
		_ = l.Close()
		durable.Step = before
	})
	return s
}

// reach lives until the writer stands still.
func (s *stall) reach(rng *rand.Rand) (steps int) {
	s.Helper()
	for ; steps < 1000; steps++ {
		wait := time.Duration(0)
		if s.state.log.beginning != nil { // the writer needs its time, however fast decisions are
			wait = 5 * time.Millisecond
		}
		select {
		case <-s.reached:
			return steps
		case <-time.After(wait):
			s.live(rng, 1)
		}
	}
	require.Fail(s, "it never begins again")
	return
}

// next lets the writer go until it stands still again.
func (s *stall) next() {
	s.Helper()
	select {
	case s.release <- struct{}{}:
	case <-time.After(10 * time.Second):
		require.Fail(s, "no writer stands still")
	}
}

// end lets the writer go, for good, and waits until it has ended. Nothing follows its lines yet.
func (s *stall) end() {
	s.Helper()
	close(s.release)
	require.Eventually(s, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.state.log.beginning) == 1
	}, 10*time.Second, time.Millisecond)
	s.hasty = false
}

// While the log begins again, decisions go on. Their lines follow, in order, and none is
// missing, also where the log is closed in the middle.
func TestDecisionsWhileTheLogBegins(t *testing.T) {
	l := busy(t, func(o *Options) { o.DecisionLogBytes = 30 << 10 })
	s, rng, steps := stallAt(l), rand.New(rand.NewPCG(1, 1)), 0
	for i := range 4 {
		steps += s.reach(rng)
		l.live(rng, 40)
		steps += 40
		if i < 3 {
			s.next()
		}
	}
	time.AfterFunc(10*time.Millisecond, func() { close(s.release) })
	require.NoError(t, l.Close())
	whole := busy(t)
	whole.live(rand.New(rand.NewPCG(1, 1)), steps)
	require.NoError(t, whole.Close())

	paths := l.files()
	require.GreaterOrEqual(t, len(paths), 5) // a slow writer's last file may be full as well
	v := l.verifyFiles(paths...)
	require.Len(t, paths, v.Starts)
	require.Empty(t, v.Gaps)
	require.Equal(t, decided(whole.path), decided(paths...))
	for i, path := range paths {
		alone := l.verifyFiles(path)
		require.Equal(t, 1, alone.Starts, "each file replays by itself")
		require.True(t, alone.Decisions > 0 || i >= 5)
	}
	require.Zero(t, l.counter(l.metrics.logErrors))
	require.Zero(t, l.counter(l.metrics.logLost))
}

// Other programs exchange the file while the log begins again.
func TestOthersWhileTheLogBegins(t *testing.T) {
	rename := func(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+"-1")) }
	cut := func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) }
	for _, tt := range []struct {
		name   string
		do     func(t *testing.T, path string) // with the writer before its first write
		after  func(t *testing.T, path string) // when it has ended, and nothing follows yet
		errors int
		lost   bool
		moved  bool
	}{
		{name: "nothing"},
		{name: "cut", do: cut},
		{name: "rename", do: rename, errors: 1, moved: true},
		{name: "rename and create", do: func(t *testing.T, path string) {
			rename(t, path)
			require.NoError(t, os.WriteFile(path, nil, 0o600))
		}, moved: true},
		{name: "remove", do: func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, errors: 1},
		{name: "rename the new one", after: rename, moved: true},
		{name: "cut the new one", after: cut, lost: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := busy(t, func(o *Options) { o.DecisionLogBytes = 30 << 10 })
			rng := rand.New(rand.NewPCG(8, 8))
			s := stallAt(l)
			s.reach(rng)
			l.live(rng, 40)
			if tt.do != nil {
				tt.do(t, l.path)
			}
			s.end()
			if tt.after != nil {
				tt.after(t, l.path)
			}
			l.now = l.now.Add(time.Second)
			l.live(rng, 40)
			require.NoError(t, l.Close())
			require.Equal(t, tt.errors, l.counter(l.metrics.logErrors))
			require.Equal(t, tt.lost, l.counter(l.metrics.logLost) > 0)
			paths := l.files()
			if moved := l.path + "-1"; tt.moved {
				at := 0
				if tt.after != nil {
					at = 1 // behind the one kept aside
				}
				paths = slices.Insert(paths, at, moved)
			}
			v := l.verifyFiles(paths...)
			require.Equal(t, tt.lost, len(v.Gaps) > 0)
			require.Positive(t, v.Agreed)
			require.Positive(t, l.verifyFiles(l.path).Agreed)
		})
	}
}

// A writer that hangs: more comes than is kept, is counted as lost, and the log begins again.
func TestLogBeginsTooSlowly(t *testing.T) {
	l := busy(t, func(o *Options) { o.DecisionLogBytes = 30 << 10 })
	rng := rand.New(rand.NewPCG(9, 9))
	s := stallAt(l)
	s.reach(rng)
	l.live(rng, 10)
	l.mu.Lock()
	most := 0
	for i := range 40_000 {
		l.state.apply(&ledger.Event{Kind: ledger.KindArrive, UID: fmt.Sprint("x", i), Pod: "default/x", App: l.anApp()})
		l.state.apply(&ledger.Event{Kind: ledger.KindRemove, UID: fmt.Sprint("x", i)})
		most = max(most, len(l.state.log.lines))
	}
	l.mu.Unlock()
	require.InDelta(t, mostQueued>>10, most, 1000)
	require.Empty(t, l.state.log.lines)
	l.live(rng, 10)
	require.Greater(t, l.counter(l.metrics.logLost), 80_000)
	require.Equal(t, 1, l.counter(l.metrics.logErrors))
	s.end()
	l.live(rng, 50)
	v := l.verifyFiles(l.files()...)
	require.Len(t, v.Gaps, 1)
	require.EqualValues(t, l.counter(l.metrics.logLost), v.Gaps[0].Lost)
	require.GreaterOrEqual(t, v.Starts, 3)
}

// anApp is the name of an app that the ledger knows.
func (l *lab) anApp() string {
	for a := range l.state.ledger.Apps() {
		return a.Name()
	}
	return ""
}

// BenchmarkBegin is what the log's next beginning costs in a large cluster: the time for
// which the engine's lock is held, and all of it.
func BenchmarkBegin(b *testing.B) {
	const nodes, pods, apps = 5000, 50_000, 10_000
	b.Run(fmt.Sprintf("nodes=%d/pods=%d/apps=%d", nodes, pods, apps), func(b *testing.B) {
		e, err := New(Options{
			Profile: b.Name(), PolicyName: "general", AppLabel: "app", Fleet: "open", DecisionLogBytes: 64 << 10, DecisionLogFiles: 1,
			DecisionLog: filepath.Join(b.TempDir(), "decisions.jsonl"),
		})
		require.NoError(b, err)
		large := &lab{nodes: map[string]*v1.Node{}, on: map[string][]*v1.Pod{}, dirty: map[string]bool{}}
		for i := range nodes {
			large.node(fmt.Sprint("node-", i), 64)
		}
		for i := range pods {
			large.stand(pod(fmt.Sprintf("app-%d-7bfdcd89cf-%05d", i%apps, i), fmt.Sprint("app-", i%apps)), fmt.Sprint("node-", i%nodes))
		}
		e.SetPolicy(ledger.Primary, shipped(b, "kubernetes-k0"))
		e.Sync(large.visit)
		log := &e.state.log
		log.await()
		var held time.Duration
		for b.Loop() {
			since := time.Now()
			log.begin()
			held += time.Since(since)
			log.await()
		}
		b.ReportMetric(float64(held.Microseconds())/1e3/float64(b.N), "held-ms/op")
		value, err := testutil.GetCounterMetricValue(e.metrics.logErrors)
		require.NoError(b, err)
		require.Zero(b, value)
		require.Equal(b, apps, e.state.ledger.AppCount())
		require.NoError(b, e.Close())
	})
}
