//go:build unix

package devices

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/convert"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// BenchmarkOpenb replays the list default on 1,213 machines; each arrival is
// decided on, also those that find no place.
func BenchmarkOpenb(b *testing.B) {
	data := os.Getenv("SIGMA_DATA")
	if data == "" {
		b.Skip("SIGMA_DATA is not set")
	}
	var tr *trace.Trace
	require.NoError(b, convert.Convert("openb", []string{filepath.Join(data, "openb")}, convert.Defaults(), func(t *trace.Trace, _ int) error {
		tr = t
		return nil
	}))
	for _, c := range []struct {
		name string
		pol  binpack.Policy
	}{
		{"bestfit-fgd", rule.BestFitFGD{}},
		{"fgd", rule.FGD{}},
		{"general-k1-devices", shippedDevices(b, "k1")},
		{"general-k0-devices", shippedDevices(b, "k0")},
	} {
		b.Run("policy="+c.name, func(b *testing.B) {
			r := cerebro.NewReplayer(tr)
			b.ReportAllocs()
			before := packtest.CPUTime(b)
			for b.Loop() {
				_, err := r.Run(c.pol, cerebro.Options{Brief: true})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(len(tr.Requests)*b.N)/(packtest.CPUTime(b)-before).Seconds(), "decisions/CPU-s")
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
