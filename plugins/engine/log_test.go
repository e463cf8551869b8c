package engine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// files are those of the log, in order.
func (l *lab) files() []string {
	l.Helper()
	aside, err := durable.Aside(l.path)
	require.NoError(l, err)
	return append(aside, l.path)
}

// verifyFiles computes the decisions in all files of the log again.
func (l *lab) verifyFiles(paths ...string) *ledger.Verdict {
	l.Helper()
	l.settle()
	files := ledger.OpenFiles(paths...)
	v, err := ledger.VerifyFiles(files)
	require.NoError(l, err)
	require.NoError(l, files.Close())
	require.Nil(l, v.First, "%v", v.First)
	require.Zero(l, v.CutOff)
	return v
}

// decided are the decisions in files.
func decided(paths ...string) (list []string) {
	files := ledger.OpenFiles(paths...)
	for {
		e, err := files.Next()
		if err != nil {
			return list
		}
		if e.Kind == ledger.KindDecide {
			list = append(list, fmt.Sprint(e.Time, e.Pod, e.App, e.Node, *e.Decision))
		}
	}
}

// live lets pods come, fail, wait and go, in a cluster with rules, a forecast and a
// policy that counts what came.
func (l *lab) live(rng *rand.Rand, steps int) {
	for range steps {
		l.now = l.now.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
		name := fmt.Sprintf("p%d-%d", l.now.UnixNano(), rng.IntN(1e9))
		p := pod(name, fmt.Sprint("app", rng.IntN(6)), asks("cpu", fmt.Sprint(1+rng.IntN(3))))
		switch rng.IntN(10) {
		case 0: // another scheduler's
			if node := fmt.Sprint("n", rng.IntN(12)); l.nodes[node] != nil {
				l.stand(p, node)
			}
		case 1: // it waits
			l.rank(p)
		case 2:
			node := fmt.Sprint("n", rng.IntN(12))
			cores := 8 + rng.IntN(30)
			if l.alike {
				cores = 16
			}
			l.node(node, cores)
			l.nodes[node].Spec.Unschedulable = rng.IntN(4) == 0
		case 3, 4, 5:
			on := slices.Sorted(maps.Keys(l.on))
			if pods := l.on[on[rng.IntN(len(on))]]; len(pods) > 0 {
				l.leave(pods[rng.IntN(len(pods))])
			}
		default:
			v := l.rank(p)
			if len(v.Ranked) == 0 {
				continue
			}
			node := v.Ranked[0].Node
			if rng.IntN(6) == 0 {
				l.Reserve(p, node, v)
				l.BindFailed(p)
				l.rank(p)
				continue
			}
			l.Reserve(l.stand(p, node), node, v)
		}
	}
	l.settle()
}

func busy(t *testing.T, changes ...func(*Options)) *lab {
	l := newLab(t, changes...)
	for i := range 10 {
		l.node(fmt.Sprint("n", i), 16)
		l.stand(pod(fmt.Sprint("old", i), "old"), fmt.Sprint("n", i))
	}
	l.SetPolicy(ledger.Primary, shipped(t, "general-k1"))
	l.SetRules([]*kube.Rule{atMost(t, 3, "app1")})
	l.SetDeclared(&kube.Declarations{})
	return l
}

// A log of many small files gives the decisions that one file without a limit has; each
// file gives its own, alone.
func TestLogRotates(t *testing.T) {
	whole := busy(t)
	whole.live(rand.New(rand.NewPCG(1, 1)), 600)
	small := busy(t, func(o *Options) { o.DecisionLogBytes = 30 << 10 })
	small.live(rand.New(rand.NewPCG(1, 1)), 600)
	require.NoError(t, small.Close())
	require.NoError(t, whole.Close())

	paths := small.files()
	require.Greater(t, len(paths), 5)
	v, want := small.verifyFiles(paths...), whole.verifyFiles(whole.path)
	require.Equal(t, want.Causes, v.Causes)
	require.Equal(t, want.Decisions, v.Decisions)
	require.Greater(t, v.Agreed, 200)
	require.Equal(t, len(paths), v.Starts)
	require.Empty(t, v.Gaps)
	require.Zero(t, small.counter(small.metrics.logErrors))
	require.Equal(t, decided(whole.path), decided(paths...))
	agreed := 0
	for _, path := range paths {
		agreed += small.verifyFiles(path).Agreed
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(80<<10))
	}
	require.Equal(t, v.Agreed, agreed, "each file replays by itself")

	slices.Reverse(paths)
	_, err := ledger.VerifyFiles(ledger.OpenFiles(paths...))
	require.ErrorContains(t, err, "give the files of one log in order")
	_, err = ledger.VerifyFiles(ledger.OpenFiles(paths[0], paths[0]))
	require.ErrorContains(t, err, "is given twice")
}

func TestLogKeepsSoManyFiles(t *testing.T) {
	l := busy(t, func(o *Options) { o.DecisionLogBytes, o.DecisionLogFiles = 20<<10, 2 })
	l.live(rand.New(rand.NewPCG(1, 1)), 500)
	paths := l.files()
	require.Len(t, paths, 3)
	l.verifyFiles(paths...)

	// Another profile is refused, after rotations too.
	_, err := New(Options{Profile: t.Name(), Fleet: "fixed", DecisionLog: l.path})
	require.ErrorContains(t, err, "another writer has it open")

	// A file that grew without a limit becomes the first that is kept.
	l.options.DecisionLogFiles = 0
	l.restart()
	l.live(rand.New(rand.NewPCG(1, 2)), 500)
	require.Greater(t, len(l.files()), 5)
	require.NoError(t, l.Close())
	require.Positive(t, l.verifyFiles(l.files()...).Agreed)
}

