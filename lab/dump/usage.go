package dump

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"
)

// usageDays are the days of use before a dump.
const usageDays = 28

// WriteUsage writes the use of the cluster's workloads in the weeks before, by pod and hour, as a usage.csv that
// "sigma savings --from DUMP,USAGE" reads. It follows the day and the week, up to what metrics-server measured.
func WriteUsage(w io.Writer, o Options) error {
	c := newCluster(o)
	rng := rand.New(rand.NewPCG(o.Seed, 0x05e5))
	if _, err := io.WriteString(w, "app,item,dimension,start,step"); err != nil {
		return err
	}
	for _, of := range c.workloads {
		cpu, mem := float64(of.cpu), float64(of.mem)
		if of.cpu == 0 {
			cpu, mem = 60, 100
		}
		for _, d := range []struct {
			name, unit           string
			level, least, spread float64
		}{{"cpu", "m", cpu * of.busy, .35, .15}, {"memory", "Mi", mem * min(.95, of.busy+.15), .9, .02}} {
			row := fmt.Appendf(nil, "\n%s/%s/%s,,%s,%d,3600", of.namespace, of.kind, of.name, d.name, -usageDays*24*3600)
			for h := -usageDays * 24; h < 0; h++ {
				at := Now.Add(time.Duration(h) * time.Hour)
				share := (1+d.least)/2 + (1-d.least)/2*math.Cos(2*math.Pi*float64(at.Hour()-14)/24)
				if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
					share = max(d.least, .7*share)
				}
				row = fmt.Appendf(row, ",%.0f%s", d.level*share*math.Exp(d.spread*rng.NormFloat64()), d.unit)
			}
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
	}
	_, err := io.WriteString(w, "\n")
	return err
}
