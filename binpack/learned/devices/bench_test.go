//go:build unix

package devices

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace/tracetest"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// BenchmarkOpenb replays the list default on 1,213 machines; each arrival is
// decided on, also those that find no place.
func BenchmarkOpenb(b *testing.B) {
	data := os.Getenv("SIGMA_DATA")
	if data == "" {
		b.Skip("SIGMA_DATA is not set")
	}
	tr := tracetest.Converted(b, "openb", filepath.Join(data, "openb"))
	for _, c := range []struct {
		name string
		pol  binpack.Policy
	}{
		{"bestfit-fgd", rule.BestFitFGD{}},
		{"fgd", rule.FGD{}},
		{"general-k1-devices", shippedDevices(b, "k1")},
	} {
		b.Run("policy="+c.name, func(b *testing.B) {
			r := cerebro.NewReplayer(tr)
			b.ReportAllocs()
			before := cputime.Process()
			for b.Loop() {
				_, err := r.Run(c.pol, cerebro.Options{Brief: true})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(len(tr.Requests)*b.N)/(cputime.Process()-before), "decisions/CPU-s")
		})
	}
}

// shippedDevices is the shipped policy for devices at a level.
func shippedDevices(tb testing.TB, level string) binpack.Policy {
	tb.Helper()
	p, err := New(packtest.Shipped(tb, "general-"+level+"-devices"))
	require.NoError(tb, err)
	return p
}

// BenchmarkAddApp is what a new app costs that is ranked once, on 1,000 machines with
// GPUs, beside the ranking of an app that is known.
func BenchmarkAddApp(b *testing.B) {
	for _, level := range []string{"k1", "k0"} {
		for _, app := range []string{"new", "known"} {
			b.Run(fmt.Sprintf("apps=10000/nodes=1000/policy=general-%s-devices/app=%s", level, app), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 6))
				inst := deviceInstance(rng, binpack.Fixed)
				for i := range inst.Machines {
					inst.Machines[i].Count = 25
				}
				some, none := inst.Apps, binpack.Group{}
				s := binpack.NewState(inst)
				if level == "k1" {
					s.Known.Expected = slices.Repeat([]float64{10}, len(some))
				}
				l := shippedDevices(b, level).Scorer(s)
				i := 0
				add := func() {
					next := some[i%len(some)]
					next.Group = int32(len(inst.Groups))
					s.AddApp(next, none, 0)
					i++
				}
				for len(inst.Apps) < 10_000 {
					add()
					s.Arrive(int32(len(inst.Apps))-1, 1)
				}
				machines := make([]int32, s.Size())
				for m := range machines {
					machines[m] = int32(m)
				}
				out, before := make([]float64, len(machines)), cputime.Process()
				b.ReportAllocs()
				for b.Loop() {
					item := binpack.Item{App: int32(i % 10_000)}
					if app == "new" {
						item.App = int32(len(inst.Apps))
						add()
					}
					i++
					s.Arrive(item.App, 1)
					l.Score(item, machines, out)
				}
				b.ReportMetric((cputime.Process()-before)*1e6/float64(b.N), "cpu-µs/app")
			})
		}
	}
}