// Other programs rotate the log: by renaming it, by removing it, by copying and cutting
// it. What is there replays, and nothing but the pending lines is lost.
func TestLogRotatedByOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, path string) (aside []string)
		gaps int
	}{
		{"rename", func(t *testing.T, path string) []string {
			require.NoError(t, os.Rename(path, path+"-1"))
			return []string{path + "-1"}
		}, 0},
		{"rename and create", func(t *testing.T, path string) []string {
			require.NoError(t, os.Rename(path, path+"-1"))
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			return []string{path + "-1"}
		}, 0},
		{"remove", func(t *testing.T, path string) []string {
			require.NoError(t, os.Remove(path))
			return nil
		}, 0},
		{"copy and cut", func(t *testing.T, path string) []string {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+"-1", text, 0o600))
			require.NoError(t, os.Truncate(path, 0))
			return []string{path + "-1"}
		}, 0},
		{"cut in the middle of a line", func(t *testing.T, path string) []string {
			require.NoError(t, os.Truncate(path, 20_000))
			return nil
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := busy(t)
			rng := rand.New(rand.NewPCG(7, 7))
			l.live(rng, 200)
			aside := tt.do(t, l.path)
			l.now = l.now.Add(time.Second)
			l.live(rng, 200)
			require.NoError(t, l.Close())
			require.Zero(t, l.counter(l.metrics.logErrors))
			v := l.verifyFiles(l.path)
			require.Greater(t, v.Agreed, 50)
			require.Equal(t, 1, v.Starts)
			if aside != nil {
				v = l.verifyFiles(append(aside, l.path)...)
				require.Equal(t, 2, v.Starts)
				require.Empty(t, v.Gaps)
				require.Zero(t, l.counter(l.metrics.logLost))
			}
			text, err := os.ReadFile(l.path)
			require.NoError(t, err)
			require.False(t, bytes.ContainsRune(text, 0))
		})
	}
}

// farm is a lab of so many nodes with names as a cloud gives them, and one policy.
func farm(t *testing.T, nodes int) (l *lab, names []string) {
	l = newLab(t)
	for i := range nodes {
		name := fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", i>>16, i>>8&255, i&255)
		l.node(name, 64)
		names = append(names, name)
	}
	l.SetPolicy(ledger.Primary, shipped(t, "hand-k0"))
	return l, names
}

// Other filters refuse most of 5,000 nodes, other ones for each pod: a decision costs at
// most 1 kB, apart from the first, and replays. New apps are no exception.
func TestInfeasibleIsSmall(t *testing.T) {
	l, names := farm(t, 5000)
	l.sync()
	passed := make([]bool, len(names))
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range 50 {
		passed[i*97] = true
	}
	size := func() int64 {
		info, err := os.Stat(l.path)
		require.NoError(t, err)
		return info.Size()
	}
	app := []string{"web", "db"}
	before := int64(0)
	for i := range 40 {
		for range 3 {
			m := rng.IntN(len(names))
			passed[m] = !passed[m]
		}
		p := pod(fmt.Sprintf("shop-7bfdcd89cf-%05d", i), append(app, fmt.Sprint("build-", i))[i%3], asks("cpu", "100m"))
		l.sync()
		v := l.RankAmong(context.Background(), p, names, passed, 10)
		l.flush()
		before = size()
		l.Reserve(l.stand(p, v.Ranked[0].Node), v.Ranked[0].Node, v)
		if line := size() - before; i > 0 {
			require.LessOrEqual(t, line, int64(1<<10), "decision %d", i)
		} else {
			require.Greater(t, line, int64(100<<10), "the first is whole")
		}
	}
	v := l.verifyFiles(l.path)
	require.Equal(t, 40, v.Agreed)
	list := l.logged(ledger.KindDecide)
	require.Greater(t, len(list[39].Infeasible), 4800, "a reader has the whole list")
	require.Nil(t, list[39].InfeasibleChange)

	text, err := os.ReadFile(l.path)
	require.NoError(t, err)
	damaged := strings.Replace(string(text), `"removed":["ip-`, `"removed":["ep-`, 1)
	_, err = ledger.Verify("d.jsonl", strings.NewReader(damaged))
	require.ErrorContains(t, err, "infeasibleChange: removed ep-10-0-")
}

// docs/decision-log.md says how much a pod costs that is placed and removed.
func TestBytesPerPod(t *testing.T) {
	l, names := farm(t, 20)
	passed := slices.Repeat([]bool{true}, len(names))
	l.sync()
	l.flush()
	before, err := os.Stat(l.path)
	require.NoError(t, err)
	const pods = 300
	for i := range pods {
		p := pod(fmt.Sprintf("checkout-7bfdcd89cf-%05d", i), "checkout", asks("cpu", "100m"))
		p.UID = types.UID(fmt.Sprintf("0d6e4079-e36b-4b31-a4e8-0123456%05d", i))
		l.now = l.now.Add(123456789 * time.Nanosecond)
		p.CreationTimestamp = metav1.NewTime(l.now)
		l.sync()
		v := l.RankAmong(t.Context(), p, names, passed, 10)
		p = l.stand(p, v.Ranked[0].Node)
		l.Reserve(p, p.Spec.NodeName, v)
		l.leave(p)
	}
	l.sync()
	l.flush()
	after, err := os.Stat(l.path)
	require.NoError(t, err)
	per := (after.Size() - before.Size()) / pods
	t.Logf("%d bytes per pod placed and removed", per)
	require.InDelta(t, 785, per, 15)
}
