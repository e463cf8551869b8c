//go:build unix

package linear

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/cerebro/convert"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

func wideTraces(t testing.TB) map[string]*trace.Trace {
	out := map[string]*trace.Trace{}
	out["few"], out["distinct"] = wideTrace(t, false), wideTrace(t, true)
	if data := os.Getenv("SIGMA_DATA"); data != "" {
		opt := convert.Defaults()
		opt.LargeFirst, opt.Empty = true, true
		folders := []string{filepath.Join(data, "tianchi2018-common"), filepath.Join(data, "tianchi2018-prelim-b")}
		require.NoError(t, convert.Convert("tianchi", folders, opt, func(tr *trace.Trace, _ int) error {
			tr.Instance.Fleet = binpack.Fixed
			out["tianchi"] = tr
			return nil
		}))
	}
	return out
}

func BenchmarkWide(b *testing.B) {
	for name, tr := range wideTraces(b) {
		for _, pol := range []string{"general-k0-fixed", "general-k1", "general-k0"} {
			b.Run(name+"/"+pol, func(b *testing.B) {
				p, err := New(packtest.Shipped(b, pol))
				require.NoError(b, err)
				run := newTreadmill(tr, p.know, func(s *binpack.State) binpack.Scorer { return p.Scorer(s) })
				n, before := 0, packtest.CPUTime(b)
				for b.Loop() {
					run.next()
					n++
				}
				b.ReportMetric(float64(n)/(packtest.CPUTime(b)-before).Seconds(), "placements/cpu-s")
			})
		}
	}
}

// wideTrace is a fixed fleet of 6,000 machines and 9,338 apps of two dimensions: the items
// need 97 % of the cpu. Apps have one of few demands, or each its own.
func wideTrace(t testing.TB, distinct bool) *trace.Trace {
	t.Helper()
	const machines, apps, cpu, memory = 6000, 9338, 96_000, 512_000
	rng := rand.New(rand.NewPCG(1, 2))
	inst := &binpack.Instance{
		Types: []string{"node"}, Fleet: binpack.Fixed, Dimensions: []binpack.Dimension{{Name: "cpu", One: 1000}, {Name: "memory", One: 1000}},
		Machines: []binpack.MachineLine{{Name: "node", Count: machines, Cost: 1, Capacity: []int64{cpu, memory}}},
	}
	tr := &trace.Trace{Instance: inst}
	for a := range int32(apps) {
		cores := []int64{1000, 2000, 4000, 4000, 4000, 4000, 8000, 8000, 8000, 16_000}[rng.IntN(10)]
		demand := []int64{cores, cores * []int64{1, 2, 4, 4, 8}[rng.IntN(5)]}
		if distinct {
			demand[0] -= rng.Int64N(cores / 4)
			demand[1] -= rng.Int64N(cores / 4)
		}
		inst.Groups = append(inst.Groups, binpack.Group{Name: fmt.Sprint("app-", a), Limit: []int32{1, 1, 2, 4}[rng.IntN(4)]})
		inst.Apps = append(inst.Apps, binpack.App{Name: fmt.Sprint("app-", a), Group: a, Demand: demand, Expected: -1, Lifetime: -1})
	}
	for range 2 * apps { // each excludes four others
		if a, b := rng.Int32N(apps), rng.Int32N(apps); a != b {
			inst.Rules = append(inst.Rules, binpack.Rule{A: a, B: b}, binpack.Rule{A: b, B: a})
		}
	}
	items := make([]int64, apps)
	for used := int64(0); used < machines*cpu/100*97; {
		a, most := rng.IntN(apps), 4
		if a < 20 {
			most = 40
		}
		count := 1 + rng.IntN(most)
		tr.Events = append(tr.Events, trace.Event{Time: float64(len(tr.Events)), Kind: trace.Create, Request: int32(len(tr.Requests)), Count: int32(count)})
		tr.Requests = append(tr.Requests, trace.Request{Name: fmt.Sprint(len(tr.Requests)), App: int32(a), Count: int32(count)})
		used += int64(count) * inst.Apps[a].Demand[0]
		items[a] += int64(count)
	}
	for a := range inst.Apps {
		inst.Apps[a].Expected = float64(items[a])
	}
	return tr
}

func TestWideHash(t *testing.T) {
	n := 0
	fmt.Sscan(os.Getenv("N"), &n)
	for name, tr := range wideTraces(t) {
		if name != os.Getenv("T") {
			continue
		}
		for _, pol := range []string{"general-k0-fixed", "general-k1", "general-k0"} {
			p, err := New(packtest.Shipped(t, pol))
			require.NoError(t, err)
			s := binpack.NewState(tr.Instance)
			s.Known = knownOf(tr, p.know)
			sc := p.Scorer(s)
			h := fnv.New64()
			i := 0
			before := packtest.CPUTime(t)
			fails := 0
		all:
			for _, e := range tr.Events {
				q := tr.Requests[e.Request]
				s.Arrive(q.App, q.Count)
				for range q.Count {
					m, err := s.Choose(sc, binpack.Item{App: q.App})
					fmt.Fprintln(h, m)
					if err == nil {
						s.Place(binpack.Item{App: q.App}, m, nil)
					} else {
						fails++
					}
					if i++; i == n {
						break all
					}
				}
			}
			fmt.Println(name, pol, i, fails, h.Sum64(), float64(i)/(packtest.CPUTime(t)-before).Seconds(), s.Active())
		}
	}
}
