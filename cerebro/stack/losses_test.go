package stack

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
)

// A watcher counts twice a minute the parts of a stack that undo each other's work.
type watcher struct {
	c       *cluster
	moved   map[int32]float64 // pods by the time of their last move
	nodes   map[*node]bool    // with whether moves emptied it
	emptied []float64         // removals of nodes that moves emptied

	moves, left, again       int     // moves: all, of pods that left within an hour, of pods that moved within a day
	launched, rebought       int     // nodes, and those within an hour of such a removal
	early                    int     // nodes removed within an hour of their launch
	cost, free, half         float64 // of nodes: all, of the share that no pod requests, of nodes with less than a half requested
	boot, idle, beingEmptied float64 // of nodes that boot, that have no pod, that moves empty
}

const looks = 30. // seconds between two looks of a watcher

func watch(c *cluster) *watcher {
	w := &watcher{c: c, moved: map[int32]float64{}, nodes: map[*node]bool{}}
	c.every(c.cfg.From+1, looks, w.look)
	return w
}

func (w *watcher) look() {
	c := w.c
	for i, at := range c.moved {
		item := int32(i)
		if last, known := w.moved[item]; at >= c.cfg.From && at > c.now-looks && (!known || at > last) {
			if known && at-last < day {
				w.again++
			}
			w.moves++
			w.moved[item] = at
		}
	}
	for item, at := range w.moved {
		if c.on[item] == nil && !c.waits(item) {
			if c.now-at < hour {
				w.left++
			}
			delete(w.moved, item)
		}
	}
	there := map[*node]bool{}
	for _, n := range c.nodes {
		there[n] = true
		price := c.state.Kinds()[n.kind].Cost * looks / hour
		if _, known := w.nodes[n]; !known && n.launched > c.cfg.From {
			w.launched++
			if slices.ContainsFunc(w.emptied, func(at float64) bool { return n.launched-at < hour }) {
				w.rebought++
			}
		}
		w.nodes[n] = n.ready && len(n.pods) == 0 && n.cordoned
		requested := c.requested(n)
		w.cost += price
		w.free += price * (1 - requested)
		switch {
		case !n.ready:
			w.boot += price
		case len(n.pods) == 0:
			w.idle += price
		case n.cordoned:
			w.beingEmptied += price
		case requested < .5:
			w.half += price
		}
	}
	for n, byMoves := range w.nodes {
		if there[n] {
			continue
		}
		if byMoves {
			w.emptied = append(w.emptied, c.now)
		}
		if n.launched > c.cfg.From && c.now-n.launched < hour {
			w.early++
		}
		delete(w.nodes, n)
	}
}

// BenchmarkLosses measures four days of clusters under Karpenter alone and under settings of a Rebalance.
func BenchmarkLosses(b *testing.B) {
	old := func() *EmptyNodes {
		return &EmptyNodes{Every: hour, Moves: .01, PerHour: 20, MinReplicas: 2, OfWorkload: .1, Takes: minute}
	}
	often := func() *EmptyNodes {
		return &EmptyNodes{Every: hour / 4, Moves: .05, PerHour: 60, MinReplicas: 2, OfWorkload: .25, Takes: minute}
	}
	for _, fleet := range []string{"one", "open"} {
		for seed := uint64(720_001); seed <= 720_003; seed++ {
			tr, err := generate.Generate("kubernetes", seed, map[string]string{"fleet": fleet, "nodes": "50", "usage": "1", "days": "18"})
			require.NoError(b, err)
			use, err := tr.Usage()
			require.NoError(b, err)
			p, err := policy.ShippedAt(binpack.K0).Policy()
			require.NoError(b, err)
			for _, s := range []struct {
				name   string
				policy binpack.Policy
				moves  *EmptyNodes
				sized  bool
			}{{"b", rule.MostAllocated{}, nil, false}, {"e,tenth", p, old(), false}, {"e", p, DefaultEmptyNodes(), false}, {"e,often", p, often(), false}, {"f,tenth", p, old(), true}, {"f", p, DefaultEmptyNodes(), true}, {"f,often", p, often(), true}} {
				b.Run(fmt.Sprintf("%s/%d/%s", fleet, seed, s.name), func(b *testing.B) {
					for b.Loop() {
						cfg := packs(DefaultKarpenter())
						if s.moves != nil {
							cfg = onlyEmpty(s.moves)
						}
						if s.sized {
							cfg.Movers = append(cfg.Movers, DefaultFit(), DefaultRelief())
							cfg.Sizer, err = NewByUse(tr, use)
							require.NoError(b, err)
						}
						cfg.Policy, cfg.Usage, cfg.Boot, cfg.Begin, cfg.From, cfg.Until = s.policy, use, 90, 7*day, 14*day, 18*day
						c, err := newCluster(tr, &cfg)
						require.NoError(b, err)
						w := watch(c)
						c.run()
						require.NoError(b, c.err)
						b.ReportMetric(c.out.Cost, "money")
						b.ReportMetric(100*float64(c.out.Moved())/(c.out.PodHours/24), "moves/100-pod-days")
						for unit, share := range map[string]float64{"free": w.free, "half-empty": w.half, "boot": w.boot, "idle": w.idle, "being-emptied": w.beingEmptied} {
							b.ReportMetric(100*share/w.cost, "%-"+unit)
						}
						b.ReportMetric(100*float64(w.again)/float64(max(1, w.moves)), "%-moves-again")
						b.ReportMetric(100*float64(w.left)/float64(max(1, w.moves)), "%-moves-left")
						b.ReportMetric(100*float64(w.rebought)/float64(max(1, w.launched)), "%-rebought")
						b.ReportMetric(100*float64(w.early)/float64(max(1, w.launched)), "%-early")
					}
				})
			}
		}
	}
}
