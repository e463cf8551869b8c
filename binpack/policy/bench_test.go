//go:build unix

package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/internal/cputime"
)

// BenchmarkShipped replays a trace by the model shipped and by the file that it chooses last
// there, in turn, and gives the CPU time of the first in that of the second.
func BenchmarkShipped(b *testing.B) {
	for _, c := range []struct {
		kind string
		set  map[string]string
	}{
		{"large", nil},
		{"churn", map[string]string{"days": "3"}},
		{"fixed", map[string]string{"f": "1.5"}},
		{"fixed", map[string]string{"f": "1.02"}},
	} {
		b.Run(c.kind+c.set["f"], func(b *testing.B) {
			tr, err := generate.Generate(c.kind, 1, c.set)
			require.NoError(b, err)
			r := cerebro.NewReplayer(tr)
			whole, err := policy.Shipped().Policy()
			require.NoError(b, err)
			run, err := r.Run(whole, cerebro.Options{Brief: true})
			require.NoError(b, err)
			chosen := run.Choices[len(run.Choices)-1]
			file, err := policy.ShippedChoice(chosen.Choice).Policy()
			require.NoError(b, err)
			var took [2]float64
			for round := 0; b.Loop(); round++ {
				for i := range 2 {
					which := (i + round) % 2
					before := cputime.Process()
					_, err := r.Run([]binpack.Policy{whole, file}[which], cerebro.Options{Brief: true})
					require.NoError(b, err)
					took[which] += cputime.Process() - before
				}
			}
			b.Logf("%s: %d of %d items", chosen.Name, chosen.Items, run.Placed+run.Unplaced)
			b.ReportMetric(took[0]/took[1], "of-the-file")
		})
	}
}
