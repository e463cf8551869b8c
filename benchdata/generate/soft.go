package generate

import (
	"fmt"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/binpack"
)

// preferSoftly draws the preferences of the Deployments' pods, the first apps of the
// instance.
func preferSoftly(rng *rand.Rand, inst *binpack.Instance, deployments int, p Values) {
	if p["soft"] == 0 {
		return
	}
	zones := p["zones"] > 0
	for i := range deployments {
		app := &inst.Apps[i]
		prefers, what := rng.Float64() < p["soft"], rng.Float64()
		if !prefers {
			continue
		}
		if what < .7 {
			app.Soft = append(app.Soft, binpack.SoftTerm{Kind: binpack.Apart, Weight: 100, Group: app.Group})
		}
		if what > .4 {
			app.Soft = append(app.Soft, binpack.SoftTerm{Kind: binpack.Even, Zone: zones, Weight: 100, Group: app.Group})
		}
	}
}

// spreadHard draws the Deployments with a hard spread over zones.
func spreadHard(rng *rand.Rand, inst *binpack.Instance, deployments int, share float64) {
	for i := range deployments {
		if rng.Float64() < share {
			inst.Groups[inst.Apps[i].Group].Zone.Skew = 1
		}
	}
}

// inZones splits each line of machines over zones. The first zones have one more where the
// count does not divide.
func inZones(lines []binpack.MachineLine, zones int) []binpack.MachineLine {
	if zones == 0 {
		return lines
	}
	var out []binpack.MachineLine
	for _, line := range lines {
		for z := range zones {
			part := line
			part.Zone = fmt.Sprintf("zone-%d", z)
			part.Name = fmt.Sprintf("%s-%d", line.Name, z)
			if part.Count != binpack.Unlimited {
				part.Count = (line.Count + zones - 1 - z) / zones
			}
			if part.Count != 0 {
				out = append(out, part)
			}
		}
	}
	return out
}
