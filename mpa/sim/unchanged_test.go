package sim

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
)

var rewrite = flag.Bool("rewrite", false, "write the expected results")

// What simulations are given by default stays: testdata/unchanged.txt was written before
// limits that change, a queue before all pods, closed loops, contention, collectors and
// drift were known.
func TestUnchanged(t *testing.T) {
	app := webApp()
	leaking := webApp()
	leaking.Memory.LeakPerRequest = 40 << 10
	crowded := webApp()
	crowded.Workers, crowded.Queue = 2, 5
	rude := webApp()
	rude.Quantum, rude.Wake, rude.Balance, rude.Retries = .01, .001, "random", 3
	site := DefaultSite()
	site.Outages = [][2]float64{{600, 900}}
	load := loadsim.Load{Step: 60, PerSec: []float64{20, 120, 300, 40, 0, 10}, Burst: []float64{.3, .3, .3, .3, 0, .3}}
	var out strings.Builder
	for _, c := range []struct {
		name string
		Config
	}{
		{"plain", Config{App: app}},
		{"leak", Config{App: leaking}},
		{"workers", Config{App: crowded}},
		{"quantum", Config{App: rude}},
		{"updates", Config{App: app, Updates: []Update{{At: 400, CPU: 2, Memory: 3, Wait: 2}, {At: 1200, CPU: .5, Memory: 1}}}},
	} {
		for _, agent := range []string{"static", "hpa", "hpa+vpa", "predictive"} {
			c.Load, c.Seconds, c.Warmup, c.Seed, c.Site, c.Guards = load, 1800, 120, 5, site, mpa.DefaultGuards()
			r, err := RunAgent(t.Context(), c.Config, agent)
			require.NoError(t, err)
			_, _ = fmt.Fprintf(&out, "%s %s: requests %d late %d lost %d tries %d minutes %d kills %d evictions %d replicas %d sizes %d cores %.4g memory %.4g used %.4g p95 %.4g\n",
				c.name, agent, r.Requests, r.Violations, r.Lost, r.Tries, r.ViolatingMinutes, r.Kills, r.Evictions, r.ReplicaChanges, r.RequestChanges, r.CoreHours, r.GiBHours, r.CPUUtilisation, r.P95)
		}
	}
	const path = "testdata/unchanged.txt"
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), out.String())
}
